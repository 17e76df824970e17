package journal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
)

// Drain replays all records that are in the journal when Drain begins, oldest first. It
// calls the function replay for each record, or for several joined records (see Config.JoinBytes).
// The argument n is the number of clicks in batch. The slice batch is valid until replay returns. After replay has
// returned nil for all records of a segment, Drain deletes the segment. Drain stops with an error if replay returns an
// error, if ctx ends, if the journal is closed, or if a segment cannot be read or deleted. The next Drain then replays
// all records of the remaining segments, including the records that were already replayed.
//
// Batches that are appended during a Drain go to a newer segment, which this Drain does
// not replay. A second Drain waits for the first. After Drain has emptied a broken
// journal, it checks the disk as Recover does.
func (j *Journal) Drain(ctx context.Context, replay func(ctx context.Context, batch []byte, n int) error) error {
	select {
	case j.draining <- struct{}{}:
		defer func() { <-j.draining }()
	case <-j.writerDone:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	segments, err := j.sealSegments(ctx, cancel)
	if err != nil {
		return err
	}
	for _, s := range segments {
		if err := j.drain(ctx, s, replay); err != nil {
			return err
		}
	}
	_ = j.recoverDrained() // Ready reports the result; the drain itself succeeded
	return nil
}

// sealSegments closes the active segment and returns all segments. The writer does not
// append to these segments any more.
func (j *Journal) sealSegments(ctx context.Context, cancel context.CancelCauseFunc) ([]*segment, error) {
	response := make(chan []*segment, 1)
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil, ErrClosed
	}
	j.endDrain = cancel
	j.sealRequest = response
	j.work.Signal()
	j.mu.Unlock()
	select {
	case segments := <-response:
		return segments, nil
	case <-ctx.Done():
		return nil, contextError(ctx)
	}
}

// contextError returns ErrClosed if Close cancelled ctx, and otherwise the error of ctx.
func contextError(ctx context.Context) error {
	if err := context.Cause(ctx); errors.Is(err, ErrClosed) {
		return err
	}
	return ctx.Err()
}

func (j *Journal) drain(ctx context.Context, s *segment, replay func(context.Context, []byte, int) error) error {
	found, err := j.replay(ctx, s, replay)
	if errors.Is(err, fs.ErrNotExist) {
		j.cfg.Log.LogAttrs(ctx, slog.LevelError, "a segment of the journal was deleted by another program", slog.String("segment", s.name()))
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
		// All records of the segment are replayed, so none are lost. But if the folder
		// cannot be synced, new segments cannot be made durable, so the journal is
		// broken.
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.fail(err)
	}
	return nil
}

func (j *Journal) erase(s *segment) error {
	if err := j.folder.remove(s.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.full = false
	j.segments = slices.DeleteFunc(j.segments, func(other *segment) bool { return other == s })
	return nil
}

// replay passes the good records of a segment to the replay function and returns their
// number.
func (j *Journal) replay(ctx context.Context, s *segment, replay func(context.Context, []byte, int) error) (found int64, err error) {
	if s.records == 0 {
		return 0, nil
	}
	opened, _, err := j.folder.open(s.name())
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	defer opened.Close()
	// replayErr is returned without wrapping, because it is the caller's own error.
	var replayErr error
	var joined []byte
	clicks := 0
	replayJoined := func() error {
		if replayErr = contextError(ctx); replayErr == nil && len(joined) > 0 {
			replayErr = replay(ctx, joined, clicks)
		}
		joined, clicks = joined[:0], 0
		return replayErr
	}
	visit := func(r Record) error {
		if len(joined)+len(r.Batch) > j.cfg.JoinBytes || clicks+r.Clicks > j.cfg.JoinClicks {
			if err := replayJoined(); err != nil {
				return err
			}
		}
		joined = append(joined, r.Batch...)
		clicks += r.Clicks
		found++
		return nil
	}
	tail, _, err := s.scan(opened, visit, j.logDamage)
	if err == nil {
		err = replayJoined()
	}
	if replayErr != nil {
		return found, replayErr
	}
	if err != nil {
		return found, fmt.Errorf("journal: %s: %w", s.name(), err)
	}
	if tail.Bytes > 0 {
		j.logDamage(tail)
	}
	return found, nil
}

// checkFileName is the name of the file that the disk check writes. The file contains no
// clicks. If a failed check could not remove the file, the next check removes it first.
const checkFileName = "trial"

// Recover checks the disk of a broken journal and, if the disk works, makes the journal
// usable again. The check runs at most once per second, and only after all records were
// drained. It writes a file as large as the largest record. Recover returns nil if the
// journal works, with or without a check. It returns ErrBroken if the check failed, or if
// the journal is broken and no check was possible. It returns ErrClosed after Close. It
// does not wait for a running Drain.
func (j *Journal) Recover() error {
	select {
	case j.draining <- struct{}{}:
		defer func() { <-j.draining }()
		return j.recoverDrained()
	default:
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.stateError()
	}
}

// recoverDrained implements Recover. The caller has acquired j.draining.
func (j *Journal) recoverDrained() error {
	j.mu.Lock()
	err := j.stateError()
	checkDue := !j.closed && j.cfg.now().Sub(j.lastCheck) >= retryAfter &&
		!slices.ContainsFunc(j.segments, func(s *segment) bool { return s.records > 0 })
	empty := slices.Clone(j.segments)
	j.mu.Unlock()
	if err == nil || !checkDue {
		return err
	}
	err = j.checkDisk(empty)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.broken, j.lastCheck = err, j.cfg.now()
		return j.stateError()
	}
	j.broken = nil
	j.cfg.Log.LogAttrs(context.Background(), slog.LevelInfo, "the journal works again")
	return nil
}

// checkDisk performs the operations that the next Append needs: it creates, writes and
// syncs a file, and syncs the folder. It first deletes the empty segments that were
// created for a failed write and could not be removed then.
func (j *Journal) checkDisk(empty []*segment) error {
	for _, s := range empty {
		if err := j.erase(s); err != nil {
			return err
		}
	}
	if err := j.folder.remove(checkFileName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := j.folder.create(checkFileName)
	if err != nil {
		return err
	}
	content := make([]byte, maxRecord)
	_, _ = rand.Read(content) // never fails; random, because some disks store zeros without using space
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), j.folder.remove(checkFileName), j.folder.sync())
}

// stateError returns ErrClosed, ErrBroken or nil. The caller has locked j.mu.
func (j *Journal) stateError() error {
	if j.closed {
		return ErrClosed
	}
	if j.broken != nil {
		return fmt.Errorf("%w: %w", ErrBroken, j.broken)
	}
	return nil
}
