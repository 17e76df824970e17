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

var errDisk = errors.New("the disk is ill")

// clock is a time that a test sets.
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

func refused(t *testing.T, j *Journal, i int, cause error) {
	t.Helper()
	err := j.Append(context.Background(), []byte(text(i)), 1+i%2)
	if !errors.Is(err, ErrBroken) || !errors.Is(err, cause) {
		t.Fatalf("append %d: %v", i, err)
	}
}

// A fault of each kind: what was acknowledged before it stays, nothing is
// acknowledged after it, whatever the disk says then, and the drain heals.
func TestAFaultBreaksTheJournalUntilItIsDrained(t *testing.T) {
	for _, fault := range []struct {
		name   string
		begin  func(*shakyDisk)
		cause  error
		rotate bool // it strikes when a segment begins
	}{
		{"fsync of the file", func(d *shakyDisk) { d.failSync = errDisk }, errDisk, false},
		{"full disk", func(d *shakyDisk) { d.room = 30 }, syscall.ENOSPC, false},
		{"fsync of the folder", func(d *shakyDisk) { d.failDir = errDisk }, errDisk, true},
		{"no new file", func(d *shakyDisk) { d.failMake = errDisk }, errDisk, true},
		{"no new file, nor a way to remove one", func(d *shakyDisk) { d.failDir, d.failErase = errDisk, errDisk }, errDisk, true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			files, now := newShakyDisk(t.TempDir()), newClock()
			segment := int64(segmentHeader + 3*(recordHeader+9))
			j := opened(t, Config{SegmentBytes: segment, now: now.now}, files)
			add(t, j, 0, 5)
			if fault.rotate {
				add(t, j, 5, 6)
			}
			acknowledged := 0
			for _, s := range j.segments {
				acknowledged += int(s.records)
			}
			files.set(func() { fault.begin(files) })
			if fault.rotate {
				// Until the active segment is full.
				for acknowledged < 20 && j.Append(context.Background(), []byte(text(acknowledged)), 1+acknowledged%2) == nil {
					acknowledged++
				}
			} else {
				refused(t, j, acknowledged, fault.cause)
			}
			syncs := files.syncs
			now.pass(time.Hour)
			refused(t, j, 100, fault.cause)
			files.set(func() {
				files.room, files.failSync, files.failDir, files.failMake, files.failErase = -1, nil, nil, nil, nil
			})
			now.pass(time.Hour)
			refused(t, j, 101, fault.cause)
			if s := j.Stats(); !errors.Is(s.Broken, fault.cause) || files.syncs != syncs || !errors.Is(j.Ready(), ErrBroken) {
				t.Errorf("%+v, %d fsyncs since it broke", s, files.syncs-syncs)
			}
			if err := j.Try(); !errors.Is(err, ErrBroken) || files.syncs != syncs {
				t.Errorf("%v: tried before it was drained", err)
			}
			same(t, drained(t, j), texts(0, acknowledged))
			must(t, j.Ready())
			add(t, j, 200, 203)
			if s := j.Stats(); s.Broken != nil || s.Skipped != 0 {
				t.Errorf("%+v", s)
			}
			same(t, drained(t, j), texts(200, 203))
			if len(names(t, files.dir)) != 0 {
				t.Errorf("%v left", names(t, files.dir))
			}
		})
	}
}

// No click is what a broken journal tries its disk with, and time alone does not
// make it ready.
func TestABrokenJournalIsTriedOnceASecondAndNotByAClick(t *testing.T) {
	files, now := newShakyDisk(t.TempDir()), newClock()
	j := opened(t, Config{now: now.now}, files)
	must(t, j.Try())
	files.set(func() { files.failSync = errDisk })
	refused(t, j, 0, errDisk)
	if len(names(t, files.dir)) != 0 || j.Stats().Clicks != 0 {
		t.Errorf("a segment without a record stays: %v", names(t, files.dir))
	}
	for second := range 5 {
		before := files.syncs
		for range 10 {
			now.pass(time.Second / 10)
			refused(t, j, second, errDisk)
			if err := j.Ready(); !errors.Is(err, ErrBroken) {
				t.Errorf("ready: %v", err)
			}
			if err := j.Try(); !errors.Is(err, ErrBroken) || !errors.Is(err, errDisk) {
				t.Errorf("tried: %v", err)
			}
		}
		if n := files.syncs - before; n != 1 {
			t.Errorf("%d tries in a second", n)
		}
	}
	files.set(func() { files.failSync = nil })
	now.pass(time.Second)
	refused(t, j, 10, errDisk)
	must(t, j.Try())
	must(t, j.Ready())
	if s := j.Stats(); s.Broken != nil || s.Segments != 0 {
		t.Errorf("%+v", s)
	}
	add(t, j, 11, 13)
	same(t, drained(t, j), texts(11, 13))
	left, err := os.ReadDir(files.dir)
	must(t, err)
	if len(left) != 1 || left[0].Name() != "lock" {
		t.Errorf("%v left", left)
	}
}

// Room for one more click is no disk that can be written.
func TestAFullDiskIsNoWholeJournal(t *testing.T) {
	files, now := newShakyDisk(t.TempDir()), newClock()
	j := opened(t, Config{now: now.now}, files)
	files.set(func() { files.room = 10 })
	refused(t, j, 0, syscall.ENOSPC)
	files.set(func() { files.room = maxRecord - 1 })
	now.pass(time.Second)
	if err := j.Try(); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	files.set(func() { files.room = 2 * maxRecord })
	now.pass(time.Second)
	must(t, j.Try())
	add(t, j, 1, 2)
}

// The journal was empty, and cannot take back the segment that it began: an empty
// file, which nobody waits for, must not keep it broken for ever.
func TestAnEmptySegmentThatCouldNotBeRemovedIsNotInTheWay(t *testing.T) {
	for name, heal := range map[string]func(j *Journal) error{
		"try": (*Journal).Try,
		"drain": func(j *Journal) error {
			return j.Drain(context.Background(), func(context.Context, []byte, int) error { return errors.New("there is nothing") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, now := newShakyDisk(t.TempDir()), newClock()
			j := opened(t, Config{now: now.now}, files)
			files.set(func() { files.failDir, files.failErase = errDisk, errDisk })
			refused(t, j, 0, errDisk)
			if s := j.Stats(); s.Segments != 1 || s.Bytes != 0 || len(names(t, files.dir)) != 1 {
				t.Fatalf("%+v, %v", s, names(t, files.dir))
			}
			now.pass(time.Second)
			if err := heal(j); !errors.Is(err, errDisk) {
				t.Error(err)
			}
			files.set(func() { files.failDir, files.failErase = nil, nil })
			now.pass(time.Second)
			must(t, heal(j))
			must(t, j.Ready())
			if s := j.Stats(); s.Segments != 0 || s.Broken != nil || len(names(t, files.dir)) != 0 {
				t.Errorf("%+v, %v", s, names(t, files.dir))
			}
			add(t, j, 1, 3)
			same(t, drained(t, j), texts(1, 3))
		})
	}
}

func TestAClosedJournalIsNotTried(t *testing.T) {
	j := open(t, Config{Dir: t.TempDir()}, nil)
	must(t, j.Close())
	if err := j.Try(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// While records wait, or are replayed, nothing new is tried: Try says how it is.
func TestTryDoesNotWaitForADrain(t *testing.T) {
	files, now := newShakyDisk(t.TempDir()), newClock()
	j := opened(t, Config{now: now.now}, files)
	add(t, j, 0, 1)
	must(t, j.Drain(context.Background(), func(context.Context, []byte, int) error {
		must(t, j.Try())
		files.set(func() { files.failSync = errDisk })
		refused(t, j, 1, errDisk)
		files.set(func() { files.failSync = nil })
		now.pass(time.Hour)
		if err := j.Try(); !errors.Is(err, ErrBroken) {
			t.Error(err)
		}
		return nil
	}))
	must(t, j.Ready())
}

// All who wait behind the group that failed are refused with it.
func TestEverybodyWhoWaitsIsRefused(t *testing.T) {
	files := newShakyDisk(t.TempDir())
	j := opened(t, Config{}, files)
	files.set(func() {
		files.failSync, files.hold, files.entered = errDisk, make(chan struct{}), make(chan struct{}, 1)
	})
	answers := make(chan error)
	for i := range 20 {
		go func() { answers <- j.Append(context.Background(), []byte(text(i)), 1+i%2) }()
	}
	<-files.entered
	hold := files.hold
	files.set(func() { files.hold = nil })
	close(hold)
	for range 20 {
		if err := <-answers; !errors.Is(err, ErrBroken) {
			t.Error(err)
		}
	}
	if j.Stats().Bytes != 0 || j.reserved != 0 {
		t.Errorf("%+v, %d reserved", j.Stats(), j.reserved)
	}
}

// Whatever byte the disk is full at, what was acknowledged is there, in this process
// and in the next.
func TestAFullDiskAtAnyByte(t *testing.T) {
	for room := range int64(250) {
		files, now := newShakyDisk(t.TempDir()), newClock()
		j := open(t, Config{SegmentBytes: 150, now: now.now}, files)
		files.set(func() { files.room = room })
		var acknowledged []string
		for i := range 8 {
			err := j.Append(context.Background(), []byte(text(i)), 1+i%2)
			if err == nil {
				acknowledged = append(acknowledged, text(i))
			} else if !errors.Is(err, ErrBroken) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
		}
		if len(acknowledged) == 8 {
			t.Fatalf("%d bytes were room for all", room)
		}
		must(t, j.Close())
		j = open(t, Config{SegmentBytes: 150, now: now.now}, files)
		if s := j.Stats(); s.Skipped != 0 {
			t.Fatalf("with room for %d: %+v", room, s)
		}
		files.set(func() { files.room = -1 })
		add(t, j, 20, 22)
		got := drained(t, j)
		// Of a group that was refused a whole record may have been written.
		same(t, slices.DeleteFunc(slices.Clone(got), func(s string) bool {
			return !slices.Contains(acknowledged, s) && !strings.HasPrefix(s, "2")
		}), append(acknowledged, texts(20, 22)...))
		must(t, j.Close())
	}
}

// Deleted segments may come back when the folder cannot be synced: the journal says
// so, and takes nothing until it can.
func TestADrainThatCannotSyncItsFolderBreaksTheJournal(t *testing.T) {
	files, now := newShakyDisk(t.TempDir()), newClock()
	j := opened(t, Config{SegmentBytes: 100, now: now.now}, files)
	add(t, j, 0, 6)
	files.set(func() { files.failDir = errDisk })
	var got []string
	err := j.Drain(context.Background(), func(_ context.Context, batch []byte, _ int) error {
		got = append(got, string(batch))
		return nil
	})
	if !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	refused(t, j, 7, errDisk)
	files.set(func() { files.failDir = nil })
	same(t, append(got, drained(t, j)...), texts(0, 6))
	now.pass(time.Second)
	must(t, j.Try())
	add(t, j, 8, 9)
	same(t, drained(t, j), texts(8, 9))
}

func TestASegmentThatCannotBeDeletedComesAgain(t *testing.T) {
	files := newShakyDisk(t.TempDir())
	j := opened(t, Config{}, files)
	add(t, j, 0, 3)
	files.set(func() { files.failErase = errDisk })
	for range 2 {
		count := 0
		err := j.Drain(context.Background(), func(context.Context, []byte, int) error { count++; return nil })
		if !errors.Is(err, errDisk) || count != 3 {
			t.Fatalf("%v after %d", err, count)
		}
	}
	files.set(func() { files.failErase = nil })
	same(t, drained(t, j), texts(0, 3))
}

// A record that was refused may be whole in the kernel's memory and not on disk. The
// next process makes durable what it found, or it would take its loss for damage.
func TestWhatOpenFoundIsDurable(t *testing.T) {
	files := newShakyDisk(t.TempDir())
	j := open(t, Config{}, files)
	add(t, j, 0, 1)
	files.set(func() { files.failSync = errDisk })
	refused(t, j, 1, errDisk)
	must(t, j.Close())
	files.set(func() { files.failSync = nil })
	j = open(t, Config{}, files)
	add(t, j, 2, 3)
	must(t, j.Close())
	files.losePower(t, func(n int64) int64 { return min(n, 1) })
	j = opened(t, Config{}, files)
	if s := j.Stats(); s.Skipped != 0 || s.Truncated != 0 {
		t.Errorf("%+v", s)
	}
	same(t, drained(t, j), texts(0, 3))
}
