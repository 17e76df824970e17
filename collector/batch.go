package collector

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"go.opentelemetry.io/otel/trace"

	"github.com/tributary-hq/tributary/affiliate"
)

// Sink stores batches durably. batch is a marshalled edge.v1.ClickBatch with n records for one
// shard. A shard is one of the Redis streams over which the clicks are distributed. If Append
// returns nil, the batch is durable. Otherwise it may or may not be durable. Append must not
// use batch after it has returned.
type Sink interface {
	Append(ctx context.Context, shard int, batch []byte, n int) error
}

const (
	// batchRecords and batchBytes limit the size of one batch, which becomes one entry of the stream.
	batchRecords = 512
	batchBytes   = 256 << 10
	// queueRecords bounds the number of records that wait or are being written, in all
	// shards together. queueBytes bounds their size. When one of these bounds is reached,
	// new clicks are refused with 503, and short links redirect without a click.
	queueRecords = 20_000
	queueBytes   = 32 << 20
	// flushesInFlight bounds the batches of one shard that are written at the same time.
	// While they are written, the next batch collects records.
	flushesInFlight = 2
	// flushTimeout bounds the write of one batch. The sink's Redis client has shorter
	// socket timeouts, so flushTimeout matters only if they do not end the write.
	flushTimeout = 3 * time.Second
	// After failuresBeforeRefusal failed batches in a row, a shard refuses clicks for
	// refusalPeriod. If all shards refuse clicks, the collector refuses requests before
	// it reads their bodies.
	failuresBeforeRefusal = 5
	refusalPeriod         = 500 * time.Millisecond
)

var (
	errOverloaded = errors.New("the queue is full, or the last batches could not be stored")
	errStopping   = errors.New("the collector is stopping")
)

// batcher groups records into batches and writes the batches to the sink (group commit).
// Each shard has its own queue of batches.
type batcher struct {
	sink    Sink
	metrics *metrics
	queues  []*shardQueue
	records atomic.Int64 // number of records in all queues and in batches being written
	bytes   atomic.Int64 // size of these records
	writers sync.WaitGroup
	buffers sync.Pool
}

// shardQueue holds the batches of one shard. The field waiting is sorted by age, oldest
// batch first. New records join the last batch of waiting until this batch is full or a
// writer takes it. inFlight contains the batch that each writer is writing.
type shardQueue struct {
	mu       sync.Mutex
	work     *sync.Cond
	waiting  []*batch
	inFlight [flushesInFlight]*batch
	closed   bool
	// failures is the number of batches that failed in a row. failedAt is the time of the
	// last failure in Unix nanoseconds.
	failures atomic.Int64
	failedAt atomic.Int64
}

func (q *shardQueue) refusing() bool {
	return q.failures.Load() >= failuresBeforeRefusal && time.Now().UnixNano()-q.failedAt.Load() < int64(refusalPeriod)
}

// batch holds n records that are written together. The requests of these records wait
// until done is closed. err, the result of the write, is set before done is closed.
type batch struct {
	buffer    []byte
	n         int
	startedAt time.Time
	span      trace.Span // of the first traced request, or nil
	done      chan struct{}
	err       error
}

func newBatcher(sink Sink, shards int, m *metrics) *batcher {
	b := &batcher{sink: sink, metrics: m, queues: make([]*shardQueue, shards)}
	b.buffers.New = func() any { buffer := make([]byte, 0, 32<<10); return &buffer }
	for shard := range b.queues {
		q := &shardQueue{}
		q.work = sync.NewCond(&q.mu)
		b.queues[shard] = q
		for slot := range flushesInFlight {
			b.writers.Go(func() { b.writeBatches(shard, q, slot) })
		}
	}
	return b
}

// full reports whether requests can be refused before their bodies are read: the queue
// is full, or all shards refuse.
func (b *batcher) full() bool {
	if b.records.Load() >= queueRecords || b.bytes.Load() >= queueBytes {
		return true
	}
	for _, q := range b.queues {
		if !q.refusing() {
			return false
		}
	}
	return true
}

// oldest returns the start time of the oldest batch that waits or is being written. It
// returns the zero time if there is no such batch.
func (b *batcher) oldest() time.Time {
	var oldest time.Time
	for _, q := range b.queues {
		q.mu.Lock()
		candidates := q.inFlight[:]
		if len(q.waiting) > 0 {
			candidates = append(slices.Clone(candidates), q.waiting[0])
		}
		for _, candidate := range candidates {
			if candidate != nil && (oldest.IsZero() || candidate.startedAt.Before(oldest)) {
				oldest = candidate.startedAt
			}
		}
		q.mu.Unlock()
	}
	return oldest
}

// add adds a framed record (see frame) to the open batch of its shard and returns that
// batch, for which the caller must wait. The write of a batch belongs to the trace of the first
// traced request that was added. ctx is the context of the request.
func (b *batcher) add(ctx context.Context, shard int, framed []byte) (*batch, error) {
	if b.full() {
		return nil, errOverloaded
	}
	q := b.queues[shard]
	if q.refusing() {
		return nil, errOverloaded
	}
	span := trace.SpanFromContext(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, errStopping
	}
	var open *batch
	if last := len(q.waiting) - 1; last >= 0 {
		open = q.waiting[last]
	}
	if open == nil || open.n == batchRecords || len(open.buffer)+len(framed) > batchBytes {
		open = &batch{buffer: (*b.buffers.Get().(*[]byte))[:0], startedAt: time.Now(), done: make(chan struct{})}
		q.waiting = append(q.waiting, open)
		q.work.Signal()
	}
	if open.span == nil && span.IsRecording() {
		open.span = span
	}
	open.buffer = append(open.buffer, framed...)
	open.n++
	b.records.Add(1)
	b.bytes.Add(int64(len(framed)))
	return open, nil
}

func (b *batch) wait() error {
	<-b.done
	return b.err
}

func (b *batch) failed() bool {
	select {
	case <-b.done:
		return b.err != nil
	default:
		return false
	}
}

// writeBatches writes waiting batches of a shard, one after the other, until the queue is
// closed and empty. slot is the writer's index in inFlight.
func (b *batcher) writeBatches(shard int, q *shardQueue, slot int) {
	for {
		q.mu.Lock()
		q.inFlight[slot] = nil
		for len(q.waiting) == 0 && !q.closed {
			q.work.Wait()
			// Let other runnable requests join the batch that the first request
			// started. This makes fewer and larger batches without a timer.
			q.mu.Unlock()
			runtime.Gosched()
			q.mu.Lock()
		}
		if len(q.waiting) == 0 {
			q.mu.Unlock()
			return
		}
		next := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.inFlight[slot] = next
		q.mu.Unlock()
		b.write(shard, next)
	}
}

func (b *batcher) write(shard int, next *batch) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	if next.span != nil {
		ctx = trace.ContextWithSpan(ctx, next.span)
	}
	next.err = b.sink.Append(ctx, shard, next.buffer, next.n)
	cancel()
	if q := b.queues[shard]; next.err == nil {
		q.failures.Store(0)
	} else {
		q.failedAt.Store(time.Now().UnixNano())
		q.failures.Add(1)
	}
	b.records.Add(-int64(next.n))
	b.bytes.Add(-int64(len(next.buffer)))
	b.metrics.flushed(next.n, time.Since(next.startedAt), next.err)
	close(next.done)
	// The buffer can be reused, because waiting requests read only done and err.
	buffer := next.buffer
	next.buffer = nil
	if cap(buffer) <= 2*batchBytes {
		b.buffers.Put(&buffer)
	}
}

// close refuses further records and returns when all batches have been written.
func (b *batcher) close() {
	for _, q := range b.queues {
		q.mu.Lock()
		q.closed = true
		q.work.Broadcast()
		q.mu.Unlock()
	}
	b.writers.Wait()
}

const (
	// proposalLifetime is how long the collector stores a proposed id. If a request is
	// repeated within this time, both requests count as one click.
	proposalLifetime = 10 * time.Minute
	// maxProposals is the maximum number of stored proposals. A proposal takes about 400
	// bytes.
	maxProposals = 100_000
	// maxClockSkew is the largest accepted difference between the time in a proposed id
	// and the current time.
	maxClockSkew = 5 * time.Minute
)

// proposal is a click id that a client proposed, with the referral code of the request and the
// digest of its public key.
type proposal struct {
	id     uuid.UUID
	digest [32]byte
	code   string
}

// issuedClick is a click with the id that the collector gave to it. If the request
// proposed an id, the proposal cache keeps the click, even if it could not be written, so
// that the client gets the same id when it repeats its request. The click is therefore
// counted once, even if Redis stored the first write but the response of Redis was lost.
type issuedClick struct {
	id         affiliate.ClickID
	receivedAt time.Time

	mu sync.Mutex
	// batch is the batch of the last attempt to write the click.
	batch *batch
}

// write makes the click durable. When several requests have the same proposal, the first
// request calls add, which adds the click to a batch, and the other requests wait for
// that batch. If the batch fails, one of the waiting requests calls add again. repeated
// is true if the batch of another request made the click durable.
func (i *issuedClick) write(add func() (*batch, error)) (repeated bool, err error) {
	for {
		i.mu.Lock()
		earlier := i.batch
		if earlier != nil && !earlier.failed() {
			i.mu.Unlock()
			if earlier.wait() == nil {
				return true, nil
			}
			continue
		}
		current, err := add()
		if err == nil {
			i.batch = current
		}
		i.mu.Unlock()
		if err != nil {
			return false, err
		}
		return false, current.wait()
	}
}

// proposalCache stores the proposals of the last ten minutes. When it holds maxProposals,
// a new proposal evicts the oldest one.
type proposalCache struct {
	mu sync.Mutex
	// clicks is ordered by age. Reads use Peek, which does not change the order.
	clicks *simplelru.LRU[proposal, *issuedClick]
	// owners maps each proposed id to its first proposal. A proposal with the same id but
	// another key or code gets a new id instead.
	owners map[uuid.UUID]proposal
}

func newProposalCache() *proposalCache {
	m := &proposalCache{owners: make(map[uuid.UUID]proposal)}
	m.clicks, _ = simplelru.NewLRU(maxProposals, func(p proposal, _ *issuedClick) { // NewLRU fails only if the size is not positive
		if m.owners[p.id] == p {
			delete(m.owners, p.id)
		}
	})
	return m
}

// claim returns the stored click of a proposal, or creates and stores one. The click gets the
// proposed id if this is a UUIDv7, its time is close to now, and no other proposal has the id.
// Otherwise it gets a new id.
func (m *proposalCache) claim(p proposal, now time.Time) *issuedClick {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now)
	if entry, ok := m.clicks.Peek(p); ok {
		return entry
	}
	id := affiliate.ClickID{UUID: p.id}
	at, isV7 := id.Time()
	owner, owned := m.owners[p.id]
	if !isV7 || p.id.Variant() != uuid.RFC4122 || now.Sub(at).Abs() > maxClockSkew || owned && owner != p {
		id = affiliate.NewID[affiliate.ClickID](now)
	}
	entry := &issuedClick{id: id, receivedAt: now}
	m.clicks.Add(p, entry)
	if !owned {
		m.owners[p.id] = p
	}
	return entry
}

func (m *proposalCache) expire(now time.Time) {
	for {
		_, oldest, ok := m.clicks.GetOldest()
		if !ok || now.Sub(oldest.receivedAt) <= proposalLifetime {
			return
		}
		m.clicks.RemoveOldest()
	}
}
