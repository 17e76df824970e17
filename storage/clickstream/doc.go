// Package clickstream transports clicks from the collectors to ingestion (server/ingest).
// It uses Redis streams, one stream per shard. A hash of the click id determines the
// shard of a click.
//
//	collector      ── XADD: one entry per batch of clicks ────────▶  stream clicks:{s00} …
//	server/ingest  ◀── XREADGROUP: consumer group "ingest" ────────  stream
//	server/ingest  ── after the commit: XACK, XTRIM MINID ────────▶  stream
//
// The field "b" of an entry contains a marshalled edge.v1.ClickBatch. The field "n"
// contains the number of clicks in this batch.
//
// The package guarantees:
//
//   - After Append has returned nil, the batch is in the stream. If Redis runs with
//     appendfsync always, the batch is also on disk.
//   - An entry can be read again until it is acknowledged. The process that received the
//     entry reads it again with Pending. If this process has died, another process reads
//     the entry with Claim.
//   - Trimming never removes an entry that a consumer group has not acknowledged.
//
// It has these limits:
//
//   - An entry can be delivered more than once. Ingestion recognises a repeated click by
//     its id and stores only one row for it.
//   - After Append has returned an error, it is unknown whether the batch is in the
//     stream.
//   - If Redis loses data, clicks that are not in the database yet are lost. Claim,
//     ErrGroupLost and Rewound report the losses that can be detected.
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

// DeadLetterStream is the stream of the records that ingestion could not store in the
// database. The records are kept for 90 days.
const DeadLetterStream = "clicks:dead"

const (
	fieldBatch = "b"
	fieldCount = "n"
)

// MaxShards is the maximum value of TRIBUTARY_STREAM_SHARDS. More shards would use more
// connections without any benefit.
const MaxShards = 64

// Key returns the key of a shard's stream. The text in braces determines the slot of the
// key in a Redis Cluster.
func Key(shard int) string { return fmt.Sprintf("clicks:{s%02d}", shard) }

// Shard returns the shard of a click. The number of shards may change at any time, because
// Reader.Discover finds the entries in all streams. A Tail finds a click only if the Tail
// has the number of shards with which the click was written.
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
