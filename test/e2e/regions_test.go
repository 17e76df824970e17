package e2e_test

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
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
	const limit = 100
	redis := redistest.Start(t)
	throughNetwork, network := startProxy(t, redis.URL)
	sys := start(t, setup{env: map[string]string{"TRIBUTARY_REGIONS": "far=" + throughNetwork + " gone=redis://127.0.0.1:1/0", "TRIBUTARY_LIMIT_TRACKING": strconv.Itoa(limit)}, separateProcesses: true})
	far := *sys
	listener := listen(t)
	far.edge = address(listener)
	env := map[string]string{
		"TRIBUTARY_REDIS_URL": redis.URL, "TRIBUTARY_HASH_KEY": base64.StdEncoding.EncodeToString(hashKey),
		"TRIBUTARY_ALLOW_HTTP": "true", "TRIBUTARY_SHUTDOWN_DELAY": "0s", "TRIBUTARY_LIMIT_TRACKING": strconv.Itoa(limit), "TRIBUTARY_LIMIT_TRACKING_ADDRESS": "0", "TRIBUTARY_JOURNAL_DIR": t.TempDir(),
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
	// useLimit uses the limit of a key in both regions. The requests with which inFar(f).click
	// has waited until the region has the key count too.
	useLimit := func(state string, f fixture) {
		t.Helper()
		home, away := 0, 0
		for range 2 * limit {
			home += accepted(t, sys, f)
			away += accepted(t, &far, f)
		}
		if home != limit || away <= limit/2 || away > limit {
			t.Errorf("%s: %d clicks were accepted at home and %d in the region, want 100 and 51 to 100", state, home, away)
		}
	}
	first, second, third := sys.newFixture(t, "test", nil), sys.newFixture(t, "test", nil), sys.newFixture(t, "test", nil)

	// Connected: the click is stored, and the limit of a key holds in each region.
	click := inFar(first).click(t)
	inFar(second).click(t)
	inFar(third).click(t)
	eventually(t, waitTimeout, "the click of the region is stored", func() error { return attributed(first, click) })
	eventually(t, waitTimeout, "the region has the fingerprints of the hash keys", func() error {
		if compareHashKey(t, redis.URL, make([]byte, 32)) == nil {
			return errors.New("a collector with a wrong hash key starts")
		}
		return compareHashKey(t, redis.URL, hashKey)
	})
	useLimit("connected", first)
	eventually(t, waitTimeout, "the metrics say which region was reached", func() error {
		const metric = "\ntributary_region_reached_timestamp_seconds"
		got := sys.client().send(t, http.MethodGet, sys.metrics+"/metrics", nil).body
		if !strings.Contains(got, metric+`{region="far"} 1`) || !strings.Contains(got, metric+`{region="gone"} 0`) {
			return errors.New("the time of far is not set, or that of gone is set")
		}
		return nil
	})

	// Cut off: the region keeps its limits, and clicks wait in its Redis.
	network.interrupt()
	created := sys.newFixture(t, "test", nil)
	click = inFar(second).click(t)
	useLimit("cut off", third)
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
