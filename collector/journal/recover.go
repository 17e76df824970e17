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
	checkDue := !j.closed && j.now().Sub(j.lastCheck) >= retryAfter &&
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
		j.broken, j.lastCheck = err, j.now()
		return j.stateError()
	}
	j.broken = nil
	j.log.LogAttrs(context.Background(), slog.LevelInfo, "the journal works again")
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
