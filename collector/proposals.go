package collector

import (
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// proposalLifetime is how long the collector stores a proposed id. If a request is
	// repeated within this time, both requests count as one click.
	proposalLifetime = 10 * time.Minute
	// maxProposals is the maximum number of stored proposals. A proposal takes about 400
	// bytes.
	maxProposals = 100_000
	// maxClockSkew is the largest accepted difference between the time in a proposed id
	// and the current time.
	maxClockSkew = 5 * time.Minute
)

// proposal is a click id that a client proposed, together with the digest of the public
// key and the referral code of the same request.
type proposal struct {
	id     uuid.UUID
	digest [32]byte
	code   string
}

// issuedClick is a click with the id that the collector gave to it. If the request
// proposed an id, the proposal cache keeps the click, even if it could not be written, so
// that the client gets the same id when it repeats its request. The click is therefore
// counted once, even if Redis stored the first write but the response of Redis was lost.
type issuedClick struct {
	id         affiliate.ClickID
	receivedAt time.Time

	mu sync.Mutex
	// batch is the batch of the last attempt to write the click.
	batch *batch
}

// write makes the click durable. When several requests have the same proposal, the first
// request calls add, which adds the click to a batch, and the other requests wait for
// that batch. If the batch fails, one of the waiting requests calls add again. repeated
// is true if the batch of another request made the click durable.
func (i *issuedClick) write(add func() (*batch, error)) (repeated bool, err error) {
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
		current, err := add()
		if err == nil {
			i.batch = current
		}
		i.mu.Unlock()
		if err != nil {
			return false, err
		}
		return false, current.wait()
	}
}

// proposalCache stores the proposals of the last ten minutes. When it holds maxProposals,
// a new proposal evicts the oldest one.
type proposalCache struct {
	mu sync.Mutex
	// clicks is ordered by age. Reads use Peek, which does not change the order.
	clicks *simplelru.LRU[proposal, *issuedClick]
	// owners maps each proposed id to its first proposal. A proposal with the same id but
	// another key or code gets a new id instead.
	owners map[uuid.UUID]proposal
}

func newProposalCache() *proposalCache {
	m := &proposalCache{owners: make(map[uuid.UUID]proposal)}
	m.clicks, _ = simplelru.NewLRU(maxProposals, func(p proposal, _ *issuedClick) { // NewLRU fails only if the size is not positive
		if m.owners[p.id] == p {
			delete(m.owners, p.id)
		}
	})
	return m
}

// claim returns the stored click of a proposal, or creates and stores a click. A created
// click gets the proposed id if that id is a UUIDv7 whose time is close to the current
// time, and no other proposal owns the id. Otherwise the click gets a new id.
func (m *proposalCache) claim(p proposal, now time.Time) *issuedClick {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now)
	if entry, ok := m.clicks.Peek(p); ok {
		return entry
	}
	id := affiliate.ClickID{UUID: p.id}
	at, isV7 := id.Time()
	owner, owned := m.owners[p.id]
	if !isV7 || p.id.Variant() != uuid.RFC4122 || now.Sub(at).Abs() > maxClockSkew || owned && owner != p {
		id = affiliate.NewID[affiliate.ClickID](now)
	}
	entry := &issuedClick{id: id, receivedAt: now}
	m.clicks.Add(p, entry)
	if !owned {
		m.owners[p.id] = p
	}
	return entry
}

// expire removes proposals that are older than proposalLifetime.
func (m *proposalCache) expire(now time.Time) {
	for {
		_, oldest, ok := m.clicks.GetOldest()
		if !ok || now.Sub(oldest.receivedAt) <= proposalLifetime {
			return
		}
		m.clicks.RemoveOldest()
	}
}
