package notification

import "context"

// Distribute distributes one batch of arrivals, as Run does.
func (d *Distributor) Distribute(ctx context.Context) (more bool, err error) {
	return d.distribute(ctx)
}
