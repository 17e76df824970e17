package webhook

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// Queue is what senders work off. Each endpoint has one sender at a time, so no
// delivery is claimed by itself.
type Queue interface {
	// Serve makes a process the sender of endpoints, or keeps it so, until an instant. It
	// returns those that it serves: neither those that another process serves, nor those
	// that are off or deleted.
	Serve(ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey, now, until time.Time) ([]affiliate.EndpointKey, error)
	// Release gives endpoints back.
	Release(ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey) error
	// Neglected finds endpoints, up to limit, that have something due and no sender.
	Neglected(ctx context.Context, now time.Time, limit int) ([]affiliate.EndpointKey, error)
	// Due reads deliveries that are due, the longest due first, and the endpoints that
	// they are of: of those that are wanted, the ones that are on and served by the
	// sender.
	Due(ctx context.Context, sender affiliate.SenderID, wanted []webhook.Read, now time.Time) ([]webhook.Target, []webhook.DueDelivery, error)
	// Finish stores what came of attempts, in the order in which they ended, and tells
	// which endpoints were turned off by it. An attempt that was stored before changes
	// nothing.
	Finish(ctx context.Context, done []webhook.AttemptResult) ([]webhook.DisabledEndpoint, error)
}
