package clickstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// memorySamples is the number of nodes of a stream that MEMORY USAGE reads to estimate its
// size. The command takes the same time for each length of the stream.
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
