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
	// tailPage is the number of entries that one command reads from Redis.
	tailPage = 16
	// tailBytes is the maximum number of bytes that one look-up reads from Redis.
	tailBytes = 16 << 20
	// tailSkew is the maximum time by which an entry can be older than the time in the id
	// of its click. A client may propose an id whose time is up to five minutes in the
	// future. One minute is added for differences between the clocks.
	tailSkew = 6 * time.Minute
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
// of an invented id is not expensive. It returns nil if the click is not in these
// entries. The click may then still exist in an older entry.
func (t *Tail) Find(ctx context.Context, id affiliate.ClickID, maxEntries int) (*edgev1.Click, error) {
	created, ok := id.Time()
	if !ok {
		return nil, nil
	}
	key := Key(Shard(id, t.shards))
	oldest := strconv.FormatInt(max(0, created.Add(-tailSkew).UnixMilli()), 10)
	for newest, searched, size := "+", 0, 0; searched < maxEntries && size < tailBytes; searched += tailPage {
		messages, err := t.client.XRevRangeN(ctx, key, newest, oldest, tailPage).Result()
		if err != nil {
			return nil, fmt.Errorf("read the newest entries of %s: %w", key, err)
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
