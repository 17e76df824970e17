package landing_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/landing"
)

func TestHeaders_OfEveryResponse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	for _, r := range []response{
		f.post(waitlist, body(waitlist, nil)),
		f.post(waitlist, "{"),
		f.send(http.MethodGet, count, ""),
		f.send(http.MethodGet, "/", ""),
		f.send(http.MethodPut, contact, ""),
		f.send(http.MethodOptions, contact, ""),
		f.send(http.MethodGet, "/api/v1/health", ""),
	} {
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Vary": "Origin", "Strict-Transport-Security": "",
			"Access-Control-Allow-Origin": "", "Access-Control-Allow-Credentials": "",
		} {
			if got := r.header.Get(name); got != want {
				t.Errorf("status %d: %s is %q, want %q", r.status, name, got, want)
			}
		}
		if cache := r.header.Get("Cache-Control"); cache != "no-store" && (r.status != 200 || cache != "public, max-age=30") {
			t.Errorf("status %d: Cache-Control is %q", r.status, cache)
		}
		if id := r.header.Get("X-Request-Id"); len(id) != 36 {
			t.Errorf("status %d: X-Request-Id is %q, want a UUID", r.status, id)
		}
	}
	if r := f.send(http.MethodGet, count, "", "X-Request-Id: my-id"); r.header.Get("X-Request-Id") != "my-id" {
		t.Errorf("X-Request-Id is %q, want that of the request", r.header.Get("X-Request-Id"))
	}
}

func TestRoutes_UnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	for _, test := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/", 404, "NOT_FOUND", ""},
		{"POST", "/api/public/waitlist/", 404, "NOT_FOUND", ""},
		{"POST", "/api/public//waitlist", 404, "NOT_FOUND", ""},
		{"POST", "/api/public/waitlist/x", 404, "NOT_FOUND", ""},
		{"POST", "/API/public/waitlist", 404, "NOT_FOUND", ""},
		{"GET", "/metrics", 404, "NOT_FOUND", ""},
		{"OPTIONS", "/api/public/other", 404, "NOT_FOUND", ""},
		{"GET", waitlist, 405, "METHOD_NOT_ALLOWED", "OPTIONS, POST"},
		{"HEAD", contact, 405, "", "OPTIONS, POST"},
		{"PUT", contact, 405, "METHOD_NOT_ALLOWED", "OPTIONS, POST"},
		{"BREW", contact, 405, "METHOD_NOT_ALLOWED", "OPTIONS, POST"},
		{"POST", count, 405, "METHOD_NOT_ALLOWED", "GET, HEAD, OPTIONS"},
		{"DELETE", "/api/v1/health", 405, "METHOD_NOT_ALLOWED", "GET, HEAD, OPTIONS"},
		{"OPTIONS", waitlist, 204, "", "OPTIONS, POST"},
		{"OPTIONS", count, 204, "", "GET, HEAD, OPTIONS"},
		{"HEAD", count, 200, "", ""},
		{"GET", count + "?_=1", 200, "", ""},
		{"POST", waitlist + "?utm_source=x", 201, "", ""},
		{"POST", "/api/public/wait%6Cist", 201, "", ""},
	} {
		content := ""
		if test.method == "POST" {
			content = body(waitlist, nil)
		}
		// grpc-gateway would replace the method, and read the time-out of gRPC.
		r := f.send(test.method, test.path, content, "X-HTTP-Method-Override: GET", "Grpc-Timeout: nonsense", "TE: trailers", "Grpc-Metadata-X-Bin: %%%")
		if r.status != test.status || r.header.Get("Allow") != test.allow || test.code != "" && r.code(t) != test.code {
			t.Errorf("%s %s: %d, Allow %q, %s; want %d, %q, %s", test.method, test.path, r.status, r.header.Get("Allow"), r.body, test.status, test.allow, test.code)
		}
	}
}

func TestCORS_OnlyAllowedOrigins(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{origins: []string{"https://www.example.com", "http://127.0.0.1:8082"}})
	for origin, allowed := range map[string]bool{
		"https://www.example.com":         true,
		"http://127.0.0.1:8082":           true,
		"http://www.example.com":          false,
		"https://example.com":             false,
		"https://www.example.com.evil.io": false,
		"https://www.example.com:8443":    false,
		"null":                            false,
		"*":                               false,
	} {
		want := ""
		if allowed {
			want = origin
		}
		preflight := f.send(http.MethodOptions, contact, "", "Origin: "+origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: content-type")
		if h := preflight.header; preflight.status != 204 || h.Get("Access-Control-Allow-Origin") != want ||
			allowed != (h.Get("Access-Control-Allow-Methods") == "OPTIONS, POST") ||
			allowed != strings.Contains(h.Get("Access-Control-Allow-Headers"), "Content-Type") || allowed != (h.Get("Access-Control-Max-Age") == "600") {
			t.Errorf("preflight from %s: %d, headers %v, want allowed = %v", origin, preflight.status, h, allowed)
		}
		for _, r := range []response{f.post(contact, body(contact, nil), "Origin: "+origin), f.post(contact, "{", "Origin: "+origin), f.send(http.MethodGet, count, "", "Origin: "+origin)} {
			exposed := r.header.Get("Access-Control-Expose-Headers")
			if r.header.Get("Access-Control-Allow-Origin") != want || allowed != strings.Contains(exposed, "Retry-After") || r.header.Get("Vary") != "Origin" {
				t.Errorf("request from %s: %d, headers %v, want allowed = %v", origin, r.status, r.header, allowed)
			}
		}
	}
	for _, origin := range []string{"*", "https://*.example.com", "https://www.example.com/", "www.example.com", "https://WWW.example.com", "null"} {
		if _, err := f.Handler(landing.HTTPConfig{Limit: 5, Origins: []string{origin}}); err == nil {
			t.Errorf("the origin %s was accepted", origin)
		}
	}
}

func TestHTTPS_IsRequired(t *testing.T) {
	t.Parallel()
	no := false
	f := newFixture(t, options{allowHTTP: &no})
	for range 7 { // more than the rate limit
		for _, path := range []string{waitlist, count, "/api/v1/health", "/unknown"} {
			if r := f.post(path, body(waitlist, nil), client); r.status != 403 || r.code(t) != "HTTPS_REQUIRED" {
				t.Errorf("%s over HTTP: %d %s, want HTTPS_REQUIRED", path, r.status, r.body)
			}
		}
	}
	r := f.post(waitlist, body(waitlist, nil), client, "X-Forwarded-Proto: https")
	if r.status != 201 || r.header.Get("Strict-Transport-Security") != "max-age=31536000" {
		t.Errorf("over HTTPS at the proxy: %d, headers %v, want 201 and HSTS", r.status, r.header)
	}
}

func TestBody_MediaTypeAndSize(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	valid := body(waitlist, nil)
	pad := func(size int) string { return valid + strings.Repeat(" ", size-len(valid)) }
	for _, test := range []struct {
		name, body string
		header     string
		status     int
		code       string
	}{
		{"JSON with a charset", valid, "Content-Type: application/json; charset=UTF-8", 201, ""},
		{"no media type", valid, "Content-Type: ", 201, ""},
		{"form", "email=a@example.com", "Content-Type: application/x-www-form-urlencoded", 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"text", valid, "Content-Type: text/plain", 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"Latin-1", valid, "Content-Type: application/json; charset=latin1", 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"malformed media type", valid, "Content-Type: application/", 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"compressed", valid, "Content-Encoding: gzip", 415, "UNSUPPORTED_MEDIA_TYPE"},
		{"largest", pad(64 << 10), "", 201, ""},
		{"too large", pad(64<<10 + 1), "", 413, "PAYLOAD_TOO_LARGE"},
		{"too large text", pad(64<<10 + 1), "Content-Type: text/plain", 413, "PAYLOAD_TOO_LARGE"},
	} {
		headers := []string{test.header}
		if test.header == "" {
			headers = nil
		}
		if r := f.post(waitlist, test.body, headers...); r.status != test.status || test.code != "" && r.code(t) != test.code {
			t.Errorf("%s: %d %s, want %d %s", test.name, r.status, r.body, test.status, test.code)
		}
	}
}

// rawRequest sends a text over a connection and returns the response.
func (f *fixture) rawRequest(text string, closeWrite bool) response {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	check(f.t, err)
	defer func() { _ = conn.Close() }()
	_, err = conn.Write([]byte(text))
	check(f.t, err)
	if closeWrite {
		check(f.t, conn.(*net.TCPConn).CloseWrite())
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(f.t, err)
	defer func() { _ = resp.Body.Close() }()
	var b strings.Builder
	_, err = bufio.NewReader(resp.Body).WriteTo(&b)
	check(f.t, err)
	return response{resp.StatusCode, resp.Header, b.String()}
}

func TestBody_EndsEarlyOrHasNoLength(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	head := "POST " + waitlist + " HTTP/1.1\r\nHost: a.example\r\n"
	r := f.rawRequest(head+"Content-Length: 100\r\n\r\n{\"email\":", true)
	if r.status != 400 || r.code(t) != "INVALID_REQUEST" || !strings.Contains(r.body, "could not be read") {
		t.Errorf("a body that ends early: %d %s, want INVALID_REQUEST", r.status, r.body)
	}
	chunk := strings.Repeat("x", 1<<10)
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(fmt.Sprintf("%x\r\n%s\r\n", len(chunk), chunk), 65) + "0\r\n\r\n"
	if r := f.rawRequest(chunked, false); r.status != 413 || r.code(t) != "PAYLOAD_TOO_LARGE" {
		t.Errorf("a chunked body over the limit: %d %s, want PAYLOAD_TOO_LARGE", r.status, r.body)
	}
	valid := body(waitlist, nil)
	chunked = head + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(valid), valid)
	if r := f.rawRequest(chunked, false); r.status != 201 {
		t.Errorf("a chunked body: %d %s, want 201", r.status, r.body)
	}
	if got := f.emails(); !slices.Equal(got, []string{"ada@example.com"}) {
		t.Errorf("the waitlist has %q, want one address", got)
	}
}

// A script of any page can send a body without a Content-Type, such as a Blob. Only JSON
// makes the browser send a preflight request first.
func TestPost_FromPageMustDeclareJSON(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{origins: []string{"https://www.example.com"}})
	for _, origin := range []string{"https://www.example.com", "https://other.example", "null"} {
		for _, text := range []string{body(waitlist, nil), ""} {
			if r := f.post(waitlist, text, "Content-Type: ", "Origin: "+origin); r.status != 415 || r.code(t) != "UNSUPPORTED_MEDIA_TYPE" {
				t.Errorf("a body of %d bytes of the origin %s without Content-Type: %d %s, want 415", len(text), origin, r.status, r.body)
			}
		}
	}
	if got := f.emails(); len(got) != 0 {
		t.Errorf("the waitlist has %v, want nothing", got)
	}
	if r := f.post(waitlist, body(waitlist, nil), "Origin: https://www.example.com"); r.status != 201 {
		t.Errorf("JSON of an allowed origin: %d %s, want 201", r.status, r.body)
	}
}
