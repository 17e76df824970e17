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
	// tailBytes bounds the bytes that one look-up reads from Redis.
	tailBytes = 16 << 20
	// The time in a proposed click id may be up to five minutes ahead, so its entry can
	// be that much older than the id. The rest allows for differing clocks.
	tailSkew = 6 * time.Minute
)

// Tail looks for clicks in entries that are not trimmed yet.
type Tail struct {
	client redis.UniversalClient
	shards int
}

// NewTail reads through a client of Connect.
func NewTail(client redis.UniversalClient, shards int) *Tail {
	return &Tail{client: client, shards: max(1, shards)}
}

// Find looks for a click among the newest limit entries of its shard, newest first, and
// in at most 16 MiB. It returns nil if the click is not there. The bound limits the work
// that a made-up id causes, so nil does not prove that the click does not exist.
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
			// These sixteen bytes rarely occur by chance, so decoding is rare.
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
