package directory_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/collector"
	"github.com/tributary-hq/tributary/server/directory"
	"github.com/tributary-hq/tributary/storage/clickstream"
	edge "github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// startCollector starts a collector that reads the directory. It returns the base URL.
func startCollector(t *testing.T, redisURL string) string {
	t.Helper()
	c, err := collector.Open(collector.Config{
		Stream: clickstream.Endpoint{URL: redisURL}, Cache: clickstream.Endpoint{URL: redisURL}, AllowHTTP: true, Shards: 1, HashKey: make([]byte, 32), LimitTracking: 1_000_000,
	}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, listener, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the collector ended with %v", err)
		}
	})
	return "http://" + listener.Addr().String()
}

// reply is the response of a collector.
type reply struct {
	status   int
	location string
	code     string // of an error
	discount any
}

func send(t *testing.T, method, url, body string, headers ...string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var fields struct {
		Code     string `json:"code"`
		Discount any    `json:"discount"`
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatalf("the response %s: %v", text, err)
		}
	}
	return reply{response.StatusCode, response.Header.Get("Location"), fields.Code, fields.Discount}
}

// A change in the database reaches collectors that have the old entry in their caches,
// long before the cached entry expires.
func TestSync_ReachesCollectors(t *testing.T) {
	url := redistest.New(t)
	f := newFixtureIn(t, url)
	participant := f.join()
	key := f.newKey()
	f.keep(config())
	f.waitUntilComplete()
	base := startCollector(t, url)
	keysJob, programJob, participantJob := affiliate.SyncDirectory{}, affiliate.SyncDirectory{Program: &f.Program}, affiliate.SyncDirectory{Participant: &participant.ID}
	shortKey := f.Texts(`select short_key from links where id::text = $1`, participant.Link.String())[0]
	click := func() reply {
		t.Helper()
		return send(t, http.MethodPost, base+"/v1/clicks", `{"referral_code":"jane"}`, "X-Public-Key", key.Reveal(), "Origin", "https://pages.example")
	}
	visit := func(key string) reply {
		t.Helper()
		return send(t, http.MethodGet, base+"/r/"+key, "")
	}
	exec := func(sql string, args ...any) func() { return func() { f.Exec(sql, args...) } }
	// change calls the function apply, which changes the database. Then it runs the job,
	// which writes the change to the directory, and waits until the function visible
	// returns true.
	change := func(awaited string, apply func(), job affiliate.SyncDirectory, visible func() bool) {
		t.Helper()
		apply()
		f.sync(job)
		pgtest.Eventually(t, awaited, visible)
	}
	// bothHave returns a function that reports whether a visit of the short link
	// 0000000000 and a click return these status codes.
	bothHave := func(visited, clicked int) func() bool {
		return func() bool { return visit("0000000000").status == visited && click().status == clicked }
	}

	if got := click(); got.status != 201 || got.discount != nil {
		t.Fatalf("a click returned %+v, want the status 201 without a discount", got)
	}
	if got, want := visit(shortKey), "https://a.example?via=jane&aff_click_id="; got.status != 302 || !strings.HasPrefix(got.location, want) {
		t.Fatalf("a visit of the short link returned %+v, want the status 302 and a location that begins with %s", got, want)
	}
	if got := visit("0000000000"); got.status != 404 {
		t.Fatalf("a visit of an unknown short link returned %+v, want the status 404", got)
	}

	change("a promo code is offered", func() {
		f.NewPromoCode(participant, "jane15", func(c *promocode.PromoCode) { c.DiscountValue = 1550 })
	}, participantJob, func() bool {
		offered, _ := click().discount.(map[string]any)
		return offered["promo_code"] == "jane15" && offered["value"] == 15.5
	})
	change("an inactive promo code is not offered", exec(`update promo_codes set active = false`), participantJob,
		func() bool { return click().discount == nil })

	change("the link has a new destination", exec(`update links set destination_url = 'https://a.example/new'`), participantJob,
		func() bool { return strings.HasPrefix(visit(shortKey).location, "https://a.example/new?via=jane&") })
	change("the link's domain is not allowed", exec(`update programs set allowed_domains = '{b.example}'`), programJob,
		func() bool { return visit(shortKey).status == 404 })
	if got := click(); got.status != 201 {
		t.Errorf("a click on a link to a domain that is not allowed returned %+v, want the status 201", got)
	}
	change("the link's domain is allowed again", exec(`update programs set allowed_domains = '{"*.example",a.example}'`), programJob,
		func() bool { return visit(shortKey).status == 302 })
	change("a short link that was requested before it existed", exec(`update links set short_key = '0000000000'`), participantJob, bothHave(302, 201))
	change("the link is deleted", exec(`update links set deleted_at = $1`, f.Now()), participantJob, bothHave(404, 404))
	change("the link is restored", exec(`update links set deleted_at = null`), participantJob, bothHave(302, 201))
	change("the programme is paused", func() { f.mustMove(program.Paused) }, programJob, bothHave(404, 404))
	change("the programme is active again", func() { f.mustMove(program.Active) }, programJob, bothHave(302, 201))

	change("clicks from other origins are rejected", exec(`update workspaces set allowed_origins = '{https://shop.example}', origin_policy = 'enforce'`), keysJob,
		func() bool { got := click(); return got.status == 403 && got.code == "ORIGIN_NOT_ALLOWED" })
	change("clicks without an origin are rejected too", exec(`update workspaces set origin_policy = 'enforce_strict'`), keysJob,
		func() bool { got := click(); return got.status == 403 && got.code == "ORIGIN_NOT_ALLOWED" })
	change("clicks from other origins are accepted", exec(`update workspaces set origin_policy = 'observe'`), keysJob, func() bool { return click().status == 201 })

	// No job writes the directory when the grace period of a rolled key ends. The entry
	// contains the time at which the key expires, so collectors reject the key by
	// themselves.
	change("a rolled key is accepted in its grace period", exec(`update api_keys set expires_at = $1`, time.Now().Add(time.Hour)), keysJob, func() bool {
		entry, state := f.reader().PublicKey(t.Context(), key.Digest())
		return state == edge.Found && entry.ExpiresAtMs > 0 && !entry.Revoked && click().status == 201
	})
	change("a rolled key is rejected after its grace period", exec(`update api_keys set expires_at = $1`, time.Now().Add(100*time.Millisecond)), keysJob,
		func() bool { return click().status == 401 })
	change("a revoked key is rejected", exec(`update api_keys set expires_at = null, revoked_at = $1`, f.Now()), keysJob, func() bool {
		got := click()
		return got.status == 401 && got.code == "INVALID_PUBLIC_KEY"
	})
}

// After a call that timed out, SyncNow does not call the database for a while and returns
// immediately. A request that makes many changes therefore waits for a hanging database
// only once.
func TestSyncNow_DoesNotWaitForAHangingDatabase(t *testing.T) {
	f := newFixture(t)
	calls, clock, cfg := 0, pgtest.NewClock(f.Now()), config()
	cfg.Now = clock.Now
	keeper := directory.New(f.OpenHooked(func(sql string, _ []any) error {
		if strings.Contains(sql, "directory_version") {
			calls++
		}
		return nil
	}), f.writer, cfg)
	tx, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	// The lock of the sequence lets no other transaction take a version.
	if _, err := tx.Exec(t.Context(), `alter sequence directory_version no cycle`); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		keeper.SyncNow(affiliate.SyncDirectory{Workspace: f.Scope.Workspace})
	}
	if calls != 1 {
		t.Errorf("100 calls of SyncNow within a second called the database %d times, want 1", calls)
	}
	// The timeout has closed the connection, and on a busy machine a new one takes longer than the timeout.
	for attempt := 0; calls == 1 && attempt < 20; attempt++ {
		clock.Advance(time.Second)
		keeper.SyncNow(affiliate.SyncDirectory{Workspace: f.Scope.Workspace})
	}
	if calls != 2 {
		t.Errorf("SyncNow after a second called the database %d times in all, want 2", calls)
	}
}

// Several referral codes lead to the default link. Sync must write the link only once.
func TestSync_WritesSharedLinkOnce(t *testing.T) {
	f := newFixture(t)
	participant := f.join()
	f.Exec(`insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select workspace_id, mode, 'aaa-' || n, program_id, participant_id, id, created_at from links, generate_series(1, 3) n`)
	// The first write loads the script into Redis. Without it, the writer would repeat its writes.
	f.sync(affiliate.SyncDirectory{})
	var links countLinks
	f.client.AddHook(&links)
	if err := directory.New(f.DB, f.writer, config()).Sync(t.Context(), affiliate.SyncDirectory{Workspace: f.Scope.Workspace, Participant: &participant.ID}); err != nil {
		t.Fatal(err)
	}
	if links.n != 1 {
		t.Errorf("Sync wrote one link %d times, want once", links.n)
	}
	for _, code := range []string{"jane", "aaa-1", "aaa-3"} {
		if entry, state := f.code(code); state != edge.Found || !entry.Active || string(entry.LinkId) != string(participant.Link.UUID[:]) {
			t.Errorf("the code %s is %v with the entry %v, want an active code of the default link", code, state, entry)
		}
	}
	short := f.Texts(`select short_key from links`)[0]
	if entry, state := f.reader().Link(t.Context(), short); state != edge.Found || entry.ReferralCode != "jane" {
		t.Errorf("the link is %v with the entry %v, want the referral code jane", state, entry)
	}
}

// countLinks is a hook of a Redis client. It counts the writes of links.
type countLinks struct{ n int }

func (*countLinks) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*countLinks) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *countLinks) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		for _, command := range commands {
			if strings.Contains(command.String(), "{directory}:link:") {
				c.n++
			}
		}
		return next(ctx, commands)
	}
}
