package postgres

import "context"

// Statements whose plans are checked, and their batch size.
const (
	PurgeDaySQL        = purgeDay
	PurgeStraySQL      = purgeStray
	DropDeadLettersSQL = dropDeadLetters
	RetentionBatch     = retentionBatch
)

// RollPiece is RollClicks with pieces of the given number of blocks.
func (s *Store) RollPiece(ctx context.Context, blocks int) (clicks int64, ok bool, err error) {
	return s.rollClicks(ctx, blocks)
}
