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
// It guarantees that an Append that returned nil is in the stream (and, with
// appendfsync always, on disk), that an entry is read until it is acknowledged,
// by another consumer if its reader died, and that trimming never passes an
// entry that some group has not acknowledged.
//
// It does not promise that an entry is read once: delivery is at least once, and
// the click id makes it exactly once in the table. An Append that returned an
// error may have happened all the same. Redis must run with maxmemory-policy
// noeviction; a stream that is flushed or evicted loses what was not stored, and
// Lost reports what can still be named.
package clickstream

import (
	"fmt"
	"hash/fnv"

	"github.com/tributary-hq/tributary/affiliate"
)

// Group is the consumer group of ingestion.
const Group = "ingest"

// DeadLetterStream keeps what ingestion could not store, for 90 days.
const DeadLetterStream = "clicks:dead"

const (
	fieldBatch = "b"
	fieldCount = "n"
)

// MaxShards bounds TRIBUTARY_STREAM_SHARDS: more would only cost connections.
const MaxShards = 64

// Key is the stream of a shard. The braces keep a shard on one Cluster node.
func Key(shard int) string { return fmt.Sprintf("clicks:{s%02d}", shard) }

// Shard is where a click lives. The number of shards may grow at any time; it
// may shrink only after the streams that fall away have been read to their end.
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
