package clickstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Entry is one stream entry as it was read.
type Entry struct {
	Shard int
	ID    string
	// Batch is the marshalled edge.v1.ClickBatch. Nil: the entry was pending but
	// is no longer in the stream.
	Batch []byte
	// Clicks is the count that the writer stated.
	Clicks int
}

// ReaderConfig names a consumer and its patience.
type ReaderConfig struct {
	Shards int
	// Consumer is this process's name in the group; the same after a restart, so
	// that it finds what it had not finished.
	Consumer string
	// Count bounds the entries of one read; 0 means 64 (at most 16 MiB).
	Count int64
	// Block is how long a read waits for news, and so the most that a stopping reader
	// waits; 0 means 500 ms.
	Block time.Duration
	// ClaimIdle is how long an entry must have been pending before it is taken
	// from its consumer; 0 means 30 s.
	ClaimIdle time.Duration
}

// Reader consumes as one member of the group. Methods of different shards may
// run at the same time.
type Reader struct {
	cfg      ReaderConfig
	client   redis.UniversalClient
	blocking redis.UniversalClient
	keys     []string
}

// NewReader reads through client (Connect), except for the waiting reads, which
// go through blocking (ConnectBlocking).
func NewReader(client, blocking redis.UniversalClient, cfg ReaderConfig) *Reader {
	if cfg.Count == 0 {
		cfg.Count = 64
	}
	if cfg.Block == 0 {
		cfg.Block = 500 * time.Millisecond
	}
	if cfg.ClaimIdle == 0 {
		cfg.ClaimIdle = 30 * time.Second
	}
	return &Reader{cfg: cfg, client: client, blocking: blocking, keys: keys(cfg.Shards)}
}

// Shards is the number of streams.
func (r *Reader) Shards() int { return len(r.keys) }

// Own reads what this consumer was given after the entry called after ("0" to
// begin) and has not acknowledged. Fewer than Count entries mean the end.
func (r *Reader) Own(ctx context.Context, shard int, after string) ([]Entry, error) {
	return r.read(ctx, r.client, shard, after, -1)
}

// Next waits up to Block for entries that no consumer has been given.
func (r *Reader) Next(ctx context.Context, shard int) ([]Entry, error) {
	return r.read(ctx, r.blocking, shard, ">", r.cfg.Block)
}

func (r *Reader) read(ctx context.Context, client redis.UniversalClient, shard int, id string, block time.Duration) ([]Entry, error) {
	args := &redis.XReadGroupArgs{
		Group: Group, Consumer: r.cfg.Consumer,
		Streams: []string{r.keys[shard], id},
		Count:   r.cfg.Count, Block: block,
	}
	streams, err := client.XReadGroup(ctx, args).Result()
	if noGroup(err) {
		if err := r.createGroup(ctx, shard); err != nil {
			return nil, err
		}
		streams, err = client.XReadGroup(ctx, args).Result()
	}
	var timeout net.Error
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case block >= 0 && errors.As(err, &timeout) && timeout.Timeout() && ctx.Err() == nil:
		// A consumer woken without a message can block longer than asked
		// (redis#12998): no news either.
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", r.keys[shard], err)
	}
	var entries []Entry
	for _, stream := range streams {
		for _, message := range stream.Messages {
			entries = append(entries, entryOf(shard, message))
		}
	}
	return entries, nil
}

// Claim takes over what other consumers, or this one's former life, left
// pending for longer than ClaimIdle. Entries that were trimmed or deleted while
// they were pending come back as lost: Redis forgets them, their clicks are
// gone unless they had been stored before. more says that there may be others to
// take over, once these are in hand.
func (r *Reader) Claim(ctx context.Context, shard int) (entries []Entry, lost []string, more bool, err error) {
	for cursor := "0-0"; ; {
		messages, next, deleted, err := r.client.XAutoClaimWithDeleted(ctx, &redis.XAutoClaimArgs{
			Stream: r.keys[shard], Group: Group, Consumer: r.cfg.Consumer,
			MinIdle: r.cfg.ClaimIdle, Start: cursor, Count: r.cfg.Count,
		}).Result()
		if noGroup(err) {
			return entries, lost, false, r.createGroup(ctx, shard)
		}
		if err != nil {
			return entries, lost, false, fmt.Errorf("claim from %s: %w", r.keys[shard], err)
		}
		for _, message := range messages {
			entries = append(entries, entryOf(shard, message))
		}
		lost = append(lost, deleted...)
		if next == "0-0" {
			return entries, lost, false, nil
		}
		cursor = next
		if int64(len(entries)) >= r.cfg.Count {
			return entries, lost, true, nil
		}
	}
}

// Ack says that the clicks of these entries are stored.
func (r *Reader) Ack(ctx context.Context, shard int, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := r.client.XAck(ctx, r.keys[shard], Group, ids...).Err(); err != nil {
		return fmt.Errorf("acknowledge on %s: %w", r.keys[shard], err)
	}
	return nil
}

// Trim removes what every group has acknowledged and returns how many entries
// went. Of each group the last delivered id is read first and the oldest
// pending one after it: whatever is delivered in between is newer than the
// first, so no order of events lets the trim pass an unacknowledged entry.
func (r *Reader) Trim(ctx context.Context, shard int) (int64, error) {
	key := r.keys[shard]
	groups, err := r.client.XInfoGroups(ctx, key).Result()
	if err != nil {
		if isMissing(err) {
			return 0, nil
		}
		return 0, fmt.Errorf("groups of %s: %w", key, err)
	}
	floor := ""
	for _, group := range groups {
		if floor == "" || before(group.LastDeliveredID, floor) {
			floor = group.LastDeliveredID
		}
	}
	for _, group := range groups {
		pending, err := r.client.XPending(ctx, key, group.Name).Result()
		if err != nil {
			return 0, fmt.Errorf("pending of %s: %w", key, err)
		}
		if pending.Count > 0 && before(pending.Lower, floor) {
			floor = pending.Lower
		}
	}
	if floor == "" || floor == "0-0" {
		return 0, nil
	}
	trimmed, err := r.client.XTrimMinIDApprox(ctx, key, floor, 0).Result()
	if err != nil {
		return 0, fmt.Errorf("trim %s: %w", key, err)
	}
	return trimmed, nil
}

// OldestPending is the id of the oldest entry that was delivered and not
// acknowledged; empty when there is none. Its age is what an alert watches.
func (r *Reader) OldestPending(ctx context.Context, shard int) (string, error) {
	pending, err := r.client.XPending(ctx, r.keys[shard], Group).Result()
	if noGroup(err) || isMissing(err) || (err == nil && pending.Count == 0) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return pending.Lower, nil
}

func (r *Reader) createGroup(ctx context.Context, shard int) error {
	err := r.client.XGroupCreateMkStream(ctx, r.keys[shard], Group, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return fmt.Errorf("create group on %s: %w", r.keys[shard], err)
	}
	return nil
}

func entryOf(shard int, message redis.XMessage) Entry {
	entry := Entry{Shard: shard, ID: message.ID}
	if message.Values == nil {
		return entry
	}
	// An entry without the field is not ours: empty, not gone.
	entry.Batch = []byte{}
	if batch, ok := message.Values[fieldBatch].(string); ok {
		entry.Batch = []byte(batch)
	}
	if count, ok := message.Values[fieldCount].(string); ok {
		entry.Clicks, _ = strconv.Atoi(count)
	}
	return entry
}

func noGroup(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOGROUP")
}

func isMissing(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no such key")
}

// before compares two stream ids ("milliseconds-sequence").
func before(a, b string) bool {
	aMs, aSeq := splitID(a)
	bMs, bSeq := splitID(b)
	return aMs < bMs || aMs == bMs && aSeq < bSeq
}

func splitID(id string) (ms, seq uint64) {
	head, tail, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(head, 10, 64)
	seq, _ = strconv.ParseUint(tail, 10, 64)
	return ms, seq
}

// EntryTime is the instant at which Redis stored an entry.
func EntryTime(id string) time.Time {
	ms, _ := splitID(id)
	return time.UnixMilli(int64(ms)).UTC()
}
