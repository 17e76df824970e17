package landing_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// setDatabase makes the database of the fixture refuse connections, or accept them again.
func (f *fixture) setDatabase(available bool) {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), os.Getenv("TRIBUTARY_TEST_DATABASE_URL"))
	check(f.t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) }()
	u, err := url.Parse(f.database)
	check(f.t, err)
	name := strings.TrimPrefix(u.Path, "/")
	if available {
		_, err = conn.Exec(f.t.Context(), "alter database "+name+" allow_connections true")
		check(f.t, err)
		return
	}
	_, err = conn.Exec(f.t.Context(), "alter database "+name+" allow_connections false")
	check(f.t, err)
	_, err = conn.Exec(f.t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name)
	check(f.t, err)
}

// lockWaitlist locks the table of the waitlist until unlock is called or the test ends.
func (f *fixture) lockWaitlist() (unlock func()) {
	f.t.Helper()
	ctx := context.WithoutCancel(f.t.Context())
	conn, err := pgx.Connect(ctx, f.database)
	check(f.t, err)
	unlock = func() { _ = conn.Close(ctx) }
	f.t.Cleanup(unlock)
	_, err = conn.Exec(ctx, `begin; lock table landing.waitlist_entries`)
	check(f.t, err)
	return unlock
}

// lockWaiters returns the number of statements in the database of the fixture that wait for
// a lock.
func (f *fixture) lockWaiters() int {
	f.t.Helper()
	return len(f.texts(`select pid::text from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`))
}

func TestDatabaseLost_Responds503(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	requests := func() map[string]response {
		return map[string]response{
			"waitlist": f.post(waitlist, body(waitlist, nil)),
			"contact":  f.post(contact, body(contact, nil)),
			"counter":  f.send(http.MethodGet, count, ""),
			"ready":    f.send(http.MethodGet, "/api/v1/health/ready", ""),
		}
	}
	f.setDatabase(false)
	for name, r := range requests() {
		if r.status != 503 || r.code(t) != "SERVICE_UNAVAILABLE" || r.header.Get("Retry-After") != "1" {
			t.Errorf("%s without the database: %d %s, Retry-After %s, want 503", name, r.status, r.body, r.header.Get("Retry-After"))
		}
	}
	if r := f.send(http.MethodGet, "/api/v1/health", ""); r.status != 200 || r.body != `{"status":"ok"}`+"\n" {
		t.Errorf("health without the database: %d %s, want 200", r.status, r.body)
	}
	if r := f.post(waitlist, body(waitlist, map[string]any{"email": "no"})); r.status != 400 {
		t.Errorf("an invalid form without the database: %d %s, want 400", r.status, r.body)
	}
	f.setDatabase(true)
	f.clock.advance(time.Second)
	for name, r := range requests() {
		if r.status != 200 && r.status != 201 {
			t.Errorf("%s after the database is back: %d %s", name, r.status, r.body)
		}
	}
	if got := len(f.contacts()); got != 1 {
		t.Errorf("%d contact messages are stored, want only that of the request with 201", got)
	}
}

// A database that does not respond must not keep requests waiting forever.
func TestDatabaseHangs_Responds503(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	unlock := f.lockWaitlist()
	if r := f.post(waitlist, body(waitlist, nil)); r.status != 503 || r.code(t) != "SERVICE_UNAVAILABLE" {
		t.Errorf("while the table is locked: %d %s, want 503", r.status, r.body)
	}
	unlock()
	if r := f.post(waitlist, body(waitlist, nil)); r.status != 201 {
		t.Errorf("after the lock was released: %d %s, want 201", r.status, r.body)
	}
}

// A fault of the service itself is no reason to send the form again at once.
func TestUnexpectedError_Responds500(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	f.texts(`alter table landing.waitlist_entries rename to gone`)
	r := f.post(waitlist, body(waitlist, nil))
	if r.status != 500 || r.code(t) != "INTERNAL_ERROR" || strings.Contains(r.body, "waitlist_entries") || r.header.Get("Retry-After") != "" {
		t.Errorf("status %d %s, headers %v, want INTERNAL_ERROR without details", r.status, r.body, r.header)
	}
}

func TestCounter_OffsetCapAndCache(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{base: 40, total: 42})
	get := func() string {
		t.Helper()
		r := f.send(http.MethodGet, count, "")
		if r.status != 200 || r.header.Get("Cache-Control") != "public, max-age=30" || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("status %d, headers %v", r.status, r.header)
		}
		return r.body
	}
	join := func(email string) {
		t.Helper()
		if r := f.post(waitlist, body(waitlist, map[string]any{"email": email})); r.status != 201 {
			t.Fatalf("status %d %s", r.status, r.body)
		}
	}
	join("a@example.com")
	if got := get(); got != `{"taken":41,"total":42}` {
		t.Errorf("the counter is %s, want 41 of 42", got)
	}
	join("b@example.com")
	f.clock.advance(45*time.Second - time.Millisecond)
	if got := get(); got != `{"taken":41,"total":42}` {
		t.Errorf("the counter is %s within 45 seconds, want that of the cache", got)
	}
	f.clock.advance(time.Millisecond)
	if got := get(); got != `{"taken":42,"total":42}` {
		t.Errorf("the counter is %s after 45 seconds, want 42 of 42", got)
	}
	join("c@example.com")
	f.clock.advance(45 * time.Second)
	if got := get(); got != `{"taken":42,"total":42}` {
		t.Errorf("the counter is %s, want at most the total", got)
	}
	f.clock.advance(time.Hour)
	f.setDatabase(false)
	if got := get(); got != `{"taken":42,"total":42}` {
		t.Errorf("the counter is %s without the database, want the last value", got)
	}
	f.setDatabase(true)
	if got := newFixture(t, options{database: f.database, total: 7}); got.send(http.MethodGet, count, "").body != `{"taken":3,"total":7}` {
		t.Error("the counter without an offset is not 3 of 7")
	}
}

// The counter must not make pages wait for a database that does not respond.
func TestCounter_DatabaseHangs_RespondsWithLastValue(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	if r := f.send(http.MethodGet, count, ""); r.status != 200 {
		t.Fatalf("status %d %s", r.status, r.body)
	}
	f.lockWaitlist()
	f.clock.advance(time.Minute)
	start := time.Now()
	for range 3 {
		if r := f.send(http.MethodGet, count, ""); r.status != 200 || r.body != `{"taken":0,"total":1000}` {
			t.Errorf("status %d %s, want the last value", r.status, r.body)
		}
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("three requests took %s, want less than the time limit of one query", took)
	}
}

func TestCounter_ClientGone_IsNotCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	unlock := f.lockWaitlist()
	ctx, closePage := context.WithCancel(t.Context())
	defer closePage()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.url+count, nil)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			t.Errorf("the request got the status %d, want none", resp.StatusCode)
			_ = resp.Body.Close()
		}
	}()
	waitFor(t, "the query waits for the lock", func() bool { return f.lockWaiters() == 1 })
	closePage()
	<-done
	time.Sleep(100 * time.Millisecond) // the server notices the closed connection
	unlock()
	if n := f.rejections(); n != 0 {
		t.Errorf("%v requests are counted as rejected, want none", n)
	}
}

// A visitor who closes the page has sent the form all the same, and is no failure of the
// service.
func TestClientGone_FormIsStored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	unlock := f.lockWaitlist()
	ctx, closePage := context.WithCancel(t.Context())
	defer closePage()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, f.url+waitlist, strings.NewReader(body(waitlist, nil)))
		if resp, err := http.DefaultClient.Do(r); err == nil {
			t.Errorf("the request got the status %d, want none", resp.StatusCode)
			_ = resp.Body.Close()
		}
	}()
	waitFor(t, "the statement waits for the lock", func() bool { return f.lockWaiters() == 1 })
	closePage()
	<-done
	time.Sleep(100 * time.Millisecond) // the server notices the closed connection
	unlock()
	waitFor(t, "the form is stored", func() bool { return len(f.emails()) == 1 })
	if n := f.rejections(); n != 0 {
		t.Errorf("%v requests are counted as rejected, want none", n)
	}
}
