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

// Shards returns the number of streams.
func (w *Writer) Shards() int { return len(w.keys) }

// Append stores one batch: a marshalled edge.v1.ClickBatch of n clicks of the shard. nil
// means that Redis has acknowledged it; after an error the batch may be there or not. The
// caller may reuse batch.
func (w *Writer) Append(ctx context.Context, shard int, batch []byte, n int) error {
	err := w.client.Do(ctx, "xadd", w.keys[shard], "*", fieldBatch, batch, fieldCount, n).Err()
	if err != nil {
		return fmt.Errorf("append to %s: %w", w.keys[shard], err)
	}
	return nil
}

// Ping returns nil if all servers with a stream respond: on a Cluster each master that
// owns one of them, all at the same time. The error is that of the first one; it does not
// say which shards still work.
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
