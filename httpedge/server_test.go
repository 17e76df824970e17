package httpedge

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestRequestID(t *testing.T) {
	for in, valid := range map[string]bool{
		"": false, "abc-123": true, "with space": false, "tab\there": false, "ünïcode": false,
		strings.Repeat("x", 128): true, strings.Repeat("x", 129): false,
	} {
		r := request("192.0.2.1:1")
		r.Header[RequestIDHeader] = []string{in}
		got := RequestID(r, time.Now)
		if _, isNew := affiliate.ParseID[affiliate.RequestID](got); isNew == valid || valid && got != in {
			t.Errorf("RequestID with the header %q = %q, want the same id: %t", in, got, valid)
		}
	}
}

func TestWriteError_WritesEnvelope(t *testing.T) {
	w := httptest.NewRecorder()
	WriteError(w, 400, affiliate.ReasonValidation, "The request is invalid.", affiliate.Violation{Field: "url", Message: "is <bad>"})
	want := `{"statusCode":400,"message":"The request is invalid.","error":"Bad Request","code":"VALIDATION_ERROR","details":[{"field":"url","message":"url is <bad>."}]}` + "\n"
	if got := w.Body.String(); got != want {
		t.Errorf("body %s\nwant %s", got, want)
	}

	w = httptest.NewRecorder()
	w.Header().Set("Retry-After", "3")
	WriteError(w, 429, affiliate.ReasonRateLimitExceeded, "Slow down.", affiliate.Violation{Field: "x"})
	var body map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if _, found := body["details"]; found || w.Header().Get("Retry-After") != "3" {
		t.Errorf("body %s, headers %v; want no details and Retry-After 3", w.Body, w.Header())
	}
}

func TestRecoverPanics(t *testing.T) {
	var reported any
	report := func(_ *http.Request, panicked any, stack []byte) {
		if len(stack) == 0 {
			t.Error("report was called without a stack trace")
		}
		reported = panicked
	}

	w := httptest.NewRecorder()
	RecoverPanics(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }), report).ServeHTTP(w, request("192.0.2.1:1"))
	if w.Code != 500 || reported != "boom" || !strings.Contains(w.Body.String(), `"code":"INTERNAL_ERROR"`) || strings.Contains(w.Body.String(), "boom") {
		t.Errorf("status %d, body %s, reported %v; want 500 INTERNAL_ERROR without the panic value, and boom reported", w.Code, w.Body, reported)
	}

	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Error("a panic after the response began must close the connection")
		}
	}()
	RecoverPanics(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic("late")
	}), report).ServeHTTP(httptest.NewRecorder(), request("192.0.2.1:1"))
}

// net/http itself responds to these requests, so the body is not the error envelope.
func TestServer_InvalidRequestsGetPlainText(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") }), slog.New(slog.DiscardHandler))
	go func() { _ = Serve(server, listener, nil) }()
	t.Cleanup(func() { _ = server.Close() })

	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"headers over 16 KiB": {"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 32<<10) + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
		"no request line":     {"nonsense\r\n\r\n", http.StatusBadRequest},
		"no host":             {"GET / HTTP/1.1\r\n\r\n", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := io.WriteString(conn, c.request); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			if got := response.Header.Get("Content-Type"); response.StatusCode != c.status || !strings.HasPrefix(got, "text/plain") {
				t.Errorf("status %d, Content-Type %s; want %d, text/plain", response.StatusCode, got, c.status)
			}
		})
	}
}

func TestServe_PlainHTTPOnTLSPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }), slog.New(slog.DiscardHandler))
	ended := make(chan error, 1)
	go func() { ended <- Serve(server, listener, &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}) }()

	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "POST /v1/clicks HTTP/1.1\r\nHost: x\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	_, _ = response.Body.Close(), conn.Close()
	if response.StatusCode != http.StatusForbidden || !strings.Contains(string(body), `"code":"HTTPS_REQUIRED"`) {
		t.Errorf("response to plain HTTP: status %d, body %s; want 403 HTTPS_REQUIRED", response.StatusCode, body)
	}

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	response, err = client.Get("https://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body, _ = io.ReadAll(response.Body)
	_ = response.Body.Close()
	if string(body) != "HTTP/2.0" {
		t.Errorf("a TLS client uses %s, want HTTP/2.0", body)
	}
	client.CloseIdleConnections()
	_ = server.Close()
	if err := <-ended; err != nil {
		t.Errorf("Serve returns %v after Close, want nil", err)
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
