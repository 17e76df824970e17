package landing_test

import (
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const client = "X-Forwarded-For: 203.0.113.7"

// Every POST counts: accepted forms, refused forms, and bodies that are no forms.
func TestLimit_CountsEveryPost(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	for i, request := range []struct {
		path, body  string
		contentType string
		status      int
	}{
		{waitlist, body(waitlist, nil), "application/json", 201},
		{contact, body(contact, nil), "application/json", 201},
		{waitlist, "{", "application/json", 400},
		{contact, body(contact, map[string]any{"website": "spam"}), "application/json", 400},
		{contact, "text", "text/plain", 415},
	} {
		r := f.post(request.path, request.body, client, "Content-Type: "+request.contentType)
		if r.status != request.status {
			t.Errorf("request %d: %d %s, want %d", i, r.status, r.body, request.status)
		}
		if got, want := r.header.Get("RateLimit"), `"landing";r=`+strconv.Itoa(4-i)+`;t=61`; got != want || r.header.Get("RateLimit-Policy") != `"landing";q=5;w=60` {
			t.Errorf("request %d: RateLimit %s, RateLimit-Policy %s, want %s", i, got, r.header.Get("RateLimit-Policy"), want)
		}
	}
	for _, path := range []string{waitlist, contact} {
		r := f.post(path, "{", client)
		if r.status != 429 || r.code(t) != "RATE_LIMITED" || r.header.Get("Retry-After") != "61" || r.header.Get("RateLimit") != `"landing";r=0;t=61` {
			t.Errorf("the sixth POST to %s: %d %s, headers %v, want RATE_LIMITED", path, r.status, r.body, r.header)
		}
	}
	if r := f.send(http.MethodGet, count, "", client); r.status != 200 || r.header.Get("RateLimit") != "" {
		t.Errorf("the counter responded with %d, headers %v, want 200 without a limit", r.status, r.header)
	}
	f.clock.advance(60 * time.Second)
	if r := f.post(waitlist, body(waitlist, nil), client); r.status != 429 || r.header.Get("Retry-After") != "1" {
		t.Errorf("after 60 seconds: %d, Retry-After %s, want 429 and 1", r.status, r.header.Get("Retry-After"))
	}
	f.clock.advance(time.Second)
	if r := f.post(waitlist, body(waitlist, nil), client); r.status != 201 {
		t.Errorf("after 61 seconds: %d %s, want 201", r.status, r.body)
	}
}

func TestLimit_IsSharedByProcesses(t *testing.T) {
	t.Parallel()
	key, redis, database := hashKey(), redistest.New(t), pgtest.New(t)
	shared := options{redis: redis, hashKey: key, database: database, clock: newClock()}
	processes := []*fixture{newFixture(t, shared), newFixture(t, shared)}
	var accepted, refused atomic.Int64
	var running sync.WaitGroup
	for i := range 12 {
		running.Go(func() {
			switch r := processes[i%2].post([]string{waitlist, contact}[i/2%2], "{", client); r.status {
			case 400:
				accepted.Add(1)
			case 429:
				refused.Add(1)
			default:
				t.Errorf("status %d %s, want 400 or 429", r.status, r.body)
			}
		})
	}
	running.Wait()
	if accepted.Load() != 5 || refused.Load() != 7 {
		t.Errorf("%d requests were accepted and %d refused, want 5 and 7", accepted.Load(), refused.Load())
	}
}

// Without Redis, each process counts on its own. It also starts without Redis.
func TestLimit_HoldsWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill9()
	f := newFixture(t, options{redis: server.URL, hashKey: hashKey()})
	status := func() []int {
		var got []int
		for range 6 {
			got = append(got, f.post(waitlist, body(waitlist, nil), client).status)
		}
		return got
	}
	check := func(when string, got []int, want [6]int) {
		t.Helper()
		if [6]int(got) != want {
			t.Errorf("%s: the statuses are %v, want %v", when, got, want)
		}
	}
	check("Redis is away", status(), [6]int{201, 201, 201, 201, 201, 429})
	server.Restart()
	check("Redis is back", status(), [6]int{429, 429, 429, 429, 429, 429})
	f.clock.advance(61 * time.Second)
	check("a minute later", status(), [6]int{201, 201, 201, 201, 201, 429})
	server.Kill9()
	check("Redis fails", status(), [6]int{429, 429, 429, 429, 429, 429})
}

func TestLimit_CountsClientAddress(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("192.0.2.0/24")}
	for _, test := range []struct {
		name    string
		proxies []netip.Prefix
		// addresses are the values of X-Forwarded-For of six requests.
		addresses [6]string
		last      int // the status of the sixth request
	}{
		{"one client", trusted, [6]string{"203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.7"}, 429},
		{"another client", trusted, [6]string{"203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.7", "203.0.113.8"}, 400},
		{"invented entries before that of the proxy", trusted, [6]string{
			"1.1.1.1, 203.0.113.7", "1.1.1.2, 203.0.113.7", "1.1.1.3, 203.0.113.7, 192.0.2.9", "x, 203.0.113.7", ", 203.0.113.7", "1.1.1.6, 203.0.113.7",
		}, 429},
		{"invented entries without a trusted proxy", []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, [6]string{"1.1.1.1", "1.1.1.2", "1.1.1.3", "1.1.1.4", "1.1.1.5", "1.1.1.6"}, 429},
		{"one IPv6 network", trusted, [6]string{"2001:db8::1", "2001:db8::2", "2001:db8::3:4", "2001:db8::5", "2001:db8:0:0:ffff::1", "2001:db8::6"}, 429},
		{"another IPv6 network", trusted, [6]string{"2001:db8::1", "2001:db8::1", "2001:db8::1", "2001:db8::1", "2001:db8::1", "2001:db8:0:1::1"}, 400},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, options{proxies: test.proxies})
			for i, address := range test.addresses {
				want := 400
				if i == 5 {
					want = test.last
				}
				if r := f.post(waitlist, "{", "X-Forwarded-For: "+address); r.status != want {
					t.Errorf("request %d: %d, want %d", i+1, r.status, want)
				}
			}
		})
	}
}
