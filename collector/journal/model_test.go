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

// The test compares the journal with a list of the batches that were acknowledged and not
// yet replayed. It runs random sequences of appends, failing drains, disk faults,
// restarts and losses of power that drop unsynced data. None of them may lose a batch of
// the list.
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
			"try":            m.try,
			"a second later": func(*rapid.T) { m.now.pass(time.Second) },
			"":               m.check,
		})
		// At the end everything can be replayed and the journal works.
		m.repair()
		m.drain(t)
		m.now.pass(time.Second)
		requireNoError(t, m.journal.Recover())
		requireNoError(t, m.journal.Ready())
		m.append(t)
		m.drain(t)
	})
}

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
				t.Fatalf("full with %d bytes", s.Bytes)
			}
		default:
			t.Fatalf("%v", err)
		}
		m.next++
	}
}

// replay drains until n batches were replayed. It checks that they come in order, that
// each comes once, and that each was appended before.
func (m *model) replay(t *rapid.T, n int) error {
	last := -1
	return m.journal.Drain(context.Background(), func(_ context.Context, batch []byte, clicks int) error {
		i := batchNumber(t, batch)
		if i <= last || i >= m.next || string(batch) != batchText(i) || clicks != 1+i%2 {
			t.Fatalf("%q with %d clicks after %d", batch, clicks, last)
		}
		if n == 0 {
			return errDisk
		}
		n--
		last = i
		if len(m.pending) > 0 && m.pending[0] < i {
			t.Fatalf("%d was replayed, but %d before it was not", i, m.pending[0])
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
			t.Fatalf("%v", err)
		}
		return
	}
	if len(m.pending) > 0 || s.Clicks != 0 || s.Bytes != 0 || s.Segments != 0 {
		t.Fatalf("after a drain %v are not replayed: %+v", m.pending, s)
	}
}

func (m *model) drainInPart(t *rapid.T) {
	if err := m.replay(t, rapid.IntRange(0, 8).Draw(t, "replayed")); err != nil && !errors.Is(err, errDisk) {
		t.Fatalf("%v", err)
	}
}

// try calls Recover and checks that its result agrees with Stats.
func (m *model) try(t *rapid.T) {
	if err := m.journal.Recover(); err != nil && !errors.Is(err, ErrBroken) || (err == nil) != (m.journal.Stats().Broken == nil) {
		t.Fatalf("%v: %+v", err, m.journal.Stats())
	}
}

func (m *model) fault(t *rapid.T) {
	kind := rapid.SampledFrom([]string{"full", "fsync", "folder", "new file", "removal"}).Draw(t, "kind")
	room := rapid.Int64Range(0, 300).Draw(t, "room")
	m.files.set(func() {
		switch kind {
		case "full":
			m.files.room = room
		case "fsync":
			m.files.failSync = errDisk
		case "folder":
			m.files.failDir = errDisk
		case "new file":
			m.files.failCreate = errDisk
		case "removal":
			m.files.failRemove = errDisk
		}
	})
}

func (m *model) repair() {
	m.files.set(func() {
		m.files.room = -1
		m.files.failSync, m.files.failDir, m.files.failCreate, m.files.failRemove = nil, nil, nil, nil
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
		t.Fatalf("%v: %+v", m.journal.Ready(), s)
	}
	if s.Bytes > s.MaxBytes || s.Skipped != 0 || s.Clicks < int64(len(m.pending)) || (s.Clicks > 0) == s.Oldest.IsZero() {
		t.Fatalf("%d not replayed: %+v", len(m.pending), s)
	}
}
