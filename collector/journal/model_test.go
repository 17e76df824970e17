package journal

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The test runs random sequences of appends, drains (some of them incomplete), disk
// faults, restarts and losses of power. A loss of power drops unsynced data. It keeps a
// list of the batches that were acknowledged and not yet replayed. The journal must not
// lose a batch of this list.
func TestJournal_RandomOperationsLoseNothing(t *testing.T) {
	parent, runs := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		m := &model{files: newFaultyDisk(filepath.Join(parent, strconv.Itoa(runs))), now: newClock()}
		m.open(t)
		defer func() { _ = m.journal.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"append":         m.append,
			"drain":          m.drain,
			"drain in part":  m.drainInPart,
			"fault":          m.fault,
			"repair":         func(*rapid.T) { m.repair() },
			"restart":        m.restart,
			"loss of power":  m.losePower,
			"recover":        m.recover,
			"a second later": func(*rapid.T) { m.now.advance(time.Second) },
			"":               m.check,
		})
		// At the end everything can be replayed and the journal works.
		m.repair()
		m.drain(t)
		m.now.advance(time.Second)
		requireNoError(t, m.journal.Recover())
		requireNoError(t, m.journal.Ready())
		m.append(t)
		m.drain(t)
	})
}

// model is the state that the journal should have after the operations so far.
type model struct {
	files   *faultyDisk
	now     *clock
	journal *Journal
	next    int   // number of the next batch for Append
	pending []int // numbers of the batches that were acknowledged and not yet replayed
}

func (m *model) open(t *rapid.T) {
	m.journal = open(t, Config{SegmentBytes: 160, MaxBytes: 1000, now: m.now.now}, m.files)
}

func (m *model) append(t *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(t, "batches") {
		err := m.journal.Append(context.Background(), []byte(batchText(m.next)), 1+m.next%2)
		switch {
		case err == nil:
			m.pending = append(m.pending, m.next)
		case errors.Is(err, ErrBroken):
		case errors.Is(err, ErrFull):
			if s := m.journal.Stats(); s.Bytes+maxAddedBytes(len(batchText(m.next))) <= s.MaxBytes {
				t.Fatalf("Append failed with ErrFull, but only %d of %d bytes are used", s.Bytes, s.MaxBytes)
			}
		default:
			t.Fatalf("Append() = %v, want nil, ErrBroken or ErrFull", err)
		}
		m.next++
	}
}

// replay drains the journal until n batches were replayed. It checks that each batch was
// appended before, that this drain replays no batch twice, and that the order is correct.
func (m *model) replay(t *rapid.T, n int) error {
	last := -1
	return m.journal.Drain(context.Background(), func(_ context.Context, batch []byte, clicks int) error {
		i := batchNumber(t, batch)
		if i <= last || i >= m.next || string(batch) != batchText(i) || clicks != 1+i%2 {
			t.Fatalf("replayed %q with %d clicks after batch %d, want %q with %d clicks after an older batch", batch, clicks, last, batchText(i), 1+i%2)
		}
		if n == 0 {
			return errDisk
		}
		n--
		last = i
		if len(m.pending) > 0 && m.pending[0] < i {
			t.Fatalf("batch %d was replayed before batch %d", i, m.pending[0])
		}
		m.pending = slices.DeleteFunc(m.pending, func(number int) bool { return number == i })
		return nil
	})
}

func (m *model) drain(t *rapid.T) {
	err := m.replay(t, 1<<30)
	s := m.journal.Stats()
	if err != nil {
		if !errors.Is(err, errDisk) {
			t.Fatalf("Drain() = %v, want nil or %v", err, errDisk)
		}
		return
	}
	if len(m.pending) > 0 || s.Clicks != 0 || s.Bytes != 0 || s.Segments != 0 {
		t.Fatalf("after a drain: %+v, batches %v not replayed; want an empty journal", s, m.pending)
	}
}

func (m *model) drainInPart(t *rapid.T) {
	if err := m.replay(t, rapid.IntRange(0, 8).Draw(t, "replayed")); err != nil && !errors.Is(err, errDisk) {
		t.Fatalf("Drain() = %v, want nil or %v", err, errDisk)
	}
}

// recover calls Recover and checks that its result agrees with Stats.
func (m *model) recover(t *rapid.T) {
	if err := m.journal.Recover(); err != nil && !errors.Is(err, ErrBroken) || (err == nil) != (m.journal.Stats().Broken == nil) {
		t.Fatalf("Recover() = %v, but Stats().Broken = %v", err, m.journal.Stats().Broken)
	}
}

func (m *model) fault(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"full", "fsync", "folder", "new file", "removal"}).Draw(t, "kind")
	freeBytes := rapid.Int64Range(0, 300).Draw(t, "free bytes")
	m.files.set(func() {
		switch kind {
		case "full":
			m.files.freeBytes = freeBytes
		case "fsync":
			m.files.syncErr = errDisk
		case "folder":
			m.files.dirSyncErr = errDisk
		case "new file":
			m.files.createErr = errDisk
		case "removal":
			m.files.removeErr = errDisk
		}
	})
}

func (m *model) repair() {
	m.files.set(func() {
		m.files.freeBytes = -1
		m.files.syncErr, m.files.dirSyncErr, m.files.createErr, m.files.removeErr = nil, nil, nil, nil
	})
}

func (m *model) restart(t *rapid.T) {
	requireNoError(t, m.journal.Close())
	m.repair()
	m.open(t)
}

func (m *model) losePower(t *rapid.T) {
	// A random part of the unsynced data reaches the disk.
	requireNoError(t, m.journal.Close())
	m.files.losePower(t, func(n int64) int64 { return rapid.Int64Range(0, n).Draw(t, "kept") })
	m.open(t)
}

func (m *model) check(t *rapid.T) {
	s := m.journal.Stats()
	if (s.Broken != nil) != errors.Is(m.journal.Ready(), ErrBroken) || s.Segments == 0 && s.Bytes > 0 {
		t.Fatalf("Ready() = %v contradicts Stats() = %+v", m.journal.Ready(), s)
	}
	if s.Bytes > s.MaxBytes || s.Skipped != 0 || s.Clicks < int64(len(m.pending)) || (s.Clicks > 0) == s.Oldest.IsZero() {
		t.Fatalf("Stats() = %+v, want no damage, at most MaxBytes bytes, and at least the %d pending clicks", s, len(m.pending))
	}
}
