package journal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
)

// Drain replays, oldest first, everything that is in the journal when it begins,
// calling replay for each record, or several joined, in order; batch is good until
// replay returns. A
// segment is deleted after replay returned nil for every record in it. Drain stops at
// replay's first error, at the end of ctx or at a segment that cannot be read, and
// returns that; the records of a segment that was not deleted come again the next
// time. Appends go on meanwhile, into a newer segment. A second Drain waits for the
// first. A broken journal that it has emptied is tried as by Try.
func (j *Journal) Drain(ctx context.Context, replay func(ctx context.Context, batch []byte, n int) error) error {
	select {
	case j.draining <- struct{}{}:
		defer func() { <-j.draining }()
	case <-j.written:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	segments, err := j.sealed(ctx, cancel)
	if err != nil {
		return err
	}
	for _, s := range segments {
		if err := j.drain(ctx, s, replay); err != nil {
			return err
		}
	}
	_ = j.try() // everything is replayed, whatever the disk says now: that is Ready's to tell
	return nil
}

// sealed are the segments that nothing is written to any more, all that are there.
func (j *Journal) sealed(ctx context.Context, cancel context.CancelCauseFunc) ([]*segment, error) {
	answer := make(chan []*segment, 1)
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil, ErrClosed
	}
	j.endDrain = cancel
	j.seal = answer
	j.work.Signal()
	j.mu.Unlock()
	select {
	case segments := <-answer:
		return segments, nil
	case <-ctx.Done():
		return nil, ended(ctx)
	}
}

// ended is why ctx has ended: ErrClosed or the context's own error.
func ended(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, ErrClosed) {
		return err
	}
	return ctx.Err()
}

// drain replays one segment and deletes it.
func (j *Journal) drain(ctx context.Context, s *segment, replay func(context.Context, []byte, int) error) error {
	found, err := j.replay(ctx, s, replay)
	if errors.Is(err, fs.ErrNotExist) {
		j.log.LogAttrs(ctx, slog.LevelError, "a segment of the journal was taken away", slog.String("segment", s.name()))
	} else if err != nil {
		return err
	}
	if found < s.records {
		j.mu.Lock()
		j.skipped += s.records - found
		s.records = found
		j.mu.Unlock()
	}
	if err := j.erase(s); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := j.folder.sync(); err != nil {
		// Deleted or not, its records are where they belong. But a folder that cannot
		// be synced cannot take new segments either, and may have told us just now of
		// one that it lost.
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.fail(err)
	}
	return nil
}

// erase deletes a segment and takes it out of the books.
func (j *Journal) erase(s *segment) error {
	if err := j.folder.remove(s.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.full = false
	j.segments = slices.DeleteFunc(j.segments, func(one *segment) bool { return one == s })
	return nil
}

// replay hands out the good records of a segment, and counts them.
func (j *Journal) replay(ctx context.Context, s *segment, replay func(context.Context, []byte, int) error) (found int64, err error) {
	if s.records == 0 {
		return 0, nil
	}
	from, _, err := j.folder.open(s.name())
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	defer from.Close()
	// Whose error replay returned is for the caller to see, as it is.
	var refused error
	var joined []byte
	clicks := 0
	handOver := func() error {
		if refused = ended(ctx); refused == nil && len(joined) > 0 {
			refused = replay(ctx, joined, clicks)
		}
		joined, clicks = joined[:0], 0
		return refused
	}
	visit := func(r Record) error {
		if len(joined)+len(r.Batch) > j.joinBytes || clicks+r.Clicks > j.joinClicks {
			if err := handOver(); err != nil {
				return err
			}
		}
		joined = append(joined, r.Batch...)
		clicks += r.Clicks
		found++
		return nil
	}
	tail, _, err := s.scan(from, visit, j.logDamage)
	if err == nil {
		err = handOver()
	}
	if refused != nil {
		return found, refused
	}
	if err != nil {
		return found, fmt.Errorf("journal: %s: %w", s.name(), err)
	}
	if tail.Bytes > 0 {
		j.logDamage(tail)
	}
	return found, nil
}
