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
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/collector/journal"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const plainClick = `{"referral_code":"anna"}`

// requireStored checks that clicks, the content of the stream, contains every
// acknowledged id. If exact is true, it must contain every id once and no other ids.
func requireStored(t *testing.T, clicks []*edgev1.Click, acknowledged []string, exact bool) {
	t.Helper()
	count := map[string]int{}
	for _, click := range clicks {
		id, _ := affiliate.IDFromBytes[affiliate.ClickID](click.Id)
		count[id.String()]++
	}
	for _, id := range acknowledged {
		if n := count[id]; n == 0 || exact && n > 1 {
			t.Errorf("the acknowledged click %s is in the stream %d times", id, n)
		}
	}
	if exact && len(count) != len(acknowledged) {
		t.Errorf("%d different ids are in the stream, want the %d acknowledged ids", len(count), len(acknowledged))
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
				t.Errorf("status %d, want 201: %s", got.status, got.text)
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
		t.Errorf("%d stream entries for 100 concurrent clicks, want fewer than 100", entries)
	}
}

// Redis is killed under load and restarted. Every response has the status 201 or 503.
// Every click with the status 201 is in the stream.
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
						t.Errorf("refused with %s and Retry-After %q, want SERVICE_UNAVAILABLE and 1 to 5 seconds", got.text, retry)
					}
					time.Sleep(10 * time.Millisecond) // Leave time for the other clients.
				default:
					t.Errorf("status %d, want 201 or 503: %s", got.status, got.text)
				}
			}
		})
	}
	// A failed wait ends the test, so stop the clients even then.
	stopClients := sync.OnceFunc(func() { stop.Store(true); group.Wait() })
	defer stopClients()
	waitFor(t, "50 clicks with the status 201", func() bool { mu.Lock(); defer mu.Unlock(); return len(acknowledged) >= 50 })
	server.Kill9()
	waitFor(t, "a refused click", func() bool { return refused.Load() > 0 })
	if got := e.send("GET", "/v1/health/ready", ""); got.status != 503 || !strings.Contains(got.body["message"].(string), "redis") {
		t.Errorf("readiness without Redis: status %d, want 503 and a message about redis: %s", got.status, got.text)
	}
	if got := e.send("GET", "/v1/health", ""); got.status != 200 {
		t.Errorf("liveness without Redis: status %d, want 200", got.status)
	}
	server.Restart()
	restarted.Store(true)
	waitFor(t, "50 clicks with the status 201 after the restart", func() bool { return afterRestart.Load() >= 50 })
	stopClients()
	requireStored(t, e.storedClicks(), acknowledged, false)
}

// While the directory is empty, the collector accepts clicks without a lookup of their
// codes. After the core has filled the directory, the collector looks up codes again.
func TestLostDirectory_ClicksAreAccepted(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking = 10 })
	check(t, e.client.FlushDB(t.Context()).Err())

	unknownKey := account.NewKey(account.PublicKey, affiliate.ModeLive)
	got := e.send("POST", "/v1/clicks", `{"referral_code":"Nina"}`, "X-Public-Key", unknownKey.Reveal())
	if got.status != 201 {
		t.Fatalf("status %d, want 201: %s", got.status, got.text)
	}
	for field, want := range map[string]any{
		"program_id": nil, "expires_at": nil, "attribution_window_days": nil, "discount": nil, "attribution_model": nil,
		"cookie_max_age": float64(2592000), "mode": "live", "recorded": true,
	} {
		if value, present := got.body[field]; !present || value != want {
			t.Errorf("the response has %s = %v (present: %t), want %v", field, value, present, want)
		}
	}
	click := e.storedClicks()[0]
	if click.PublicKey != unknownKey.Reveal() || click.ReferralCode != "nina" || click.WorkspaceId != nil || click.Mode != edgev1.Mode_MODE_LIVE {
		t.Errorf("stored %v, want the key and the code of the request, the live mode and no workspace", click)
	}
	changed := "x"
	if unknownKey.Reveal()[20] == 'x' {
		changed = "y"
	}
	for name, c := range map[string]struct {
		key    string
		status int
	}{
		"wrong checksum": {unknownKey.Reveal()[:20] + changed + unknownKey.Reveal()[21:], 401},
		"secret key":     {account.NewKey(account.SecretKey, affiliate.ModeLive).Reveal(), 403},
		"token":          {"a.b.c", 401},
	} {
		if got := e.send("POST", "/v1/clicks", plainClick, "X-Public-Key", c.key); got.status != c.status {
			t.Errorf("%s: status %d, want %d: %s", name, got.status, c.status, got.text)
		}
	}
	// Requests whose key cannot be looked up count towards the limit of the address.
	last := 0
	for range 10 {
		last = e.send("POST", "/v1/clicks", plainClick, "X-Public-Key", account.NewKey(account.PublicKey, affiliate.ModeLive).Reveal()).status
	}
	if last != 429 {
		t.Errorf("the last of more than 10 requests with unknown keys: status %d, want 429", last)
	}

	e.fillDirectory()
	if got := e.click(plainClick); got.status != 201 || got.body["program_id"] != e.program.String() {
		t.Errorf("a known key after the rebuild: status %d, want 201 with the programme %s: %s", got.status, e.program, got.text)
	}
	if got := e.send("POST", "/v1/clicks", plainClick, "X-Public-Key", unknownKey.Reveal(), "peer", "198.51.100.1:1"); got.status != 401 {
		t.Errorf("an unknown key after the rebuild: status %d, want 401", got.status)
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
		"another collector uses the folder": func(t *testing.T) string {
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
				t.Errorf("logged %q, want a warning that the journal cannot be used", log)
			}
			broken := "# HELP tributary_collector_journal_broken 1 while the journal cannot store clicks because its disk failed or is full, or because its folder could not be used at the start.\n" +
				"# TYPE tributary_collector_journal_broken gauge\ntributary_collector_journal_broken 1\n"
			if err := testutil.GatherAndCompare(registry, strings.NewReader(broken), "tributary_collector_journal_broken"); err != nil {
				t.Errorf("the metric of the journal: %v", err)
			}
			if click, ready := e.click(plainClick), e.send("GET", "/v1/health/ready", ""); click.status != 201 || ready.status != 200 {
				t.Errorf("with Redis: a click has the status %d and readiness %d, want 201 and 200", click.status, ready.status)
			}
			server.Kill9()
			if click, ready := e.click(plainClick), e.send("GET", "/v1/health/ready", ""); click.status != 503 || ready.status != 503 {
				t.Errorf("without Redis: a click has the status %d and readiness %d, want 503 and 503", click.status, ready.status)
			}
		})
	}
}

func TestProposedID_IdentifiesRepeatedRequest(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	newID := func() string { return affiliate.NewID[affiliate.ClickID](time.Now()).String() }
	send := func(id, code string) clickResponse {
		return e.click(`{"referral_code":"` + code + `","click_id":"` + id + `"}`)
	}
	e.version++
	check(t, put(t.Context(), e.writer, func(b *directory.Batch) {
		b.PutReferralCode(e.version, e.scope(), "bert", &edgev1.ReferralCodeEntry{ProgramId: e.program.UUID[:], ParticipantId: e.program.UUID[:], Active: true, AttributionWindowDays: 7})
	}))

	id := newID()
	first, repeated := send(id, "anna"), send(id, "ANNA")
	if first.status != 201 || first.body["click_id"] != id || first.body["deduplicated"] != false {
		t.Fatalf("first request: status %d, want 201 with the proposed id %s: %s", first.status, id, first.text)
	}
	if repeated.status != 200 || repeated.body["click_id"] != id || repeated.body["deduplicated"] != true || repeated.body["expires_at"] != first.body["expires_at"] {
		t.Errorf("repeated request: status %d, want 200 with the same click as %s: %s", repeated.status, first.text, repeated.text)
	}
	otherCode := send(id, "bert")
	if otherCode.status != 201 || otherCode.body["click_id"] == id {
		t.Errorf("the same id with another code: status %d, want 201 with a new id: %s", otherCode.status, otherCode.text)
	}
	if got := send(id, "bert"); got.status != 200 || got.body["click_id"] != otherCode.body["click_id"] {
		t.Errorf("repeated request with another code: status %d, want 200 with the id %v: %s", got.status, otherCode.body["click_id"], got.text)
	}
	for name, proposed := range map[string]string{
		"a UUIDv4":     uuid.NewString(),
		"an old id":    affiliate.NewID[affiliate.ClickID](time.Now().Add(-6 * time.Minute)).String(),
		"a future id":  affiliate.NewID[affiliate.ClickID](time.Now().Add(6 * time.Minute)).String(),
		"the nil UUID": uuid.Nil.String(),
	} {
		got := send(proposed, "anna")
		if got.status != 201 || got.body["click_id"] == proposed {
			t.Errorf("%s: status %d, want 201 with another id than %s: %s", name, got.status, proposed, got.text)
		}
		if repeated := send(proposed, "anna"); repeated.status != 200 || repeated.body["click_id"] != got.body["click_id"] {
			t.Errorf("%s, repeated: status %d, want 200 with the id %v: %s", name, repeated.status, got.body["click_id"], repeated.text)
		}
	}
	for _, skew := range []time.Duration{-4 * time.Minute, 4 * time.Minute} {
		proposed := affiliate.NewID[affiliate.ClickID](time.Now().Add(skew)).String()
		if got := send(proposed, "anna"); got.body["click_id"] != proposed {
			t.Errorf("an id whose time is off by %s: response %s, want the proposed id %s", skew, got.text, proposed)
		}
	}
	before := len(e.storedClicks())
	id = newID()
	var created atomic.Int64
	var group sync.WaitGroup
	for range 30 {
		group.Go(func() {
			got := send(id, "anna")
			if got.status == 201 {
				created.Add(1)
			}
			if got.body["click_id"] != id {
				t.Errorf("one of 30 equal requests: response %s, want the id %s", got.text, id)
			}
		})
	}
	group.Wait()
	if created.Load() != 1 || len(e.storedClicks()) != before+1 {
		t.Errorf("30 equal requests: %d have the status 201 and %d clicks are stored, want 1 and 1", created.Load(), len(e.storedClicks())-before)
	}
}

func TestProposalCache_ExpiresAfterTenMinutes(t *testing.T) {
	cache, now := newProposalCache(), time.Now()
	p := proposal{id: affiliate.NewID[affiliate.ClickID](now).UUID, code: "anna"}
	first := cache.claim(p, now)
	if cache.claim(p, now.Add(10*time.Minute)) != first {
		t.Error("the proposal expired within ten minutes")
	}
	if cache.claim(p, now.Add(10*time.Minute+time.Millisecond)) == first {
		t.Error("the proposal did not expire after ten minutes")
	}
	for range 3 * maxProposals {
		cache.claim(proposal{id: affiliate.NewID[affiliate.ClickID](now).UUID}, now)
	}
	if n := cache.clicks.Len(); n != maxProposals || len(cache.owners) != n {
		t.Errorf("the full cache has %d proposals and %d owners, want %d and %d", n, len(cache.owners), maxProposals, maxProposals)
	}
	cache.claim(p, now.Add(11*time.Minute))
	if n := cache.clicks.Len(); n != 1 || len(cache.owners) != n {
		t.Errorf("after eleven minutes the cache has %d proposals and %d owners, want 1 and 1", n, len(cache.owners))
	}
}

// A full cache evicts the oldest proposal, even if the oldest proposal was repeated
// recently.
func TestProposalCache_EvictsOldestProposal(t *testing.T) {
	cache, now := newProposalCache(), time.Now()
	newProposal := func(code string) proposal {
		return proposal{id: affiliate.NewID[affiliate.ClickID](now).UUID, code: code}
	}
	oldest, second := newProposal("anna"), newProposal("ben")
	oldestClick := cache.claim(oldest, now)
	secondClick := cache.claim(second, now)
	cache.claim(oldest, now)
	for range maxProposals - 1 {
		cache.claim(newProposal("other"), now)
	}
	if cache.claim(second, now) != secondClick {
		t.Error("the second oldest proposal was evicted")
	}
	if cache.claim(oldest, now) == oldestClick {
		t.Error("the oldest proposal was not evicted")
	}
}

// gatedSink is a Sink whose writes wait for the test. Each write receives a value from
// gate and returns it. After gate is closed, writes succeed at once.
type gatedSink struct {
	gate    chan error
	batches atomic.Int64
	largest atomic.Int64
}

func (s *gatedSink) Append(_ context.Context, _ int, batch []byte, n int) error {
	s.batches.Add(1)
	s.largest.Store(max(s.largest.Load(), int64(n)))
	if len(batch) > batchBytes || n > batchRecords {
		return errors.New("the batch is too large")
	}
	return <-s.gate
}

func TestBatcher_FullQueueRefusesRecords(t *testing.T) {
	sink := &gatedSink{gate: make(chan error)}
	b := newBatcher(sink, 1, newMetrics(newRegistry()))
	record := make([]byte, 1000)
	var accepted []*batch
	for {
		batch, err := b.add(t.Context(), 0, record)
		if err != nil {
			if !errors.Is(err, errOverloaded) {
				t.Fatalf("add to a full queue: error %v, want errOverloaded", err)
			}
			break
		}
		accepted = append(accepted, batch)
	}
	if len(accepted) != queueRecords || !b.full() {
		t.Errorf("%d records accepted and full() = %t, want %d and true", len(accepted), b.full(), queueRecords)
	}
	close(sink.gate)
	for _, batch := range accepted {
		check(t, batch.wait())
	}
	if b.full() || b.records.Load() != 0 || b.bytes.Load() != 0 {
		t.Errorf("after all writes: %d records and %d bytes, full() = %t; want 0, 0 and false", b.records.Load(), b.bytes.Load(), b.full())
	}
	b.close()

	// The number of bytes is bounded too.
	sink = &gatedSink{gate: make(chan error)}
	b = newBatcher(sink, 1, newMetrics(newRegistry()))
	large, n := make([]byte, 8<<10), 0
	for ; ; n++ {
		if _, err := b.add(t.Context(), 0, large); err != nil {
			break
		}
	}
	if n*len(large) > queueBytes+len(large) {
		t.Errorf("%d bytes accepted, want about %d", n*len(large), queueBytes)
	}
	close(sink.gate)
	b.close()
}

func TestBatcher_EachBatchHasItsOwnResult(t *testing.T) {
	sink := &gatedSink{gate: make(chan error)}
	b := newBatcher(sink, 1, newMetrics(newRegistry()))
	first, err := b.add(t.Context(), 0, []byte("1"))
	check(t, err)
	waitFor(t, "the write of the first batch", func() bool { return sink.batches.Load() > 0 })
	sink.gate <- errors.New("write failed")
	if first.wait() == nil {
		t.Error("wait() = nil for the failed batch, want an error")
	}
	second, err := b.add(t.Context(), 0, []byte("2"))
	check(t, err)
	sink.gate <- nil
	check(t, second.wait())
	b.close()
	if _, err := b.add(t.Context(), 0, []byte("3")); !errors.Is(err, errStopping) {
		t.Errorf("add after close: error %v, want errStopping", err)
	}
}

func TestShutdown_RespondsToAllRequests(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	sink := &gatedSink{gate: make(chan error)}
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
			response, err := (&http.Client{Transport: transport}).Do(r)
			if err != nil {
				t.Errorf("sending a click: %v", err)
				statuses <- 0
				return
			}
			_ = response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	waitFor(t, "all clicks in the queue", func() bool { return e.collector.batches.records.Load() >= n })
	stop()
	waitFor(t, "the start of the shutdown", func() bool { return e.collector.MissingDependency(t.Context()) != "" })
	close(sink.gate)
	for range n {
		if status := <-statuses; status != 201 {
			t.Errorf("a request during the shutdown: status %d, want 201", status)
		}
	}
	check(t, <-ended)
}

func TestPanic_RespondsWithInternalError(t *testing.T) {
	e := newEdge(t, redistest.New(t))
	e.collector.deps.Limits = nil
	if got := e.click(plainClick); got.status != 500 || got.body["code"] != "INTERNAL_ERROR" || got.header.Get("X-Request-Id") == "" {
		t.Errorf("status %d with the request id %q, want 500 with INTERNAL_ERROR and a request id: %s", got.status, got.header.Get("X-Request-Id"), got.text)
	}
}
