package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/certificates"
	clocks "github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// wrongBy is the time by which a clock is ahead in these tests.
const wrongBy = 10 * time.Minute

// TestClocks_CollectorIsAhead runs a collector that does not compare its clock, on a machine with a wrong clock. Sales are attributed to its clicks, also
// if they are reported before the click is stored.
func TestClocks_CollectorIsAhead(t *testing.T) {
	t.Parallel()
	s := setup{redis: redistest.New(t)}
	sys := start(t, s)
	fast, listener := *sys, listen(t)
	fast.edge = address(listener)
	var parts processes
	env := s.environment(t)
	parts.run("collector with a wrong clock", openCollector(t, env, false, fastTime, tracing.NewLogger(sys.logs, slog.LevelInfo), listener))
	t.Cleanup(func() { parts.stop(t) })
	f := sys.newFixture(t, "test", nil)
	f.sys = &fast

	click := f.click(t)
	eventually(t, waitTimeout, "a sale is attributed to a click", func() error {
		if got := f.report(t, purchase(click)).wantStatus(http.StatusCreated); got.value("attributed") != true {
			return fmt.Errorf("the reason is %v", got.value("attribution.reason_code"))
		}
		return nil
	})

	// The browser has proposed the id, and the click is delayed.
	id := affiliate.NewID[affiliate.ClickID](fastTime()).String()
	early := f.report(t, purchase(id)).wantStatus(http.StatusCreated).wantFields(object{"attributed": false, "attribution.reason_code": "CLICK_UNKNOWN"})
	fast.click(t, f.publicKey, object{"referral_code": f.code, "click_id": id}).wantStatus(http.StatusCreated).wantFields(object{"click_id": id})
	eventually(t, waitTimeout, "the sale is attributed to the click", func() error {
		got := f.merchant.get(t, "/api/v1/conversions/"+early.text("id")).wantStatus(http.StatusOK)
		if reason := got.value("attribution.reason_code"); got.value("attributed") != true || reason != "CLICK_MATCHED" {
			return fmt.Errorf("its reason is %v", reason)
		}
		return nil
	})
	const counter = `tributary_ingest_clicks_from_future_total{region="home"} `
	if got := sys.client().send(t, http.MethodGet, sys.metrics+"/metrics", nil); !strings.Contains(got.body, counter) || strings.Contains(got.body, counter+"0") {
		t.Error("the metrics do not count the clicks with times in the future")
	}
}

func fastTime() time.Time { return time.Now().Add(wrongBy) }

// TestClocks_KilledCoreWasAhead kills a core whose machine's clock is ten minutes ahead while it
// has the lease of an endpoint with many webhooks. Another core must deliver all of them and
// continue with the periodic jobs, of which only one of a kind can wait.
func TestClocks_KilledCoreWasAhead(t *testing.T) {
	t.Parallel()
	s := setup{database: pgtest.New(t), redis: redistest.New(t)}
	fast, kill := startFastCore(t, s)
	merchant := fast.newMerchant(t).inMode("test")
	program := merchant.createProgram(t, nil)
	endpoint := merchant.startEndpoint(t, nil)
	endpoint.mu.Lock() // all requests wait, so the core keeps the lease
	const webhooks = 40
	for n := range webhooks {
		merchant.patch(t, "/api/v1/programs/"+program, object{"name": fmt.Sprint("Name ", n)}).wantStatus(http.StatusOK)
	}
	const leases = `select count(*) from webhook_endpoints where sender_until > now()`
	eventually(t, waitTimeout, "the core has the lease", func() error {
		if fast.count(t, leases) == 0 {
			return errors.New("no endpoint is leased")
		}
		return nil
	})
	kill()
	endpoint.mu.Unlock()
	if n := fast.count(t, leases+` + interval '5 minutes'`); n != 0 {
		t.Errorf("%d leases last for more than five minutes", n)
	}

	sys := start(t, s)
	const runs = `select count(*) from river.river_job where kind = 'sweep_awaited_clicks' and state = 'completed'`
	runsBefore := sys.count(t, runs)
	// The lease ends within a minute. The rest is for a slow machine, and is less than wrongBy.
	eventually(t, 4*time.Minute, "the other core delivers all webhooks and runs periodic jobs", func() error {
		delivered := sys.count(t, `select count(*) from webhook_deliveries where status = 'delivered'`)
		if ran := sys.count(t, runs) - runsBefore; delivered < webhooks || ran == 0 {
			return fmt.Errorf("%d of %d webhooks are delivered, and %d periodic jobs have run", delivered, webhooks, ran)
		}
		return nil
	})
}

// asCore is an environment variable. If it is set, the test binary runs as a core whose
// machine's clock is set ahead after the start.
const asCore = "TRIBUTARY_TEST_AS_CORE"

// startFastCore starts such a core in a process of its own. The function kill kills it.
func startFastCore(t *testing.T, s setup) (sys *system, kill func()) {
	t.Helper()
	env := s.environment(t)
	for _, name := range []string{"TRIBUTARY_API_LISTEN", "TRIBUTARY_GRPC_LISTEN", "TRIBUTARY_METRICS_LISTEN"} {
		free := listen(t)
		env[name] = free.Addr().String()
		if err := free.Close(); err != nil {
			t.Fatal(err)
		}
	}
	sys = &system{
		clock: &clock{}, api: "http://" + env["TRIBUTARY_API_LISTEN"], metrics: "http://" + env["TRIBUTARY_METRICS_LISTEN"], database: s.database,
		logs: &logBuffer{}, http: &http.Client{Timeout: startTimeout},
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asCore+"=1")
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stdout, cmd.Stderr = sys.logs, sys.logs
	if _, err := cmd.StdinPipe(); err != nil { // closed when this process ends
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the error says that it was killed
		sys.http.CloseIdleConnections()
	})
	t.Cleanup(kill)
	eventually(t, startTimeout, "the core in a process of its own is ready", func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, sys.metrics+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := sys.http.Do(request)
		if err != nil {
			return fmt.Errorf("%w\n%s", err, sys.logs.warnings())
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			return fmt.Errorf("the status is %d\n%s", response.StatusCode, sys.logs.warnings())
		}
		return nil
	})
	return sys, kill
}

// runFastCore runs a core with the settings of the environment until the standard input ends.
// The machine's clock is right at the start.
func runFastCore() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { defer cancel(); _, _ = io.Copy(io.Discard, os.Stdin) }()
	cfg, err := settings.Read[settings.Core]()
	if err != nil {
		return err
	}
	log := tracing.NewLogger(os.Stderr, slog.LevelInfo)
	var ahead atomic.Int64
	process := clocks.New(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	core, err := assemble.NewCore(ctx, cfg, certificates.New(log), log, process)
	if err != nil {
		return err
	}
	defer core.Close()
	ahead.Store(int64(wrongBy))
	var listeners assemble.Listeners
	for address, listener := range map[string]*net.Listener{cfg.APIListen: &listeners.API, cfg.GRPCListen: &listeners.GRPC, cfg.MetricsListen: &listeners.Metrics} {
		if *listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
			return err
		}
	}
	return core.Run(ctx, listeners)
}
