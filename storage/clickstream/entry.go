package clickstream

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// Entry is an entry that was read from a stream.
type Entry struct {
	Shard int
	ID    string
	// Batch is the marshalled edge.v1.ClickBatch. It is nil if the entry is pending but
	// no longer in the stream.
	Batch []byte
	// Clicks is the number of clicks that the writer stored with the batch.
	Clicks int
}

func nextID(id string) string {
	ms, sequence := splitID(id)
	return fmt.Sprintf("%d-%d", ms, sequence+1)
}

func newEntry(shard int, message redis.XMessage) Entry {
	entry := Entry{Shard: shard, ID: message.ID}
	if message.Values == nil {
		return entry
	}
	// If the entry has no field with a batch, another program has written the entry. Its
	// Batch is empty and not nil, because nil means that the entry is lost.
	entry.Batch = []byte{}
	if batch, ok := message.Values[fieldBatch].(string); ok {
		entry.Batch = []byte(batch)
	}
	if count, ok := message.Values[fieldCount].(string); ok {
		entry.Clicks, _ = strconv.Atoi(count)
	}
	return entry
}

// before reports whether the stream id a is older than the stream id b. The format of a
// stream id is "milliseconds-sequence".
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

const (
	// tailPage is the number of entries that one command reads from Redis.
	tailPage = 16
	// tailBytes is the maximum number of bytes that one look-up reads from Redis.
	tailBytes = 16 << 20
)

// Tail finds clicks in the newest entries (the tail) of the streams. It can find a click
// before ingestion has stored the click in the database.
type Tail struct {
	client redis.UniversalClient
	shards int
}

// NewTail returns a Tail. The client must come from Connect.
func NewTail(client redis.UniversalClient, shards int) *Tail {
	return &Tail{client: client, shards: max(1, shards)}
}

// Find searches for a click in the newest entries of its shard, newest first. It reads
// pages of 16 entries until it has read maxEntries entries or 16 MiB, so that a look-up
// of an invented id is not expensive. The time in the id does not limit the search,
// because the clock that set it may be wrong. Find returns nil if the click is not in
// these entries. The click may then still exist in an older entry. storedAt is the time
// at which Redis has stored the click.
func (t *Tail) Find(ctx context.Context, id affiliate.ClickID, maxEntries int) (found *edgev1.Click, storedAt time.Time, err error) {
	if _, ok := id.Time(); !ok {
		return nil, time.Time{}, nil
	}
	key := Key(Shard(id, t.shards))
	for newest, searched, size := "+", 0, 0; searched < maxEntries && size < tailBytes; searched += tailPage {
		messages, err := t.client.XRevRangeN(ctx, key, newest, "-", tailPage).Result()
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("read the newest entries of %s: %w", key, err)
		}
		for _, message := range messages {
			entry := newEntry(0, message)
			size += len(entry.Batch)
			newest = "(" + message.ID
			// Decode only batches that contain the bytes of the id. A batch without the
			// click rarely contains these bytes by chance.
			if !bytes.Contains(entry.Batch, id.UUID[:]) {
				continue
			}
			var batch edgev1.ClickBatch
			if proto.Unmarshal(entry.Batch, &batch) != nil {
				continue
			}
			for _, click := range batch.Clicks {
				if bytes.Equal(click.Id, id.UUID[:]) {
					return click, EntryTime(message.ID), nil
				}
			}
		}
		if len(messages) < tailPage {
			return nil, time.Time{}, nil
		}
	}
	return nil, time.Time{}, nil
}
