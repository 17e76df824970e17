package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// Queue is the sender's view of the database. At any time at most one process has the
// lease of an endpoint and sends its deliveries, so single deliveries are not claimed.
type Queue interface {
	// Claim takes or renews the leases of endpoints until an instant. It returns those
	// that were granted; the others are disabled, deleted, leased to another process, or
	// their rows are locked at the moment.
	Claim(ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey, now, until time.Time) ([]affiliate.EndpointKey, error)
	// Release ends leases of this sender.
	Release(ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey) error
	// Unclaimed returns endpoints, at most limit, that have due deliveries and no lease.
	Unclaimed(ctx context.Context, now time.Time, limit int) ([]affiliate.EndpointKey, error)
	// Due reads due deliveries, the longest due first, and their endpoints. Endpoints that
	// are not active or not leased to the sender are left out.
	Due(ctx context.Context, sender affiliate.SenderID, reads []webhook.Read, now time.Time) ([]webhook.Target, []webhook.DueDelivery, error)
	// Record stores the outcomes of attempts in the order in which they ended, and
	// returns the endpoints that they have disabled. An outcome that is stored already
	// changes nothing.
	Record(ctx context.Context, results []webhook.AttemptResult) ([]webhook.DisabledEndpoint, error)
}
