package collector

import (
	"context"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestKeyCache_IsBounded(t *testing.T) {
	known := newKeyCache()
	var last affiliate.Key
	for range maxCachedKeys + 10 {
		last = affiliate.NewKey(affiliate.PublicKey, affiliate.ModeLive)
		known.add(last.Reveal())
	}
	if n := known.Len(); n != maxCachedKeys {
		t.Errorf("%d keys are cached", n)
	}
	if got, ok := known.Peek(last.Reveal()); !ok || got != newParsedKey(last) {
		t.Error("the entry of the last key is missing or wrong")
	}
}

func TestIdentify_CachedKeyIsLookedUpInDirectory(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	made := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeTest)
	if got := e.send("POST", "/v1/clicks", `{"referral_code":"anna"}`, "X-Public-Key", made.Reveal()); got.status != 401 {
		t.Errorf("a key that does not exist: %d", got.status)
	}
	if got := e.click(`{"referral_code":"anna"}`); got.status != 201 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	text := e.key.Reveal()
	if _, ok := e.collector.keys.Peek(text); !ok || e.collector.keys.Len() != 1 {
		t.Errorf("%d keys are cached", e.collector.keys.Len())
	}

	revoked := &edgev1.PublicKeyEntry{WorkspaceId: e.workspace.UUID[:], Mode: edgev1.Mode_MODE_TEST, Revoked: true}
	check(t, e.writer.PutPublicKey(t.Context(), e.version+1, e.key.Digest(), revoked))
	later := newEdgeOn(t, e)
	later.keys.add(text)
	if caller := later.identify(t.Context(), text); caller.status != keyInvalid {
		t.Errorf("a revoked key has the status %d", caller.status)
	}
}

// newEdgeOn returns a second collector on the Redis of e. Its cache is empty.
func newEdgeOn(t *testing.T, e *edge) *Collector {
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
