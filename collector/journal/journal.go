package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	defaultSegmentBytes = 64 << 20
	defaultMaxBytes     = 1 << 30
	// groupBytes bounds the size of a group, the data that is written with one fsync. It
	// also bounds the memory of the writer.
	groupBytes = 4 << 20
	// retryAfter is the time between two disk checks of a broken journal.
	retryAfter = time.Second
)

var (
	// ErrFull means that the batch would exceed MaxBytes. The journal has space again
	// after Drain has deleted segments.
	ErrFull = errors.New("the journal is full")
	// ErrBroken means that a write or an fsync failed, for this batch or an earlier one.
	// The returned error also wraps the cause.
	ErrBroken = errors.New("the journal is broken")
	// ErrClosed is returned by Append, Drain, Ready and Recover after Close was called.
	ErrClosed = errors.New("the journal is closed")
)

// Config configures the location and the size of a journal.
type Config struct {
	// Dir is the folder of the journal. It must not contain other files. Open creates it
	// if it does not exist.
	Dir string
	// SegmentBytes is the largest size of a segment. Default: 64 MiB.
	SegmentBytes int64
	// MaxBytes bounds the total size of all segments. Default: 1 GiB.
	MaxBytes int64
	// JoinBytes and JoinClicks allow Drain to join successive records of a segment into
	// one batch, up to these bounds. Joining concatenates the payloads, because two
	// concatenated ClickBatch messages are again a ClickBatch. Default: each record is
	// replayed separately.
	JoinBytes, JoinClicks int
	// Log receives reports of damage and of errors that break the journal. Default: no
	// log.
	Log *slog.Logger

	// folder and now replace the disk and the clock in tests.
	folder func(dir string) folder
	now    func() time.Time
}

// Stats describes the state of a journal at one instant.
type Stats struct {
	// Segments is the number of files. If it is not 0, Drain has work to do: even a file
	// without records, left by a failed write, must be deleted.
	Segments int
	// Bytes is the durable size of all segments. MaxBytes is the bound from Config.
	Bytes, MaxBytes int64
	// Clicks is the number of clicks that wait for Drain. It decreases when a segment is
	// deleted, by all clicks of the segment at once.
	Clicks int64
	// Oldest is the time at which the oldest waiting record was written. It is zero if no
	// record waits.
	Oldest time.Time
	// Broken is the error that broke the journal. It is nil while the journal works.
	Broken error
	// Skipped is the number of damaged records that Open and Drain have found. A damaged
	// record may have contained acknowledged clicks, so the disk should be inspected.
	// After a loss of power it may also be a record that was never acknowledged.
	Skipped int64
	// Truncated is 1 if Open cut off an incomplete record, and otherwise 0. Usually the
	// record was not acknowledged, because the process ended while it wrote the record.
	// The package comment describes the exceptions.
	Truncated int64
}

// Journal is an open journal. It is safe for concurrent use.
type Journal struct {
	cfg    Config
	folder folder
	lock   *os.File

	draining   chan struct{} // semaphore that allows one Drain at a time
	writerDone chan struct{} // closed when the writer goroutine has ended

	mu   sync.Mutex
	work *sync.Cond // wakes the writer after a change to the fields below
	// segments are the segments on disk, oldest first. If the writer has an active
	// segment, to which it appends, this segment is the last element.
	segments []*segment
	// waiting contains the entries that are not in a group yet, in order of arrival.
	waiting []*entry
	// reserved is the largest number of bytes that the waiting entries and the current
	// group can add to the segments.
	reserved int64
	// full is true after an Append has returned ErrFull, until Drain has deleted a
	// segment.
	full bool
	// sealRequest is set by Drain. It requests that the writer close the active segment
	// and send the list of all segments to this channel. It is nil if there is no
	// request.
	sealRequest chan []*segment
	closed      bool
	endDrain    context.CancelCauseFunc // cancels the running Drain

	// broken is the error that broke the journal, or nil.
	broken error
	// lastCheck is the time at which the journal broke or at which its disk was last
	// checked.
	lastCheck time.Time

	skipped, truncated int64

	writer writer
}

type segment struct {
	number uint64
	// size is the durable length. Bytes after it belong to a group whose write or fsync failed.
	size    int64
	records int64
	clicks  int64
	oldest  time.Time
}

func (s *segment) name() string { return segmentName(s.number) }

// add counts a record of n clicks that was written at the given time.
func (s *segment) add(n int, at time.Time) {
	if s.records == 0 || at.Before(s.oldest) {
		s.oldest = at
	}
	s.records++
	s.clicks += int64(n)
}

// Open opens the journal in cfg.Dir and reads all its segments once. Records of an
// earlier process wait for Drain. Open cuts off a torn tail, the incomplete record that a
// killed process left. It fails if another process has opened the journal, or if a
// segment has another format version.
func Open(cfg Config) (*Journal, error) {
	cfg.SegmentBytes, cfg.MaxBytes = cmp.Or(cfg.SegmentBytes, defaultSegmentBytes), cmp.Or(cfg.MaxBytes, defaultMaxBytes)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
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
		cfg: cfg, folder: cfg.folder(cfg.Dir), lock: owner,
		draining: make(chan struct{}, 1), writerDone: make(chan struct{}),
	}
	j.work = sync.NewCond(&j.mu)
	if err := j.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: %w", err), owner.Close())
	}
	go j.write()
	return j, nil
}

// load reads the segments in the folder. It syncs the folder, because the previous
// process may have ended before it could do so. Nothing is appended to the loaded
// segments: the first Append begins a new segment.
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

// loadSegment reads a whole segment. If no record can be replayed, it removes or renames the
// segment and returns nil. It cuts off a torn tail only if the segment is the newest.
func (j *Journal) loadSegment(number uint64, newest bool) (*segment, error) {
	s := &segment{number: number}
	opened, size, err := j.folder.open(s.name())
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	s.size = size
	tail, torn, err := s.scan(opened, func(r Record) error { s.add(r.Clicks, r.Time); return nil }, j.countDamage)
	if err != nil {
		return nil, err
	}
	switch {
	case tail.Bytes == 0:
	case newest && torn:
		s.size = tail.Offset
		j.truncated++
		j.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "an incomplete record at the end of the journal was cut off",
			slog.String("segment", tail.Segment), slog.Int64("offset", tail.Offset), slog.Int64("bytes", tail.Bytes))
	default:
		j.countDamage(tail)
	}
	switch {
	case s.records > 0 && newest:
		// truncate also syncs the records that the previous process may not have synced.
		return s, j.folder.truncate(s.name(), s.size)
	case s.records > 0:
		return s, nil
	case size <= segmentHeader && (tail.Bytes == 0 || newest && torn):
		return nil, j.folder.remove(s.name()) // its process created the segment but wrote no record
	}
	newName, err := j.folder.quarantine(number)
	if err == nil {
		j.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "a segment of the journal has no good record and was renamed",
			slog.String("segment", s.name()), slog.String("as", newName))
	}
	return nil, err
}

func (j *Journal) countDamage(d Damage) {
	j.logDamage(d)
	j.skipped += int64(d.Records)
}

func (j *Journal) logDamage(d Damage) {
	j.cfg.Log.LogAttrs(context.Background(), slog.LevelError, "the journal is damaged: records are skipped",
		slog.String("segment", d.Segment), slog.Int64("offset", d.Offset), slog.Int64("bytes", d.Bytes), slog.Int("records", d.Records))
}

// scan calls visit for each good record of the segment, in order. It calls reportDamage
// for each damaged range before or between good records. It returns the bytes after the
// last good record as tail. torn is true if the tail is a single incomplete record.
func (s *segment) scan(contents io.ReaderAt, visit func(Record) error, reportDamage func(Damage)) (tail Damage, torn bool, err error) {
	records, err := newScanner(contents, s.size)
	if err != nil {
		return Damage{}, false, err
	}
	for {
		r, damage, err := records.next()
		damage.Segment, r.Segment = s.name(), s.name()
		if errors.Is(err, io.EOF) {
			torn, err := records.isTorn(damage)
			return damage, torn, err
		}
		if err != nil {
			return Damage{}, false, err
		}
		if damage.Bytes > 0 {
			reportDamage(damage)
		}
		if err := visit(r); err != nil {
			return Damage{}, false, err
		}
	}
}

// Append makes one batch durable. batch is a marshalled edge.v1.ClickBatch of n clicks.
// If Append returns nil, the batch is written and synced. If it returns ErrFull or
// ErrBroken (see errors.Is), this process does not replay the batch. If it returns
// because ctx ended, the batch may or may not be replayed. Concurrent calls share an
// fsync. The caller may reuse batch after Append has returned.
func (j *Journal) Append(ctx context.Context, batch []byte, n int) error {
	if len(batch) > maxBatch || n < 1 || n > len(batch) {
		return fmt.Errorf("journal: a record cannot contain %d clicks in %d bytes", n, len(batch))
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	at := j.cfg.now()
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

// Ready returns nil if the journal accepts batches. It returns ErrFull after an Append
// failed for lack of space, until Drain has deleted a segment. It returns ErrBroken after
// a write or an fsync failed, until a disk check by Drain or Recover succeeds. It returns
// ErrClosed after Close.
func (j *Journal) Ready() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.checkAppend(1); err != nil {
		return err
	}
	if j.full {
		return ErrFull
	}
	return nil
}

// Stats returns the current state of the journal.
func (j *Journal) Stats() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := Stats{Segments: len(j.segments), MaxBytes: j.cfg.MaxBytes, Broken: j.broken, Skipped: j.skipped, Truncated: j.truncated}
	for _, segment := range j.segments {
		s.Bytes += segment.size
		s.Clicks += segment.clicks
		if segment.records > 0 && (s.Oldest.IsZero() || segment.oldest.Before(s.Oldest)) {
			s.Oldest = segment.oldest
		}
	}
	return s
}

// FreeBytes returns the free space of the journal's file system, for users without
// privileges.
func (j *Journal) FreeBytes() (int64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Fstatfs(int(j.lock.Fd()), &disk); err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	return int64(disk.Bavail) * int64(disk.Bsize), nil //nolint:gosec,unconvert // no disk has so many bytes; other systems have other types
}

// Close writes the waiting batches, cancels a running Drain and unlocks the folder.
// Records that were not drained stay on disk for the next Open.
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
	<-j.writerDone
	j.draining <- struct{}{} // never released, so that no Drain can begin
	return j.lock.Close()
}
