package collector

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// rememberFor is how long a repeat of a proposed id is known as one.
	rememberFor = 10 * time.Minute
	// rememberProposals bounds the memory: two generations of this many, some
	// 200 bytes each.
	rememberProposals = 50_000
	// adoptWithin is how far the time inside a proposed id may be off.
	adoptWithin = 5 * time.Minute
)

// proposal is one client-proposed id together with whom it came from.
type proposal struct {
	id     uuid.UUID
	digest [32]byte
	code   string
}

// issued is what was made of a proposal. It is kept whether or not the click
// became durable: a client that repeats itself after a 503 gets the same id, so
// that a write whose answer was lost and its repetition are one click.
type issued struct {
	id         affiliate.ClickID
	receivedAt time.Time

	mu sync.Mutex
	// batch is the last attempt to write it.
	batch *batch
}

// write makes the click durable once: the first of equal requests puts it into
// a batch, the others wait for that batch, and one of them tries again when it
// failed. repeated is true for those that only waited.
func (i *issued) write(add func() (*batch, error)) (repeated bool, err error) {
	for {
		i.mu.Lock()
		earlier := i.batch
		if earlier != nil && !earlier.failed() {
			i.mu.Unlock()
			if earlier.wait() == nil {
				return true, nil
			}
			continue
		}
		own, err := add()
		if err == nil {
			i.batch = own
		}
		i.mu.Unlock()
		if err != nil {
			return false, err
		}
		return false, own.wait()
	}
}

// memory is one collector's knowledge of proposed ids.
type memory struct {
	mu            sync.Mutex
	begun         time.Time
	recent, older generation
}

type generation struct {
	issued map[proposal]*issued
	// owner is the first proposal of an id: another key or code does not get it.
	owner map[uuid.UUID]proposal
}

func newGeneration() generation {
	return generation{issued: make(map[proposal]*issued), owner: make(map[uuid.UUID]proposal)}
}

func newMemory() *memory { return &memory{recent: newGeneration(), older: newGeneration()} }

// claim finds what was issued for p, or issues an id: the proposed one when it
// is a UUIDv7 of about now that nobody else has used, else a fresh one.
func (m *memory) claim(p proposal, now time.Time) *issued {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn(now)
	if entry := m.find(p); entry != nil && now.Sub(entry.receivedAt) <= rememberFor {
		return entry
	}
	id := affiliate.ClickID{UUID: p.id}
	at, isV7 := id.Time()
	off := now.Sub(at).Abs()
	owner, owned := m.ownerOf(p.id)
	if !isV7 || p.id.Variant() != uuid.RFC4122 || off > adoptWithin || owned && owner != p {
		id = affiliate.NewID[affiliate.Click](now)
	}
	entry := &issued{id: id, receivedAt: now}
	m.recent.issued[p] = entry
	if !owned {
		m.recent.owner[p.id] = p
	}
	return entry
}

func (m *memory) find(p proposal) *issued {
	if entry := m.recent.issued[p]; entry != nil {
		return entry
	}
	return m.older.issued[p]
}

func (m *memory) ownerOf(id uuid.UUID) (proposal, bool) {
	if owner, ok := m.recent.owner[id]; ok {
		return owner, true
	}
	owner, ok := m.older.owner[id]
	return owner, ok
}

// turn forgets the older generation when the recent one is old or full.
func (m *memory) turn(now time.Time) {
	if now.Sub(m.begun) >= rememberFor || len(m.recent.issued) >= rememberProposals {
		m.older, m.recent, m.begun = m.recent, newGeneration(), now
	}
}
