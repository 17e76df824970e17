package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// How Redis flushes its log: appendfsync.
const (
	everySecond = "everysec"
	always      = "always"
)

// settleRedis makes every part begin with the same Redis, whatever was measured
// before: one whose acknowledgement means that the disk has it.
func (b *bench) settleRedis(ctx context.Context) error {
	client, err := b.redisClient(0)
	if err != nil {
		return err
	}
	// A rewrite of the log would fall into one round and not into the next.
	err = errors.Join(
		client.ConfigSet(ctx, "appendfsync", always).Err(),
		client.ConfigSet(ctx, "auto-aof-rewrite-percentage", "0").Err(),
	)
	return errors.Join(err, client.Close())
}

// redisInfo is a section of what a Redis says of itself, by name.
func redisInfo(ctx context.Context, client redis.UniversalClient, section string) (map[string]string, error) {
	text, err := client.Info(ctx, section).Result()
	if err != nil {
		return nil, err
	}
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}
	return values, nil
}

// redisSum is the sum of numbers in a section.
func redisSum(ctx context.Context, client redis.UniversalClient, section string, names ...string) (float64, error) {
	values, err := redisInfo(ctx, client, section)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	var faults []error
	for _, name := range names {
		n, err := strconv.ParseFloat(values[name], 64)
		if err != nil {
			faults = append(faults, fmt.Errorf("INFO %s: %s is %q", section, name, values[name]))
		}
		sum += n
	}
	return sum, errors.Join(faults...)
}

// redisTime is what the whole Redis process has spent in user and kernel mode,
// the thread that flushes its log included.
func redisTime(ctx context.Context, client redis.UniversalClient) (time.Duration, error) {
	seconds, err := redisSum(ctx, client, "cpu", "used_cpu_user", "used_cpu_sys")
	return time.Duration(seconds * float64(time.Second)), err
}

// redisLog is the length in bytes of the log (AOF), with what is not written yet.
func redisLog(ctx context.Context, client redis.UniversalClient) (float64, error) {
	return redisSum(ctx, client, "persistence", "aof_current_size", "aof_buffer_length")
}
