package alerts

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/edge"
	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/collector"
	"github.com/tributary-hq/tributary/httpedge"
	landingstore "github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/test/authority"
)

// startTimeout is the longest time that a process may take to export all its metrics.
const startTimeout = 30 * time.Second

// scrapes has the metrics of each process, as a scrape shortly after its start returns
// them. A process has the name of its file in testdata. The process "core with gateway"
// has the metrics of two files.
type scrapes map[string]map[string]*dto.MetricFamily

// scrapeProcesses starts each process of the service, in the same way as its command, and
// scrapes it.
func scrapeProcesses(t *testing.T) scrapes {
	t.Helper()
	database := pgtest.New(t)
	if err := landingstore.Migrate(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	env := map[string]string{
		"TRIBUTARY_DATABASE_URL":    database,
		"TRIBUTARY_REDIS_URL":       redistest.New(t),
		"TRIBUTARY_JWT_KEYS":        "k:" + key,
		"TRIBUTARY_ENCRYPTION_KEYS": "k:" + key,
		"TRIBUTARY_HASH_KEY":        key,
		"TRIBUTARY_ALLOW_HTTP":      "true",
		"TRIBUTARY_SHUTDOWN_DELAY":  "0s",
		"TRIBUTARY_JOURNAL_DIR":     t.TempDir(),
		"TRIBUTARY_REGIONS":         "far=" + redistest.New(t),
	}
	addCertificate(t, env)
	log := slog.New(slog.DiscardHandler)
	found := scrapes{}

	core := func(listeners assemble.Listeners) (func(context.Context) error, error) {
		c, err := assemble.NewCore(t.Context(), parse[settings.Core](t, env), certificates.New(log), log, clock.New(time.Now))
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			defer c.Close()
			return c.Run(ctx, listeners)
		}, nil
	}
	listeners := assemble.Listeners{GRPC: listen(t), Metrics: listen(t)}
	run(t, "core", func() (func(context.Context) error, error) { return core(listeners) })
	address := listeners.GRPC.Addr().String()
	probe(t, address)
	found["core"] = scrape(t, listeners.Metrics, "tributary_core_call_seconds", "tributary_check_violations", "tributary_clickstream_redis_used_memory_bytes")

	withGateway := assemble.Listeners{GRPC: listen(t), Metrics: listen(t), API: listen(t)}
	run(t, "core with gateway", func() (func(context.Context) error, error) { return core(withGateway) })
	probe(t, withGateway.GRPC.Addr().String())
	found["core with gateway"] = scrape(t, withGateway.Metrics, "tributary_gateway_request_seconds", "tributary_core_call_seconds", "tributary_clickstream_redis_used_memory_bytes")

	env["TRIBUTARY_GRPC_ADDR"] = address
	metrics := listen(t)
	run(t, "gateway", func() (func(context.Context) error, error) {
		cfg, api := parse[settings.Gateway](t, env), listen(t)
		return func(ctx context.Context) error {
			return assemble.RunGateway(ctx, cfg, certificates.New(log), api, metrics, log, clock.New(time.Now))
		}, nil
	})
	found["gateway"] = scrape(t, metrics)

	metrics = listen(t)
	run(t, "collector", func() (func(context.Context) error, error) {
		registry, files, cfg := private.NewRegistry(), certificates.New(log), parse[settings.Collector](t, env)
		registry.MustRegister(files)
		tlsConfig, err := cfg.ServerTLS(files)
		if err != nil {
			return nil, err
		}
		config := edge.Config(cfg, nil)
		if config.Traces, err = tracing.Open(cfg.Traces, "tributary-collector", registry, log); err != nil {
			return nil, err
		}
		redisClock, err := edge.CompareClock(t.Context(), clock.New(time.Now), config.Stream, log, registry)
		if err != nil {
			return nil, err
		}
		hashKey, err := edge.CompareHashKey(t.Context(), cfg.HashKeys, config.Cache, log, registry)
		if err != nil {
			return nil, err
		}
		c, err := collector.Open(config, log, registry)
		if err != nil {
			return nil, err
		}
		server := private.NewServer(t.Context(), registry, func(context.Context) error { return nil }, log)
		served := make(chan error, 1)
		go func() { served <- httpedge.Serve(server, metrics, nil) }()
		clicks := listen(t)
		return func(ctx context.Context) error {
			return errors.Join(c.Run(ctx, clicks, tlsConfig), hashKey.Close(), redisClock.Close(), server.Close(), <-served)
		}, nil
	})
	found["collector"] = scrape(t, metrics)

	metrics = listen(t)
	run(t, "landing", func() (func(context.Context) error, error) {
		cfg, forms := parse[settings.Landing](t, env), listen(t)
		return func(ctx context.Context) error {
			return assemble.RunLanding(ctx, cfg, certificates.New(log), forms, metrics, log)
		}, nil
	})
	found["landing"] = scrape(t, metrics, "tributary_landing_unmailed_messages")
	return found
}

// addCertificate adds a certificate for the public ports to the settings.
func addCertificate(t *testing.T, env map[string]string) {
	t.Helper()
	pair := authority.New(t).Issue(t, "127.0.0.1", time.Now().AddDate(0, 0, 90))
	for name, content := range map[string][]byte{"TRIBUTARY_TLS_CERT": pair.Certificate, "TRIBUTARY_TLS_KEY": pair.Key} {
		env[name] = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(env[name], content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// run starts a process and stops it at the end of the test.
func run(t *testing.T, name string, start func() (func(context.Context) error, error)) {
	t.Helper()
	body, err := start()
	if err != nil {
		t.Fatalf("start the %s: %v", name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- body(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-result; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the %s stopped with the error %v", name, err)
		}
	})
}

// probe sends a health check, as an orchestrator does. Before the first call, a core
// exports no duration of calls.
func probe(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
}

// scrape returns the metrics of a process. It waits until the metrics with the given names
// are not all 0, or exist, because they are read in the background after the start.
func scrape(t *testing.T, listener net.Listener, names ...string) map[string]*dto.MetricFamily {
	t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		families, err := fetch(t, "http://"+listener.Addr().String()+"/metrics")
		if err == nil {
			err = missing(families, names)
		}
		if err == nil {
			return families
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func missing(families map[string]*dto.MetricFamily, names []string) error {
	for _, name := range names {
		if families[name] == nil {
			return fmt.Errorf("the metric %s is missing", name)
		}
	}
	if gauge := families["tributary_clickstream_redis_used_memory_bytes"]; gauge != nil && gauge.GetMetric()[0].GetGauge().GetValue() == 0 {
		return errors.New("the click stream was not measured")
	}
	return nil
}

func fetch(t *testing.T, url string) (map[string]*dto.MetricFamily, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

func parse[T any](t *testing.T, env map[string]string) T {
	t.Helper()
	var lines []string
	for name, value := range maps.All(env) {
		lines = append(lines, name+"="+value)
	}
	cfg, err := settings.Parse[T](lines)
	if err != nil {
		t.Fatalf("settings: %v", err)
	}
	return cfg
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
