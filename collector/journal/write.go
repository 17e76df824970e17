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

type entry struct {
	header [recordHeader]byte
	batch  []byte
	n      int
	at     time.Time
	done   chan error // receives the result of Append; has a buffer of one
}

func (e *entry) length() int64 { return recordHeader + int64(len(e.batch)) }

// maxAddedBytes returns the largest number of bytes that a batch of the given size can
// add to the segments, including the header of a new segment.
func maxAddedBytes(size int) int64 { return segmentHeader + recordHeader + int64(size) }

// writer is the state of the goroutine that runs Journal.write. After Open, no other
// goroutine uses it.
type writer struct {
	number uint64 // number of the newest segment
	active *segment
	file   file
	group  []*entry
	buffer []byte
}

// checkAppend returns an error if the journal cannot accept a batch of the given size, in
// bytes, now. The caller has locked j.mu.
func (j *Journal) checkAppend(size int) error {
	if err := j.stateError(); err != nil {
		return err
	}
	used := j.reserved
	for _, s := range j.segments {
		used += s.size
	}
	if used+maxAddedBytes(size) > j.cfg.MaxBytes {
		return ErrFull
	}
	return nil
}

func (j *Journal) enqueue(e *entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.checkAppend(len(e.batch)); err != nil {
		j.full = j.full || errors.Is(err, ErrFull)
		return err
	}
	j.waiting = append(j.waiting, e)
	j.reserved += maxAddedBytes(len(e.batch))
	j.work.Signal()
	return nil
}

// withdraw removes an entry whose context ended, if the entry is not in a group yet. It
// returns the result of Append.
func (j *Journal) withdraw(ctx context.Context, e *entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i := slices.Index(j.waiting, e); i >= 0 {
		j.waiting = slices.Delete(j.waiting, i, i+1)
		j.reserved -= maxAddedBytes(len(e.batch))
		return ctx.Err()
	}
	select {
	case err := <-e.done:
		return err
	default:
		return ctx.Err()
	}
}

// write writes groups to the segments. It runs in a goroutine of its own and is the only
// code that writes to segments. The batches that arrive while it writes one group form
// the next group.
func (j *Journal) write() {
	defer close(j.writerDone)
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		for len(j.waiting) == 0 && j.sealRequest == nil && !j.closed {
			j.work.Wait()
		}
		if j.sealRequest != nil {
			j.endSegment()
			j.sealRequest <- slices.Clone(j.segments)
			j.sealRequest = nil
		}
		if len(j.waiting) > 0 {
			j.formGroup()
			j.mu.Unlock()
			created, err := j.writeGroup()
			j.mu.Lock()
			j.finishGroup(created, err)
			// Let the callers of this group append their next batch first. This makes
			// groups larger without a timer.
			j.mu.Unlock()
			runtime.Gosched()
			j.mu.Lock()
		} else if j.closed {
			j.endSegment()
			return
		}
	}
}

// formGroup moves waiting entries into a group, as many as fit into groupBytes and one
// segment. It copies the batches. The slices of the callers are not used after it
// returns.
func (j *Journal) formGroup() {
	w := &j.writer
	w.group, w.buffer = w.group[:0], w.buffer[:0]
	for _, e := range j.waiting {
		if len(w.group) > 0 && int64(len(w.buffer))+e.length() > min(groupBytes, j.cfg.SegmentBytes-segmentHeader) {
			break
		}
		w.group = append(w.group, e)
		w.buffer = append(append(w.buffer, e.header[:]...), e.batch...)
	}
	j.waiting = slices.Delete(j.waiting, 0, len(w.group))
}

// writeGroup makes the group durable in the active segment. If it creates a new segment,
// it returns the segment. The caller must not have locked j.mu.
func (j *Journal) writeGroup() (created *segment, err error) {
	w := &j.writer
	if w.active != nil && w.active.size+int64(len(w.buffer)) > j.cfg.SegmentBytes {
		j.endSegment()
	}
	if w.active == nil {
		w.number++
		created = &segment{number: w.number}
		if w.file, err = j.folder.create(created.name()); err != nil {
			return nil, err
		}
		w.active = created
		// The file name must be durable before a record in the file is acknowledged.
		if err := j.folder.sync(); err != nil {
			return created, err
		}
		w.buffer = slices.Insert(w.buffer, 0, appendSegmentHeader(nil)...)
	}
	if _, err := w.file.Write(w.buffer); err != nil {
		return created, err
	}
	return created, w.file.Sync()
}

// finishGroup updates the state after writeGroup and sends the result to the callers.
// created is the segment that writeGroup created, or nil. The caller has locked j.mu.
func (j *Journal) finishGroup(created *segment, err error) {
	w := &j.writer
	if err == nil {
		w.active.size += int64(len(w.buffer))
		for _, e := range w.group {
			w.active.add(e.n, e.at)
		}
		if created != nil {
			j.segments = append(j.segments, created)
		}
	}
	for _, e := range w.group {
		j.reserved -= maxAddedBytes(len(e.batch))
	}
	if err != nil {
		if created != nil && j.folder.remove(created.name()) != nil {
			j.segments = append(j.segments, created) // Drain or Recover deletes this empty segment
		}
		err = j.fail(err)
		j.endSegment()
	}
	for _, e := range w.group {
		e.done <- err
	}
	clear(w.group)
}

// fail marks the journal as broken and refuses all waiting entries. The caller has locked
// j.mu.
func (j *Journal) fail(cause error) error {
	if j.broken == nil {
		j.cfg.Log.LogAttrs(context.Background(), slog.LevelError, "the journal is broken: clicks are refused while the stream is unavailable",
			slog.Any("error", cause))
	}
	j.broken, j.lastCheck = cause, j.cfg.now()
	refused := fmt.Errorf("%w: %w", ErrBroken, cause)
	for _, e := range j.waiting {
		j.reserved -= maxAddedBytes(len(e.batch))
		e.done <- refused
	}
	clear(j.waiting)
	j.waiting = j.waiting[:0]
	return refused
}

// endSegment closes the active segment, so that the next group begins a new one. It
// ignores the error of Close, because the preceding fsync has already reported any failed
// write.
func (j *Journal) endSegment() {
	w := &j.writer
	if w.active != nil {
		_ = w.file.Close()
		w.active, w.file = nil, nil
	}
}
