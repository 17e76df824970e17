package clickstream

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
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

// nextID returns the smallest id that is greater than the id of an entry.
func nextID(id string) string {
	ms, sequence, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseUint(sequence, 10, 64)
	return ms + "-" + strconv.FormatUint(n+1, 10)
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
