package clickstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

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

const durabilityRetry = 2 * time.Second

// CheckDurability logs a warning if a server of the click stream does not fsync each
// write before it responds, or if its configuration cannot be read. It waits until Redis
// responds or ctx ends.
func CheckDurability(ctx context.Context, client redis.UniversalClient, log *slog.Logger) {
	for {
		err := eachMaster(ctx, client, func(ctx context.Context, server redis.UniversalClient) error {
			return checkDurability(ctx, server, log)
		})
		var reply redis.Error
		switch {
		case err == nil:
			return
		case errors.As(err, &reply) && !strings.HasPrefix(reply.Error(), "LOADING"):
			log.LogAttrs(ctx, slog.LevelWarn, "cannot check whether the click stream's Redis runs with appendfsync always", slog.Any("error", err))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(durabilityRetry):
		}
	}
}

// eachMaster calls check for each master of a Cluster. If the client is not for a
// Cluster, it calls check once with the client.
func eachMaster(ctx context.Context, client redis.UniversalClient, check func(context.Context, redis.UniversalClient) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return check(ctx, master) })
	}
	return check(ctx, client)
}

func checkDurability(ctx context.Context, server redis.UniversalClient, log *slog.Logger) error {
	config, err := server.ConfigGet(ctx, "append*").Result()
	if err != nil {
		return err
	}
	if config["appendonly"] != "yes" || config["appendfsync"] != "always" {
		log.LogAttrs(ctx, slog.LevelWarn, "the click stream's Redis may lose acknowledged clicks, because it does not run with appendonly yes and appendfsync always",
			slog.String("appendonly", config["appendonly"]), slog.String("appendfsync", config["appendfsync"]))
	}
	return nil
}

// memorySamples is the number of internal tree nodes of a stream that MEMORY USAGE reads to
// estimate its size. The command takes the same time for each length of the stream.
const memorySamples = 5

// Usage is the size of the click stream and the memory of its Redis.
type Usage struct {
	// Entries is the number of entries of all shards. Bytes is Redis's estimate of their
	// memory.
	Entries, Bytes int64
	// UsedMemory and MaxMemory describe the server that has used the largest part of its
	// maxmemory. If no server has a maxmemory, MaxMemory is 0.
	UsedMemory, MaxMemory int64
}

// Usage reads the size of the click stream. It sends two commands for each shard and one
// to each master.
func (r *Reader) Usage(ctx context.Context) (Usage, error) {
	var u Usage
	for _, key := range r.keys[:r.Shards()] {
		entries, err := r.client.XLen(ctx, key).Result()
		if err != nil {
			return u, fmt.Errorf("length of %s: %w", key, err)
		}
		bytes, err := r.client.MemoryUsage(ctx, key, memorySamples).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return u, fmt.Errorf("memory of %s: %w", key, err)
		}
		u.Entries, u.Bytes = u.Entries+entries, u.Bytes+bytes
	}
	var mu sync.Mutex // eachMaster calls the function for several masters at the same time
	err := eachMaster(ctx, r.client, func(ctx context.Context, server redis.UniversalClient) error {
		info, err := server.Info(ctx, "memory").Result()
		if err != nil {
			return fmt.Errorf("memory of Redis: %w", err)
		}
		used, limit := infoNumber(info, "used_memory"), infoNumber(info, "maxmemory")
		mu.Lock()
		defer mu.Unlock()
		if u.UsedMemory == 0 || fraction(used, limit) > fraction(u.UsedMemory, u.MaxMemory) {
			u.UsedMemory, u.MaxMemory = used, limit
		}
		return nil
	})
	return u, err
}

// fraction returns which part of the limit is used. It returns 0 if there is no limit.
func fraction(used, limit int64) float64 {
	if limit == 0 {
		return 0
	}
	return float64(used) / float64(limit)
}

// infoNumber returns the number of a line "name:number" of INFO, or 0.
func infoNumber(info, name string) int64 {
	for line := range strings.Lines(info) {
		if field, text, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && field == name {
			n, _ := strconv.ParseInt(text, 10, 64)
			return n
		}
	}
	return 0
}
