package journal

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var errDisk = errors.New("disk error")

// clock is a fake clock.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// requireAppendFails appends batch i. It requires that the journal is broken because of
// cause.
func requireAppendFails(t *testing.T, j *Journal, i int, cause error) {
	t.Helper()
	err := j.Append(context.Background(), []byte(batchText(i)), 1+i%2)
	if !errors.Is(err, ErrBroken) || !errors.Is(err, cause) {
		t.Fatalf("Append of batch %d: error %v, want ErrBroken because of %v", i, err, cause)
	}
}

// After a fault of any kind, the acknowledged batches stay in the journal. The journal
// accepts no further batch, even if the disk works again, until a drain has emptied the
// journal.
func TestJournal_StaysBrokenUntilDrained(t *testing.T) {
	for _, fault := range []struct {
		name           string
		begin          func(*faultyDisk)
		cause          error
		newSegmentOnly bool // the fault affects only the creation of a new segment
	}{
		{"fsync of the file", func(d *faultyDisk) { d.syncErr = errDisk }, errDisk, false},
		{"full disk", func(d *faultyDisk) { d.freeBytes = 30 }, syscall.ENOSPC, false},
		{"fsync of the folder", func(d *faultyDisk) { d.dirSyncErr = errDisk }, errDisk, true},
		{"creation of a file", func(d *faultyDisk) { d.createErr = errDisk }, errDisk, true},
		{"fsync of the folder and removal of a file", func(d *faultyDisk) { d.dirSyncErr, d.removeErr = errDisk, errDisk }, errDisk, true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			files, now := newFaultyDisk(t.TempDir()), newClock()
			segment := int64(segmentHeader + 3*(recordHeader+9))
			j := openForTest(t, Config{SegmentBytes: segment, now: now.now}, files)
			appendBatches(t, j, 0, 5)
			if fault.newSegmentOnly {
				appendBatches(t, j, 5, 6)
			}
			acknowledged := 0
			for _, s := range j.segments {
				acknowledged += int(s.records)
			}
			files.set(func() { fault.begin(files) })
			if fault.newSegmentOnly {
				// Append until the active segment is full.
				for acknowledged < 20 && j.Append(context.Background(), []byte(batchText(acknowledged)), 1+acknowledged%2) == nil {
					acknowledged++
				}
			} else {
				requireAppendFails(t, j, acknowledged, fault.cause)
			}
			syncs := files.syncs
			now.advance(time.Hour)
			requireAppendFails(t, j, 100, fault.cause)
			files.set(func() {
				files.freeBytes, files.syncErr, files.dirSyncErr, files.createErr, files.removeErr = -1, nil, nil, nil, nil
			})
			now.advance(time.Hour)
			requireAppendFails(t, j, 101, fault.cause)
			if s := j.Stats(); !errors.Is(s.Broken, fault.cause) || files.syncs != syncs || !errors.Is(j.Ready(), ErrBroken) {
				t.Errorf("after the fault: %+v, Ready() = %v, %d fsyncs; want a broken journal and no fsync", s, j.Ready(), files.syncs-syncs)
			}
			if err := j.Recover(); !errors.Is(err, ErrBroken) || files.syncs != syncs {
				t.Errorf("before the drain: Recover() = %v with %d fsyncs, want ErrBroken without a disk check", err, files.syncs-syncs)
			}
			requireEqual(t, drainAll(t, j), batchTexts(0, acknowledged))
			requireNoError(t, j.Ready())
			appendBatches(t, j, 200, 203)
			if s := j.Stats(); s.Broken != nil || s.Skipped != 0 {
				t.Errorf("after the drain: %+v, want a working journal without damage", s)
			}
			requireEqual(t, drainAll(t, j), batchTexts(200, 203))
			if left := segmentNames(t, files.dir); len(left) != 0 {
				t.Errorf("after the last drain: segments %v, want none", left)
			}
		})
	}
}

// Append never checks the disk of a broken journal. The journal becomes ready only after
// Recover, or a drain, has checked the disk.
func TestRecover_ChecksDiskOncePerSecond(t *testing.T) {
	files, now := newFaultyDisk(t.TempDir()), newClock()
	j := openForTest(t, Config{now: now.now}, files)
	requireNoError(t, j.Recover())
	files.set(func() { files.syncErr = errDisk })
	requireAppendFails(t, j, 0, errDisk)
	if len(segmentNames(t, files.dir)) != 0 || j.Stats().Clicks != 0 {
		t.Errorf("after the failed Append: segments %v with %d clicks, want none", segmentNames(t, files.dir), j.Stats().Clicks)
	}
	for second := range 5 {
		before := files.syncs
		for range 10 {
			now.advance(time.Second / 10)
			requireAppendFails(t, j, second, errDisk)
			if err := j.Ready(); !errors.Is(err, ErrBroken) {
				t.Errorf("Ready() = %v, want ErrBroken", err)
			}
			if err := j.Recover(); !errors.Is(err, ErrBroken) || !errors.Is(err, errDisk) {
				t.Errorf("Recover() = %v, want ErrBroken because of %v", err, errDisk)
			}
		}
		if n := files.syncs - before; n != 1 {
			t.Errorf("%d disk checks in one second, want 1", n)
		}
	}
	files.set(func() { files.syncErr = nil })
	now.advance(time.Second)
	requireAppendFails(t, j, 10, errDisk)
	requireNoError(t, j.Recover())
	requireNoError(t, j.Ready())
	if s := j.Stats(); s.Broken != nil || s.Segments != 0 {
		t.Errorf("after Recover: %+v, want a working journal without segments", s)
	}
	appendBatches(t, j, 11, 13)
	requireEqual(t, drainAll(t, j), batchTexts(11, 13))
	left, err := os.ReadDir(files.dir)
	requireNoError(t, err)
	if len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("files in the folder: %v, want only the file lock", left)
	}
}

// The disk check succeeds only if the disk has space for the largest record.
func TestRecover_FailsOnFullDisk(t *testing.T) {
	files, now := newFaultyDisk(t.TempDir()), newClock()
	j := openForTest(t, Config{now: now.now}, files)
	files.set(func() { files.freeBytes = 10 })
	requireAppendFails(t, j, 0, syscall.ENOSPC)
	files.set(func() { files.freeBytes = maxRecord - 1 })
	now.advance(time.Second)
	if err := j.Recover(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Recover() on a full disk = %v, want ENOSPC", err)
	}
	files.set(func() { files.freeBytes = 2 * maxRecord })
	now.advance(time.Second)
	requireNoError(t, j.Recover())
	appendBatches(t, j, 1, 2)
}

// The journal creates a segment, but can neither write to the file nor remove it. This
// empty file must not prevent the recovery of the journal.
func TestJournal_RecoversWithUnremovedEmptySegment(t *testing.T) {
	for name, recoverJournal := range map[string]func(j *Journal) error{
		"Recover": (*Journal).Recover,
		"Drain": func(j *Journal) error {
			return j.Drain(context.Background(), func(context.Context, []byte, int) error { return errors.New("a record was replayed") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, now := newFaultyDisk(t.TempDir()), newClock()
			j := openForTest(t, Config{now: now.now}, files)
			files.set(func() { files.dirSyncErr, files.removeErr = errDisk, errDisk })
			requireAppendFails(t, j, 0, errDisk)
			if s := j.Stats(); s.Segments != 1 || s.Bytes != 0 || len(segmentNames(t, files.dir)) != 1 {
				t.Fatalf("after the failed Append: %+v, files %v; want one empty segment", s, segmentNames(t, files.dir))
			}
			now.advance(time.Second)
			if err := recoverJournal(j); !errors.Is(err, errDisk) {
				t.Errorf("%s during the fault: error %v, want %v", name, err, errDisk)
			}
			files.set(func() { files.dirSyncErr, files.removeErr = nil, nil })
			now.advance(time.Second)
			requireNoError(t, recoverJournal(j))
			requireNoError(t, j.Ready())
			if s := j.Stats(); s.Segments != 0 || s.Broken != nil || len(segmentNames(t, files.dir)) != 0 {
				t.Errorf("after the fault: %+v, files %v; want a working journal without segments", s, segmentNames(t, files.dir))
			}
			appendBatches(t, j, 1, 3)
			requireEqual(t, drainAll(t, j), batchTexts(1, 3))
		})
	}
}

func TestRecover_ReturnsErrClosedAfterClose(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()}, nil)
	requireNoError(t, j.Close())
	if err := j.Recover(); !errors.Is(err, ErrClosed) {
		t.Errorf("Recover() = %v, want ErrClosed", err)
	}
}

// While a drain runs, Recover only returns the state and does not check the disk.
func TestRecover_DoesNotWaitForDrain(t *testing.T) {
	files, now := newFaultyDisk(t.TempDir()), newClock()
	j := openForTest(t, Config{now: now.now}, files)
	appendBatches(t, j, 0, 1)
	requireNoError(t, j.Drain(context.Background(), func(context.Context, []byte, int) error {
		requireNoError(t, j.Recover())
		files.set(func() { files.syncErr = errDisk })
		requireAppendFails(t, j, 1, errDisk)
		files.set(func() { files.syncErr = nil })
		now.advance(time.Hour)
		if err := j.Recover(); !errors.Is(err, ErrBroken) {
			t.Errorf("during the drain: Recover() = %v, want ErrBroken", err)
		}
		return nil
	}))
	requireNoError(t, j.Ready())
}

// When a group fails, the batches that wait for the next group fail too.
func TestAppend_FailedGroupRefusesWaitingBatches(t *testing.T) {
	files := newFaultyDisk(t.TempDir())
	j := openForTest(t, Config{}, files)
	files.set(func() {
		files.syncErr, files.syncGate, files.syncBlocked = errDisk, make(chan struct{}), make(chan struct{}, 1)
	})
	results := make(chan error)
	for i := range 20 {
		go func() { results <- j.Append(context.Background(), []byte(batchText(i)), 1+i%2) }()
	}
	<-files.syncBlocked
	gate := files.syncGate
	files.set(func() { files.syncGate = nil })
	close(gate)
	for range 20 {
		if err := <-results; !errors.Is(err, ErrBroken) {
			t.Errorf("Append() = %v, want ErrBroken", err)
		}
	}
	if j.Stats().Bytes != 0 || j.reserved != 0 {
		t.Errorf("%d bytes stored and %d bytes reserved, want 0 and 0", j.Stats().Bytes, j.reserved)
	}
}

// The disk becomes full at each possible byte. After a restart, the journal must replay
// all batches that were acknowledged before the restart and after it.
func TestAppend_FullDiskAtAnyByteLosesNothing(t *testing.T) {
	for freeBytes := range int64(250) {
		files, now := newFaultyDisk(t.TempDir()), newClock()
		j := open(t, Config{SegmentBytes: 150, now: now.now}, files)
		files.set(func() { files.freeBytes = freeBytes })
		var acknowledged []string
		for i := range 8 {
			err := j.Append(context.Background(), []byte(batchText(i)), 1+i%2)
			if err == nil {
				acknowledged = append(acknowledged, batchText(i))
			} else if !errors.Is(err, ErrBroken) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("Append with %d free bytes: error %v, want ErrBroken because of ENOSPC", freeBytes, err)
			}
		}
		if len(acknowledged) == 8 {
			t.Fatalf("all 8 batches were acknowledged with %d free bytes, want an error", freeBytes)
		}
		requireNoError(t, j.Close())
		j = open(t, Config{SegmentBytes: 150, now: now.now}, files)
		if s := j.Stats(); s.Skipped != 0 {
			t.Fatalf("with %d free bytes: %d damaged records after the restart, want 0", freeBytes, s.Skipped)
		}
		files.set(func() { files.freeBytes = -1 })
		appendBatches(t, j, 20, 22)
		got := drainAll(t, j)
		// A group that failed may have written a complete record. The journal replays
		// this record too, so remove it from the result.
		requireEqual(t, slices.DeleteFunc(slices.Clone(got), func(s string) bool {
			return !slices.Contains(acknowledged, s) && !strings.HasPrefix(s, "2")
		}), append(acknowledged, batchTexts(20, 22)...))
		requireNoError(t, j.Close())
	}
}

// If the folder cannot be synced, deleted segments may reappear after a restart. The
// drain returns the error, and the journal refuses batches until the folder can be
// synced.
func TestDrain_FailedFolderSyncBreaksJournal(t *testing.T) {
	files, now := newFaultyDisk(t.TempDir()), newClock()
	j := openForTest(t, Config{SegmentBytes: 100, now: now.now}, files)
	appendBatches(t, j, 0, 6)
	files.set(func() { files.dirSyncErr = errDisk })
	var got []string
	err := j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		got = append(got, string(batch))
		return nil
	})
	if !errors.Is(err, errDisk) {
		t.Fatalf("Drain() = %v, want %v", err, errDisk)
	}
	requireAppendFails(t, j, 7, errDisk)
	files.set(func() { files.dirSyncErr = nil })
	requireEqual(t, append(got, drainAll(t, j)...), batchTexts(0, 6))
	now.advance(time.Second)
	requireNoError(t, j.Recover())
	appendBatches(t, j, 8, 9)
	requireEqual(t, drainAll(t, j), batchTexts(8, 9))
}

func TestDrain_ReplaysUndeletedSegmentAgain(t *testing.T) {
	files := newFaultyDisk(t.TempDir())
	j := openForTest(t, Config{}, files)
	appendBatches(t, j, 0, 3)
	files.set(func() { files.removeErr = errDisk })
	for range 2 {
		count := 0
		err := j.Drain(context.Background(), func(context.Context, []byte, int) error { count++; return nil })
		if !errors.Is(err, errDisk) || count != 3 {
			t.Fatalf("Drain() = %v after %d records, want %v after 3", err, count, errDisk)
		}
	}
	files.set(func() { files.removeErr = nil })
	requireEqual(t, drainAll(t, j), batchTexts(0, 3))
}

// After a failed fsync, the record may be complete in the kernel's memory but not on
// disk. Open reads such a record like any other. It must sync the record, because a later
// loss of the record would look like damage.
func TestOpen_SyncsRecordsOfPreviousProcess(t *testing.T) {
	files := newFaultyDisk(t.TempDir())
	j := open(t, Config{}, files)
	appendBatches(t, j, 0, 1)
	files.set(func() { files.syncErr = errDisk })
	requireAppendFails(t, j, 1, errDisk)
	requireNoError(t, j.Close())
	files.set(func() { files.syncErr = nil })
	j = open(t, Config{}, files)
	appendBatches(t, j, 2, 3)
	requireNoError(t, j.Close())
	files.losePower(t, func(n int64) int64 { return min(n, 1) })
	j = openForTest(t, Config{}, files)
	if s := j.Stats(); s.Skipped != 0 || s.Truncated != 0 {
		t.Errorf("after the loss of power: %d records skipped and %d truncated, want 0 and 0", s.Skipped, s.Truncated)
	}
	requireEqual(t, drainAll(t, j), batchTexts(0, 3))
}
