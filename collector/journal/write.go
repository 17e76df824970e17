package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"
)

// entry is one batch on its way to the disk.
type entry struct {
	header [recordHeader]byte
	batch  []byte
	n      int
	at     time.Time
	done   chan error // of room for one
}

func (e *entry) length() int64 { return recordHeader + int64(len(e.batch)) }

// reserve is the most that a batch adds to the segments: it may begin one.
func reserve(batch int) int64 { return segmentHeader + recordHeader + int64(batch) }

// writer is what only the goroutine of write uses.
type writer struct {
	number uint64 // of the newest segment
	active *segment
	file   file
	group  []*entry
	buffer []byte
}

// refusal is why a batch of that many bytes is not taken now. j.mu is held.
func (j *Journal) refusal(batch int) error {
	if err := j.impaired(); err != nil {
		return err
	}
	used := j.reserved
	for _, s := range j.segments {
		used += s.size
	}
	if used+reserve(batch) > j.maxBytes {
		return ErrFull
	}
	return nil
}

func (j *Journal) enqueue(e *entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.refusal(len(e.batch)); err != nil {
		j.full = j.full || errors.Is(err, ErrFull)
		return err
	}
	j.waiting = append(j.waiting, e)
	j.reserved += reserve(len(e.batch))
	j.work.Signal()
	return nil
}

// withdraw takes back what is not yet in a group.
func (j *Journal) withdraw(ctx context.Context, e *entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.Index(j.waiting, e); i >= 0 {
		j.waiting = slices.Delete(j.waiting, i, i+1)
		j.reserved -= reserve(len(e.batch))
		return ctx.Err()
	}
	select {
	case err := <-e.done:
		return err
	default:
		return ctx.Err()
	}
}

// write is the one goroutine that writes: what waits while a group is on its way to
// the disk is the next group.
func (j *Journal) write() {
	defer close(j.written)
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		for len(j.waiting) == 0 && j.seal == nil && !j.closed {
			j.work.Wait()
		}
		if j.seal != nil {
			j.endSegment()
			j.seal <- slices.Clone(j.segments)
			j.seal = nil
		}
		if len(j.waiting) > 0 {
			j.take()
			j.mu.Unlock()
			begun, err := j.commit()
			j.mu.Lock()
			j.settle(begun, err)
			// Those who were answered may have the next batch ready: larger groups, and
			// nobody waits for a timer.
			j.mu.Unlock()
			runtime.Gosched()
			j.mu.Lock()
		} else if j.closed {
			j.endSegment()
			return
		}
	}
}

// take makes a group of what waits, as far as it fits into one segment. Nobody's
// batch is needed after it.
func (j *Journal) take() {
	w := &j.writer
	w.group, w.buffer = w.group[:0], w.buffer[:0]
	for _, e := range j.waiting {
		if len(w.group) > 0 && int64(len(w.buffer))+e.length() > min(groupBytes, j.segmentBytes-segmentHeader) {
			break
		}
		w.group = append(w.group, e)
		w.buffer = append(append(w.buffer, e.header[:]...), e.batch...)
	}
	j.waiting = slices.Delete(j.waiting, 0, len(w.group))
}

// commit makes the group durable, in the active segment or in a new one, which it
// returns. j.mu is not held.
func (j *Journal) commit() (begun *segment, err error) {
	w := &j.writer
	if w.active != nil && w.active.size+int64(len(w.buffer)) > j.segmentBytes {
		j.endSegment()
	}
	if w.active == nil {
		w.number++
		begun = &segment{number: w.number}
		if w.file, err = j.folder.create(begun.name()); err != nil {
			return nil, err
		}
		w.active = begun
		// The name has to be durable before anything under it is acknowledged.
		if err := j.folder.sync(); err != nil {
			return begun, err
		}
		w.buffer = slices.Insert(w.buffer, 0, appendSegmentHeader(nil)...)
	}
	if _, err := w.file.Write(w.buffer); err != nil {
		return begun, err
	}
	return begun, w.file.Sync()
}

// settle books the group and answers it. j.mu is held.
func (j *Journal) settle(begun *segment, err error) {
	w := &j.writer
	if err == nil {
		w.active.size += int64(len(w.buffer))
		for _, e := range w.group {
			w.active.add(e.n, e.at)
		}
		if begun != nil {
			j.segments = append(j.segments, begun)
		}
	}
	for _, e := range w.group {
		j.reserved -= reserve(len(e.batch))
	}
	if err != nil {
		if begun != nil && j.folder.remove(begun.name()) != nil {
			j.segments = append(j.segments, begun) // nothing in it counts; Drain or Try deletes it
		}
		err = j.fail(err)
		j.endSegment()
	}
	for _, e := range w.group {
		e.done <- err
	}
	clear(w.group)
}

// fail breaks the journal and refuses all who wait. j.mu is held.
func (j *Journal) fail(cause error) error {
	if j.broken == nil {
		j.log.LogAttrs(context.Background(), slog.LevelError, "the journal is broken: clicks are refused while the stream is away", slog.Any("error", cause))
	}
	j.broken, j.tried = cause, j.now()
	refused := fmt.Errorf("%w: %w", ErrBroken, cause)
	for _, e := range j.waiting {
		j.reserved -= reserve(len(e.batch))
		e.done <- refused
	}
	clear(j.waiting)
	j.waiting = j.waiting[:0]
	return refused
}

// endSegment closes the active segment: the next group begins another. What Close
// would report was reported by the fsync before.
func (j *Journal) endSegment() {
	w := &j.writer
	if w.active != nil {
		_ = w.file.Close()
		w.active, w.file = nil, nil
	}
}
