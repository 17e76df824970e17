package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/server/webhook"
)

// serveHTTPS starts a receiver that uses net/http and the same certificate as the other
// receivers. It returns the receiver's URL.
func serveHTTPS(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.TLS = receiverTLS().Clone()
	s.StartTLS()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "127.0.0.1", host, 1)
}

func TestSend_SignatureIsValidForTheReferenceLibrary(t *testing.T) {
	type receivedRequest struct {
		request *http.Request
		body    []byte
	}
	requests := make(chan receivedRequest, 1)
	url := serveHTTPS(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- receivedRequest{r, body}
	})
	req := newRequest(url + "/hook?shop=7")
	req.Attempt = 3
	req.Secrets = append(req.Secrets, domain.NewSecret())
	if o := newClient(t, allowLoopback).Send(t.Context(), req); !o.Succeeded() || o.StatusCode != http.StatusOK {
		t.Fatalf("Send returned %+v, want a success", o)
	}
	r := <-requests
	for i, secret := range append(slices.Clone(req.Secrets), domain.NewSecret()) {
		verifier, err := standardwebhooks.NewWebhook(secret.Text())
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(r.body, r.request.Header); (err == nil) != (i < 2) {
			t.Errorf("the verification with secret %d returned the error %v, want success: %v", i, err, i < 2)
		}
	}
	if string(r.body) != string(req.Body) {
		t.Errorf("the receiver got the body %s, want %s", r.body, req.Body)
	}
	if got, want := r.request.Method+" "+r.request.RequestURI+" "+r.request.Proto, "POST /hook?shop=7 HTTP/1.1"; got != want {
		t.Errorf("the receiver got the request line %s, want %s", got, want)
	}
	if sni := r.request.TLS.ServerName; sni != host || "https://"+r.request.Host != url {
		t.Errorf("the request has the SNI %q and the Host %q, want the host of %s", sni, r.request.Host, url)
	}
	want := http.Header{
		"Content-Type": {"application/json"}, "Content-Length": {strconv.Itoa(len(req.Body))}, "User-Agent": {"Tributary-Webhooks/1.2.3"},
		"Webhook-Id": {req.ID}, "Webhook-Attempt": {"3"}, "Webhook-Timestamp": {strconv.FormatInt(req.At.Unix(), 10)},
		"Webhook-Signature": {domain.Sign(req.Secrets, req.ID, req.At, req.Body)},
	}
	if fmt.Sprint(r.request.Header) != fmt.Sprint(want) {
		t.Errorf("the receiver got the header\n%v, want\n%v", r.request.Header, want)
	}
}

func TestSend_OutcomeOfEachStatus(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		status     int
		retryAfter string
		want       domain.Outcome
	}{
		{200, "", domain.Outcome{}},
		{201, "", domain.Outcome{}},
		{204, "", domain.Outcome{}},
		{299, "120", domain.Outcome{}},
		{304, "", domain.Outcome{ErrorCode: "redirect"}},
		{400, "", domain.Outcome{ErrorCode: "http_400"}},
		{408, "120", domain.Outcome{ErrorCode: "http_408"}},
		{410, "", domain.Outcome{ErrorCode: "http_410"}},
		{429, "", domain.Outcome{ErrorCode: "http_429"}},
		{429, "0", domain.Outcome{ErrorCode: "http_429"}},
		{429, "120", domain.Outcome{ErrorCode: "http_429", RetryAfter: 2 * time.Minute}},
		{429, " 120 ", domain.Outcome{ErrorCode: "http_429", RetryAfter: 2 * time.Minute}},
		{429, "+120", domain.Outcome{ErrorCode: "http_429"}},
		{429, "-120", domain.Outcome{ErrorCode: "http_429"}},
		{429, "1.5", domain.Outcome{ErrorCode: "http_429"}},
		{429, "2 minutes", domain.Outcome{ErrorCode: "http_429"}},
		{429, "99999999999999999999999", domain.Outcome{ErrorCode: "http_429", RetryAfter: 1 << 32 * time.Second}},
		{503, "Sun, 01 Mar 2026 12:10:00 GMT", domain.Outcome{ErrorCode: "http_503", RetryAfter: 10 * time.Minute}},
		{503, "Sunday, 01-Mar-26 12:10:00 GMT", domain.Outcome{ErrorCode: "http_503", RetryAfter: 10 * time.Minute}},
		{503, "Sun Mar  1 12:10:00 2026", domain.Outcome{ErrorCode: "http_503", RetryAfter: 10 * time.Minute}},
		{503, "Sun, 01 Mar 2026 11:00:00 GMT", domain.Outcome{ErrorCode: "http_503"}},
		{500, "120", domain.Outcome{ErrorCode: "http_500"}},
		{999, "", domain.Outcome{ErrorCode: "http_999"}},
	}
	var currentTest atomic.Int64
	url := serveHTTPS(t, func(w http.ResponseWriter, _ *http.Request) {
		test := tests[currentTest.Load()]
		if test.retryAfter != "" {
			w.Header().Set("Retry-After", test.retryAfter)
		}
		w.WriteHeader(test.status)
	})
	client := newClient(t, allowLoopback)
	for i, test := range tests {
		t.Run(fmt.Sprintf("%d %s", test.status, test.retryAfter), func(t *testing.T) {
			currentTest.Store(int64(i))
			req := newRequest(url)
			req.At = now
			test.want.StatusCode = test.status
			checkOutcome(t, client.Send(t.Context(), req), test.want)
		})
	}
}

func TestSend_DoesNotFollowRedirects(t *testing.T) {
	target := listen(t, func(net.Conn) {})
	client := newClient(t, allowLoopback)
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			url := serveHTTPS(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, target.url(host), status)
			})
			want := domain.Outcome{StatusCode: status, ErrorCode: domain.Redirect}
			checkOutcome(t, client.Send(t.Context(), newRequest(url)), want)
		})
	}
	if n := target.connections(); n != 0 {
		t.Errorf("%d connections to the target of the redirects, want none", n)
	}
}

// The environment configures a proxy, and the receiver sets a cookie. The client uses
// neither of them.
func TestSend_UsesNoProxyAndNoCookies(t *testing.T) {
	proxy := listen(t, func(net.Conn) {})
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://"+proxy.listener.Addr().String())
	}
	url := serveHTTPS(t, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
		if len(r.Cookies()) > 0 {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	client := newClient(t, allowLoopback)
	for range 2 {
		if o := client.Send(t.Context(), newRequest(url)); !o.Succeeded() {
			t.Errorf("Send returned %+v, want a success", o)
		}
	}
	if n := proxy.connections(); n != 0 {
		t.Errorf("%d connections to the proxy, want none", n)
	}
}

func TestSend_ReusesTheConnection(t *testing.T) {
	r := respondWith(t, func(_ *http.Request, conn net.Conn) bool {
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		return err == nil
	})
	client := newClient(t, allowLoopback)
	for range 3 {
		if o := client.Send(t.Context(), newRequest(r.url(host))); !o.Succeeded() {
			t.Fatalf("Send returned %+v, want a success", o)
		}
	}
	if n := r.connections(); n != 1 {
		t.Errorf("three requests used %d connections, want 1", n)
	}
}

// A receiver can close an idle connection at the moment when the client reuses it. The
// client then repeats the request on a new connection.
func TestSend_RepeatsOnNewConnectionIfReusedOneIsClosed(t *testing.T) {
	var requests atomic.Int64
	r := respondWith(t, func(_ *http.Request, conn net.Conn) bool {
		if requests.Add(1) == 2 {
			return false
		}
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		return err == nil
	})
	client := newClient(t, allowLoopback)
	for range 2 {
		if o := client.Send(t.Context(), newRequest(r.url(host))); !o.Succeeded() {
			t.Fatalf("Send returned %+v, want a success", o)
		}
	}
	if n, count := r.connections(), requests.Load(); n != 2 || count != 3 {
		t.Errorf("%d requests on %d connections, want 3 on 2", count, n)
	}
}

func TestSend_CallsOnlyHTTPS(t *testing.T) {
	r := listen(t, func(net.Conn) {})
	client := newClient(t, allowLoopback)
	for _, url := range []string{strings.Replace(r.url(host), "https", "http", 1), "ftp://" + host + "/", "//" + host + "/", ":", ""} {
		if o := client.Send(t.Context(), newRequest(url)); o != (domain.Outcome{ErrorCode: domain.BlockedAddress}) {
			t.Errorf("Send to %q returned %+v, want %+v", url, o, domain.Outcome{ErrorCode: domain.BlockedAddress})
		}
	}
	if n := r.connections(); n != 0 {
		t.Errorf("%d connections, want none", n)
	}
}

func TestSend_EndsWhenTheContextIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := respondWith(t, func(_ *http.Request, conn net.Conn) bool {
		cancel()
		_, _ = conn.Read(make([]byte, 1)) // until the client closes the connection
		return false
	})
	checkOutcome(t, newClient(t, allowLoopback).Send(ctx, newRequest(r.url(host))), domain.Outcome{ErrorCode: domain.Timeout})
}

func TestSend_ChecksAddressesInTheURL(t *testing.T) {
	r := respondWithText(t, "HTTP/1.1 204 No Content\r\n\r\n")
	for name, test := range map[string]struct {
		host   string
		change []func(*webhook.ClientConfig)
		want   domain.Outcome
	}{
		"allowed":                      {"127.0.0.1", []func(*webhook.ClientConfig){allowLoopback}, domain.Outcome{StatusCode: 204}},
		"allowed, IPv4-mapped":         {"::ffff:127.0.0.1", []func(*webhook.ClientConfig){allowLoopback}, domain.Outcome{StatusCode: 204}},
		"refused":                      {"127.0.0.1", nil, domain.Outcome{ErrorCode: domain.BlockedAddress}},
		"refused, IPv4-mapped":         {"::ffff:127.0.0.1", nil, domain.Outcome{ErrorCode: domain.BlockedAddress}},
		"refused, unspecified address": {"0.0.0.0", nil, domain.Outcome{ErrorCode: domain.BlockedAddress}},
	} {
		t.Run(name, func(t *testing.T) {
			before := r.connections()
			checkOutcome(t, newClient(t, test.change...).Send(t.Context(), newRequest(r.url(test.host))), test.want)
			if n := r.connections() - before; (n > 0) != test.want.Succeeded() {
				t.Errorf("%d connections, want a connection: %v", n, test.want.Succeeded())
			}
		})
	}
}
