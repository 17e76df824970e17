package clickstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrGroupLost means that Redis has lost data: the consumer group of a stream was
// missing, although this Reader had used it before. The Reader has created the group
// again. The new group reads from the start of the stream.
var ErrGroupLost = errors.New("the consumer group was missing and has been created again")

// ReaderConfig configures a Reader.
type ReaderConfig struct {
	// Shards is the number of streams that are expected. Discover finds further streams.
	Shards int
	// Consumer is the name of this process in the consumer group. It must be the same
	// after a restart, so that the process finds the entries that it has not
	// acknowledged.
	Consumer string
	// Count is the maximum number of entries per read. 0 means 64 entries, which contain
	// at most 16 MiB.
	Count int64
	// Block is the maximum time that a read waits for new entries. The shutdown of the
	// process may have to wait this long. 0 means 500 ms.
	Block time.Duration
	// ClaimIdle is the time that an entry must be pending before another consumer claims
	// it. 0 means 30 s.
	ClaimIdle time.Duration
	// DeadLetters is the Redis of DeadLetterStream. nil means the Redis of the stream.
	DeadLetters redis.UniversalClient
}

// Reader reads entries as one consumer of the consumer group. Calls for different shards
// may run at the same time.
type Reader struct {
	cfg      ReaderConfig
	client   redis.UniversalClient
	blocking redis.UniversalClient
	keys     []string     // the keys of the streams of all possible shards
	shards   atomic.Int64 // the number of streams that are read

	mu    sync.Mutex
	known [MaxShards]knownGroup // by shard

	rewound sync.Mutex // held by Rewound, so that concurrent calls report a loss once
}

// knownGroup is the last known state of a consumer group. A Reader compares it with the
// state in Redis to detect that Redis has lost data.
type knownGroup struct {
	exists bool
	// newest is the id of the newest entry that this Reader has read. It is empty if the
	// Reader has read none.
	newest string
}

// NewReader returns a Reader. client comes from Connect. blocking comes from
// ConnectBlocking and is used for reads that wait for new entries.
func NewReader(client, blocking redis.UniversalClient, cfg ReaderConfig) *Reader {
	cfg.Count = cmp.Or(cfg.Count, 64)
	cfg.Block, cfg.ClaimIdle = cmp.Or(cfg.Block, 500*time.Millisecond), cmp.Or(cfg.ClaimIdle, 30*time.Second)
	if cfg.DeadLetters == nil {
		cfg.DeadLetters = client
	}
	r := &Reader{cfg: cfg, client: client, blocking: blocking, keys: keys(MaxShards)}
	r.shards.Store(int64(max(1, cfg.Shards)))
	return r
}

// Shards returns the number of streams that are read: ReaderConfig.Shards, or more after
// Discover has found more.
func (r *Reader) Shards() int { return int(r.shards.Load()) }

// Discover searches for entries in streams that are not read yet. A collector writes such
// entries if it is configured with more shards than this process. Discover returns the
// number of streams that are read from now on. If a server of a Cluster does not respond,
// Discover returns an error and examines the streams of the other servers.
func (r *Reader) Discover(ctx context.Context) (shards int, err error) {
	first := r.Shards()
	shards = first
	if first == MaxShards {
		return shards, nil
	}
	lengths := make([]*redis.IntCmd, 0, MaxShards)
	_, err = r.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range r.keys[first:] {
			lengths = append(lengths, pipe.XLen(ctx, key))
		}
		return nil
	})
	for i, length := range lengths {
		if length.Val() > 0 {
			shards = first + i + 1
		}
	}
	r.shards.Store(int64(shards))
	if err != nil {
		return shards, fmt.Errorf("lengths of further streams: %w", err)
	}
	return shards, nil
}

// Pending reads entries that were delivered to this consumer but not acknowledged. It
// returns entries whose id is greater than lastID, which is "0" in the first call. If
// Pending returns fewer than Count entries, there are no more. Errors: ErrGroupLost.
func (r *Reader) Pending(ctx context.Context, shard int, lastID string) ([]Entry, error) {
	return r.read(ctx, r.client, shard, lastID, -1)
}

// Next reads entries that have not been delivered to any consumer yet. If there are none,
// it waits for up to Block. Errors: ErrGroupLost.
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
		r.recordRead(shard, "")
		return nil, nil
	case block >= 0 && errors.As(err, &timeout) && timeout.Timeout() && ctx.Err() == nil:
		// Because of a bug in Redis (redis#12998), a read can block for longer than Block
		// and reach the socket timeout. In this case there is no new entry.
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", r.keys[shard], err)
	}
	var entries []Entry
	for _, stream := range streams {
		for _, message := range stream.Messages {
			entries = append(entries, newEntry(shard, message))
		}
	}
	newest := ""
	if id == ">" && len(entries) > 0 {
		newest = entries[len(entries)-1].ID
	}
	r.recordRead(shard, newest)
	return entries, nil
}

// recordRead records that the group of a shard exists. If newest is not empty, it also
// records the id of the newest entry that this Reader has read.
func (r *Reader) recordRead(shard int, newest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[shard].exists = true
	if newest != "" {
		r.known[shard].newest = newest
	}
}

// Rewound reports whether the last delivered entry of a shard's group is older than the
// newest entry that this Reader has read. This happens if Redis has lost its latest
// writes, for example in a failover. Entries that were appended after the last delivered
// entry may be lost. Rewound reports each loss once. It does not report a missing group.
func (r *Reader) Rewound(ctx context.Context, shard int) (bool, error) {
	r.rewound.Lock()
	defer r.rewound.Unlock()
	// newest is read before the group, because a concurrent Next can deliver further entries.
	newest := r.newest(shard)
	groups, err := r.client.XInfoGroups(ctx, r.keys[shard]).Result()
	if err != nil {
		if isMissing(err) {
			return false, nil
		}
		return false, fmt.Errorf("groups of %s: %w", r.keys[shard], err)
	}
	for _, group := range groups {
		if group.Name == Group && newest != "" && before(group.LastDeliveredID, newest) {
			return r.forgetNewest(shard, newest), nil
		}
	}
	return false, nil
}

func (r *Reader) newest(shard int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[shard].newest
}

// forgetNewest deletes the stored id of the newest entry if it is still the given id. It
// returns false if the group was created again after the caller had read the given id.
func (r *Reader) forgetNewest(shard int, newest string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch known := &r.known[shard]; known.newest {
	case "":
		return false
	case newest:
		known.newest = ""
	}
	return true
}

// Claim assigns to this consumer the entries that have been pending for longer than ClaimIdle.
// They were delivered to another consumer, or to this consumer before a restart. The result
// lost contains the ids of entries that were trimmed or deleted while they were pending. Redis
// has removed these entries from the pending list. Their clicks are lost unless they are
// already in the database. The result more reports whether there may be further entries to
// claim. Errors: ErrGroupLost.
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
			entries = append(entries, newEntry(shard, message))
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

// Ack acknowledges entries. The caller must have stored their clicks before.
func (r *Reader) Ack(ctx context.Context, shard int, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := r.client.XAck(ctx, r.keys[shard], Group, ids...).Err(); err != nil {
		return fmt.Errorf("acknowledge on %s: %w", r.keys[shard], err)
	}
	return nil
}

// Trim removes entries that every consumer group has acknowledged and returns their
// number. One call removes at most about 10,000 entries in whole blocks, so that it does
// not block Redis for long. If no further block can be removed, it also removes single
// entries, so that no acknowledged click stays in Redis. It first reads the last delivered id of each group and then
// the oldest pending id of each group. An entry that is delivered between the two reads
// is newer than the last delivered id, so Trim does not remove this entry either.
func (r *Reader) Trim(ctx context.Context, shard int) (int64, error) {
	key := r.keys[shard]
	groups, err := r.client.XInfoGroups(ctx, key).Result()
	if err != nil {
		if isMissing(err) {
			return 0, nil
		}
		return 0, fmt.Errorf("groups of %s: %w", key, err)
	}
	minID := "" // the oldest entry that must remain
	for _, group := range groups {
		if minID == "" || before(group.LastDeliveredID, minID) {
			minID = group.LastDeliveredID
		}
	}
	allAcknowledged := true
	for _, group := range groups {
		pending, err := r.client.XPending(ctx, key, group.Name).Result()
		if err != nil {
			return 0, fmt.Errorf("pending of %s: %w", key, err)
		}
		if pending.Count > 0 && !before(minID, pending.Lower) {
			minID, allAcknowledged = pending.Lower, false
		}
	}
	if minID == "" || minID == "0-0" {
		return 0, nil
	}
	trimmed, err := r.client.XTrimMinIDApprox(ctx, key, minID, 0).Result()
	if err != nil {
		return 0, fmt.Errorf("trim %s: %w", key, err)
	}
	if trimmed > 0 {
		return trimmed, nil
	}
	if allAcknowledged {
		minID = nextID(minID)
	}
	if trimmed, err = r.client.XTrimMinID(ctx, key, minID).Result(); err != nil {
		return 0, fmt.Errorf("trim %s: %w", key, err)
	}
	return trimmed, nil
}

// OldestPending returns the id of the oldest entry that was delivered but not
// acknowledged. It returns the empty string if there is none. A metric reports the age of
// this entry.
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

// createGroup creates the group of a shard. The group reads from the start of the stream.
// Errors: ErrGroupLost if this Reader has used the group before.
func (r *Reader) createGroup(ctx context.Context, shard int) error {
	err := r.client.XGroupCreateMkStream(ctx, r.keys[shard], Group, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return fmt.Errorf("create group on %s: %w", r.keys[shard], err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	existed := r.known[shard].exists
	r.known[shard] = knownGroup{exists: true}
	if existed {
		return fmt.Errorf("%s: %w", r.keys[shard], ErrGroupLost)
	}
	return nil
}

func noGroup(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOGROUP")
}

func isMissing(err error) bool {
	return err != nil && strings.Contains(err.Error(), "no such key")
}
