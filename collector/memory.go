package collector

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// rememberFor is how long a proposed id is known. A repeat in this time is the
	// same click.
	rememberFor = 10 * time.Minute
	// rememberProposals bounds the memory. A proposal takes about 400 bytes.
	rememberProposals = 100_000
	// adoptWithin is how far the time inside a proposed id may differ from now.
	adoptWithin = 5 * time.Minute
)

// proposal is an id that a client proposed, with the key and the code of its click.
type proposal struct {
	id     uuid.UUID
	digest [32]byte
	code   string
}

// issued is the click that was made from a proposal. It is kept even if the click
// did not become durable: a client that repeats its request after a 503 gets the
// same id, so a write without an answer and its repetition are one click.
type issued struct {
	id         affiliate.ClickID
	receivedAt time.Time

	mu sync.Mutex
	// batch is the last attempt to write it.
	batch *batch
}

// write makes the click durable once. The first of equal requests adds it to a
// batch and the others wait for that batch. If the batch fails, one of them tries
// again. repeated is true for requests that only waited.
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

// memory holds the proposals of the last ten minutes, at most rememberProposals of
// them: beyond that the oldest is evicted.
type memory struct {
	mu sync.Mutex
	// issued is ordered by age. Reads use Peek, which leaves the order alone.
	issued *simplelru.LRU[proposal, *issued]
	// owners holds the first proposal of each id. Another key or code does not get
	// the id.
	owners map[uuid.UUID]proposal
}

func newMemory() *memory {
	m := &memory{owners: make(map[uuid.UUID]proposal)}
	m.issued, _ = simplelru.NewLRU(rememberProposals, func(p proposal, _ *issued) { // fails only without a size
		if m.owners[p.id] == p {
			delete(m.owners, p.id)
		}
	})
	return m
}

// claim returns the click that was issued for p, or issues one. Its id is the
// proposed one if that is a UUIDv7 of about now that no other proposal owns,
// otherwise a new one.
func (m *memory) claim(p proposal, now time.Time) *issued {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now)
	if entry, ok := m.issued.Peek(p); ok {
		return entry
	}
	id := affiliate.ClickID{UUID: p.id}
	at, isV7 := id.Time()
	owner, owned := m.owners[p.id]
	if !isV7 || p.id.Variant() != uuid.RFC4122 || now.Sub(at).Abs() > adoptWithin || owned && owner != p {
		id = affiliate.NewID[affiliate.Click](now)
	}
	entry := &issued{id: id, receivedAt: now}
	m.issued.Add(p, entry)
	if !owned {
		m.owners[p.id] = p
	}
	return entry
}

// expire removes proposals that are older than rememberFor.
func (m *memory) expire(now time.Time) {
	for {
		_, oldest, ok := m.issued.GetOldest()
		if !ok || now.Sub(oldest.receivedAt) <= rememberFor {
			return
		}
		m.issued.RemoveOldest()
	}
}
