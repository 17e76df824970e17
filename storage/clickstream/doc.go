// Package clickstream carries clicks from the collectors to ingestion over
// Redis streams.
//
//	collector ── XADD, one entry per batch ──▶ clicks:{s00} … ──▶ group "ingest" ──▶ server/ingest
//	                                              │                                    │ commit
//	                                              │◀─────────── XACK, XTRIM MINID ─────┘
//
// An entry holds a packed edge.v1.ClickBatch in field "b" and the number of its
// clicks in field "n". A click's shard is a hash of its id.
//
// Guarantees: a batch whose Append returned nil is in the stream (and on disk, with
// appendfsync always). An entry is delivered until it is acknowledged, to another
// consumer if its reader died. Trimming never passes an entry that some group has not
// acknowledged.
//
// Limits: delivery is at least once; the click id makes a click one row in the table.
// A batch whose Append returned an error may be in the stream all the same. Redis must
// run with maxmemory-policy noeviction. If Redis loses data, clicks that were not stored
// yet are lost. Claim, ErrGroupLost and Rewound report such a loss as far as it can be
// seen.
package clickstream

import (
	"fmt"
	"hash/fnv"

	"github.com/tributary-hq/tributary/affiliate"
)

// Group is the consumer group of ingestion.
const Group = "ingest"

// DeadLetterStream keeps records that ingestion could not store, for 90 days.
const DeadLetterStream = "clicks:dead"

const (
	fieldBatch = "b"
	fieldCount = "n"
)

// MaxShards bounds TRIBUTARY_STREAM_SHARDS. More shards would only cost connections.
const MaxShards = 64

// Key returns the stream of a shard. The braces keep a shard on one Cluster node.
func Key(shard int) string { return fmt.Sprintf("clicks:{s%02d}", shard) }

// Shard returns the shard of a click. The number of shards may grow at any time. It may
// shrink only after the streams that are no longer used have been read to their end.
func Shard(id affiliate.ClickID, shards int) int {
	if shards <= 1 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write(id.UUID[:])
	return int(h.Sum32() % uint32(shards))
}

func keys(shards int) []string {
	names := make([]string, max(1, shards))
	for i := range names {
		names[i] = Key(i)
	}
	return names
}
