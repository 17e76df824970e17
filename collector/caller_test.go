package collector

import (
	"context"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestKeyCache_IsBounded(t *testing.T) {
	cache := newKeyCache()
	var last account.Key
	for range maxCachedKeys + 10 {
		last = account.NewKey(account.PublicKey, affiliate.ModeLive)
		cache.add(last.Reveal())
	}
	if n := cache.Len(); n != maxCachedKeys {
		t.Errorf("%d keys are cached, want %d", n, maxCachedKeys)
	}
	if got, ok := cache.Peek(last.Reveal()); !ok || got != newParsedKey(last) {
		t.Error("the entry of the last key is missing or wrong")
	}
}

func TestIdentify_CachedKeyIsLookedUpInDirectory(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	unknownKey := account.NewKey(account.PublicKey, affiliate.ModeTest)
	if got := e.send("POST", "/v1/clicks", `{"referral_code":"anna"}`, "X-Public-Key", unknownKey.Reveal()); got.status != 401 {
		t.Errorf("an unknown key: status %d, want 401", got.status)
	}
	if got := e.click(`{"referral_code":"anna"}`); got.status != 201 {
		t.Fatalf("a known key: status %d, want 201: %s", got.status, got.text)
	}
	text := e.key.Reveal()
	if _, ok := e.collector.keys.Peek(text); !ok || e.collector.keys.Len() != 1 {
		t.Errorf("%d keys are cached, the known key among them: %t; want only the known key", e.collector.keys.Len(), ok)
	}

	revoked := &edgev1.PublicKeyEntry{WorkspaceId: e.workspace.UUID[:], Mode: edgev1.Mode_MODE_TEST, Revoked: true}
	check(t, put(t.Context(), e.writer, func(b *directory.Batch) { b.PutPublicKey(e.version+1, e.key.Digest(), revoked) }))
	second := newCollectorOn(t, e)
	second.keys.add(text)
	if caller := second.identify(t.Context(), text); caller.status != keyInvalid {
		t.Errorf("a revoked key has the status %d, want keyInvalid (%d)", caller.status, keyInvalid)
	}
}

// newCollectorOn returns a second collector that uses the Redis of e. Its caches are
// empty.
func newCollectorOn(t *testing.T, e *edge) *Collector {
	t.Helper()
	c, err := Open(Config{Stream: clickstream.Endpoint{URL: e.url}, Cache: clickstream.Endpoint{URL: e.url}, Shards: 1, HashKey: make([]byte, 32)}, discardLogger(), newRegistry())
	check(t, err)
	t.Cleanup(func() {
		check(t, c.Shutdown(context.Background()))
		for _, closer := range c.closers {
			_ = closer.Close()
		}
	})
	return c
}
