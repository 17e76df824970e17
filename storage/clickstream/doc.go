// Package clickstream transports clicks from the collectors to ingestion in Redis
// streams.
//
//	collector ── XADD, one entry per batch ──▶ clicks:{s00} … ──▶ group "ingest" ──▶ server/ingest
//	                                              │                                    │ commit
//	                                              │◀─────────── XACK, XTRIM MINID ─────┘
//
// The field "b" of an entry contains a marshalled edge.v1.ClickBatch. The field "n"
// contains the number of its clicks. The shard of a click is a hash of its id.
//
// The package guarantees:
//
//   - After Append has returned nil, the batch is in the stream. If Redis runs with
//     appendfsync always, the batch is also on disk.
//   - An entry is delivered until it is acknowledged. If its reader dies, it is delivered
//     to another consumer.
//   - Trimming never removes an entry that a consumer group has not acknowledged.
//
// It has these limits:
//
//   - An entry can be delivered more than once. The click id ensures that a click becomes
//     only one row in the database.
//   - After Append has returned an error, the batch may be in the stream or not.
//   - If Redis loses data, clicks that are not in the database yet are lost. Claim,
//     ErrGroupLost and Rewound report such a loss if it can be detected.
//
// Redis must run with maxmemory-policy noeviction.
package clickstream

import (
	"fmt"
	"hash/fnv"

	"github.com/tributary-hq/tributary/affiliate"
)

// Group is the consumer group of ingestion.
const Group = "ingest"

// DeadLetterStream is the stream of the records that ingestion could not store. They are
// kept for 90 days.
const DeadLetterStream = "clicks:dead"

const (
	fieldBatch = "b"
	fieldCount = "n"
)

// MaxShards is the maximum of TRIBUTARY_STREAM_SHARDS. More shards would use more
// connections without any benefit.
const MaxShards = 64

// Key returns the key of a shard's stream. The text in braces determines the slot of the
// key in a Redis Cluster.
func Key(shard int) string { return fmt.Sprintf("clicks:{s%02d}", shard) }

// Shard returns the shard of a click. The number of shards may be increased at any time.
// It may be reduced only after all entries of the unused streams have been processed.
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
