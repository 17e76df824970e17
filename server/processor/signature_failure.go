package processor

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tributary-hq/tributary/affiliate/processor"
	processors "github.com/tributary-hq/tributary/storage/postgres/processor"
)

// A connection causes at most failureWrites writes of its signature failures in
// failureInterval.
const (
	failureWrites   = 10
	failureInterval = time.Second
)

// failureCounter counts messages whose signature is not valid. Anybody can send such messages,
// so the number of writes is limited.
type failureCounter struct {
	mu     sync.Mutex
	counts map[processor.ConnectionID]*failureCount
}

type failureCount struct {
	unwritten int64
	writes    int       // since begunAt
	begunAt   time.Time // of the interval
}

// add counts a message. It returns the number of messages to write now; 0 if a later message
// writes them.
func (f *failureCounter) add(id processor.ConnectionID, at time.Time) (write int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := f.counts[id]
	if count == nil {
		count = &failureCount{}
		f.counts[id] = count
	}
	count.unwritten++
	if at.Sub(count.begunAt) >= failureInterval {
		count.writes, count.begunAt = 0, at
	}
	if count.writes == failureWrites {
		return 0
	}
	count.writes++
	write, count.unwritten = count.unwritten, 0
	return write
}

// countFailure counts a message whose signature is not valid.
func (s *Service) countFailure(ctx context.Context, c processor.Connection, at time.Time) error {
	failures := s.failures.add(c.ID, at)
	if failures == 0 {
		return nil
	}
	return processors.AddSignatureFailures(ctx, s.DB, c, failures, at)
}

const (
	// unknownLife is how long a connection that does not exist is remembered. A connection that
	// another process creates in this time receives its events after it.
	unknownLife = 5 * time.Second
	// maxUnknown bounds the memory for such connections.
	maxUnknown = 10_000
)

// unknownConnections remembers connections that do not exist, with the times at which they were
// looked up, so that repeated messages for them cause no queries.
type unknownConnections struct {
	*lru.Cache[processor.ConnectionID, time.Time]
}

func newUnknownConnections() unknownConnections {
	cache, _ := lru.New[processor.ConnectionID, time.Time](maxUnknown) // fails only if the size is not positive
	return unknownConnections{cache}
}

func (u unknownConnections) add(id processor.ConnectionID, at time.Time) { u.Add(id, at) }

func (u unknownConnections) has(id processor.ConnectionID, at time.Time) bool {
	lookedUp, ok := u.Peek(id)
	return ok && at.Sub(lookedUp) < unknownLife
}
