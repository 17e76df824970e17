package collector

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/redistest"
)

// run starts the collector on a free port and returns its address. The collector runs
// until the test ends.
func (e *edge) run() string {
	e.t.Helper()
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	check(e.t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.collector.Run(ctx, listener, nil) }()
	e.t.Cleanup(func() {
		stop()
		check(e.t, <-ended)
	})
	return listener.Addr().String()
}

func TestIncompleteBody_IsClientError(t *testing.T) {
	for name, stopSending := range map[string]func(net.Conn) error{
		"the client closes the connection": func(conn net.Conn) error { return conn.(*net.TCPConn).CloseWrite() },
		"the client sends nothing more":    func(net.Conn) error { return nil },
	} {
		for _, credential := range []string{"in a header", "in the body", "unknown"} {
			t.Run(name+", key "+credential, func(t *testing.T) {
				e := newEdge(t, redistest.New(t))
				e.collector.server.ReadTimeout = 200 * time.Millisecond
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", e.run())
				check(t, err)
				defer func() { _ = conn.Close() }()
				header, status, code, faults := "", http.StatusBadRequest, "VALIDATION_ERROR", []string{"body"}
				switch credential {
				case "in a header":
					header = "X-Public-Key: " + e.key.Reveal() + "\r\n"
				case "unknown":
					header, status, code, faults = "X-Public-Key: none\r\n", http.StatusUnauthorized, "INVALID_PUBLIC_KEY", nil
				}
				_, err = fmt.Fprintf(conn, "POST /v1/clicks HTTP/1.1\r\nHost: edge.example\r\nContent-Length: 100\r\n%s\r\n{\"referral_code\":", header)
				check(t, err)
				check(t, stopSending(conn))
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				check(t, err)
				defer func() { _ = response.Body.Close() }()
				var got struct {
					Code    string
					Details []struct{ Field string }
				}
				check(t, json.NewDecoder(response.Body).Decode(&got))
				var fields []string
				for _, detail := range got.Details {
					fields = append(fields, detail.Field)
				}
				if response.StatusCode != status || got.Code != code || !slices.Equal(fields, faults) {
					t.Errorf("status %d, code %s, faulty fields %q; want %d, %s, %q", response.StatusCode, got.Code, fields, status, code, faults)
				}
				if !response.Close {
					t.Error("the response has no header Connection: close")
				}
			})
		}
	}
}
