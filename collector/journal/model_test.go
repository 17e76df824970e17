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

// The journal against a list: what was acknowledged and not yet replayed. Any
// sequence of appends, drains that fail, faults of the disk, restarts and losses of
// power that forget what was not synced has to keep it.
func TestJournalKeepsAListThroughEverything(t *testing.T) {
	parent, runs := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		m := &model{files: newShakyDisk(filepath.Join(parent, strconv.Itoa(runs))), now: newClock()}
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
		// In the end everything comes out, and the journal is whole.
		m.repair()
		m.drain(t)
		m.now.pass(time.Second)
		must(t, m.journal.Try())
		must(t, m.journal.Ready())
		m.append(t)
		m.drain(t)
	})
}

type model struct {
	files   *shakyDisk
	now     *clock
	journal *Journal
	tried   int   // numbers that Append was called with so far
	owed    []int // acknowledged and never replayed
}

func (m *model) open(t *rapid.T) {
	m.journal = open(t, Config{SegmentBytes: 160, MaxBytes: 1000, now: m.now.now}, m.files)
}

func (m *model) append(t *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(t, "batches") {
		err := m.journal.Append(context.Background(), []byte(text(m.tried)), 1+m.tried%2)
		switch {
		case err == nil:
			m.owed = append(m.owed, m.tried)
		case errors.Is(err, ErrBroken):
		case errors.Is(err, ErrFull):
			if s := m.journal.Stats(); s.Bytes+reserve(len(text(m.tried))) <= s.MaxBytes {
				t.Fatalf("full with %d bytes", s.Bytes)
			}
		default:
			t.Fatalf("%v", err)
		}
		m.tried++
	}
}

// replay drains until it has replayed n, and checks what came: in order, each once,
// and none that nobody wrote.
func (m *model) replay(t *rapid.T, n int) error {
	last := -1
	return m.journal.Drain(context.Background(), func(_ context.Context, batch []byte, clicks int) error {
		i := number(t, batch)
		if i <= last || i >= m.tried || string(batch) != text(i) || clicks != 1+i%2 {
			t.Fatalf("%q with %d clicks behind %d", batch, clicks, last)
		}
		if n == 0 {
			return errDisk
		}
		n--
		last = i
		if len(m.owed) > 0 && m.owed[0] < i {
			t.Fatalf("%d comes and %d is left out", i, m.owed[0])
		}
		m.owed = slices.DeleteFunc(m.owed, func(owed int) bool { return owed == i })
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
	if len(m.owed) > 0 || s.Clicks != 0 || s.Bytes != 0 || s.Segments != 0 {
		t.Fatalf("after a drain %v are owed: %+v", m.owed, s)
	}
}

func (m *model) drainInPart(t *rapid.T) {
	if err := m.replay(t, rapid.IntRange(0, 8).Draw(t, "replayed")); err != nil && !errors.Is(err, errDisk) {
		t.Fatalf("%v", err)
	}
}

// try finds the journal whole, or leaves it as broken as it was.
func (m *model) try(t *rapid.T) {
	if err := m.journal.Try(); err != nil && !errors.Is(err, ErrBroken) || (err == nil) != (m.journal.Stats().Broken == nil) {
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
			m.files.failMake = errDisk
		case "removal":
			m.files.failErase = errDisk
		}
	})
}

func (m *model) repair() {
	m.files.set(func() {
		m.files.room = -1
		m.files.failSync, m.files.failDir, m.files.failMake, m.files.failErase = nil, nil, nil, nil
	})
}

func (m *model) restart(t *rapid.T) {
	must(t, m.journal.Close())
	m.repair()
	m.open(t)
}

func (m *model) losePower(t *rapid.T) {
	// What was written and not synced may have reached the disk in part.
	must(t, m.journal.Close())
	m.files.losePower(t, func(n int64) int64 { return rapid.Int64Range(0, n).Draw(t, "kept") })
	m.open(t)
}

func (m *model) check(t *rapid.T) {
	s := m.journal.Stats()
	if (s.Broken != nil) != errors.Is(m.journal.Ready(), ErrBroken) || s.Segments == 0 && s.Bytes > 0 {
		t.Fatalf("%v: %+v", m.journal.Ready(), s)
	}
	if s.Bytes > s.MaxBytes || s.Skipped != 0 || s.Clicks < int64(len(m.owed)) || (s.Clicks > 0) == s.Oldest.IsZero() {
		t.Fatalf("%d owed: %+v", len(m.owed), s)
	}
}
