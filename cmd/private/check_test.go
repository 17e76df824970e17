package private_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/httpedge"
)

func TestCheck(t *testing.T) {
	missing := errors.New("postgres does not respond")
	for _, tc := range []struct {
		name     string
		args     []string
		ready    error
		stopping bool
		want     string // part of the error; empty: no error
	}{
		{name: "alive"},
		{name: "alive and not ready", ready: missing},
		{name: "alive and stopping", stopping: true},
		{name: "serving", args: []string{"--serving"}},
		{name: "serving and not ready", args: []string{"--serving"}, ready: missing},
		{name: "not serving", args: []string{"--serving"}, stopping: true, want: "/servingz: 503 Service Unavailable: the process is stopping"},
		{name: "ready", args: []string{"--ready"}},
		{name: "not ready", args: []string{"--ready"}, ready: missing, want: "/readyz: 503 Service Unavailable: postgres does not respond"},
		{name: "ready and stopping", args: []string{"--ready"}, stopping: true, want: "/readyz: 503 Service Unavailable: the process is stopping"},
		{name: "unknown argument", args: []string{"--live"}, want: private.ErrCheckUsage.Error()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if tc.stopping {
				stop()
			}
			for _, listen := range []string{"127.0.0.1", "0.0.0.0", "", "::", "::1"} {
				listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(listen, "0"))
				if err != nil {
					t.Fatal(err)
				}
				server := private.NewServer(ctx, prometheus.NewRegistry(), func(context.Context) error { return tc.ready }, slog.New(slog.DiscardHandler))
				go func() { _ = httpedge.Serve(server, listener, nil) }()
				_, port, err := net.SplitHostPort(listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				err = private.Check(t.Context(), net.JoinHostPort(listen, port), tc.args)
				if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
					t.Errorf("listen address %q: got the error %v, want %q", listen, err, tc.want)
				}
				_ = server.Close()
			}
		})
	}
	t.Run("no process", func(t *testing.T) {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := listener.Addr().String()
		_ = listener.Close()
		if err := private.Check(t.Context(), address, nil); err == nil {
			t.Error("the check of a process that does not run has succeeded")
		}
	})
}
