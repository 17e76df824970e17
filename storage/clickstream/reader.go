package clickstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrGroupLost means that the consumer group of a stream was missing although this
// Reader had used it before: Redis lost data. The group exists again, from the start
// of the stream.
var ErrGroupLost = errors.New("the consumer group was missing and has been created again")

// Entry is one stream entry as it was read.
type Entry struct {
	Shard int
	ID    string
	// Batch is the marshalled edge.v1.ClickBatch. It is nil if the entry was pending
	// but is no longer in the stream.
	Batch []byte
	// Clicks is the number of clicks according to the writer.
	Clicks int
}

// ReaderConfig configures a Reader.
type ReaderConfig struct {
	Shards int
	// Consumer is the name of this process in the group. It must be the same after a
	// restart, so that the process finds its unfinished entries.
	Consumer string
	// Count bounds the entries of one read; 0 means 64 (at most 16 MiB).
	Count int64
	// Block is how long a read waits for new entries, and so the longest wait of a
	// Reader that stops; 0 means 500 ms.
	Block time.Duration
	// ClaimIdle is how long an entry must have been pending before another consumer
	// claims it; 0 means 30 s.
	ClaimIdle time.Duration
}

// Reader consumes as one member of the group. Methods of different shards may run at
// the same time.
type Reader struct {
	cfg      ReaderConfig
	client   redis.UniversalClient
	blocking redis.UniversalClient
	keys     []string

	mu    sync.Mutex
	known []knownGroup // by shard
}

// knownGroup is what a Reader knows of a group, to detect that Redis lost data.
type knownGroup struct {
	exists bool
	// newest is the newest entry that this Reader was given; empty if there is none.
	newest string
}

// NewReader reads through client (Connect), except for blocking reads, which go
// through blocking (ConnectBlocking).
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
	names := keys(cfg.Shards)
	return &Reader{cfg: cfg, client: client, blocking: blocking, keys: names, known: make([]knownGroup, len(names))}
}

// Shards returns the number of streams.
func (r *Reader) Shards() int { return len(r.keys) }

// Own reads the entries that this consumer was given after the entry named after ("0"
// for the first call) and has not acknowledged. Fewer than Count entries are the last.
// Errors: ErrGroupLost.
func (r *Reader) Own(ctx context.Context, shard int, after string) ([]Entry, error) {
	return r.read(ctx, r.client, shard, after, -1)
}

// Next waits up to Block for entries that no consumer was given before. Errors:
// ErrGroupLost.
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
			return nil, err // ErrGroupLost too
		}
		streams, err = client.XReadGroup(ctx, args).Result()
	}
	var timeout net.Error
	switch {
	case errors.Is(err, redis.Nil):
		r.used(shard, "")
		return nil, nil
	case block >= 0 && errors.As(err, &timeout) && timeout.Timeout() && ctx.Err() == nil:
		// A consumer that is woken without a message can block longer than Block
		// (redis#12998). There is no new entry.
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
	newest := ""
	if id == ">" && len(entries) > 0 {
		newest = entries[len(entries)-1].ID
	}
	r.used(shard, newest)
	return entries, nil
}

// used notes that the group of a shard exists and, if newest is not empty, the newest
// entry that this Reader was given.
func (r *Reader) used(shard int, newest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known[shard].exists = true
	if newest != "" {
		r.known[shard].newest = newest
	}
}

// Rewound reports whether the group of a shard is at an older entry than this Reader
// was given before: Redis lost its latest writes, for example in a failover. Entries
// that were appended after the older entry may be lost. It reports each loss once and
// does not report a missing group.
func (r *Reader) Rewound(ctx context.Context, shard int) (bool, error) {
	groups, err := r.client.XInfoGroups(ctx, r.keys[shard]).Result()
	if err != nil {
		if isMissing(err) {
			return false, nil
		}
		return false, fmt.Errorf("groups of %s: %w", r.keys[shard], err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := &r.known[shard]
	for _, group := range groups {
		if group.Name == Group && known.newest != "" && before(group.LastDeliveredID, known.newest) {
			known.newest = ""
			return true, nil
		}
	}
	return false, nil
}

// Claim takes over entries that were pending for longer than ClaimIdle, of other
// consumers or of this consumer before a restart. lost are the ids of entries that
// were trimmed or deleted while they were pending: Redis forgets them, and their
// clicks are lost unless they were stored before. more reports that there may be more
// entries to claim. Errors: ErrGroupLost.
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

// Ack acknowledges entries whose clicks are stored.
func (r *Reader) Ack(ctx context.Context, shard int, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := r.client.XAck(ctx, r.keys[shard], Group, ids...).Err(); err != nil {
		return fmt.Errorf("acknowledge on %s: %w", r.keys[shard], err)
	}
	return nil
}

// Trim removes the entries that every group has acknowledged and returns their number.
// It reads the last delivered id of each group before the oldest pending one. An entry
// that is delivered in between is newer than the first, so the trim never passes an
// unacknowledged entry.
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

// OldestPending returns the id of the oldest entry that was delivered and not
// acknowledged; empty if there is none. Alerts watch its age.
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

// createGroup creates the group of a shard from the start of the stream. It returns
// ErrGroupLost if the group existed before.
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

func entryOf(shard int, message redis.XMessage) Entry {
	entry := Entry{Shard: shard, ID: message.ID}
	if message.Values == nil {
		return entry
	}
	// An entry without the field has another writer. It is empty, but not lost.
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

// before reports whether stream id a ("milliseconds-sequence") is older than b.
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

// EntryTime returns the time at which Redis stored an entry.
func EntryTime(id string) time.Time {
	ms, _ := splitID(id)
	return time.UnixMilli(int64(ms)).UTC()
}
