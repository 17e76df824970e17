package analytics

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
)

// ClickLog is a compact list of clicks of one workspace and mode. The transaction that stores
// clicks also stores the list, and a job adds the clicks of the list to the sums later. The
// zero value is an empty list.
//
// A click consists of the number of its owner (owners are numbered in the order of first use, and a new
// number is followed by the three ids of the owner), the number of quarters since the owner's previous
// click, a byte of flags, two bytes with a bit for each dimension whose value differs from the owner's
// previous click, and these values, each after a byte with its length. The two numbers are varints.
type ClickLog struct {
	buf    []byte
	owners map[Owner]int
	states []ownerState
	last   int // number of the owner of the last click
	oldest Quarter
}

// ownerState is the owner of clicks in a list, with the quarter and the values of the owner's last click.
type ownerState struct {
	Owner
	at     Quarter
	values [len(clickDimensions)]string
}

// The flags of a click in the list.
const (
	flagUnique = 1 << iota
	flagBot
	flagRemoved // the click is subtracted from the sums
)

// Add adds a click to the list.
func (l *ClickLog) Add(c *click.Click) { l.append(c, 0) }

// Remove adds the removal of a click. The click must have the values with which it was added.
func (l *ClickLog) Remove(c *click.Click) { l.append(c, flagRemoved) }

// Oldest returns the start of the quarter of the oldest click.
func (l *ClickLog) Oldest() time.Time { return l.oldest.Time() }

// Bytes returns the list.
func (l *ClickLog) Bytes() []byte { return l.buf }

func (l *ClickLog) append(c *click.Click, flags byte) {
	at, owner := QuarterOf(c.ReceivedAt), Owner{Program: c.Program, Participant: c.Participant, Link: c.Link}
	if len(l.states) == 0 {
		l.owners, l.oldest = map[Owner]int{}, at
	}
	l.oldest = min(l.oldest, at)
	known := len(l.states) > 0 && l.states[l.last].Owner == owner
	if !known {
		var number int
		if number, known = l.owners[owner]; !known {
			number = len(l.states)
			l.owners[owner], l.states = number, append(l.states, ownerState{Owner: owner})
		}
		l.last = number
	}
	state := &l.states[l.last]
	b := binary.AppendUvarint(l.buf, uint64(l.last))
	if !known {
		b = append(b, owner.Program.UUID[:]...)
		b = append(b, owner.Participant.UUID[:]...)
		b = append(b, owner.Link.UUID[:]...)
	}
	b = binary.AppendVarint(b, int64(at-state.at))
	state.at = at
	b = append(b, flags|flagsOf(c), 0, 0)
	changes, changed := len(b)-2, uint16(0)
	values := ClickValues(c)
	for i := range state.values {
		if value := values[i]; value != state.values[i] {
			changed |= 1 << i
			b = append(append(b, byte(len(value))), value...)
			state.values[i] = value
		}
	}
	binary.LittleEndian.PutUint16(b[changes:], changed)
	l.buf = b
}

var errClickLog = errors.New("analytics: invalid list of clicks")

// AddClicks adds the clicks of a ClickLog to the sums, and the values of clicks that are not removed to weights.
func (s Sums) AddClicks(log []byte, weights Weights) error {
	var owners []ownerState
	r := logReader{rest: log}
	for len(r.rest) > 0 {
		number := r.uvarint()
		if number == uint64(len(owners)) {
			owners = append(owners, ownerState{Owner: r.owner()})
		}
		difference := Quarter(r.varint())
		flags := r.next(1)[0]
		changed := binary.LittleEndian.Uint16(r.next(2))
		if r.failed || number >= uint64(len(owners)) {
			return errClickLog
		}
		state := &owners[number]
		state.at += difference
		for i := range state.values {
			if changed&(1<<i) != 0 {
				state.values[i] = r.text()
			}
		}
		if r.failed {
			return errClickLog
		}
		s.addAll(state.Owner, state.at, state.values[:], "", clickCounts(flags))
		if flags&flagRemoved == 0 {
			weights.add(state.at.Day(), state.values[:], clickWeight)
		}
	}
	return nil
}

// AddClick adds a click to the sums of its owner, and the values of the click to weights.
func (s Sums) AddClick(c *click.Click, weights Weights) {
	at, values := QuarterOf(c.ReceivedAt), ClickValues(c)
	s.addAll(Owner{Program: c.Program, Participant: c.Participant, Link: c.Link}, at, values[:], "", clickCounts(flagsOf(c)))
	weights.add(at.Day(), values[:], clickWeight)
}

func flagsOf(c *click.Click) byte {
	switch {
	case c.IsBot:
		return flagBot
	case c.Unique:
		return flagUnique
	}
	return 0
}

func clickCounts(flags byte) Counts {
	var counts Counts
	switch {
	case flags&flagBot != 0:
		counts[BotClicks] = 1
	case flags&flagUnique != 0:
		counts[Clicks], counts[UniqueClicks] = 1, 1
	default:
		counts[Clicks] = 1
	}
	if flags&flagRemoved != 0 {
		return counts.Negated()
	}
	return counts
}

// logReader reads the parts of a stored ClickLog. After the first invalid part it returns zero values.
type logReader struct {
	rest   []byte
	failed bool
}

// next returns the next n bytes. If fewer bytes are left, it returns zeros.
func (r *logReader) next(n int) []byte {
	if r.failed || len(r.rest) < n {
		r.failed, r.rest = true, nil
		return make([]byte, n)
	}
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

func (r *logReader) owner() Owner {
	return Owner{
		Program:     affiliate.ProgramID{UUID: r.uuid()},
		Participant: affiliate.ParticipantID{UUID: r.uuid()},
		Link:        affiliate.LinkID{UUID: r.uuid()},
	}
}

func (r *logReader) uuid() uuid.UUID { return uuid.UUID(r.next(len(uuid.UUID{}))) }

func (r *logReader) text() string { return string(r.next(int(r.next(1)[0]))) }

func (r *logReader) uvarint() uint64 {
	value, n := binary.Uvarint(r.rest)
	r.skip(n)
	return value
}

func (r *logReader) varint() int64 {
	value, n := binary.Varint(r.rest)
	r.skip(n)
	return value
}

func (r *logReader) skip(n int) {
	if n <= 0 {
		r.failed, r.rest = true, nil
		return
	}
	r.rest = r.rest[n:]
}
