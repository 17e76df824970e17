package assemble

import (
	"maps"
	"slices"

	"github.com/tributary-hq/tributary/cmd/stores"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/server/check"
	"github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

// registerGauges registers the metrics that are read at each scrape.
func (c *Core) registerGauges() {
	c.registry.MustRegister(
		poolCollector(c.store.Pools()),
		clickstream.PoolCollector{"stream": c.stream, "stream_blocking": c.blocking, "cache": c.cache, "limits": c.limits},
		analytics.NewGauges(stores.Analytics(c.store.DB), c.now),
		check.NewGauges(c.store, c.now),
		server.NewJobGauges(c.store, queueNames(), c.now),
		webhook.NewGauges(stores.WebhookQueue(c.webhooks), c.now),
	)
}

func queueNames() []string { return slices.Sorted(maps.Keys(queues)) }
