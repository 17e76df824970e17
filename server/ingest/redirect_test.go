package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/collector"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/server/ingest"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// pipeline has all parts that a click passes, on real servers: the collector, the stream,
// the ingesters and the database.
type pipeline struct {
	*pgtest.Fixture
	collector *collector.Collector
	key       account.Key
	workspace affiliate.WorkspaceID
	link      affiliate.LinkID
}

const shortKey = "Anna000key"

func newPipeline(t *testing.T) *pipeline {
	t.Helper()
	redisURL := redistest.New(t)
	p := &pipeline{Fixture: pgtest.Open(t, time.Now), key: account.NewKey(account.PublicKey, affiliate.ModeLive)}
	now := time.Now()
	p.workspace, p.link = affiliate.NewID[affiliate.WorkspaceID](now), affiliate.NewID[affiliate.LinkID](now)
	program, participant := affiliate.NewID[affiliate.ProgramID](now), affiliate.NewID[affiliate.ParticipantID](now)
	client, err := clickstream.Connect(clickstream.Endpoint{URL: redisURL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	writer := directory.NewWriter(client)
	batch := writer.Batch()
	batch.PutPublicKey(1, p.key.Digest(), &edgev1.PublicKeyEntry{
		WorkspaceId: p.workspace.UUID[:], Mode: edgev1.Mode_MODE_LIVE, AllowedOrigins: []string{"https://shop.example"},
	})
	batch.PutReferralCode(1, affiliate.Scope{Workspace: p.workspace, Mode: affiliate.ModeLive}, "anna", &edgev1.ReferralCodeEntry{
		ProgramId: program.UUID[:], ParticipantId: participant.UUID[:], LinkId: p.link.UUID[:], Active: true, AttributionWindowDays: 30,
	})
	batch.PutLink(1, shortKey, &edgev1.LinkEntry{
		WorkspaceId: p.workspace.UUID[:], Mode: edgev1.Mode_MODE_LIVE, ProgramId: program.UUID[:], ParticipantId: participant.UUID[:], LinkId: p.link.UUID[:],
		ReferralCode: "anna", TargetUrl: "https://shop.example/p?via=anna&sub_id=s1", Active: true, AttributionWindowDays: 30, SubId: "s1",
	})
	if err := batch.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.collector, err = collector.Open(collector.Config{
		Stream: clickstream.Endpoint{URL: redisURL}, Cache: clickstream.Endpoint{URL: redisURL}, AllowHTTP: true, Shards: 1, HashKey: make([]byte, 32), LimitTracking: 1000,
	}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The context has ended, so Run serves nothing and releases the resources of
		// Open.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := p.collector.Run(ctx, httptest.NewUnstartedServer(nil).Listener, nil); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		blocking, err := clickstream.ConnectBlocking(clickstream.Endpoint{URL: redisURL})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = blocking.Close() })
		// The ingesters claim each other's entries all the time.
		reader := clickstream.NewReader(client, blocking, clickstream.ReaderConfig{Shards: 1, Consumer: name, Block: 20 * time.Millisecond, ClaimIdle: time.Millisecond})
		ingester := ingest.New(ingest.Config{ClaimEvery: 5 * time.Millisecond, TrimEvery: 10 * time.Millisecond, FirstDelay: time.Millisecond}, ingest.Deps{Reader: reader, DB: p.DB})
		running.Go(func() { ingester.Run(ctx) })
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	return p
}

func (p *pipeline) request(method, target, body string, headers map[string]string) (status int, location string) {
	p.Helper()
	r := httptest.NewRequestWithContext(p.Context(), method, target, strings.NewReader(body))
	r.RemoteAddr = "203.0.113.9:4711"
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	p.collector.Handler().ServeHTTP(w, r)
	return w.Code, w.Header().Get("Location")
}

// waitForClicks waits until n clicks are stored.
func (p *pipeline) waitForClicks(n int) {
	p.Helper()
	pgtest.Eventually(p, fmt.Sprintf("%d clicks are stored", n), func() bool { return p.Count(`select count(*) from clicks`) == n })
}

// row returns the columns of the click that the condition selects, except its id, its
// times and foreign_origin.
func (p *pipeline) row(condition string, args ...any) map[string]any {
	p.Helper()
	rows, err := p.SQL.Query(p.Context(), `select to_jsonb(c) - '{id,clicked_at,received_at,expires_at,created_at,foreign_origin}'::text[] from clicks c where `+condition, args...)
	if err != nil {
		p.Fatal(err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[map[string]any])
	if err != nil {
		p.Fatal(err)
	}
	return row
}

func TestClicks_OfLinkAndScriptAreStoredAsEqualRows(t *testing.T) {
	p := newPipeline(t)
	status, location := p.request(http.MethodGet, "/r/"+shortKey+"?utm_source=mail", "", map[string]string{"User-Agent": "agent", "Referer": "https://news.example/a"})
	target, err := url.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	id := target.Query().Get(link.ClickIDParam)
	if status != http.StatusFound || id == "" || target.Host != "shop.example" {
		t.Fatalf("the redirect has the status %d and the location %s, want 302 to shop.example with a click id", status, target)
	}
	script := map[string]string{"User-Agent": "agent", "X-Public-Key": p.key.Reveal(), "Origin": "https://evil.example"}
	body := `{"referral_code":"anna","url":"https://shop.example/p","referrer":"https://news.example/","sub_id":"s1","utm":{"source":"mail"}}`
	if status, _ := p.request(http.MethodPost, "/v1/clicks", body, script); status != http.StatusCreated {
		t.Fatalf("the script's click got the status %d, want 201", status)
	}
	p.waitForClicks(2)
	linkClick, scriptClick := p.row(`id = $1`, id), p.row(`id <> $1`, id)
	if !maps.EqualFunc(linkClick, scriptClick, func(a, b any) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		t.Errorf("the link's click is stored as\n%v, the script's as\n%v", linkClick, scriptClick)
	}
	for column, want := range map[string]any{
		"workspace_id": p.workspace.String(), "link_id": p.link.String(), "mode": "live", "referral_code": "anna", "sub_id": "s1", "utm_source": "mail",
		"referrer_domain": "news.example", "landing_url": "https://shop.example/p", "consent": "unknown", "ip_prefix": "203.0.113.0/24",
	} {
		if linkClick[column] != want {
			t.Errorf("%s is %v, want %v", column, linkClick[column], want)
		}
	}
	var foreign []bool
	if err := p.SQL.QueryRow(t.Context(), `select array_agg(foreign_origin order by (id = $1) desc) from clicks`, id).Scan(&foreign); err != nil || !slices.Equal(foreign, []bool{false, true}) {
		t.Errorf("foreign_origin of the link's and the script's click: %v, %v, want false and true", foreign, err)
	}
}

// Each click is counted once, however often its entry is delivered. HEAD requests and
// prefetches are not counted.
func TestClicks_AreCountedOnce(t *testing.T) {
	p := newPipeline(t)
	const visitors = 50
	browser := map[string]string{"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
	var group sync.WaitGroup
	for range visitors {
		group.Go(func() {
			p.request(http.MethodHead, "/r/"+shortKey, "", nil)
			p.request(http.MethodGet, "/r/"+shortKey, "", map[string]string{"Sec-Purpose": "prefetch"})
			if status, _ := p.request(http.MethodGet, "/r/"+shortKey, "", browser); status != http.StatusFound {
				t.Errorf("a redirect has the status %d, want 302", status)
			}
		})
	}
	group.Wait()
	p.waitForClicks(visitors)
	var counted, others int64
	err := p.SQL.QueryRow(t.Context(), `select sum(clicks) filter (where link_id = $1), count(*) filter (where link_id is distinct from $1) from stats_deltas`, p.link).Scan(&counted, &others)
	if err != nil || counted != visitors || others != 0 {
		t.Errorf("%d clicks are counted for the link and %d deltas are for other links, error %v, want %d and 0", counted, others, err, visitors)
	}
}
