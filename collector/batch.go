package collector

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Sink makes batches durable. A batch is a marshalled edge.v1.ClickBatch of n records
// of one shard. nil means durable; after an error the batch may be durable or not. The
// sink does not keep batch.
type Sink interface {
	Append(ctx context.Context, shard int, batch []byte, n int) error
}

const (
	// batchRecords and batchBytes bound one stream entry.
	batchRecords = 512
	batchBytes   = 256 << 10
	// queueRecords and queueBytes bound the records of all shards that wait or are being
	// written. Beyond them clicks are refused with 503.
	queueRecords = 20_000
	queueBytes   = 32 << 20
	// flushesInFlight bounds the batches of one shard that are written at the same time.
	// Meanwhile the next batch fills.
	flushesInFlight = 2
	// flushTimeout is longer than the socket timeouts of the sink's client and ends
	// writes that these do not end.
	flushTimeout = 3 * time.Second
	// After refusalsInRow failed batches in a row a shard refuses clicks for
	// refusalLasts. If all shards refuse, requests are refused before their bodies are
	// read.
	refusalsInRow = 5
	refusalLasts  = 500 * time.Millisecond
)

var (
	errOverloaded = errors.New("the queue is full, or nothing becomes durable")
	errStopping   = errors.New("the collector is stopping")
)

// batcher is the group commit. Each shard has a line of batches.
type batcher struct {
	sink    Sink
	metrics *metrics
	lines   []*line
	records atomic.Int64
	bytes   atomic.Int64
	flights sync.WaitGroup
	buffers sync.Pool
}

// line holds the batches of one shard in the order of their start. The last one takes
// records until it is full or being written.
type line struct {
	mu      sync.Mutex
	work    *sync.Cond
	waiting []*batch
	flying  [flushesInFlight]*batch
	closed  bool
	// refused is the number of failed batches in a row, refusedAt the time of the last
	// one in Unix nanoseconds.
	refused   atomic.Int64
	refusedAt atomic.Int64
}

// refuses reports whether the last batches of this shard failed.
func (l *line) refuses() bool {
	return l.refused.Load() >= refusalsInRow && time.Now().UnixNano()-l.refusedAt.Load() < int64(refusalLasts)
}

// batch holds the records that one command writes. Their requests wait for done; err is
// set before done is closed.
type batch struct {
	buffer []byte
	n      int
	begun  time.Time
	done   chan struct{}
	err    error
}

func newBatcher(sink Sink, shards int, m *metrics) *batcher {
	b := &batcher{sink: sink, metrics: m, lines: make([]*line, shards)}
	b.buffers.New = func() any { buffer := make([]byte, 0, 32<<10); return &buffer }
	for shard := range b.lines {
		l := &line{}
		l.work = sync.NewCond(&l.mu)
		b.lines[shard] = l
		for seat := range flushesInFlight {
			b.flights.Go(func() { b.fly(shard, l, seat) })
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
	for _, l := range b.lines {
		if !l.refuses() {
			return false
		}
	}
	return true
}

// oldest returns the start time of the oldest batch that waits or is being written;
// zero if there is none.
func (b *batcher) oldest() time.Time {
	var oldest time.Time
	for _, l := range b.lines {
		l.mu.Lock()
		under := l.flying[:]
		if len(l.waiting) > 0 {
			under = append(slices.Clone(under), l.waiting[0])
		}
		for _, one := range under {
			if one != nil && (oldest.IsZero() || one.begun.Before(oldest)) {
				oldest = one.begun
			}
		}
		l.mu.Unlock()
	}
	return oldest
}

// add puts a framed record (see frame) into the next batch of its shard and returns the
// batch, for which the caller waits.
func (b *batcher) add(shard int, framed []byte) (*batch, error) {
	if b.full() {
		return nil, errOverloaded
	}
	l := b.lines[shard]
	if l.refuses() {
		return nil, errOverloaded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, errStopping
	}
	var open *batch
	if last := len(l.waiting) - 1; last >= 0 {
		open = l.waiting[last]
	}
	if open == nil || open.n == batchRecords || len(open.buffer)+len(framed) > batchBytes {
		open = &batch{buffer: (*b.buffers.Get().(*[]byte))[:0], begun: time.Now(), done: make(chan struct{})}
		l.waiting = append(l.waiting, open)
		l.work.Signal()
	}
	open.buffer = append(open.buffer, framed...)
	open.n++
	b.records.Add(1)
	b.bytes.Add(int64(len(framed)))
	return open, nil
}

// wait returns the result of the batch's command.
func (b *batch) wait() error {
	<-b.done
	return b.err
}

// failed reports whether the batch's command has failed.
func (b *batch) failed() bool {
	select {
	case <-b.done:
		return b.err != nil
	default:
		return false
	}
}

func (b *batcher) fly(shard int, l *line, seat int) {
	for {
		l.mu.Lock()
		l.flying[seat] = nil
		for len(l.waiting) == 0 && !l.closed {
			l.work.Wait()
			// Let other runnable requests join the batch that the first one started:
			// fewer and larger batches without a timer.
			l.mu.Unlock()
			runtime.Gosched()
			l.mu.Lock()
		}
		if len(l.waiting) == 0 {
			l.mu.Unlock()
			return
		}
		next := l.waiting[0]
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		l.flying[seat] = next
		l.mu.Unlock()
		b.flush(shard, next)
	}
}

func (b *batcher) flush(shard int, full *batch) {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	full.err = b.sink.Append(ctx, shard, full.buffer, full.n)
	cancel()
	if l := b.lines[shard]; full.err == nil {
		l.refused.Store(0)
	} else {
		l.refusedAt.Store(time.Now().UnixNano())
		l.refused.Add(1)
	}
	b.records.Add(-int64(full.n))
	b.bytes.Add(-int64(len(full.buffer)))
	b.metrics.flushed(full.n, time.Since(full.begun), full.err)
	close(full.done)
	// Waiting requests read done and err only.
	buffer := full.buffer
	full.buffer = nil
	if cap(buffer) <= 2*batchBytes {
		b.buffers.Put(&buffer)
	}
}

// close refuses further records and returns when all batches are finished.
func (b *batcher) close() {
	for _, l := range b.lines {
		l.mu.Lock()
		l.closed = true
		l.work.Broadcast()
		l.mu.Unlock()
	}
	b.flights.Wait()
}
