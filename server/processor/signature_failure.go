package processor

import (
	"context"
	"sync"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// failureInterval is the time between two writes of the signature failures of a connection.
const failureInterval = time.Second

// failureCounter counts messages whose signature is not valid. Anybody can send such messages,
// so each connection causes at most one write in failureInterval.
type failureCounter struct {
	mu     sync.Mutex
	counts map[affiliate.ProcessorConnectionID]*failureCount
}

type failureCount struct {
	unwritten int64
	writtenAt time.Time
}

// add counts a message. It returns the number of messages to write now; 0 if a later message
// writes them.
func (f *failureCounter) add(id affiliate.ProcessorConnectionID, at time.Time) (write int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := f.counts[id]
	if count == nil {
		count = &failureCount{}
		f.counts[id] = count
	}
	count.unwritten++
	if at.Sub(count.writtenAt) < failureInterval {
		return 0
	}
	write = count.unwritten
	count.unwritten, count.writtenAt = 0, at
	return write
}

// countFailure counts a message whose signature is not valid.
func (s *Service) countFailure(ctx context.Context, c affiliate.ProcessorConnection, at time.Time) error {
	failures := s.failures.add(c.ID, at)
	if failures == 0 {
		return nil
	}
	return s.Store.AddSignatureFailures(ctx, c, failures, at)
}
