//go:build operations

package failover

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/test/authority"
	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/test/operations/shop"
	"github.com/tributary-hq/tributary/test/operations/stack"
)

const (
	// streamBefore and streamAfter are the times for which the load runs before the failure
	// of the master, and after the stream accepts clicks again.
	streamBefore = 3 * time.Second
	streamAfter  = 2 * time.Second
	// replicationWindow is the longest permitted time from the acknowledgement of a lost
	// click to the failure of the master.
	replicationWindow = time.Second
	// streamAgain is the longest permitted time from the failure until the stream accepts
	// clicks again.
	streamAgain = 30 * time.Second
	// clickPause is the pause of a worker between two clicks.
	clickPause = 5 * time.Millisecond
)

// sentClick is a click that the collector has acknowledged.
type sentClick struct {
	id                 string
	sent, acknowledged time.Time
}

// clickLoad sends clicks and conversions, and remembers what was acknowledged.
type clickLoad struct {
	over  atomic.Bool
	group sync.WaitGroup

	mu                          sync.Mutex
	clicks                      []sentClick
	orders                      []string // acknowledged conversions
	clickStatuses, saleStatuses map[int]int
}

func startClicks(t *testing.T, s *shop.Shop, code string) *clickLoad {
	t.Helper()
	l := &clickLoad{clickStatuses: map[int]int{}, saleStatuses: map[int]int{}}
	for range workers {
		l.group.Go(func() {
			for n := 0; !l.over.Load(); n++ {
				if id := l.click(t.Context(), s, code); id != "" && n%10 == 0 {
					l.convert(t.Context(), s, id)
				}
				time.Sleep(clickPause)
			}
		})
	}
	return l
}

func (l *clickLoad) stop() { l.over.Store(true); l.group.Wait() }

// click sends a click. It returns its id, or "" if it was not acknowledged.
func (l *clickLoad) click(ctx context.Context, s *shop.Shop, code string) string {
	sent := time.Now()
	status, id, _ := s.Click(ctx, code) // status 0 without a response
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clickStatuses[status]++
	if id == "" {
		return ""
	}
	l.clicks = append(l.clicks, sentClick{id: id, sent: sent, acknowledged: time.Now()})
	return id
}

func (l *clickLoad) convert(ctx context.Context, s *shop.Shop, click string) {
	order := "order-" + click
	status, _, err := s.Sell(ctx, order, "", click)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.saleStatuses[status]++
	if err == nil {
		l.orders = append(l.orders, order)
	}
}

// startSentinels starts a master, two replicas and three sentinels with TLS, and a client of each
// Redis server. A promoted replica accepts writes when the other replica is connected to it.
func startSentinels(t *testing.T, ca *authority.Authority) (*redistest.MonitoredMaster, map[*redistest.Server]redis.UniversalClient) {
	t.Helper()
	p := redistest.SentinelsWith(t, redistest.Config{Authority: ca, Replicas: 2})
	clients := map[*redistest.Server]redis.UniversalClient{}
	for _, server := range append([]*redistest.Server{p.Master}, p.Replicas...) {
		client, err := clickstream.Connect(clickstream.Endpoint{URL: server.URL, Roots: ca.Pool})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		if err := client.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err(); err != nil {
			t.Fatal(err)
		}
		clients[server] = client
	}
	return p, clients
}

func TestRedis_FailoverLosesOnlyClicksThatWereNotReplicated(t *testing.T) {
	ca := authority.New(t)
	p, clients := startSentinels(t, ca)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, ca.Certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	s := stack.New(
		t, "TRIBUTARY_REDIS_URL="+p.URL, "TRIBUTARY_CLICK_STREAM_REDIS=sentinel", "TRIBUTARY_REDIS_CA_FILE="+caFile,
		"TRIBUTARY_JOURNAL_DIR="+filepath.Join(t.TempDir(), "journal"),
	)
	core, collector := s.StartCore(t), s.StartCollector(t)
	s.StartGateway(t)
	opened := shop.Open(t, &http.Client{Timeout: 30 * time.Second}, "http://"+s.Gateway, "http://"+s.Collector)
	partner := opened.Join(t, "ada")
	opened.AwaitCode(t, partner.Code)
	l := startClicks(t, opened, partner.Code)
	time.Sleep(streamBefore)

	failed := time.Now()
	p.Master.Kill9()
	dead := time.Now()
	promoted := p.AwaitPromotion()
	promotion := time.Since(failed)
	stream := clients[promoted]
	// The promotion closes the connections of the replica, so a first attempt can fail.
	entries := func() int64 {
		info, err := stream.XInfoStream(t.Context(), clickstream.Key(0)).Result()
		if err != nil {
			return 0
		}
		return info.EntriesAdded
	}
	var replicated int64
	process.Eventually(t, streamAgain, "the promoted replica has the stream", func() bool { replicated = entries(); return replicated > 0 })
	process.Eventually(t, streamAgain, "the stream accepts clicks again", func() bool { return entries() > replicated })
	t.Logf("a replica was promoted after %s, and the stream accepted clicks again after %s", promotion.Round(time.Millisecond), time.Since(failed).Round(time.Millisecond))
	if journaled := metric(t, s.CollectorMetrics, "tributary_collector_clicks_journaled_total"); journaled == "0" {
		t.Error("no click was written to the journal")
	} else {
		t.Logf("%s clicks were written to the journal", journaled)
	}
	time.Sleep(streamAfter)
	l.stop()

	journal := process.Binary(t, "collector")
	process.Eventually(t, 60*time.Second, "the journal is empty", func() bool {
		return strings.Contains(process.Run(t, s.Settings, journal, "journal", "inspect"), "clicks    0\n")
	})
	process.Eventually(t, 60*time.Second, "the core has stored the whole stream", func() bool {
		info, err := stream.XInfoStreamFull(t.Context(), clickstream.Key(0), 1).Result()
		return err == nil && len(info.Groups) == 1 && info.Groups[0].LastDeliveredID == info.LastGeneratedID && info.Groups[0].PelCount == 0
	})
	l.checkStored(t, s.Database, failed, dead)
	if report := process.Run(t, s.Settings, process.Binary(t, "core"), "check"); strings.Contains(report, "VIOLATED") {
		t.Errorf("core check printed:\n%s", report)
	}
	for name, p := range map[string]*process.Process{"core": core, "collector": collector} {
		if p.Ended() {
			t.Errorf("the %s has ended:\n%s", name, p.Log(t))
		}
	}
}

// metric returns the value of a metric without labels.
func metric(t *testing.T, address, name string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\n"+name+" ")
	if !found {
		t.Fatalf("the metrics do not contain %s", name)
	}
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// checkStored compares the acknowledged clicks and conversions with the database. A click may
// be missing only if the master that has failed could have acknowledged it, shortly before.
func (l *clickLoad) checkStored(t *testing.T, database string, failed, dead time.Time) {
	t.Helper()
	var ids []string
	after := 0 // clicks sent after the failure
	for _, click := range l.clicks {
		ids = append(ids, click.id)
		if click.sent.After(dead) {
			after++
		}
	}
	missing := map[string]bool{}
	for _, id := range query[[]string](t, database, "select coalesce(array_agg(id::text), '{}') from unnest($1::uuid[]) id where not exists (select from clicks where clicks.id = id)", ids) {
		missing[id] = true
	}
	t.Logf("%d clicks were acknowledged, %d of them sent after the failure; %d are lost; statuses of clicks %v, of conversions %v", len(ids), after, len(missing), l.clickStatuses, l.saleStatuses)
	for _, click := range l.clicks {
		if missing[click.id] && (click.sent.After(dead) || click.acknowledged.Before(failed.Add(-replicationWindow))) {
			t.Errorf("the click %s is lost; it was sent %s and acknowledged %s after the failure", click.id, click.sent.Sub(failed), click.acknowledged.Sub(failed))
		}
	}
	for status, count := range l.clickStatuses {
		if status == 0 || status >= http.StatusBadRequest {
			t.Errorf("%d clicks were answered with status %d", count, status)
		}
	}
	if after == 0 || len(l.orders) == 0 {
		t.Error("no click was sent after the failure, or no conversion was acknowledged")
	}
	if stored := query[int](t, database, "select count(*) from conversions where external_transaction_id = any($1)", l.orders); stored != len(l.orders) {
		t.Errorf("%d of %d acknowledged conversions are stored", stored, len(l.orders))
	}
}
