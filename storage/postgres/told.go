package postgres

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// OnDeliveries names who is told, right behind each COMMIT of this process, which
// endpoints got deliveries by it. It must not wait, and misses what other processes
// commit and what is committed as this one dies: whoever sends also looks by itself.
// It is to be set before the first transaction.
func (s *Store) OnDeliveries(tell func([]affiliate.EndpointKey)) { s.deliveriesMade = tell }

// told are the endpoints that a transaction has made deliveries for. The
// transaction's context has them, so that what publishes events need not know who
// began it.
type told struct{ endpoints []affiliate.EndpointKey }

type toldKey struct{}

// toldIn are those of the transaction whose context this is.
func toldIn(ctx context.Context) *told { return ctx.Value(toldKey{}).(*told) }

func (t *told) add(endpoints ...affiliate.EndpointKey) {
	t.endpoints = append(t.endpoints, endpoints...)
}
