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

// trialName is the file in which a broken journal tries its disk. It is no segment:
// whatever stays of it holds nothing and is removed before the next trial.
const trialName = "trial"

// Try lets a broken journal out of which everything was drained try its disk, at most
// once each second, with a file of its own as large as the largest record. nil means
// that the journal is whole, whether or not it had to try; ErrBroken that it is not,
// also when it is not yet time or there are records to drain first; ErrClosed that
// Close was called. It does not wait for a Drain under way.
func (j *Journal) Try() error {
	select {
	case j.draining <- struct{}{}:
		defer func() { <-j.draining }()
		return j.try()
	default:
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.impaired()
	}
}

// try is Try for whom has j.draining.
func (j *Journal) try() error {
	j.mu.Lock()
	err := j.impaired()
	due := !j.closed && j.now().Sub(j.tried) >= retryAfter &&
		!slices.ContainsFunc(j.segments, func(s *segment) bool { return s.records > 0 })
	empty := slices.Clone(j.segments)
	j.mu.Unlock()
	if err == nil || !due {
		return err
	}
	err = j.trial(empty)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.broken, j.tried = err, j.now()
		return j.impaired()
	}
	j.broken = nil
	j.log.LogAttrs(context.Background(), slog.LevelInfo, "the journal is whole again")
	return nil
}

// trial does what the next Append will: it makes, writes and syncs a file, and syncs
// the folder. The segments, which hold no records, are what a failed write could not
// take back.
func (j *Journal) trial(empty []*segment) error {
	for _, s := range empty {
		if err := j.erase(s); err != nil {
			return err
		}
	}
	if err := j.folder.remove(trialName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := j.folder.create(trialName)
	if err != nil {
		return err
	}
	content := make([]byte, maxRecord)
	_, _ = rand.Read(content) // never fails; a disk may keep zeros without having the room
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), j.folder.remove(trialName), j.folder.sync())
}

// impaired is ErrClosed or ErrBroken while that is so. j.mu is held.
func (j *Journal) impaired() error {
	if j.closed {
		return ErrClosed
	}
	if j.broken != nil {
		return fmt.Errorf("%w: %w", ErrBroken, j.broken)
	}
	return nil
}
