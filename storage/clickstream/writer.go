package clickstream

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Writer appends batches of clicks to the streams. It is safe for concurrent use.
type Writer struct {
	client redis.UniversalClient
	keys   []string
}

// NewWriter returns a Writer for the given number of shards. The client must come from
// Connect.
func NewWriter(client redis.UniversalClient, shards int) *Writer {
	return &Writer{client: client, keys: keys(shards)}
}

// Shards returns the number of streams.
func (w *Writer) Shards() int { return len(w.keys) }

// Append appends a batch to the stream of a shard. batch is a marshalled
// edge.v1.ClickBatch with n clicks. Append returns nil if Redis has acknowledged the
// batch. After an error, it is unknown whether the batch is in the stream. After Append
// has returned, the caller may reuse the slice.
func (w *Writer) Append(ctx context.Context, shard int, batch []byte, n int) error {
	err := w.client.Do(ctx, "xadd", w.keys[shard], "*", fieldBatch, batch, fieldCount, n).Err()
	if err != nil {
		return fmt.Errorf("append to %s: %w", w.keys[shard], err)
	}
	return nil
}

// Ping returns nil if all servers that have a stream respond. On a Cluster, it calls, in
// parallel, all masters that own a stream, and returns the first error. The error does not
// show which shards work.
func (w *Writer) Ping(ctx context.Context) error {
	cluster, ok := w.client.(*redis.ClusterClient)
	if !ok {
		return w.client.Ping(ctx).Err()
	}
	// PING has no key, so the client would send it to an arbitrary node. EXISTS has a
	// key, so the client sends one pipeline to each master that owns a stream.
	_, err := cluster.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range w.keys {
			pipe.Exists(ctx, key)
		}
		return nil
	})
	return err
}
