package clickstream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// DeadLetter is one record that can never be stored as it is.
type DeadLetter struct {
	// Entry is the stream entry that it came from.
	Entry  string
	Reason string
	// Record is the marshalled edge.v1.Click, or the raw bytes that are none.
	Record []byte
}

// DeadLetter keeps poison records on their own stream, beside the table, so
// that they survive whatever the table has against them. A record may be there
// twice when its entry was processed twice.
func (r *Reader) DeadLetter(ctx context.Context, letters []DeadLetter) error {
	if len(letters) == 0 {
		return nil
	}
	commands, err := r.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, letter := range letters {
			pipe.XAdd(ctx, &redis.XAddArgs{
				Stream: DeadLetterStream,
				Values: []any{"entry", letter.Entry, "reason", letter.Reason, fieldBatch, letter.Record},
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("append to %s: %w", DeadLetterStream, err)
	}
	for _, command := range commands {
		if err := command.Err(); err != nil {
			return fmt.Errorf("append to %s: %w", DeadLetterStream, err)
		}
	}
	return nil
}

// TrimDeadLetters deletes dead letters of before an instant, all of them and no
// other, and returns how many. They hold what clicks hold.
func (r *Reader) TrimDeadLetters(ctx context.Context, before time.Time) (int64, error) {
	// Not approximately: that keeps up to a hundred old ones, for as long as no new
	// ones come.
	trimmed, err := r.client.XTrimMinID(ctx, DeadLetterStream, strconv.FormatInt(before.UnixMilli(), 10)).Result()
	if err != nil {
		return 0, fmt.Errorf("trim %s: %w", DeadLetterStream, err)
	}
	return trimmed, nil
}
