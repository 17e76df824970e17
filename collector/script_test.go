package collector

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/collector/snippet"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

type scriptResponse struct {
	status int
	header http.Header
	body   []byte
}

// fetch sends a request and does not decompress the response.
func (e *edge) fetch(method, path string, headers ...string) scriptResponse {
	e.t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	e.collector.handler.ServeHTTP(w, r)
	return scriptResponse{w.Code, w.Header(), w.Body.Bytes()}
}

type scriptInfo struct {
	URL       string `json:"url"`
	Integrity string `json:"integrity"`
	Bytes     int    `json:"bytes"`
	GzipBytes int    `json:"gzip_bytes"`
}

// scriptInfo returns the properties of the script that the collector publishes.
func (e *edge) scriptInfo() scriptInfo {
	e.t.Helper()
	var info scriptInfo
	check(e.t, json.Unmarshal(e.fetch("GET", "/v1/script.json").body, &info))
	return info
}

func TestScript_IsServedAtAllPaths(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	pinned := e.scriptInfo().URL
	for path, cache := range map[string]string{
		"/v1/":          "public, max-age=3600, stale-while-revalidate=86400",
		"/v1/script.js": "public, max-age=3600, stale-while-revalidate=86400",
		pinned:          "public, max-age=31536000, immutable",
	} {
		got := e.fetch("GET", path)
		for header, want := range map[string]string{
			"Content-Type":                 "text/javascript; charset=utf-8",
			"Cache-Control":                cache,
			"X-Content-Type-Options":       "nosniff",
			"Access-Control-Allow-Origin":  "*",
			"Cross-Origin-Resource-Policy": "cross-origin",
			"Vary":                         "Accept-Encoding",
			"Content-Encoding":             "",
			"Content-Length":               strconv.Itoa(len(snippet.Script)),
		} {
			if got.header.Get(header) != want {
				t.Errorf("GET %s: the header %s is %q, want %q", path, header, got.header.Get(header), want)
			}
		}
		if got.status != 200 || !bytes.Equal(got.body, snippet.Script) {
			t.Errorf("GET %s: status %d with %d bytes, want 200 with the script", path, got.status, len(got.body))
		}
		head := e.fetch("HEAD", path)
		if head.status != 200 || len(head.body) != 0 || head.header.Get("Content-Length") != got.header.Get("Content-Length") {
			t.Errorf("HEAD %s: status %d with %d bytes and headers %v, want 200 without a body and with the same Content-Length as GET", path, head.status, len(head.body), head.header)
		}
	}
}

func TestScript_IsCompressedForClientsThatAcceptGzip(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	for acceptEncoding, wantGzip := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "br, gzip;q=0.5": true, "deflate, gzip ; q=1.0": true,
		"gzip;q=0": false, "gzip; q=0.000": false, "gzip;q=x": false, "br": false, "x-gzip": false, "identity": false,
	} {
		got := e.fetch("GET", "/v1/script.js", "Accept-Encoding", acceptEncoding)
		body := got.body
		if got.header.Get("Content-Length") != strconv.Itoa(len(body)) || got.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: headers %v, want Content-Length %d and Vary: Accept-Encoding", acceptEncoding, got.header, len(body))
		}
		if (got.header.Get("Content-Encoding") == "gzip") != wantGzip {
			t.Errorf("Accept-Encoding %q: the header Content-Encoding is %q, want gzip: %t", acceptEncoding, got.header.Get("Content-Encoding"), wantGzip)
			continue
		}
		if wantGzip {
			reader, err := gzip.NewReader(bytes.NewReader(body))
			check(t, err)
			body, err = io.ReadAll(reader)
			check(t, err)
		}
		if !bytes.Equal(body, snippet.Script) {
			t.Errorf("Accept-Encoding %q: the decompressed body is not the script", acceptEncoding)
		}
	}
}

func TestScript_IsNotSentAgainWithMatchingETag(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	tag := e.fetch("GET", "/v1/script.js").header.Get("ETag")
	for ifNoneMatch, status := range map[string]int{
		tag: 304, strings.TrimPrefix(tag, "W/"): 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, "": 200,
	} {
		for _, path := range []string{"/v1/", "/v1/script.js", e.scriptInfo().URL, "/v1/script.json"} {
			got := e.fetch("GET", path, "If-None-Match", ifNoneMatch, "Accept-Encoding", "gzip")
			if got.status != status || (len(got.body) == 0) != (status == 304) || got.header.Get("ETag") != tag || got.header.Get("X-Request-Id") != "" || got.header.Get("Cache-Control") == "" {
				t.Errorf("%s with If-None-Match %s: status %d with %d bytes and headers %v; want %d, a body only with 200, the ETag %s, Cache-Control and no X-Request-Id",
					path, ifNoneMatch, got.status, len(got.body), got.header, status, tag)
			}
			if status == 304 && (got.header.Get("Content-Encoding") != "" || got.header.Get("Content-Type") != "") {
				t.Errorf("%s: a response with the status 304 has headers that describe a body: %v", path, got.header)
			}
		}
	}
}

func TestScript_IntegrityIsPublished(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	info := e.scriptInfo()
	script := e.fetch("GET", info.URL).body
	compressed := e.fetch("GET", info.URL, "Accept-Encoding", "gzip").body
	digest := sha512.Sum384(script)
	if want := (scriptInfo{info.URL, "sha384-" + base64.StdEncoding.EncodeToString(digest[:]), len(script), len(compressed)}); info != want {
		t.Errorf("/v1/script.json contains %+v, want %+v", info, want)
	}
	got := e.fetch("GET", "/v1/script.json")
	if got.header.Get("Content-Type") != "application/json" || got.header.Get("Cache-Control") != "no-cache" || got.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("/v1/script.json has the headers %v, want JSON, no-cache and CORS for every origin", got.header)
	}
	// Another script must have another pinned path.
	for path := range scriptDocuments([]byte("another")) {
		if path == info.URL {
			t.Errorf("two different scripts have the pinned path %s", path)
		}
	}
}

func TestScript_RefusesOtherPathsAndMethods(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	for _, path := range []string{"/v1", "/v1/script", "/v1/script.0123456789abcdef.js", "/v1/script.js/", "/v1/script.js.map", "/script.js"} {
		if got := e.send("GET", path, ""); got.status != 404 || got.body["code"] != "NOT_FOUND" {
			t.Errorf("GET %s: status %d, want 404 NOT_FOUND: %s", path, got.status, got.text)
		}
	}
	for _, path := range []string{"/v1/", "/v1/script.js", e.scriptInfo().URL, "/v1/script.json"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
			if got := e.send(method, path, ""); got.status != 405 || got.body["code"] != "METHOD_NOT_ALLOWED" || got.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: status %d with Allow %q, want 405 METHOD_NOT_ALLOWED with GET, HEAD: %s", method, path, got.status, got.header.Get("Allow"), got.text)
			}
		}
	}
	secure := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.AllowHTTP = false })
	if got := secure.send("GET", "/v1/script.js", ""); got.status != 403 || got.body["code"] != "HTTPS_REQUIRED" {
		t.Errorf("over plain HTTP: status %d, want 403 HTTPS_REQUIRED: %s", got.status, got.text)
	}
}

// If the request came through a first-party proxy, the collector sets the cookie, because
// browsers keep such a cookie longer than a cookie that a script sets.
func TestCookie_OfFirstPartyProxy(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	put := func(code, model string, days int32) {
		e.version++
		check(t, put(t.Context(), e.writer, func(b *directory.Batch) {
			b.PutReferralCode(e.version, e.scope(), code, &edgev1.ReferralCodeEntry{
				ProgramId: e.program.UUID[:], ParticipantId: e.program.UUID[:], Active: true, AttributionWindowDays: days, AttributionModel: model,
			})
		}))
	}
	put("first", "first_click", 30)
	put("long", "last_click", 500)
	const month, site = "; Path=/; Domain=shop.example; Max-Age=2592000; Secure; SameSite=Lax", "https://www.shop.example"
	other := affiliate.NewID[affiliate.ClickID](time.Now()).String()
	for _, c := range []struct {
		name, code, consent, fetchSite, origin, cookie string
		want                                           string // the cookie after aff_click_id=<id>, or "" for no cookie
	}{
		{"the page's own origin", "anna", "", "same-origin", site, "", month},
		{"consent granted", "anna", "granted", "same-origin", site, "", month},
		{"consent denied", "anna", "denied", "same-origin", site, "", ""},
		{"another site", "anna", "", "cross-site", site, "", ""},
		{"another host of the site", "anna", "", "same-site", site, "", ""},
		{"a server, which sends neither header", "anna", "", "", "", "", ""},
		{"an old browser, which sends no Sec-Fetch-Site", "anna", "", "", site, "", ""},
		{"last_click replaces an existing cookie", "anna", "", "same-origin", site, other, month},
		{"first_click keeps an existing cookie", "first", "", "same-origin", site, other, ""},
		{"first_click replaces an invalid cookie", "first", "", "same-origin", site, "x", month},
		{"first_click without an existing cookie", "first", "", "same-origin", site, "", month},
		{"a window longer than browsers keep cookies", "long", "", "same-origin", site, "", "; Path=/; Domain=shop.example; Max-Age=34560000; Secure; SameSite=Lax"},
		{"a public suffix of two labels", "anna", "", "same-origin", "https://eu.shop.co.uk:8443", "", "; Path=/; Domain=shop.co.uk; Max-Age=2592000; Secure; SameSite=Lax"},
		{"capital letters", "anna", "", "same-origin", "https://WWW.Shop.Example", "", month},
		{"a host that is a public suffix", "anna", "", "same-origin", "https://github.io", "", "; Path=/; Max-Age=2592000; Secure; SameSite=Lax"},
		{"a host below a public suffix", "anna", "", "same-origin", "https://me.github.io", "", "; Path=/; Domain=me.github.io; Max-Age=2592000; Secure; SameSite=Lax"},
		{"plain HTTP", "anna", "", "same-origin", "http://localhost:8080", "", "; Path=/; Max-Age=2592000; SameSite=Lax"},
		{"an IPv4 address", "anna", "", "same-origin", "https://192.0.2.7", "", "; Path=/; Max-Age=2592000; Secure; SameSite=Lax"},
		{"an IPv6 address", "anna", "", "same-origin", "https://[2001:db8::1]:8443", "", "; Path=/; Max-Age=2592000; Secure; SameSite=Lax"},
		{"the origin null", "anna", "", "same-origin", "null", "", "; Path=/; Max-Age=2592000; Secure; SameSite=Lax"},
		{"an invalid origin", "anna", "", "same-origin", "https://%zz", "", "; Path=/; Max-Age=2592000; Secure; SameSite=Lax"},
		{"no origin", "anna", "", "same-origin", "", "", "; Path=/; Max-Age=2592000; Secure; SameSite=Lax"},
	} {
		var headers []string
		for name, value := range map[string]string{"Sec-Fetch-Site": c.fetchSite, "Origin": c.origin} {
			if value != "" {
				headers = append(headers, name, value)
			}
		}
		if c.cookie != "" {
			headers = append(headers, "Cookie", "a=b; aff_click_id="+c.cookie)
		}
		got := e.click(`{"referral_code":"`+c.code+`","consent":"`+c.consent+`"}`, headers...)
		if got.status != 201 {
			t.Fatalf("%s: status %d, want 201: %s", c.name, got.status, got.text)
		}
		want := c.want
		if want != "" {
			want = "aff_click_id=" + got.body["click_id"].(string) + want
		}
		if cookie := strings.Join(got.header.Values("Set-Cookie"), "\n"); cookie != want {
			t.Errorf("%s: the header Set-Cookie is %q, want %q", c.name, cookie, want)
		}
	}
}

// The response to a repeated request sets a cookie with the same click id. Error
// responses set no cookie.
func TestCookie_IsSetBySuccessfulResponsesOnly(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	page := []string{"Sec-Fetch-Site", "same-origin", "Origin", "https://shop.example"}
	id := affiliate.NewID[affiliate.ClickID](time.Now()).String()
	for _, status := range []int{201, 200} {
		got := e.click(`{"referral_code":"anna","click_id":"`+id+`"}`, page...)
		if cookie := got.header.Get("Set-Cookie"); got.status != status || !strings.HasPrefix(cookie, "aff_click_id="+id+";") {
			t.Errorf("status %d with the cookie %q, want %d with the id %s", got.status, cookie, status, id)
		}
	}
	for _, body := range []string{`{"referral_code":"nobody"}`, `{`} {
		if got := e.click(body, page...); got.status < 400 || got.header.Get("Set-Cookie") != "" {
			t.Errorf("the body %s: status %d with the cookie %q, want an error without a cookie", body, got.status, got.header.Get("Set-Cookie"))
		}
	}
	// While the directory cannot be read, the attribution window is not known.
	check(t, e.client.FlushDB(t.Context()).Err())
	withoutDirectory := newEdge(t, e.url)
	check(t, withoutDirectory.client.FlushDB(t.Context()).Err())
	got := withoutDirectory.click(`{"referral_code":"anna"}`, page...)
	if cookie := got.header.Get("Set-Cookie"); got.status != 201 || !strings.HasSuffix(cookie, "; Domain=shop.example; Max-Age=2592000; Secure; SameSite=Lax") {
		t.Errorf("without the directory: status %d with the cookie %q, want 201 with the default age of 30 days", got.status, cookie)
	}
	// The attribution model is not known either, so an existing cookie stays.
	got = withoutDirectory.click(`{"referral_code":"anna"}`, append(page, "Cookie", "aff_click_id="+id)...)
	if cookie := got.header.Get("Set-Cookie"); got.status != 201 || cookie != "" {
		t.Errorf("without the directory and with an existing cookie: status %d with the cookie %q, want 201 without a cookie", got.status, cookie)
	}
}
