package notification

import (
	"context"
	"time"
)

// SetPingInterval changes how often the streams of a service send a comment.
func SetPingInterval(s *Service, interval time.Duration) { s.pingInterval = interval }

// SeeStreams stores that the streams of a hub are open. Run does this from time to time.
func SeeStreams(ctx context.Context, h *Hub) error { return h.seeStreams(ctx) }

// Distribute distributes one batch of arrivals, as Run does.
func (d *Distributor) Distribute(ctx context.Context) (more bool, err error) {
	return d.distribute(ctx)
}
