package clickstream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// DeadLetter is a record that cannot be stored.
type DeadLetter struct {
	// Entry is the stream entry of the record.
	Entry  string
	Reason string
	// Record is a marshalled edge.v1.Click, or other bytes.
	Record []byte
}

// DeadLetter writes records to a stream of their own, beside the table, so that they are
// kept even if the table refuses them. A record is there twice if its entry was processed
// twice.
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

// TrimDeadLetters deletes the dead letters of before a time, exactly these, and returns
// their number. They contain the same personal data as clicks.
func (r *Reader) TrimDeadLetters(ctx context.Context, before time.Time) (int64, error) {
	// An approximate trim would keep up to a hundred old ones until new ones come.
	trimmed, err := r.client.XTrimMinID(ctx, DeadLetterStream, strconv.FormatInt(before.UnixMilli(), 10)).Result()
	if err != nil {
		return 0, fmt.Errorf("trim %s: %w", DeadLetterStream, err)
	}
	return trimmed, nil
}
