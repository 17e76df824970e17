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

// Values of the setting appendfsync: Redis flushes its log to disk once a second, or
// before it acknowledges a write.
const (
	everySecond = "everysec"
	always      = "always"
)

// settleRedis resets the settings of Redis before each part. With these settings Redis
// acknowledges a write only when the write is on disk.
func (b *bench) settleRedis(ctx context.Context) error {
	client, err := b.redisClient(0)
	if err != nil {
		return err
	}
	// Disable the automatic rewrite of the log, because it would slow down some rounds.
	err = errors.Join(
		client.ConfigSet(ctx, "appendfsync", always).Err(),
		client.ConfigSet(ctx, "auto-aof-rewrite-percentage", "0").Err(),
	)
	return errors.Join(err, client.Close())
}

// redisInfo returns the values of a section of INFO by name.
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

// redisSum returns the sum of some values in a section of INFO.
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

// redisTime returns the CPU time of the whole Redis process in user and kernel mode. It
// includes the thread that flushes the log.
func redisTime(ctx context.Context, client redis.UniversalClient) (time.Duration, error) {
	seconds, err := redisSum(ctx, client, "cpu", "used_cpu_user", "used_cpu_sys")
	return time.Duration(seconds * float64(time.Second)), err
}

// redisLog returns the size of the log (AOF) in bytes, including the part that is not
// yet written.
func redisLog(ctx context.Context, client redis.UniversalClient) (float64, error) {
	return redisSum(ctx, client, "persistence", "aof_current_size", "aof_buffer_length")
}
