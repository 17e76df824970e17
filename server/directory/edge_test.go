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

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/collector"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/server/directory"
	"github.com/tributary-hq/tributary/storage/clickstream"
	edge "github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// edgeOf starts a collector that reads the world's directory. It returns the base URL.
func edgeOf(w *world, redisURL string) string {
	w.t.Helper()
	c, err := collector.Open(collector.Config{
		Stream: clickstream.Endpoint{URL: redisURL}, Cache: clickstream.Endpoint{URL: redisURL}, AllowHTTP: true, Shards: 1, HashKey: make([]byte, 32), LimitTracking: 1_000_000,
	}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		w.t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx, listener, nil) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

type reply struct {
	status   int
	location string
	code     string
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
	var read struct {
		Code     string `json:"code"`
		Discount any    `json:"discount"`
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
	}
	return reply{response.StatusCode, response.Header.Get("Location"), read.Code, read.Discount}
}

// A change in the database reaches collectors that have the old entry in their caches,
// long before the cached entry expires.
func TestSync_ReachesCollectors(t *testing.T) {
	url := redistest.New(t)
	w := newWorld(t, url)
	participant := w.join("jane")
	key := w.key()
	w.keep(w.config())
	w.eventually("complete", w.complete)
	base := edgeOf(w, url)
	keeper := directory.New(w.Store, w.writer, w.config())
	sync := func(job affiliate.SyncDirectory) {
		t.Helper()
		job.Workspace = w.scope.Workspace
		if err := keeper.Sync(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	keys, programs, participants := affiliate.SyncDirectory{}, affiliate.SyncDirectory{Program: &w.program}, affiliate.SyncDirectory{Participant: &participant.ID}
	var short string
	if err := w.SQL.QueryRow(t.Context(), `select short_key from links where participant_id = $1`, participant.ID).Scan(&short); err != nil {
		t.Fatal(err)
	}
	click := func() reply {
		t.Helper()
		return send(t, http.MethodPost, base+"/v1/clicks", `{"referral_code":"jane"}`, "X-Public-Key", key.Reveal(), "Origin", "https://pages.example")
	}
	visit := func(key string) reply {
		t.Helper()
		return send(t, http.MethodGet, base+"/r/"+key, "")
	}
	change := func(name, sql string, job affiliate.SyncDirectory, visible func() bool, args ...any) {
		t.Helper()
		w.Exec(sql, args...)
		sync(job)
		w.eventually(name, visible)
	}

	if got := click(); got.status != 201 || got.discount != nil {
		t.Fatalf("%+v", got)
	}
	if got := visit(short); got.status != 302 || !strings.HasPrefix(got.location, "https://a.example?via=jane&aff_click_id=") {
		t.Fatalf("%+v", got)
	}
	if got := visit("0000000000"); got.status != 404 {
		t.Fatalf("%+v", got)
	}

	change("a promo code is offered", `
		insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value, active,
			sync_to_processor, sync_status, created_at, updated_at)
		values ($1, gen_random_uuid(), $2, $3, $4, 'jane15', 'percentage', 1550, true, false, 'none', $5, $5)`,
		participants, func() bool {
			offered, _ := click().discount.(map[string]any)
			return offered["promo_code"] == "jane15" && offered["value"] == 15.5
		}, w.scope.Workspace, w.program, participant.ID, w.scope.Mode, w.now)
	change("an inactive promo code is not offered", `update promo_codes set active = false`, participants, func() bool { return click().discount == nil })

	change("the link has a new destination", `update links set destination_url = 'https://a.example/new'`, participants,
		func() bool { return strings.HasPrefix(visit(short).location, "https://a.example/new?via=jane&") })
	change("the link's domain is not allowed", `update programs set allowed_domains = '{b.example}'`, programs,
		func() bool { return visit(short).status == 404 })
	if got := click(); got.status != 201 {
		t.Errorf("the code of a link to a domain that is not allowed: %+v", got)
	}
	change("the link's domain is allowed again", `update programs set allowed_domains = '{"*.example",a.example}'`, programs,
		func() bool { return visit(short).status == 302 })
	change("a new link that was requested before it existed", `update links set short_key = '0000000000'`, participants,
		func() bool { return visit("0000000000").status == 302 })
	change("the link is deleted", `update links set deleted_at = $1`, participants,
		func() bool { return visit("0000000000").status == 404 && click().status == 404 }, w.now)
	change("the link is restored", `update links set deleted_at = null`, participants,
		func() bool { return visit("0000000000").status == 302 && click().status == 201 })
	change("the programme is paused", `update programs set status = 'paused'`, programs,
		func() bool { return visit("0000000000").status == 404 && click().status == 404 })
	change("the programme is active again", `update programs set status = 'active'`, programs,
		func() bool { return visit("0000000000").status == 302 && click().status == 201 })

	change("other origins are rejected", `update workspaces set allowed_origins = '{https://shop.example}', origin_policy = 'enforce'`, keys,
		func() bool { got := click(); return got.status == 403 && got.code == "ORIGIN_NOT_ALLOWED" })
	change("other origins are only marked", `update workspaces set origin_policy = 'observe'`, keys, func() bool { return click().status == 201 })

	// No job writes the directory when the grace period of a rolled key ends. The entry
	// contains the time at which the key expires.
	change("a rolled key in its grace period", `update api_keys set expires_at = $1`, keys, func() bool {
		entry, state := edge.NewReader(w.client, time.Now).PublicKey(t.Context(), key.Digest())
		return state == edge.Found && entry.ExpiresAtMs > 0 && !entry.Revoked && click().status == 201
	}, time.Now().Add(time.Hour))
	change("a rolled key whose grace period has ended", `update api_keys set expires_at = $1`, keys, func() bool { return click().status == 401 }, time.Now().Add(100*time.Millisecond))
	change("a revoked key", `update api_keys set expires_at = null, revoked_at = $1`, keys, func() bool {
		got := click()
		return got.status == 401 && got.code == "INVALID_PUBLIC_KEY"
	}, w.now)
}

// hangingSource is a database that does not respond before the context ends.
type hangingSource struct {
	directory.Source
	calls *int
}

func (s hangingSource) DirectoryVersion(ctx context.Context) (int64, error) {
	*s.calls++
	<-ctx.Done()
	return 0, ctx.Err()
}

// A request that makes many changes waits for the directory once.
func TestSyncNow_DoesNotWaitForAHangingDatabase(t *testing.T) {
	w := newWorld(t, redistest.New(t))
	cfg, now, calls := w.config(), w.now, 0
	cfg.Now = func() time.Time { return now }
	keeper := directory.New(hangingSource{w.Store, &calls}, w.writer, cfg)
	for range 100 {
		keeper.SyncNow(affiliate.SyncDirectory{Workspace: w.scope.Workspace})
	}
	if calls != 1 {
		t.Errorf("waited %d times within a second", calls)
	}
	now = now.Add(time.Second)
	keeper.SyncNow(affiliate.SyncDirectory{Workspace: w.scope.Workspace})
	if calls != 2 {
		t.Error("SyncNow did not run again after the pause")
	}
}

// An alias code leads to the default link. A link is written once, even if several codes
// lead to it.
func TestSync_WritesSharedLinkOnce(t *testing.T) {
	w := newWorld(t, redistest.New(t))
	participant := w.join("jane")
	w.Exec(`insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select workspace_id, mode, 'aaa-' || n, program_id, participant_id, id, created_at from links, generate_series(1, 3) n`)
	var links int
	keeper := directory.New(w.Store, countingSink{w.writer, &links}, w.config())
	if err := keeper.Sync(t.Context(), affiliate.SyncDirectory{Workspace: w.scope.Workspace, Participant: &participant.ID}); err != nil {
		t.Fatal(err)
	}
	if links != 1 {
		t.Errorf("one link was written %d times", links)
	}
	own, _ := w.code("jane")
	for _, code := range []string{"aaa-1", "aaa-3"} {
		if entry, state := w.code(code); state != edge.Found || !entry.Active || string(entry.LinkId) != string(own.GetLinkId()) || len(entry.LinkId) != 16 {
			t.Errorf("%s: %v, %v", code, entry, state)
		}
	}
	var short string
	if err := w.SQL.QueryRow(t.Context(), `select short_key from links`).Scan(&short); err != nil {
		t.Fatal(err)
	}
	if entry, state := edge.NewReader(w.client, time.Now).Link(t.Context(), short); state != edge.Found || entry.ReferralCode != "jane" {
		t.Errorf("%v, %v", entry, state)
	}
}

// countingSink counts the link entries that are written.
type countingSink struct {
	*edge.Writer
	links *int
}

type countingBatch struct {
	*edge.Batch
	links *int
}

func (s countingSink) Batch() countingBatch   { return countingBatch{s.Writer.Batch(), s.links} }
func (s countingSink) Changes() countingBatch { return countingBatch{s.Writer.Changes(), s.links} }

func (b countingBatch) PutLink(version int64, key string, entry *edgev1.LinkEntry) {
	*b.links++
	b.Batch.PutLink(version, key, entry)
}
