package e2e_test

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// TestRegions_CutOffAndBack runs a collector in another region, with a Redis of its own. The
// core reaches this Redis through a proxy, which cuts the region off and heals it. The core
// never reaches a third region, and starts and works without it. The collector uses more streams
// than the core is configured with.
func TestRegions_CutOffAndBack(t *testing.T) {
	t.Parallel()
	const limit = 200 // a third of it is the region's own part, a fortieth is its reserve
	redis := redistest.Start(t)
	throughNetwork, network := startProxy(t, redis.URL)
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_REGIONS": "far=" + throughNetwork + " gone=redis://127.0.0.1:1/0", "TRIBUTARY_LIMIT_TRACKING": "200"}, separateProcesses: true})
	far := *sys
	listener := listen(t)
	far.edge = address(listener)
	env := map[string]string{
		"TRIBUTARY_REDIS_URL": redis.URL, "TRIBUTARY_HASH_KEY": base64.StdEncoding.EncodeToString(hashKey),
		"TRIBUTARY_ALLOW_HTTP": "true", "TRIBUTARY_SHUTDOWN_DELAY": "0s", "TRIBUTARY_LIMIT_TRACKING": "200", "TRIBUTARY_LIMIT_TRACKING_ADDRESS": "0", "TRIBUTARY_JOURNAL_DIR": t.TempDir(),
		"TRIBUTARY_STREAM_SHARDS": "16", // the core is configured with 1
	}
	var parts processes
	parts.run("collector of the region", openCollector(t, env, true, time.Now, tracing.NewLogger(sys.logs, slog.LevelInfo), listener))
	t.Cleanup(func() { parts.stop(t) })

	inFar := func(f fixture) fixture {
		f.sys = &far
		return f
	}
	attributed := func(f fixture, click string) error {
		if got := f.report(t, purchase(click)).wantStatus(http.StatusCreated); got.value("attributed") != true {
			return errors.New("a conversion with the click is not attributed")
		}
		return nil
	}
	first, second := sys.newFixture(t, "test", nil), sys.newFixture(t, "test", nil)

	// Connected: the click is stored, and both regions share the limit of the key.
	click := inFar(first).click(t)
	eventually(t, waitTimeout, "the click of the region is stored", func() error { return attributed(first, click) })
	eventually(t, waitTimeout, "the region has the fingerprints of the hash keys", func() error {
		if compareHashKey(t, redis.URL, make([]byte, 32)) == nil {
			return errors.New("a collector with a wrong hash key starts")
		}
		return compareHashKey(t, redis.URL, hashKey)
	})
	home, away := 0, 0
	for range 2 * limit {
		home += accepted(t, sys, first)
		away += accepted(t, &far, first)
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("connected: %d clicks were accepted at home and %d in the region", home, away)
	if home+away+1 > limit || home+away < limit*8/10 || away < limit/10 {
		t.Errorf("connected: %d + %d clicks were accepted, want 160 to 200, and at least 20 in the region", home, away)
	}

	// Cut off: the region accepts its own part, and clicks wait in its Redis.
	network.interrupt()
	created := sys.newFixture(t, "test", nil)
	time.Sleep(7 * time.Second) // after 5 s, the collector reads that the region is cut off
	click = inFar(second).click(t)
	home, away = 0, 1
	for range limit + 50 {
		home += accepted(t, sys, second)
		away += accepted(t, &far, second)
	}
	t.Logf("cut off: %d clicks were accepted at home and %d in the region", home, away)
	if away != limit/3 || home > limit {
		t.Errorf("cut off: %d clicks were accepted at home and %d in the region, want at most 200, and 66", home, away)
	}
	if attributed(second, click) == nil {
		t.Error("a click reached the core from a region that is cut off")
	}

	// Back: the clicks are stored, and changes that were made during the outage reach the region.
	network.restore()
	eventually(t, waitTimeout, "the click of the region is stored", func() error { return attributed(second, click) })
	inFar(created).click(t)
}

// accepted sends a click and returns 1 if it was accepted, 0 if the limit was reached.
func accepted(t *testing.T, sys *system, f fixture) int {
	t.Helper()
	got := sys.click(t, f.publicKey, object{"referral_code": f.code})
	if got.status == http.StatusTooManyRequests {
		return 0
	}
	got.wantStatus(http.StatusCreated)
	return 1
}
