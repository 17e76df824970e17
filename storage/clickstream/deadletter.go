package clickstream

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// DeadLetter is a record that ingestion could not store in the database.
type DeadLetter struct {
	// Entry is the id of the stream entry that contained the record.
	Entry  string
	Reason string
	// Record is a marshalled edge.v1.Click, or bytes that cannot be decoded.
	Record []byte
}

// DeadLetter appends records to DeadLetterStream, so that records that the database
// rejects are not lost. If an entry is processed twice, its records are appended twice.
func (r *Reader) DeadLetter(ctx context.Context, records []DeadLetter) error {
	if len(records) == 0 {
		return nil
	}
	commands, err := r.cfg.DeadLetters.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, record := range records {
			pipe.XAdd(ctx, &redis.XAddArgs{
				Stream: DeadLetterStream,
				Values: []any{"entry", record.Entry, "reason", record.Reason, fieldBatch, record.Record},
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

// TrimDeadLetters deletes all dead letters that are older than the given time and returns
// their number. They must be deleted because they contain the same personal data as
// clicks.
func (r *Reader) TrimDeadLetters(ctx context.Context, before time.Time) (int64, error) {
	// The trim must be exact. An approximate trim could leave about a hundred old records
	// in the stream until new records are appended.
	trimmed, err := r.cfg.DeadLetters.XTrimMinID(ctx, DeadLetterStream, strconv.FormatInt(before.UnixMilli(), 10)).Result()
	if err != nil {
		return 0, fmt.Errorf("trim %s: %w", DeadLetterStream, err)
	}
	return trimmed, nil
}
