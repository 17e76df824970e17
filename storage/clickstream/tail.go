package clickstream

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

const (
	tailPage = 16
	// tailBytes bounds what one look-up may pull out of Redis.
	tailBytes = 16 << 20
	// A click's id may carry a proposed time up to five minutes off, so its entry
	// is at most that much older than the id says; beyond it, clocks differ.
	tailSkew = 6 * time.Minute
)

// Tail looks for clicks in what has not been trimmed yet.
type Tail struct {
	client redis.UniversalClient
	shards int
}

// NewTail reads through a client of Connect.
func NewTail(client redis.UniversalClient, shards int) *Tail {
	return &Tail{client: client, shards: max(1, shards)}
}

// Find looks for a click among the newest limit entries of its shard, newest
// first, and gives nil when it is not among them (or in more than 16 MiB): a
// bound on the work that a made-up id can cause, not proof that the click does
// not exist.
func (t *Tail) Find(ctx context.Context, id affiliate.ClickID, limit int) (*edgev1.Click, error) {
	minted, ok := id.Time()
	if !ok {
		return nil, nil
	}
	key := Key(Shard(id, t.shards))
	oldest := strconv.FormatInt(max(0, minted.Add(-tailSkew).UnixMilli()), 10)
	for newest, looked, size := "+", 0, 0; looked < limit && size < tailBytes; looked += tailPage {
		messages, err := t.client.XRevRangeN(ctx, key, newest, oldest, tailPage).Result()
		if err != nil {
			return nil, fmt.Errorf("read back %s: %w", key, err)
		}
		for _, message := range messages {
			entry := entryOf(0, message)
			size += len(entry.Batch)
			newest = "(" + message.ID
			// Sixteen bytes that occur by chance are rare enough to decode for.
			if !bytes.Contains(entry.Batch, id.UUID[:]) {
				continue
			}
			var batch edgev1.ClickBatch
			if proto.Unmarshal(entry.Batch, &batch) != nil {
				continue
			}
			for _, click := range batch.Clicks {
				if bytes.Equal(click.Id, id.UUID[:]) {
					return click, nil
				}
			}
		}
		if len(messages) < tailPage {
			return nil, nil
		}
	}
	return nil, nil
}
