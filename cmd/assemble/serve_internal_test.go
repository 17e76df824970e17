package assemble

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/httpedge"
)

func TestServeHTTP_ServesDuringTheShutdownDelay(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") })
	ctx, stop := context.WithCancel(t.Context())
	public, metrics := listenLocal(t), listenLocal(t)
	// The test ends the delay by its own end: the parts return only after it.
	const delay = 2 * time.Second
	ended := make(chan error, 2)
	ready := func(context.Context) error { return nil }
	go func() { ended <- serveHTTP(ctx, public, httpedge.NewServer(handler, log), nil, delay) }()
	go func() { ended <- serveMetrics(ctx, metrics, prometheus.NewRegistry(), ready, delay, log) }()

	api, probes := "http://"+public.Addr().String(), "http://"+metrics.Addr().String()
	check := func(url string, wantStatus int, wantBody string, wantClose bool) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != wantStatus || !strings.Contains(string(body), wantBody) || response.Close != wantClose {
			t.Errorf("GET %s: %d %s, close %t, error %v; want %d, %q, close %t", url, response.StatusCode, body, response.Close, err, wantStatus, wantBody, wantClose)
		}
	}
	check(api+"/", http.StatusOK, "served", false)
	check(probes+"/servingz", http.StatusOK, "ok", false)
	check(probes+"/readyz", http.StatusOK, "ok", false)
	stop()
	check(api+"/", http.StatusOK, "served", true)
	check(api+readyPath, http.StatusServiceUnavailable, `"code":"SERVICE_UNAVAILABLE"`, true)
	check(probes+"/servingz", http.StatusServiceUnavailable, "the process is stopping", true)
	check(probes+"/readyz", http.StatusServiceUnavailable, "the process is stopping", true)
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := private.Check(t.Context(), metrics.Addr().String(), nil); err == nil {
		t.Error("the port is still open after the delay")
	}
}

func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
