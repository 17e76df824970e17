package collector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/collector/journal"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const plainClick = `{"referral_code":"anna"}`

// requireStored checks that each acknowledged id is in the stream. If exact is true, each
// must be there exactly once and no other id may be there.
func requireStored(t *testing.T, clicks []*edgev1.Click, acknowledged []string, exact bool) {
	t.Helper()
	times := map[string]int{}
	for _, click := range clicks {
		id, _ := affiliate.IDFromBytes[affiliate.Click](click.Id)
		times[id.String()]++
	}
	for _, id := range acknowledged {
		if n := times[id]; n == 0 || exact && n > 1 {
			t.Errorf("%s is in the stream %d times", id, n)
		}
	}
	if exact && len(times) != len(acknowledged) {
		t.Errorf("%d stored, %d acknowledged", len(times), len(acknowledged))
	}
}

func TestConcurrentClicks_ShareBatchesAndAreStoredOnce(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	var mu sync.Mutex
	var ids []string
	var group sync.WaitGroup
	start := make(chan struct{})
	for range 100 {
		group.Go(func() {
			<-start
			got := e.click(plainClick)
			if got.status != 201 {
				t.Errorf("%d %s", got.status, got.text)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, got.body["click_id"].(string))
		})
	}
	close(start)
	group.Wait()
	requireStored(t, e.storedClicks(), ids, true)
	if entries := e.client.XLen(t.Context(), clickstream.Key(0)).Val(); entries >= 100 {
		t.Errorf("%d entries for 100 concurrent clicks: nothing was batched", entries)
	}
}

// Redis is killed under load and restarted. All responses are 201 or 503, and every click
// with 201 is in the stream.
func TestRedisKilledUnderLoad_LosesNoAcknowledgedClick(t *testing.T) {
	server := redistest.Start(t)
	e := newEdge(t, server.URL, func(cfg *Config) { cfg.LimitTracking = 1_000_000 })
	var mu sync.Mutex
	var acknowledged []string
	var refused, afterRestart atomic.Int64
	var restarted, stop atomic.Bool
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for !stop.Load() {
				got := e.click(plainClick)
				switch got.status {
				case 201:
					mu.Lock()
					acknowledged = append(acknowledged, got.body["click_id"].(string))
					mu.Unlock()
					if restarted.Load() {
						afterRestart.Add(1)
					}
				case 503:
					refused.Add(1)
					retry := got.header.Get("Retry-After")
					if got.body["code"] != "SERVICE_UNAVAILABLE" || len(retry) != 1 || retry < "1" || retry > "5" {
						t.Errorf("%s, Retry-After %q", got.text, retry)
					}
					time.Sleep(10 * time.Millisecond)
				default:
					t.Errorf("%d %s", got.status, got.text)
				}
			}
		})
	}
	time.Sleep(150 * time.Millisecond)
	server.Kill9()
	for deadline := time.Now().Add(10 * time.Second); refused.Load() == 0 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
	}
	if got := e.send("GET", "/v1/health/ready", ""); got.status != 503 || !strings.Contains(got.body["message"].(string), "redis") {
		t.Errorf("readiness without Redis: %d %s", got.status, got.text)
	}
	if got := e.send("GET", "/v1/health", ""); got.status != 200 {
		t.Errorf("liveness without Redis: %d", got.status)
	}
	server.Restart()
	restarted.Store(true)
	for deadline := time.Now().Add(10 * time.Second); afterRestart.Load() < 50 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
	}
	stop.Store(true)
	group.Wait()
	if refused.Load() == 0 || afterRestart.Load() == 0 {
		t.Fatalf("%d refused, %d after the restart", refused.Load(), afterRestart.Load())
	}
	requireStored(t, e.storedClicks(), acknowledged, false)
}

// While the directory is empty, clicks are accepted without a lookup of their codes.
// After the core has filled the directory, codes are looked up again.
func TestLostDirectory_ClicksAreAccepted(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking = 10 })
	check(t, e.client.FlushDB(t.Context()).Err())

	stranger := affiliate.NewKey(affiliate.PublicKey, affiliate.ModeLive)
	got := e.send("POST", "/v1/clicks", `{"referral_code":"Nina"}`, "X-Public-Key", stranger.Reveal())
	if got.status != 201 {
		t.Fatalf("%d %s", got.status, got.text)
	}
	for field, want := range map[string]any{
		"program_id": nil, "expires_at": nil, "attribution_window_days": nil, "discount": nil, "attribution_model": nil,
		"cookie_max_age": float64(2592000), "mode": "live", "recorded": true,
	} {
		if value, there := got.body[field]; !there || value != want {
			t.Errorf("%s is %v", field, value)
		}
	}
	click := e.storedClicks()[0]
	if click.PublicKey != stranger.Reveal() || click.ReferralCode != "nina" || click.WorkspaceId != nil || click.Mode != edgev1.Mode_MODE_LIVE {
		t.Errorf("%v", click)
	}
	other := "x"
	if stranger.Reveal()[20] == 'x' {
		other = "y"
	}
	for name, c := range map[string]struct {
		key    string
		status int
	}{
		"checksum wrong": {stranger.Reveal()[:20] + other + stranger.Reveal()[21:], 401},
		"secret key":     {affiliate.NewKey(affiliate.SecretKey, affiliate.ModeLive).Reveal(), 403},
		"token":          {"a.b.c", 401},
	} {
		if got := e.send("POST", "/v1/clicks", plainClick, "X-Public-Key", c.key); got.status != c.status {
			t.Errorf("%s: %d %s", name, got.status, got.text)
		}
	}
	// Requests whose key cannot be looked up count per address.
	last := 0
	for range 10 {
		last = e.send("POST", "/v1/clicks", plainClick, "X-Public-Key", affiliate.NewKey(affiliate.PublicKey, affiliate.ModeLive).Reveal()).status
	}
	if last != 429 {
		t.Errorf("the eleventh unresolved request: %d", last)
	}

	e.fillDirectory()
	if got := e.click(plainClick); got.status != 201 || got.body["program_id"] != e.program.String() {
		t.Errorf("after the rebuild: %d %s", got.status, got.text)
	}
	if got := e.send("POST", "/v1/clicks", plainClick, "X-Public-Key", stranger.Reveal(), "peer", "198.51.100.1:1"); got.status != 401 {
		t.Errorf("an unknown key after the rebuild: %d", got.status)
	}
}

// logBuffer collects what a collector logs.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logBuffer) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestJournalUnusable_CollectorWorksWithRedis(t *testing.T) {
	for name, folder := range map[string]func(*testing.T) string{
		"the folder is a file": func(t *testing.T) string {
			t.Helper()
			path := filepath.Join(t.TempDir(), "journal")
			check(t, os.WriteFile(path, nil, 0o600))
			return path
		},
		"another collector has the folder": func(t *testing.T) string {
			t.Helper()
			dir := t.TempDir()
			j, err := journal.Open(journal.Config{Dir: dir})
			check(t, err)
			t.Cleanup(func() { check(t, j.Close()) })
			return dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, registry, log := redistest.Start(t), newRegistry(), &logBuffer{}
			e := newEdgeWith(t, server.URL, slog.New(slog.NewTextHandler(log, nil)), registry, func(cfg *Config) { cfg.JournalDir = folder(t) })
			if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "the journal cannot be used") {
				t.Errorf("logged %q", log)
			}
			broken := "# HELP tributary_collector_journal_broken 1 while the journal cannot store clicks because its disk failed or is full, or because its folder could not be used at the start.\n" +
				"# TYPE tributary_collector_journal_broken gauge\ntributary_collector_journal_broken 1\n"
			if err := testutil.GatherAndCompare(registry, strings.NewReader(broken), "tributary_collector_journal_broken"); err != nil {
				t.Error(err)
			}
			if click, ready := e.click(plainClick), e.send("GET", "/v1/health/ready", ""); click.status != 201 || ready.status != 200 {
				t.Errorf("with Redis: click %d, ready %d", click.status, ready.status)
			}
			server.Kill9()
			if click, ready := e.click(plainClick), e.send("GET", "/v1/health/ready", ""); click.status != 503 || ready.status != 503 {
				t.Errorf("without Redis: click %d, ready %d", click.status, ready.status)
			}
		})
	}
}

func TestProposedIDs(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	fresh := func() string { return affiliate.NewID[affiliate.Click](time.Now()).String() }
	send := func(id, code string) clickResponse {
		return e.click(`{"referral_code":"` + code + `","click_id":"` + id + `"}`)
	}
	e.version++
	check(t, e.writer.PutReferralCode(t.Context(), e.version, e.scope(), "bert", &edgev1.ReferralCodeEntry{ProgramId: e.program.UUID[:], ParticipantId: e.program.UUID[:], Active: true, AttributionWindowDays: 7}))

	id := fresh()
	first, again := send(id, "anna"), send(id, "ANNA")
	if first.status != 201 || first.body["click_id"] != id || first.body["deduplicated"] != false {
		t.Fatalf("%d %s", first.status, first.text)
	}
	if again.status != 200 || again.body["click_id"] != id || again.body["deduplicated"] != true || again.body["expires_at"] != first.body["expires_at"] {
		t.Errorf("%d %s", again.status, again.text)
	}
	other := send(id, "bert")
	if other.status != 201 || other.body["click_id"] == id {
		t.Errorf("another code got the same id: %d %s", other.status, other.text)
	}
	if repeat := send(id, "bert"); repeat.status != 200 || repeat.body["click_id"] != other.body["click_id"] {
		t.Errorf("%d %s", repeat.status, repeat.text)
	}
	for name, proposed := range map[string]string{
		"a version 4":  uuid.NewString(),
		"an old id":    affiliate.NewID[affiliate.Click](time.Now().Add(-6 * time.Minute)).String(),
		"a future id":  affiliate.NewID[affiliate.Click](time.Now().Add(6 * time.Minute)).String(),
		"the nil UUID": uuid.Nil.String(),
	} {
		got := send(proposed, "anna")
		if got.status != 201 || got.body["click_id"] == proposed {
			t.Errorf("%s: %d %s", name, got.status, got.text)
		}
		if repeat := send(proposed, "anna"); repeat.status != 200 || repeat.body["click_id"] != got.body["click_id"] {
			t.Errorf("%s, again: %d %s", name, repeat.status, repeat.text)
		}
	}
	for _, off := range []time.Duration{-4 * time.Minute, 4 * time.Minute} {
		proposed := affiliate.NewID[affiliate.Click](time.Now().Add(off)).String()
		if got := send(proposed, "anna"); got.body["click_id"] != proposed {
			t.Errorf("%s off: %s", off, got.text)
		}
	}
	before := len(e.storedClicks())
	id = fresh()
	var created atomic.Int64
	var group sync.WaitGroup
	for range 30 {
		group.Go(func() {
			got := send(id, "anna")
			if got.status == 201 {
				created.Add(1)
			}
			if got.body["click_id"] != id {
				t.Errorf("%s", got.text)
			}
		})
	}
	group.Wait()
	if created.Load() != 1 || len(e.storedClicks()) != before+1 {
		t.Errorf("%d of 30 equal requests created, %d stored", created.Load(), len(e.storedClicks())-before)
	}
}

func TestProposalCache_ExpiresAfterTenMinutes(t *testing.T) {
	m, now := newProposalCache(), time.Now()
	p := proposal{id: affiliate.NewID[affiliate.Click](now).UUID, code: "anna"}
	first := m.claim(p, now)
	if m.claim(p, now.Add(10*time.Minute)) != first {
		t.Error("the proposal expired too early")
	}
	if m.claim(p, now.Add(10*time.Minute+time.Millisecond)) == first {
		t.Error("the proposal did not expire")
	}
	for range 3 * maxProposals {
		m.claim(proposal{id: affiliate.NewID[affiliate.Click](now).UUID}, now)
	}
	if n := m.clicks.Len(); n != maxProposals || len(m.owners) != n {
		t.Errorf("%d proposals and %d owners are stored", n, len(m.owners))
	}
	m.claim(p, now.Add(11*time.Minute))
	if n := m.clicks.Len(); n != 1 || len(m.owners) != n {
		t.Errorf("%d proposals and %d owners are left after ten minutes", n, len(m.owners))
	}
}

// A repeated request does not extend the ten minutes. A full cache evicts the oldest
// proposal.
func TestProposalCache_EvictsOldestProposal(t *testing.T) {
	m, now := newProposalCache(), time.Now()
	propose := func(code string) proposal {
		return proposal{id: affiliate.NewID[affiliate.Click](now).UUID, code: code}
	}
	oldest, second := propose("anna"), propose("ben")
	first := m.claim(oldest, now)
	kept := m.claim(second, now)
	m.claim(oldest, now)
	for range maxProposals - 1 {
		m.claim(propose("flood"), now)
	}
	if m.claim(second, now) != kept {
		t.Error("the second oldest proposal was evicted")
	}
	if m.claim(oldest, now) == first {
		t.Error("the oldest proposal was not evicted")
	}
}

// fakeSink is a Sink whose writes end when the test releases them.
type fakeSink struct {
	gate    chan error
	batches atomic.Int64
	largest atomic.Int64
}

func (s *fakeSink) Append(_ context.Context, _ int, batch []byte, n int) error {
	s.batches.Add(1)
	s.largest.Store(max(s.largest.Load(), int64(n)))
	if len(batch) > batchBytes || n > batchRecords {
		return errors.New("the batch is too large")
	}
	return <-s.gate
}

func TestBatcher_FullQueueRefusesRecords(t *testing.T) {
	sink := &fakeSink{gate: make(chan error)}
	b := newBatcher(sink, 1, newMetrics(newRegistry()))
	record := make([]byte, 1000)
	var accepted []*batch
	for {
		batch, err := b.add(0, record)
		if err != nil {
			if !errors.Is(err, errOverloaded) {
				t.Fatal(err)
			}
			break
		}
		accepted = append(accepted, batch)
	}
	if len(accepted) != queueRecords || !b.full() {
		t.Errorf("%d records accepted", len(accepted))
	}
	close(sink.gate)
	for _, batch := range accepted {
		check(t, batch.wait())
	}
	if b.full() || b.records.Load() != 0 || b.bytes.Load() != 0 {
		t.Errorf("%d records, %d bytes left", b.records.Load(), b.bytes.Load())
	}
	b.close()

	// The number of bytes is bounded too.
	sink = &fakeSink{gate: make(chan error)}
	b = newBatcher(sink, 1, newMetrics(newRegistry()))
	large, n := make([]byte, 8<<10), 0
	for ; ; n++ {
		if _, err := b.add(0, large); err != nil {
			break
		}
	}
	if n*len(large) > queueBytes+len(large) {
		t.Errorf("%d bytes accepted", n*len(large))
	}
	close(sink.gate)
	b.close()
}

func TestBatcher_EachBatchHasItsOwnResult(t *testing.T) {
	sink := &fakeSink{gate: make(chan error)}
	b := newBatcher(sink, 1, newMetrics(newRegistry()))
	first, err := b.add(0, []byte("1"))
	check(t, err)
	for sink.batches.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	sink.gate <- errors.New("lost")
	if first.wait() == nil {
		t.Error("a failed batch succeeded")
	}
	second, err := b.add(0, []byte("2"))
	check(t, err)
	sink.gate <- nil
	check(t, second.wait())
	b.close()
	if _, err := b.add(0, []byte("3")); !errors.Is(err, errStopping) {
		t.Error(err)
	}
}

func TestShutdown_RespondsToAllRequests(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	sink := &fakeSink{gate: make(chan error)}
	e.collector.batches.sink = sink
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.collector.Run(ctx, listener, nil) }()

	const n = 20
	statuses := make(chan int, n)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for range n {
		go func() {
			r, _ := http.NewRequest(http.MethodPost, fmt.Sprintf("http://%s/v1/clicks", listener.Addr()), strings.NewReader(plainClick))
			r.Header.Set("X-Public-Key", e.key.Reveal())
			answer, err := (&http.Client{Transport: transport}).Do(r)
			if err != nil {
				t.Error(err)
				statuses <- 0
				return
			}
			_ = answer.Body.Close()
			statuses <- answer.StatusCode
		}()
	}
	for e.collector.batches.records.Load() < n {
		time.Sleep(time.Millisecond)
	}
	stop()
	for e.collector.NotReady(t.Context()) == "" {
		time.Sleep(time.Millisecond)
	}
	close(sink.gate)
	for range n {
		if status := <-statuses; status != 201 {
			t.Errorf("status %d", status)
		}
	}
	check(t, <-ended)
}

func TestPanic_HasEnvelope(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	e.collector.limits = nil
	if got := e.click(plainClick); got.status != 500 || got.body["code"] != "INTERNAL_ERROR" || got.header.Get("X-Request-Id") == "" {
		t.Errorf("%d %s", got.status, got.text)
	}
}
