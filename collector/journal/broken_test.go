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

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func requireBroken(t *testing.T, j *Journal, i int, cause error) {
	t.Helper()
	err := j.Append(context.Background(), []byte(batchText(i)), 1+i%2)
	if !errors.Is(err, ErrBroken) || !errors.Is(err, cause) {
		t.Fatalf("append %d: %v", i, err)
	}
}

// After a fault of any kind, the acknowledged batches stay. No further batch is accepted,
// even if the disk works again, until a drain empties the journal.
func TestJournal_StaysBrokenUntilDrained(t *testing.T) {
	for _, fault := range []struct {
		name   string
		begin  func(*faultyDisk)
		cause  error
		rotate bool // the fault affects only the beginning of a segment
	}{
		{"fsync of the file", func(d *faultyDisk) { d.failSync = errDisk }, errDisk, false},
		{"full disk", func(d *faultyDisk) { d.room = 30 }, syscall.ENOSPC, false},
		{"fsync of the folder", func(d *faultyDisk) { d.failDir = errDisk }, errDisk, true},
		{"no new file", func(d *faultyDisk) { d.failCreate = errDisk }, errDisk, true},
		{"no new file and no removal", func(d *faultyDisk) { d.failDir, d.failRemove = errDisk, errDisk }, errDisk, true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			files, now := newFaultyDisk(t.TempDir()), newClock()
			segment := int64(segmentHeader + 3*(recordHeader+9))
			j := openForTest(t, Config{SegmentBytes: segment, now: now.now}, files)
			appendBatches(t, j, 0, 5)
			if fault.rotate {
				appendBatches(t, j, 5, 6)
			}
			acknowledged := 0
			for _, s := range j.segments {
				acknowledged += int(s.records)
			}
			files.set(func() { fault.begin(files) })
			if fault.rotate {
				// Append until the active segment is full.
				for acknowledged < 20 && j.Append(context.Background(), []byte(batchText(acknowledged)), 1+acknowledged%2) == nil {
					acknowledged++
				}
			} else {
				requireBroken(t, j, acknowledged, fault.cause)
			}
			syncs := files.syncs
			now.pass(time.Hour)
			requireBroken(t, j, 100, fault.cause)
			files.set(func() {
				files.room, files.failSync, files.failDir, files.failCreate, files.failRemove = -1, nil, nil, nil, nil
			})
			now.pass(time.Hour)
			requireBroken(t, j, 101, fault.cause)
			if s := j.Stats(); !errors.Is(s.Broken, fault.cause) || files.syncs != syncs || !errors.Is(j.Ready(), ErrBroken) {
				t.Errorf("%+v, %d fsyncs after the fault", s, files.syncs-syncs)
			}
			if err := j.Recover(); !errors.Is(err, ErrBroken) || files.syncs != syncs {
				t.Errorf("%v: the disk was checked before the journal was drained", err)
			}
			requireEqual(t, drainAll(t, j), batchTexts(0, acknowledged))
			requireNoError(t, j.Ready())
			appendBatches(t, j, 200, 203)
			if s := j.Stats(); s.Broken != nil || s.Skipped != 0 {
				t.Errorf("%+v", s)
			}
			requireEqual(t, drainAll(t, j), batchTexts(200, 203))
			if len(names(t, files.dir)) != 0 {
				t.Errorf("%v left", names(t, files.dir))
			}
		})
	}
}

// A broken journal does not use clicks to check its disk, and it does not become ready
// without a check.
func TestRecover_ChecksDiskOncePerSecond(t *testing.T) {
	files, now := newFaultyDisk(t.TempDir()), newClock()
	j := openForTest(t, Config{now: now.now}, files)
	requireNoError(t, j.Recover())
	files.set(func() { files.failSync = errDisk })
	requireBroken(t, j, 0, errDisk)
	if len(names(t, files.dir)) != 0 || j.Stats().Clicks != 0 {
		t.Errorf("a segment without a record was not removed: %v", names(t, files.dir))
	}
	for second := range 5 {
		before := files.syncs
		for range 10 {
			now.pass(time.Second / 10)
			requireBroken(t, j, second, errDisk)
			if err := j.Ready(); !errors.Is(err, ErrBroken) {
				t.Errorf("ready: %v", err)
			}
			if err := j.Recover(); !errors.Is(err, ErrBroken) || !errors.Is(err, errDisk) {
				t.Errorf("recover: %v", err)
			}
		}
		if n := files.syncs - before; n != 1 {
			t.Errorf("%d disk checks in a second", n)
		}
	}
	files.set(func() { files.failSync = nil })
	now.pass(time.Second)
	requireBroken(t, j, 10, errDisk)
	requireNoError(t, j.Recover())
	requireNoError(t, j.Ready())
	if s := j.Stats(); s.Broken != nil || s.Segments != 0 {
		t.Errorf("%+v", s)
	}
	appendBatches(t, j, 11, 13)
	requireEqual(t, drainAll(t, j), batchTexts(11, 13))
	left, err := os.ReadDir(files.dir)
	requireNoError(t, err)
	if len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("%v left", left)
	}
}

// The disk check needs space for the largest record, not only for one more click.
func TestRecover_FailsOnFullDisk(t *testing.T) {
	files, now := newFaultyDisk(t.TempDir()), newClock()
	j := openForTest(t, Config{now: now.now}, files)
	files.set(func() { files.room = 10 })
	requireBroken(t, j, 0, syscall.ENOSPC)
	files.set(func() { files.room = maxRecord - 1 })
	now.pass(time.Second)
	if err := j.Recover(); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	files.set(func() { files.room = 2 * maxRecord })
	now.pass(time.Second)
	requireNoError(t, j.Recover())
	appendBatches(t, j, 1, 2)
}

// An empty journal begins a segment and can neither write nor remove it. The remaining
// file without records must not keep the journal broken.
func TestJournal_RecoversWithUnremovedEmptySegment(t *testing.T) {
	for name, heal := range map[string]func(j *Journal) error{
		"try": (*Journal).Recover,
		"drain": func(j *Journal) error {
			return j.Drain(context.Background(), func(context.Context, []byte, int) error { return errors.New("a record was replayed") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, now := newFaultyDisk(t.TempDir()), newClock()
			j := openForTest(t, Config{now: now.now}, files)
			files.set(func() { files.failDir, files.failRemove = errDisk, errDisk })
			requireBroken(t, j, 0, errDisk)
			if s := j.Stats(); s.Segments != 1 || s.Bytes != 0 || len(names(t, files.dir)) != 1 {
				t.Fatalf("%+v, %v", s, names(t, files.dir))
			}
			now.pass(time.Second)
			if err := heal(j); !errors.Is(err, errDisk) {
				t.Error(err)
			}
			files.set(func() { files.failDir, files.failRemove = nil, nil })
			now.pass(time.Second)
			requireNoError(t, heal(j))
			requireNoError(t, j.Ready())
			if s := j.Stats(); s.Segments != 0 || s.Broken != nil || len(names(t, files.dir)) != 0 {
				t.Errorf("%+v, %v", s, names(t, files.dir))
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
		t.Error(err)
	}
}

// While a drain runs, Recover only returns the state and does not check the disk.
func TestRecover_DoesNotWaitForDrain(t *testing.T) {
	files, now := newFaultyDisk(t.TempDir()), newClock()
	j := openForTest(t, Config{now: now.now}, files)
	appendBatches(t, j, 0, 1)
	requireNoError(t, j.Drain(context.Background(), func(context.Context, []byte, int) error {
		requireNoError(t, j.Recover())
		files.set(func() { files.failSync = errDisk })
		requireBroken(t, j, 1, errDisk)
		files.set(func() { files.failSync = nil })
		now.pass(time.Hour)
		if err := j.Recover(); !errors.Is(err, ErrBroken) {
			t.Error(err)
		}
		return nil
	}))
	requireNoError(t, j.Ready())
}

// When a group fails, the batches that wait for the next group are refused too.
func TestAppend_FailedGroupRefusesWaitingBatches(t *testing.T) {
	files := newFaultyDisk(t.TempDir())
	j := openForTest(t, Config{}, files)
	files.set(func() {
		files.failSync, files.syncGate, files.syncBlocked = errDisk, make(chan struct{}), make(chan struct{}, 1)
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
			t.Error(err)
		}
	}
	if j.Stats().Bytes != 0 || j.reserved != 0 {
		t.Errorf("%+v, %d reserved", j.Stats(), j.reserved)
	}
}

// The disk becomes full at each possible byte. The acknowledged batches must survive, in
// this process and in the next.
func TestAppend_FullDiskAtAnyByteLosesNothing(t *testing.T) {
	for room := range int64(250) {
		files, now := newFaultyDisk(t.TempDir()), newClock()
		j := open(t, Config{SegmentBytes: 150, now: now.now}, files)
		files.set(func() { files.room = room })
		var acknowledged []string
		for i := range 8 {
			err := j.Append(context.Background(), []byte(batchText(i)), 1+i%2)
			if err == nil {
				acknowledged = append(acknowledged, batchText(i))
			} else if !errors.Is(err, ErrBroken) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
		}
		if len(acknowledged) == 8 {
			t.Fatalf("all batches fit into %d bytes", room)
		}
		requireNoError(t, j.Close())
		j = open(t, Config{SegmentBytes: 150, now: now.now}, files)
		if s := j.Stats(); s.Skipped != 0 {
			t.Fatalf("with room for %d: %+v", room, s)
		}
		files.set(func() { files.room = -1 })
		appendBatches(t, j, 20, 22)
		got := drainAll(t, j)
		// A refused group may have written a complete record, which is replayed too.
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
	files.set(func() { files.failDir = errDisk })
	var got []string
	err := j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		got = append(got, string(batch))
		return nil
	})
	if !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	requireBroken(t, j, 7, errDisk)
	files.set(func() { files.failDir = nil })
	requireEqual(t, append(got, drainAll(t, j)...), batchTexts(0, 6))
	now.pass(time.Second)
	requireNoError(t, j.Recover())
	appendBatches(t, j, 8, 9)
	requireEqual(t, drainAll(t, j), batchTexts(8, 9))
}

func TestDrain_ReplaysUndeletedSegmentAgain(t *testing.T) {
	files := newFaultyDisk(t.TempDir())
	j := openForTest(t, Config{}, files)
	appendBatches(t, j, 0, 3)
	files.set(func() { files.failRemove = errDisk })
	for range 2 {
		count := 0
		err := j.Drain(context.Background(), func(context.Context, []byte, int) error { count++; return nil })
		if !errors.Is(err, errDisk) || count != 3 {
			t.Fatalf("%v after %d", err, count)
		}
	}
	files.set(func() { files.failRemove = nil })
	requireEqual(t, drainAll(t, j), batchTexts(0, 3))
}

// A refused record may be complete in the kernel's memory but not on disk. Open syncs the
// records that it finds. Otherwise their loss would later look like damage.
func TestOpen_SyncsRecordsOfPreviousProcess(t *testing.T) {
	files := newFaultyDisk(t.TempDir())
	j := open(t, Config{}, files)
	appendBatches(t, j, 0, 1)
	files.set(func() { files.failSync = errDisk })
	requireBroken(t, j, 1, errDisk)
	requireNoError(t, j.Close())
	files.set(func() { files.failSync = nil })
	j = open(t, Config{}, files)
	appendBatches(t, j, 2, 3)
	requireNoError(t, j.Close())
	files.losePower(t, func(n int64) int64 { return min(n, 1) })
	j = openForTest(t, Config{}, files)
	if s := j.Stats(); s.Skipped != 0 || s.Truncated != 0 {
		t.Errorf("%+v", s)
	}
	requireEqual(t, drainAll(t, j), batchTexts(0, 3))
}
