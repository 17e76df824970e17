package clickstream

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Writer appends batches. It is safe for concurrent use.
type Writer struct {
	client redis.UniversalClient
	keys   []string
}

// NewWriter writes to shards streams through a client of Connect.
func NewWriter(client redis.UniversalClient, shards int) *Writer {
	return &Writer{client: client, keys: keys(shards)}
}

// Shards is the number of streams.
func (w *Writer) Shards() int { return len(w.keys) }

// Append stores one batch: a marshalled edge.v1.ClickBatch of n clicks that all
// belong to shard. nil means that Redis has acknowledged it; an error means
// that it may or may not be there. batch may be reused afterwards.
func (w *Writer) Append(ctx context.Context, shard int, batch []byte, n int) error {
	err := w.client.Do(ctx, "xadd", w.keys[shard], "*", fieldBatch, batch, fieldCount, n).Err()
	if err != nil {
		return fmt.Errorf("append to %s: %w", w.keys[shard], err)
	}
	return nil
}

// Ping is nil when whoever has a stream answers: on a Cluster each master that owns
// one of them, asked at the same time. An error tells of the first that does not, not
// which shards the others still take.
func (w *Writer) Ping(ctx context.Context) error {
	cluster, ok := w.client.(*redis.ClusterClient)
	if !ok {
		return w.client.Ping(ctx).Err()
	}
	// A PING belongs to no slot and would go to any node. The client makes one
	// pipeline for each owner of these.
	_, err := cluster.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range w.keys {
			pipe.Exists(ctx, key)
		}
		return nil
	})
	return err
}
