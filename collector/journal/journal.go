package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	defaultSegmentBytes = 64 << 20
	defaultMaxBytes     = 1 << 30
	// groupBytes bounds what one fsync makes durable, and so the writer's memory.
	groupBytes = 4 << 20
	// retryAfter is how long a broken journal waits between two trials of its disk.
	retryAfter = time.Second
)

var (
	// ErrFull means that the batch does not fit into MaxBytes before Drain has made
	// room.
	ErrFull = errors.New("the journal is full")
	// ErrBroken means that a write or an fsync failed, this batch's or an earlier
	// one. The error wraps the cause too.
	ErrBroken = errors.New("the journal is broken")
	// ErrClosed is what Append and Drain return once Close was called.
	ErrClosed = errors.New("the journal is closed")
)

// Config says where a journal is and how large it may become.
type Config struct {
	// Dir is the folder, of this journal alone. It is made when it is missing.
	Dir string
	// SegmentBytes is how long a segment becomes. Default: 64 MiB.
	SegmentBytes int64
	// MaxBytes bounds all segments together. Default: 1 GiB.
	MaxBytes int64
	// JoinBytes and JoinClicks let Drain join records that follow each other in a
	// segment, up to these bounds: batches one behind the other are a batch. Default:
	// each record is replayed by itself.
	JoinBytes, JoinClicks int
	// Log hears of damage and of what broke the journal. Default: nobody does.
	Log *slog.Logger

	// For tests: another folder, another clock.
	folder func(dir string) folder
	now    func() time.Time
}

// Stats is a journal at one instant.
type Stats struct {
	// Segments is how many files there are. Drain has work when there are any: the
	// file of a write that failed may hold nothing, and is in the way all the same.
	Segments int
	// Bytes is the length of all segments, as far as they are durable.
	Bytes, MaxBytes int64
	// Clicks is how many wait for Drain. Those of a segment go together.
	Clicks int64
	// Oldest is when the oldest waiting record was written; zero: none waits.
	Oldest time.Time
	// Broken is what broke the journal, until it is whole again.
	Broken error
	// Skipped is how many damaged records were found since Open, by it or by a Drain.
	// Any may be a click that somebody was told is durable, and asks for a look at the
	// disk; but after a loss of power they may also be what was never answered.
	// Truncated is 1 when Open cut off a record, or the beginning of one, that was not
	// written to its end: no click that was acknowledged, only a process that ended
	// while it wrote.
	Skipped, Truncated int64
}

// Journal is an open journal. It is safe for concurrent use.
type Journal struct {
	folder       folder
	lock         *os.File
	log          *slog.Logger
	now          func() time.Time
	segmentBytes int64
	maxBytes     int64
	joinBytes    int
	joinClicks   int

	draining chan struct{} // holds the one Drain there may be
	written  chan struct{} // closed when the writer has ended

	mu   sync.Mutex
	work *sync.Cond // the writer's: something below has changed
	// segments are those on disk, oldest first, the active one last.
	segments []*segment
	// waiting is not yet in a group. reserved is what waiting and the group under
	// way may add to the segments.
	waiting  []*entry
	reserved int64
	// full is true from an ErrFull until Drain has made room.
	full bool
	// seal asks the writer to end the active segment, and for the segments then
	// there are.
	seal     chan []*segment
	closed   bool
	endDrain context.CancelCauseFunc // of the Drain under way

	broken error
	// tried is when the journal broke, or was last tried anew.
	tried time.Time

	skipped, truncated int64

	writer writer
}

// segment is one file.
type segment struct {
	number uint64
	// size is the durable length; what the file holds behind it was refused.
	size    int64
	records int64
	clicks  int64
	oldest  time.Time
}

func (s *segment) name() string { return segmentName(s.number) }

// add counts a record in.
func (s *segment) add(n int, at time.Time) {
	if s.records == 0 || at.Before(s.oldest) {
		s.oldest = at
	}
	s.records++
	s.clicks += int64(n)
}

// Open opens the journal in cfg.Dir, and reads it through once: what an earlier
// process left waits for Drain, and the torn tail of its last group is cut off. It
// fails when another process has the journal, and when a segment is of a newer
// program's format.
func Open(cfg Config) (*Journal, error) {
	if cfg.SegmentBytes <= 0 {
		cfg.SegmentBytes = defaultSegmentBytes
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.now == nil {
		cfg.now = time.Now
	}
	if cfg.folder == nil {
		cfg.folder = func(dir string) folder { return disk{dir} }
	}
	if err := makeFolder(cfg.Dir); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	owner, err := lock(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	j := &Journal{
		folder: cfg.folder(cfg.Dir), lock: owner, log: cfg.Log, now: cfg.now,
		segmentBytes: cfg.SegmentBytes, maxBytes: cfg.MaxBytes, joinBytes: cfg.JoinBytes, joinClicks: cfg.JoinClicks,
		draining: make(chan struct{}, 1), written: make(chan struct{}),
	}
	j.work = sync.NewCond(&j.mu)
	if err := j.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: %w", err), owner.Close())
	}
	go j.write()
	return j, nil
}

// load finds out what the folder holds, and makes that durable: the process before
// may have ended too early to. Whatever is in it is only read from now on; the first
// Append begins a segment of its own.
func (j *Journal) load() error {
	numbers, err := j.folder.list()
	if err != nil {
		return err
	}
	for i, number := range numbers {
		s, err := j.loadSegment(number, i == len(numbers)-1)
		if err != nil {
			return fmt.Errorf("%s: %w", segmentName(number), err)
		}
		if s != nil {
			j.segments = append(j.segments, s)
		}
		j.writer.number = number
	}
	return j.folder.sync()
}

// loadSegment reads a segment through; nil when there is nothing to replay from it.
// Of the newest only, a torn tail is cut off.
func (j *Journal) loadSegment(number uint64, newest bool) (*segment, error) {
	s := &segment{number: number}
	from, size, err := j.folder.open(s.name())
	if err != nil {
		return nil, err
	}
	defer from.Close()
	s.size = size
	tail, torn, err := s.scan(from, func(r Record) error { s.add(r.Clicks, r.Time); return nil }, j.damaged)
	if err != nil {
		return nil, err
	}
	switch {
	case tail.Bytes == 0:
	case newest && torn:
		s.size = tail.Offset
		j.truncated++
		j.log.LogAttrs(context.Background(), slog.LevelWarn, "the journal's torn tail is cut off",
			slog.String("segment", tail.Segment), slog.Int64("offset", tail.Offset), slog.Int64("bytes", tail.Bytes))
	default:
		j.damaged(tail)
	}
	switch {
	case s.records > 0 && newest:
		return s, j.folder.truncate(s.name(), s.size)
	case s.records > 0:
		return s, nil
	case size <= segmentHeader && (tail.Bytes == 0 || newest && torn):
		return nil, j.folder.remove(s.name()) // begun and never written
	}
	aside, err := j.folder.setAside(number)
	if err == nil {
		j.log.LogAttrs(context.Background(), slog.LevelWarn, "a segment of the journal has no good record and is set aside",
			slog.String("segment", s.name()), slog.String("as", aside))
	}
	return nil, err
}

// damaged counts and logs a damaged stretch.
func (j *Journal) damaged(d Damage) {
	j.logDamage(d)
	j.skipped += int64(d.Records)
}

func (j *Journal) logDamage(d Damage) {
	j.log.LogAttrs(context.Background(), slog.LevelError, "the journal is damaged: records are skipped",
		slog.String("segment", d.Segment), slog.Int64("offset", d.Offset), slog.Int64("bytes", d.Bytes), slog.Int("records", d.Records))
}

// scan hands out the segment's good records in order, and the damage between them.
// What lies behind the last one is returned as tail; torn says that it is a record
// which was not written to its end.
func (s *segment) scan(from io.ReaderAt, visit func(Record) error, damaged func(Damage)) (tail Damage, torn bool, err error) {
	records, err := newScanner(from, s.size)
	if err != nil {
		return Damage{}, false, err
	}
	for {
		r, damage, err := records.next()
		damage.Segment, r.Segment = s.name(), s.name()
		if errors.Is(err, io.EOF) {
			torn, err := records.torn(damage)
			return damage, torn, err
		}
		if err != nil {
			return Damage{}, false, err
		}
		if damage.Bytes > 0 {
			damaged(damage)
		}
		if err := visit(r); err != nil {
			return Damage{}, false, err
		}
	}
}

// Append makes one batch durable: a marshalled edge.v1.ClickBatch of n clicks. nil
// means written and fsynced. With ErrFull and ErrBroken (see errors.Is) it is not
// handed out in this process's life; when ctx ends first it may be. Calls at the
// same time share an fsync. batch may be reused afterwards.
func (j *Journal) Append(ctx context.Context, batch []byte, n int) error {
	if len(batch) > maxBatch || n < 1 || n > len(batch) {
		return fmt.Errorf("journal: no record can hold %d clicks in %d bytes", n, len(batch))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	at := j.now()
	e := &entry{header: makeHeader(batch, n, at), batch: batch, n: n, at: at, done: make(chan error, 1)}
	if err := j.enqueue(e); err != nil {
		return err
	}
	select {
	case err := <-e.done:
		return err
	case <-ctx.Done():
		return j.withdraw(ctx, e)
	}
}

// Ready is nil when an Append would be taken: ErrFull since one was refused for want
// of room, until Drain has made some; ErrBroken from the first failure until Drain or
// Try has found the disk well.
func (j *Journal) Ready() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.refusal(1); err != nil {
		return err
	}
	if j.full {
		return ErrFull
	}
	return nil
}

// Stats says how the journal is.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := Stats{Segments: len(j.segments), MaxBytes: j.maxBytes, Broken: j.broken, Skipped: j.skipped, Truncated: j.truncated}
	for _, one := range j.segments {
		s.Bytes += one.size
		s.Clicks += one.clicks
		if one.records > 0 && (s.Oldest.IsZero() || one.oldest.Before(s.Oldest)) {
			s.Oldest = one.oldest
		}
	}
	return s
}

// Close writes what waits, ends a Drain under way and gives the folder back. What
// was not drained stays for the next Open.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	if j.endDrain != nil {
		j.endDrain(ErrClosed)
	}
	j.work.Signal()
	j.mu.Unlock()
	<-j.written
	j.draining <- struct{}{} // and never given back
	return j.lock.Close()
}
