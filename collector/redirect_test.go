package collector

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const (
	annasKey    = "Anna000key"
	inactiveKey = "Inactive00"
)

// annasLink returns the directory entry of a link with the referral code anna.
func (e *edge) annasLink() *edgev1.LinkEntry {
	return &edgev1.LinkEntry{
		WorkspaceId: e.workspace.UUID[:], Mode: edgev1.Mode_MODE_TEST, ProgramId: e.program.UUID[:],
		ParticipantId: e.program.UUID[:], LinkId: e.workspace.UUID[:], ReferralCode: "anna",
		TargetUrl: "https://shop.example/p/ü?color=red&via=anna&sub_id=s1&utm_source=mail#top",
		Active:    true, AttributionWindowDays: 30, SubId: "s1", UtmSource: "mail",
	}
}

// newLinkEdge returns an edge whose directory also contains an active and an inactive
// link.
func newLinkEdge(t *testing.T, url string, change ...func(*Config)) *edge {
	t.Helper()
	e := newEdge(t, url, change...)
	e.putLink(annasKey, e.annasLink())
	inactive := e.annasLink()
	inactive.Active = false
	e.putLink(inactiveKey, inactive)
	return e
}

func (e *edge) putLink(key string, entry *edgev1.LinkEntry) {
	e.t.Helper()
	e.version++
	check(e.t, put(context.Background(), e.writer, func(b *directory.Batch) { b.PutLink(e.version, key, entry) }))
}

// linkResponse is the response to a visitor who opens a link.
type linkResponse struct {
	status int
	header http.Header
	body   string
}

// followLink sends the request of a visitor who opens a link. The header "peer" stands
// for the visitor's address.
func (e *edge) followLink(method, path string, headers ...string) linkResponse {
	e.t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), method, path, nil)
	r.RemoteAddr = "203.0.113.9:4711"
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "peer" {
			r.RemoteAddr = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	e.collector.handler.ServeHTTP(w, r)
	return linkResponse{w.Code, w.Header(), w.Body.String()}
}

// splitLocation splits the header Location of a redirect into the target URL and the
// click id.
func splitLocation(t *testing.T, response linkResponse) (target, clickID string) {
	t.Helper()
	u, err := url.Parse(response.header.Get("Location"))
	check(t, err)
	clickID = u.Query().Get(link.ClickIDParam)
	return strings.NewReplacer("&aff_click_id="+clickID, "", "?aff_click_id="+clickID, "").Replace(u.String()), clickID
}

const annasTarget = "https://shop.example/p/%C3%BC?color=red&via=anna&sub_id=s1&utm_source=mail#top"

func TestLink_ResponsesByRequest(t *testing.T) {
	e := newLinkEdge(t, redistest.New(t))
	for _, c := range []struct {
		name, method, path string
		headers            []string
		status             int
		target             string
		counted            bool // whether the collector stores a click
	}{
		{name: "a visitor", path: "/r/" + annasKey, status: 302, target: annasTarget, counted: true},
		{name: "an escaped key", path: "/r/%41nna000key", status: 302, target: annasTarget, counted: true},
		{name: "HEAD", method: "HEAD", path: "/r/" + annasKey, status: 302, target: annasTarget},
		{name: "a prefetch", path: "/r/" + annasKey, headers: []string{"Sec-Purpose", "prefetch;prerender"}, status: 302, target: annasTarget},
		{name: "a prefetch of an old browser", path: "/r/" + annasKey, headers: []string{"Purpose", "Prefetch"}, status: 302, target: annasTarget},
		{name: "a prerender", path: "/r/" + annasKey, headers: []string{"Sec-Purpose", "prerender"}, status: 302, target: annasTarget},
		{name: "another purpose", path: "/r/" + annasKey, headers: []string{"Sec-Purpose", "other"}, status: 302, target: annasTarget, counted: true},

		{name: "an unknown key", path: "/r/0000000000", status: 404},
		{name: "an unknown key, HEAD", method: "HEAD", path: "/r/0000000000", status: 404},
		{name: "a key in other case", path: "/r/anna000KEY", status: 404},
		{name: "an inactive link", path: "/r/" + inactiveKey, status: 404},
		{name: "an inactive link, prefetched", path: "/r/" + inactiveKey, headers: []string{"Sec-Purpose", "prefetch"}, status: 404},
		{name: "nine characters", path: "/r/Anna000ke", status: 404},
		{name: "eleven characters", path: "/r/Anna000key0", status: 404},
		{name: "a trailing slash", path: "/r/Anna000key/", status: 404},
		{name: "not base62", path: "/r/Anna000ke-", status: 404},
		{name: "letters outside ASCII", path: "/r/Anna000k%C3%AB", status: 404},
		{name: "ten characters with colons", path: "/r/:complete:", status: 404},
		{name: "no key", path: "/r/", status: 404},

		{name: "POST", method: "POST", path: "/r/" + annasKey, status: 405},
		{name: "OPTIONS", method: "OPTIONS", path: "/r/" + annasKey, status: 405},
		{name: "DELETE", method: "DELETE", path: "/r/short", status: 405},
	} {
		t.Run(c.name, func(t *testing.T) {
			method := c.method
			if method == "" {
				method = http.MethodGet
			}
			before := len(e.storedClicks())
			got := e.followLink(method, c.path, c.headers...)
			if got.status != c.status || got.header.Get("X-Request-Id") == "" || got.header.Get("Cache-Control") != "no-store" ||
				got.header.Get("Access-Control-Allow-Origin") != "" {
				t.Fatalf("status %d with headers %v, want %d with a request id, no-store and no CORS headers", got.status, got.header, c.status)
			}
			switch c.status {
			case 302:
				target, clickID := splitLocation(t, got)
				if target != c.target || (clickID != "") != c.counted || len(got.body) > 0 {
					t.Errorf("Location %s and body %q; want the target %s, a click id: %t, and no body", got.header.Get("Location"), got.body, c.target, c.counted)
				}
			case 404:
				if got.header.Get("Content-Type") != "text/html; charset=utf-8" || got.header.Get("X-Content-Type-Options") != "nosniff" ||
					got.header.Get("Content-Security-Policy") != "default-src 'none'" || got.header.Get("Location") != "" ||
					strings.Contains(got.body, "</html>") != (method != http.MethodHead) || len(got.body) > 1024 {
					t.Errorf("headers %v and body %q, want a short HTML page (no body after HEAD) without Location", got.header, got.body)
				}
			case 405:
				if got.header.Get("Allow") != "GET, HEAD" {
					t.Errorf("the header Allow is %q, want GET, HEAD", got.header.Get("Allow"))
				}
			}
			want := 0
			if c.counted {
				want = 1
			}
			if n := len(e.storedClicks()) - before; n != want {
				t.Errorf("%d clicks were stored, want %d", n, want)
			}
		})
	}
	for outcome, want := range map[string]float64{redirectRecorded: 3, redirectUncounted: 4, redirectLimited: 0, redirectNotDurable: 0} {
		if got := testutil.ToFloat64(e.collector.deps.metrics.redirects.WithLabelValues(outcome)); got != want {
			t.Errorf("the metric of redirects with the outcome %s is %v, want %v", outcome, got, want)
		}
	}
}

// The collector stores a click of a short link with the same values as a click of the
// script.
func TestLink_RecordEqualsScriptRecord(t *testing.T) {
	const agent = windows + "Chrome/121.0.0.0 Safari/537.36"
	path := filepath.Join(t.TempDir(), "c.mmdb")
	check(t, os.WriteFile(path, mmdb(t, "GeoLite2-City", map[string]mmdbtype.Map{"203.0.113.0/24": placeRecord("CH", "ZH")}), 0o600))
	e := newLinkEdge(t, redistest.New(t), func(cfg *Config) { cfg.CountryDB = path })
	e.version++
	check(t, put(t.Context(), e.writer, func(b *directory.Batch) {
		b.PutReferralCode(e.version, e.scope(), "anna", &edgev1.ReferralCodeEntry{
			ProgramId: e.program.UUID[:], ParticipantId: e.program.UUID[:], LinkId: e.workspace.UUID[:], Active: true, AttributionWindowDays: 30,
		})
	}))
	response := e.followLink("GET", "/r/"+annasKey+"?utm_campaign=spring+sale&utm_source=&gclid=x",
		"User-Agent", agent, "Referer", "https://News.Example:8443/secret?q")
	_, id := splitLocation(t, response)
	if got := e.click(`{"referral_code":"anna","url":"https://shop.example/p/ü?gclid=x","referrer":"https://news.example/","sub_id":"s1",
		"utm":{"source":"mail","campaign":"spring sale"}}`, "User-Agent", agent); got.status != 201 {
		t.Fatalf("a click of the script: status %d, want 201: %s", got.status, got.text)
	}
	clicks := e.storedClicks()
	if len(clicks) != 2 {
		t.Fatalf("%d clicks stored, want 2", len(clicks))
	}
	if stored, _ := affiliate.IDFromBytes[affiliate.ClickID](clicks[0].Id); stored.String() != id {
		t.Errorf("the stored click is %s, but the visitor got %s", stored, id)
	}
	for _, click := range clicks {
		if idTime, _ := (affiliate.ClickID{UUID: [16]byte(click.Id)}).Time(); idTime.UnixMilli() != click.ReceivedAtMs || time.Since(idTime) > time.Minute {
			t.Errorf("the time in the click id is %s and the time of receipt %d ms, want the same recent time", idTime, click.ReceivedAtMs)
		}
		click.Id, click.ReceivedAtMs = nil, 0
	}
	if !proto.Equal(clicks[0], clicks[1]) || len(clicks[0].IpHash) == 0 || clicks[0].Country != "CH" || clicks[0].Region != "ZH" ||
		clicks[0].Device != "desktop" || clicks[0].Browser != "Chrome" || clicks[0].Os != "Windows" || clicks[0].PaidPlatform != "google" || clicks[0].IsBot || clicks[0].Consent != edgev1.Consent_CONSENT_UNKNOWN {
		t.Errorf("the stored clicks differ or lack values:\nlink   %v\nscript %v", clicks[0], clicks[1])
	}
}

// Only the parameters in linkParamNames are passed from the visitor's query to the target
// URL and to the record. The query must not change anything else in the target URL, and
// no value may break the header Location.
func TestLink_QueryOfVisitor(t *testing.T) {
	e := newLinkEdge(t, redistest.New(t))
	long, tooLong := strings.Repeat("ü", 255), strings.Repeat("ü", 256)
	for _, c := range []struct {
		name, query         string
		subID, source, term string
		targetParts         []string // the target URL contains these parts
	}{
		{"no query", "", "s1", "mail", "", []string{"sub_id=s1&utm_source=mail"}},
		{"visitor's parameters", "sub_id=mine&utm_source=web&utm_term=t", "mine", "web", "t", []string{"&sub_id=mine&utm_source=web&utm_term=t#top"}},
		{"escaped names", "sub%5Fid=mine&%75tm_source=web", "mine", "web", "", []string{"sub_id=mine&utm_source=web"}},
		{"empty values", "sub_id=&utm_source", "s1", "mail", "", nil},
		{"white space", "sub_id=%20&utm_source=+%09", "s1", "mail", "", nil},
		{"repeated parameter", "sub_id=&sub_id=a&sub_id=b", "a", "mail", "", []string{"&sub_id=a#"}},
		{"255 characters", "utm_term=" + url.QueryEscape(long), "s1", "mail", long, nil},
		{"256 characters", "utm_term=" + url.QueryEscape(tooLong), "s1", "mail", "", nil},
		{"other parameters", "via=mallory&aff_click_id=x&url=https://evil.example&next=//evil.example&UTM_TERM=x&utm_id=9&gclid=1", "s1", "mail", "", nil},
		{"broken escapes", "sub_id=%zz&utm_source=%&%=x", "s1", "mail", "", nil},
		{"NUL", "sub_id=a%00b", "s1", "mail", "", nil},
		{"invalid UTF-8", "sub_id=%ff%fe", "s1", "mail", "", nil},
		{"a value with a header line", "sub_id=a%0d%0aSet-Cookie:%20x=1%0d%0a%0d%0abody", "a\r\nSet-Cookie: x=1\r\n\r\nbody", "mail", "", []string{"sub_id=a%0D%0ASet-Cookie%3A+x%3D1%0D%0A%0D%0Abody"}},
		{"a value with another parameter", "sub_id=a%26via%3Dmallory%23", "a&via=mallory#", "mail", "", []string{"sub_id=a%26via%3Dmallory%23"}},
		{"a value with a host", "sub_id=@evil.example/%2f..%5c", "@evil.example//..\\", "mail", "", []string{"sub_id=%40evil.example%2F%2F..%5C"}},
		{"semicolons", "sub_id=a;utm_source=b", "a;utm_source=b", "mail", "", []string{"sub_id=a%3Butm_source%3Db"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := e.followLink("GET", "/r/"+annasKey+"?"+c.query)
			target, id := splitLocation(t, got)
			u, err := url.Parse(target)
			check(t, err)
			query := u.Query()
			if got.status != 302 || id == "" || len(got.header["Location"]) != 1 || strings.ContainsAny(got.header.Get("Location"), "\r\n ") ||
				u.Scheme != "https" || u.Host != "shop.example" || u.Path != "/p/ü" || u.Fragment != "top" || u.User != nil {
				t.Fatalf("status %d with Location %q, want a redirect to https://shop.example/p/ü#top with a click id", got.status, got.header.Get("Location"))
			}
			for name, want := range map[string]string{"color": "red", "via": "anna", "sub_id": c.subID, "utm_source": c.source, "utm_term": c.term} {
				if values := query[name]; query.Get(name) != want || len(values) > 1 {
					t.Errorf("%s is %q in %s, want one value %q", name, values, target, want)
				}
				query.Del(name)
			}
			if len(query) > 0 {
				t.Errorf("the target URL has other parameters: %v", query)
			}
			for _, part := range c.targetParts {
				if !strings.Contains(target, part) {
					t.Errorf("the target URL %s does not contain %s", target, part)
				}
			}
			clicks := e.storedClicks()
			click := clicks[len(clicks)-1]
			if click.SubId != c.subID || click.UtmSource != c.source || click.UtmTerm != c.term || click.LandingUrl != "https://shop.example/p/%C3%BC" {
				t.Errorf("stored %v, want sub_id %q, utm_source %q, utm_term %q and the URL of the target", click, c.subID, c.source, c.term)
			}
		})
	}
}

func TestLink_RecordsHostOfReferrer(t *testing.T) {
	e := newLinkEdge(t, redistest.New(t))
	for referrer, want := range map[string]string{
		"": "", "https://News.example/a?b": "news.example", "android-app://com.example/": "com.example",
		"about:blank": "", "/relative": "", "http://" + strings.Repeat("a.", 200) + "example/": "", "http://%00/": "",
	} {
		if got := e.followLink("GET", "/r/"+annasKey, "Referer", referrer); got.status != 302 {
			t.Fatalf("referrer %q: status %d, want 302", referrer, got.status)
		}
		clicks := e.storedClicks()
		if got := clicks[len(clicks)-1].ReferrerDomain; got != want {
			t.Errorf("the referrer %q is stored as %q, want %q", referrer, got, want)
		}
	}
}

// The record contains the parameters of the target URL, because a click of the script on
// the target page would contain them too.
func TestLink_RecordsParametersOfTarget(t *testing.T) {
	e := newLinkEdge(t, redistest.New(t))
	entry := e.annasLink()
	entry.TargetUrl, entry.SubId, entry.UtmSource = "https://shop.example/?utm_medium=page&utm_term=t&via=anna#utm_content=no", "", ""
	e.putLink("0123456789", entry)
	got := e.followLink("GET", "/r/0123456789?utm_term=mine")
	if target, id := splitLocation(t, got); id == "" || target != "https://shop.example/?utm_medium=page&via=anna&utm_term=mine#utm_content=no" {
		t.Errorf("status %d with Location %s, want the target URL with the visitor's utm_term and a click id", got.status, got.header.Get("Location"))
	}
	if click := e.storedClicks()[0]; click.UtmMedium != "page" || click.UtmTerm != "mine" || click.UtmContent != "" || click.LandingUrl != "https://shop.example/" {
		t.Errorf("stored %v, want utm_medium page of the target and utm_term mine of the visitor", click)
	}
}

func TestLink_LiveModeNeedsHTTPS(t *testing.T) {
	e := newLinkEdge(t, redistest.New(t), func(cfg *Config) { cfg.AllowHTTP = false })
	live := e.annasLink()
	live.Mode = edgev1.Mode_MODE_LIVE
	e.putLink("livelive00", live)
	if got := e.followLink("GET", "/r/livelive00"); got.status != 403 || got.header.Get("Location") != "" {
		t.Errorf("over plain HTTP: status %d with Location %q, want 403 without Location", got.status, got.header.Get("Location"))
	}
	got := e.followLink("GET", "/r/livelive00", "peer", "192.0.2.1:1", "X-Forwarded-Proto", "https", "X-Forwarded-For", "198.51.100.7", "X-Request-Id", "mine-1")
	if got.status != 302 || got.header.Get("Strict-Transport-Security") == "" || got.header.Get("X-Request-Id") != "mine-1" {
		t.Fatalf("over HTTPS: status %d with headers %v, want 302 with Strict-Transport-Security and the request id mine-1", got.status, got.header)
	}
	if click := e.storedClicks()[0]; click.Mode != edgev1.Mode_MODE_LIVE || click.IpPrefix != "198.51.100.0/24" {
		t.Errorf("stored %v, want the live mode and the network of the visitor's address", click)
	}
}

// If an address is over its limit, the collector still redirects visitors, but registers
// no clicks. HEAD requests and prefetches do not count towards the limit.
func TestLink_RedirectsVisitorsOverLimit(t *testing.T) {
	e := newLinkEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking = 20 })
	var withID atomic.Int64
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			for range 8 {
				e.followLink("HEAD", "/r/"+annasKey)
				e.followLink("GET", "/r/"+annasKey, "Purpose", "prefetch")
				got := e.followLink("GET", "/r/"+annasKey)
				target, id := splitLocation(t, got)
				if got.status != 302 || target != annasTarget {
					t.Errorf("status %d to %s, want 302 to %s", got.status, target, annasTarget)
				}
				if id != "" {
					withID.Add(1)
				}
			}
		})
	}
	group.Wait()
	limited := testutil.ToFloat64(e.collector.deps.metrics.redirects.WithLabelValues(redirectLimited))
	if withID.Load() != 20 || len(e.storedClicks()) != 20 || limited != 20 {
		t.Errorf("40 visits: %d with a click id, %d clicks stored, %v limited; want 20 of each", withID.Load(), len(e.storedClicks()), limited)
	}
	if _, id := splitLocation(t, e.followLink("GET", "/r/"+annasKey, "peer", "198.51.100.1:1")); id == "" {
		t.Error("a visit from another address has no click id")
	}
}

func TestLink_FullQueueRedirectsWithoutClick(t *testing.T) {
	e := newLinkEdge(t, redistest.New(t))
	e.collector.batches.records.Add(queueRecords)
	defer e.collector.batches.records.Add(-queueRecords)
	if target, id := splitLocation(t, e.followLink("GET", "/r/"+annasKey)); id != "" || target != annasTarget {
		t.Errorf("redirect to %s with the click id %q, want %s without a click id", target, id, annasTarget)
	}
	if got := testutil.ToFloat64(e.collector.deps.metrics.redirects.WithLabelValues(redirectNotDurable)); got != 1 {
		t.Errorf("the metric of redirects with the outcome not_durable is %v, want 1", got)
	}
}

func TestLink_UnreadableDirectoryRespondsWith503(t *testing.T) {
	e := newLinkEdge(t, redistest.New(t))
	check(t, e.client.FlushDB(t.Context()).Err())
	got := e.followLink("GET", "/r/"+annasKey)
	retry := got.header.Get("Retry-After")
	if got.status != 503 || len(retry) != 1 || retry < "1" || retry > "5" || got.header.Get("Content-Type") != "text/html; charset=utf-8" ||
		got.header.Get("Content-Security-Policy") != "default-src 'none'" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("status %d with headers %v, want an HTML page with 503 and Retry-After of 1 to 5 seconds", got.status, got.header)
	}
	e.fillDirectory()
	e.putLink(annasKey, e.annasLink())
	if _, id := splitLocation(t, e.followLink("GET", "/r/"+annasKey)); id == "" {
		t.Error("after the rebuild of the directory: the redirect has no click id")
	}
}

// Redis is killed or hangs under load. Every visitor of a link that is cached is
// redirected. If the redirect has a click id, the click is stored.
func TestLink_LostRedisRedirectsVisitors(t *testing.T) {
	for name, stopRedis := range map[string]func(*redistest.Server) (restart func()){
		"killed": func(s *redistest.Server) func() { s.Kill9(); return s.Restart },
		"paused": func(s *redistest.Server) func() { s.Pause(); return s.Resume },
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			e := newLinkEdge(t, server.URL, func(cfg *Config) { cfg.LimitTracking = 1_000_000 })
			var mu sync.Mutex
			var acknowledged []string
			var withoutID, afterRestart atomic.Int64
			var restarted, stop atomic.Bool
			var group sync.WaitGroup
			// The first visit puts the link into the cache of the directory reader.
			if _, id := splitLocation(t, e.followLink("GET", "/r/"+annasKey)); id == "" {
				t.Fatal("the first redirect has no click id")
			}
			for range 8 {
				group.Go(func() {
					for !stop.Load() {
						got := e.followLink("GET", "/r/"+annasKey)
						target, id := splitLocation(t, got)
						if got.status != 302 || target != annasTarget {
							t.Errorf("status %d to %s, want 302 to %s", got.status, target, annasTarget)
							return
						}
						if id == "" {
							withoutID.Add(1)
							continue
						}
						mu.Lock()
						acknowledged = append(acknowledged, id)
						mu.Unlock()
						if restarted.Load() {
							afterRestart.Add(1)
						}
					}
				})
			}
			// A failed wait ends the test, so stop the visitors even then.
			stopVisitors := sync.OnceFunc(func() { stop.Store(true); group.Wait() })
			defer stopVisitors()
			waitFor(t, "more than 20 redirects with a click id", func() bool { mu.Lock(); defer mu.Unlock(); return len(acknowledged) > 20 })
			restart := stopRedis(server)
			waitFor(t, "a redirect without a click id", func() bool { return withoutID.Load() > 0 })
			if got := e.followLink("GET", "/r/0000000000"); got.status != 503 {
				t.Errorf("a link that is not cached: status %d, want 503", got.status)
			}
			restart()
			restarted.Store(true)
			waitFor(t, "more than 20 redirects with a click id after the restart", func() bool { return afterRestart.Load() > 20 })
			stopVisitors()
			requireStored(t, e.storedClicks(), acknowledged, false)
		})
	}
}

// A collector that is restarted while Redis does not respond redirects the visitors of the
// links that the earlier process knew.
func TestLink_IsKnownAfterRestartWithoutRedis(t *testing.T) {
	server, dir := redistest.Start(t), t.TempDir()
	withJournal := func(cfg *Config) { cfg.JournalDir = dir }
	first := newLinkEdge(t, server.URL, withJournal)
	if _, id := splitLocation(t, first.followLink("GET", "/r/"+annasKey)); id == "" {
		t.Fatal("the first redirect has no click id")
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	check(t, first.collector.Run(stopped, listener, nil))
	first.collector.closers = nil

	second := newLinkEdge(t, server.URL, withJournal)
	server.Kill9()
	got := second.followLink("GET", "/r/"+annasKey)
	if target, id := splitLocation(t, got); got.status != 302 || target != annasTarget || id == "" || second.journaledClicks() != 1 {
		t.Errorf("status %d to %q with the click id %q and %d clicks in the journal, want 302 to %s with a click id and 1 click", got.status, target, id, second.journaledClicks(), annasTarget)
	}
	for _, key := range []string{inactiveKey, "0000000000"} {
		if got := second.followLink("GET", "/r/"+key); got.status != 503 {
			t.Errorf("the link %s that no process knew: status %d, want 503", key, got.status)
		}
	}
}

// An ad platform may add its click id to the URL of the short link or to the target URL.
// The record names the platform in both cases.
func TestLink_RecordsAdPlatform(t *testing.T) {
	e := newLinkEdge(t, redistest.New(t))
	ad := e.annasLink()
	ad.TargetUrl = "https://shop.example/p?msclkid=m#top"
	e.putLink("Anna000ads", ad)
	for _, path := range []string{"/r/Anna000ads", "/r/Anna000ads?gclid=g", "/r/" + annasKey + "?fbclid=f"} {
		if got := e.followLink("GET", path); got.status != 302 || strings.Contains(got.header.Get("Location"), "gclid") {
			t.Errorf("%s: status %d with Location %q, want 302 without gclid", path, got.status, got.header.Get("Location"))
		}
	}
	for n, want := range []string{"microsoft", "google", ""} {
		if got := e.storedClicks()[n]; got.PaidPlatform != want || got.BotReason != "no_agent" || !got.IsBot {
			t.Errorf("click %d is stored with the platform %q, want %q and the bot reason no_agent: %v", n, got.PaidPlatform, want, got)
		}
	}
}
