package collector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/collector/journal"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// waitFor waits until isTrue returns true. expected describes the condition.
func waitFor(t *testing.T, expected string, isTrue func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !isTrue(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20 s for %s", expected)
		}
	}
}

// startLoad sends clicks from several clients until stop is called. stop returns the ids
// of the clicks with the status 201, and the number of responses with each other status.
func (e *edge) startLoad(clients int) (stop func() (acknowledged []string, others map[int]int)) {
	var mu sync.Mutex
	var ids []string
	others := map[int]int{}
	var ending atomic.Bool
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for !ending.Load() {
				got := e.click(plainClick)
				mu.Lock()
				if got.status == http.StatusCreated {
					ids = append(ids, got.body["click_id"].(string))
				} else {
					others[got.status]++
				}
				mu.Unlock()
			}
		})
	}
	return func() ([]string, map[int]int) {
		ending.Store(true)
		group.Wait()
		return ids, others
	}
}

// requireAllStored stops the clients of startLoad. It checks that no click was refused,
// and that every click is in the stream after the journal was replayed.
func (e *edge) requireAllStored(t *testing.T, stop func() (acknowledged []string, others map[int]int)) {
	t.Helper()
	acknowledged, others := stop()
	if len(others) > 0 {
		t.Errorf("number of responses by status: %v; want only responses with the status 201", others)
	}
	waitFor(t, "an empty journal", func() bool { return e.journaledClicks() == 0 })
	requireStored(t, e.storedClicks(), acknowledged, false)
}

func (e *edge) journaledClicks() int64 { return e.collector.journalSink.journal.Stats().Clicks }

// runBackground runs the background functions that Run starts.
func (e *edge) runBackground() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range e.collector.deps.Background {
		running.Go(func() { run(ctx) })
	}
	e.t.Cleanup(func() { stop(); running.Wait() })
}

// Redis is killed under load. No click is refused. After the restart of Redis, every
// click is in the stream.
func TestJournal_RedisKilledRefusesNoClick(t *testing.T) {
	server := redistest.Start(t)
	e := newEdge(t, server.URL, func(cfg *Config) { cfg.LimitTracking, cfg.JournalDir = 1_000_000, t.TempDir() })
	e.runBackground()
	stop := e.startLoad(8)
	waitFor(t, "more than 50 clicks in the stream", func() bool { return len(e.storedClicks()) > 50 })
	server.Kill9()
	waitFor(t, "more than 50 clicks in the journal", func() bool { return e.journaledClicks() > 50 })
	if got := e.send("GET", "/v1/health/ready", ""); got.status != 200 {
		t.Errorf("/v1/health/ready without Redis and with a journal: status %d, want 200: %s", got.status, got.text)
	}
	if got := e.send("GET", "/v1/health/sink", ""); got.status != 503 || !strings.Contains(got.text, "redis") {
		t.Errorf("/v1/health/sink without Redis: status %d, want 503 and a message about redis: %s", got.status, got.text)
	}
	server.Restart()
	waitFor(t, "an available stream", func() bool { return e.send("GET", "/v1/health/sink", "").status == 200 })
	e.requireAllStored(t, stop)
}

// When Redis hangs, the first clicks wait one second for Redis and are then written to
// the journal. Later clicks are written to the journal at once, so the queue stays short.
func TestJournal_HangingRedisDelaysOnlyFirstClicks(t *testing.T) {
	server := redistest.Start(t)
	e := newEdge(t, server.URL, func(cfg *Config) { cfg.LimitTracking, cfg.JournalDir = 1_000_000, t.TempDir() })
	e.click(plainClick)
	e.runBackground()
	server.Pause()
	stop := e.startLoad(16)
	waitFor(t, "more than 1000 clicks in the journal", func() bool { return e.journaledClicks() > 1000 })
	server.Resume()
	waitFor(t, "an empty journal and an available stream", func() bool { return e.journaledClicks() == 0 && e.collector.MissingSinkDependency(t.Context()) == "" })
	e.requireAllStored(t, stop)
}

// If the sink accepts no batches of one shard, only the clicks of this shard are refused.
func TestBatcher_FailedShardRefusesOnlyItsOwnClicks(t *testing.T) {
	b := newBatcher(failingShardSink{}, 3, newMetrics(newRegistry()))
	defer b.close()
	for range 4 * failuresBeforeRefusal {
		if batch, err := b.add(t.Context(), 1, []byte("x")); err == nil && batch.wait() == nil {
			t.Fatal("the failed shard accepted a click")
		}
	}
	if _, err := b.add(t.Context(), 1, []byte("x")); !errors.Is(err, errOverloaded) {
		t.Errorf("add to the failed shard: error %v, want errOverloaded", err)
	}
	for _, shard := range []int{0, 2} {
		batch, err := b.add(t.Context(), shard, []byte("x"))
		check(t, err)
		if err := batch.wait(); err != nil {
			t.Errorf("a click of shard %d: %v", shard, err)
		}
	}
	if b.full() {
		t.Error("full() = true although two shards accept clicks")
	}
}

type failingShardSink struct{}

func (failingShardSink) Append(_ context.Context, shard int, _ []byte, _ int) error {
	if shard == 1 {
		return errors.New("the shard failed")
	}
	return nil
}

// After a restart, the collector moves the clicks of its journal to the stream. The
// clicks keep their ids and times of receipt.
func TestJournal_IsReplayedAfterStart(t *testing.T) {
	server, dir := redistest.Start(t), t.TempDir()
	first := newEdge(t, server.URL, func(cfg *Config) { cfg.JournalDir = dir })
	inStream := first.click(plainClick)
	server.Kill9()
	acknowledged := []string{inStream.body["click_id"].(string)}
	// The time of receipt of a click is between its request and its response.
	requests, responses := map[string]time.Time{}, map[string]time.Time{}
	for range 20 {
		began := time.Now()
		got := first.click(plainClick)
		if got.status != http.StatusCreated {
			t.Fatalf("a click without Redis: status %d, want 201: %s", got.status, got.text)
		}
		id := got.body["click_id"].(string)
		requests[id], responses[id] = began, time.Now()
		acknowledged = append(acknowledged, id)
	}
	check(t, first.collector.Shutdown(t.Context()))
	first.collector.journalSink.finalDrain(t.Context())
	if n := first.journaledClicks(); n != 20 {
		t.Fatalf("after the shutdown the journal has %d clicks, want 20", n)
	}
	check(t, first.collector.journalSink.journal.Close())
	first.collector.closers = first.collector.closers[:len(first.collector.closers)-1]
	server.Restart()

	second := newEdge(t, server.URL, func(cfg *Config) { cfg.JournalDir, cfg.Shards = dir, 4 })
	if n := second.journaledClicks(); n != 20 {
		t.Errorf("after the start the journal has %d clicks, want 20", n)
	}
	second.runBackground()
	waitFor(t, "an empty journal", func() bool { return second.journaledClicks() == 0 })
	var stored []*edgev1.Click
	for shard := range 4 {
		for _, message := range second.client.XRange(t.Context(), clickstream.Key(shard), "-", "+").Val() {
			var batch edgev1.ClickBatch
			check(t, proto.Unmarshal([]byte(message.Values["b"].(string)), &batch))
			stored = append(stored, batch.Clicks...)
			for _, click := range batch.Clicks {
				id, _ := affiliate.IDFromBytes[affiliate.ClickID](click.Id)
				if id.String() == acknowledged[0] {
					continue // It was in the stream before.
				}
				if want := clickstream.Shard(id, 4); want != shard {
					t.Errorf("click %s is in shard %d, want %d", id, shard, want)
				}
				request, response := requests[id.String()], responses[id.String()]
				if at := click.ReceivedAtMs; at < request.UnixMilli() || at > response.UnixMilli() {
					t.Errorf("click %s was received at %v, want a time from its request at %v to its response at %v", id, time.UnixMilli(at), request, response)
				}
			}
		}
	}
	requireStored(t, stored, acknowledged, true)
}

// During its shutdown, a collector moves the clicks of its journal to the stream if the
// stream is available.
func TestShutdown_ReplaysJournal(t *testing.T) {
	server := redistest.Start(t)
	e := newEdge(t, server.URL, func(cfg *Config) { cfg.JournalDir = t.TempDir() })
	server.Kill9()
	if got := e.click(plainClick); got.status != http.StatusCreated {
		t.Fatalf("a click without Redis: status %d, want 201: %s", got.status, got.text)
	}
	server.Restart()
	waitFor(t, "an available stream", func() bool { return e.collector.MissingSinkDependency(t.Context()) == "" })
	ctx, stop := context.WithCancel(t.Context())
	stop()
	check(t, e.collector.Shutdown(t.Context()))
	e.collector.journalSink.run(ctx) // The context has ended, so run replays nothing.
	e.collector.journalSink.finalDrain(t.Context())
	if e.journaledClicks() != 0 || len(e.storedClicks()) != 1 {
		t.Errorf("%d clicks in the journal and %d in the stream, want 0 and 1", e.journaledClicks(), len(e.storedClicks()))
	}
}

// failingSink is a Sink that never acknowledges a batch.
type failingSink struct{ calls atomic.Int64 }

func (s *failingSink) Append(context.Context, int, []byte, int) error {
	s.calls.Add(1)
	return errors.New("the sink is not available")
}

// newEdgeWithSink returns a collector that writes to the given sink and journal.
func newEdgeWithSink(t *testing.T, sink Sink, clickJournal *journal.Journal) *edge {
	t.Helper()
	e := newEdge(t, redistest.New(t))
	c := e.collector
	e.collector = New(Config{AllowHTTP: true, Shards: 1, LimitTracking: 1 << 40, HashKey: bytes.Repeat([]byte("k"), 32)},
		Deps{Sink: sink, Journal: clickJournal, Directory: c.deps.Directory, Limits: c.deps.Limits, MissingDependency: func(context.Context) string { return "redis" }})
	t.Cleanup(func() {
		check(t, e.collector.Shutdown(context.Background()))
		e.collector = c
	})
	return e
}

// unreadableBody is a request body that must not be read.
type unreadableBody struct{ *testing.T }

func (u unreadableBody) Read([]byte) (int, error) {
	u.Error("the body was read")
	return 0, errors.New("the body must not be read")
}

// While neither the stream nor the journal accepts clicks, the collector refuses requests
// before it reads their bodies. The responses have the header Retry-After.
func TestJournal_FullRefusesRequestsBeforeReading(t *testing.T) {
	clickJournal, err := journal.Open(journal.Config{Dir: t.TempDir(), MaxBytes: 4 << 10, SegmentBytes: 1 << 10})
	check(t, err)
	t.Cleanup(func() { _ = clickJournal.Close() })
	sink := &failingSink{}
	e := newEdgeWithSink(t, sink, clickJournal)
	var accepted int
	waitFor(t, "a full journal", func() bool {
		got := e.click(plainClick)
		if got.status == http.StatusCreated {
			accepted++
		}
		return got.status == http.StatusServiceUnavailable
	})
	if accepted == 0 {
		t.Error("the journal accepted no click before it was full")
	}
	if missing := e.collector.MissingDependency(t.Context()); missing != "redis" {
		t.Errorf("MissingDependency with a full journal = %q, want redis", missing)
	}
	waitFor(t, "refusals before the body is read", func() bool { e.click(plainClick); return e.collector.batches.full() })
	failures := e.collector.batches.queues[0].failures.Load()
	r := httptest.NewRequest(http.MethodPost, "/v1/clicks", unreadableBody{t})
	r.Header.Set("X-Public-Key", e.key.Reveal())
	w := httptest.NewRecorder()
	e.collector.handler.ServeHTTP(w, r)
	if retry := w.Header().Get("Retry-After"); w.Code != http.StatusServiceUnavailable || len(retry) != 1 || retry < "1" || retry > "5" ||
		!strings.Contains(w.Body.String(), "SERVICE_UNAVAILABLE") {
		t.Errorf("status %d with Retry-After %q, want 503 SERVICE_UNAVAILABLE and 1 to 5 seconds: %s", w.Code, retry, w.Body)
	}
	if n := sink.calls.Load(); n != 1 {
		t.Errorf("%d batches were sent to the stream, want 1, because only run checks whether the stream is available again", n)
	}
	// After refusalPeriod the batcher writes a batch again, to find out whether the
	// journal accepts clicks.
	waitFor(t, "another failed batch", func() bool { e.click(plainClick); return e.collector.batches.queues[0].failures.Load() > failures })
}

// A journal whose disk failed refuses clicks. When the disk works again, the journal
// accepts clicks again, even if no click was sent in the meantime.
func TestJournal_RecoversWithDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	clickJournal, err := journal.Open(journal.Config{Dir: dir})
	check(t, err)
	t.Cleanup(func() { _ = clickJournal.Close() })
	e := newEdgeWithSink(t, &failingSink{}, clickJournal)
	e.runBackground()
	check(t, os.RemoveAll(dir))
	if got := e.click(plainClick); got.status != http.StatusServiceUnavailable {
		t.Fatalf("a click without the folder of the journal: status %d, want 503: %s", got.status, got.text)
	}
	if missing := e.collector.MissingDependency(t.Context()); missing != "redis" {
		t.Errorf("MissingDependency without the folder of the journal = %q, want redis", missing)
	}
	check(t, os.Mkdir(dir, 0o700))
	waitFor(t, "a working journal", func() bool { return e.collector.MissingDependency(t.Context()) == "" })
	if got := e.click(plainClick); got.status != http.StatusCreated {
		t.Errorf("a click after the folder was created again: status %d, want 201: %s", got.status, got.text)
	}
}

// steppedSink is a Sink that accepts one batch for each value that it receives from turn.
type steppedSink struct{ turn chan struct{} }

func (s steppedSink) Append(context.Context, int, []byte, int) error {
	<-s.turn
	return nil
}

// If clients send twice as many clicks as the sink accepts, the queue fills up to its
// bound. Further clicks are refused, and the memory does not grow any more.
func TestBatcher_OverloadKeepsMemoryBounded(t *testing.T) {
	sink := steppedSink{make(chan struct{})}
	b := newBatcher(sink, 1, newMetrics(newRegistry()))
	record := make([]byte, 400)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	refused := 0
	overload := func(batches int) {
		for range batches {
			for range 2 * batchRecords {
				if _, err := b.add(t.Context(), 0, record); errors.Is(err, errOverloaded) {
					refused++
				} else if err != nil {
					t.Fatalf("add: error %v, want nil or errOverloaded", err)
				}
			}
			sink.turn <- struct{}{}
		}
	}
	overload(2 * queueRecords / batchRecords)
	if refused == 0 || b.records.Load() < queueRecords/2 {
		t.Fatalf("%d records refused and %d in the queue, want at least 1 and %d", refused, b.records.Load(), queueRecords/2)
	}
	before := heap()
	overload(10 * queueRecords / batchRecords)
	if after := heap(); after > before+before/2+1<<20 {
		t.Errorf("the heap grew from %d to %d bytes during the overload, want at most half more", before, after)
	}
	close(sink.turn)
	b.close()
}

// Clients that stop using a connection after a response with Connection: close get a
// response to every request. Every click with the status 201 is stored.
func TestShutdown_BreaksNoConnection(t *testing.T) {
	e := newEdge(t, redistest.New(t), func(cfg *Config) { cfg.LimitTracking, cfg.ShutdownDelay = 1_000_000, 300*time.Millisecond })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.collector.Run(ctx, listener, nil) }()

	var group sync.WaitGroup
	var mu sync.Mutex
	var acknowledged []string
	var responses, closed atomic.Int64
	for range 16 {
		group.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			for {
				r, _ := http.NewRequest(http.MethodPost, fmt.Sprintf("http://%s/v1/clicks", listener.Addr()), strings.NewReader(plainClick))
				r.Header.Set("X-Public-Key", e.key.Reveal())
				response, err := transport.RoundTrip(r)
				if err != nil {
					t.Errorf("a connection broke: %v", err)
					return
				}
				var body struct {
					ID string `json:"click_id"`
				}
				err = json.NewDecoder(response.Body).Decode(&body)
				_ = response.Body.Close()
				if response.StatusCode != http.StatusCreated || err != nil {
					t.Errorf("status %d, error %v; want 201 and the id of the click", response.StatusCode, err)
				}
				mu.Lock()
				acknowledged = append(acknowledged, body.ID)
				mu.Unlock()
				responses.Add(1)
				if response.Close {
					closed.Add(1)
					return
				}
			}
		})
	}
	waitFor(t, "more than 200 responses", func() bool { return responses.Load() > 200 })
	stop()
	group.Wait()
	check(t, <-ended)
	if closed.Load() != 16 {
		t.Errorf("%d clients got a response with Connection: close, want all 16", closed.Load())
	}
	requireStored(t, e.storedClicks(), acknowledged, true)
}

func TestJournalSink_SplitsBatchByShard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(1, 20).Draw(t, "shards")
		var batch []byte
		n := rapid.IntRange(0, 50).Draw(t, "clicks")
		want, clicks := make([][]byte, shards), make([]int, shards)
		for range n {
			id := affiliate.NewID[affiliate.ClickID](time.Now())
			raw, err := proto.Marshal(&edgev1.Click{Id: id.UUID[:], ReferralCode: rapid.String().Draw(t, "code")})
			if err != nil {
				t.Fatalf("marshalling a click: %v", err)
			}
			batch = frame(batch, raw)
			shard := clickstream.Shard(id, shards)
			want[shard] = frame(want[shard], raw)
			clicks[shard]++
		}
		// Bytes that are no click belong to shard 0.
		garbage := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "garbage")
		want[0] = slices.Concat(want[0], garbage)
		sink := &journalSink{unavailable: make([]atomic.Bool, shards)}
		parts := sink.split(append(batch, garbage...), n)
		if len(parts) != shards {
			t.Fatalf("split returns %d parts, want %d", len(parts), shards)
		}
		for shard, part := range parts {
			if !bytes.Equal(part.clicks, want[shard]) {
				t.Fatalf("split returns %x for shard %d, want %x", part.clicks, shard, want[shard])
			}
			if (shard > 0 || len(garbage) == 0) && part.n != clicks[shard] {
				t.Fatalf("split returns %d clicks for shard %d, want %d", part.n, shard, clicks[shard])
			}
		}
	})
}
