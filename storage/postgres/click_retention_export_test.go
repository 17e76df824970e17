package postgres

import "context"

// Statements whose query plans the tests check, and their batch size.
const (
	PurgeDaySQL        = purgeDay
	PurgeStraySQL      = purgeStray
	DropDeadLettersSQL = dropDeadLetters
	RetentionBatch     = retentionBatch
)

// RollPiece works like RollClicks, but processes at most the given number of table
// blocks.
func (s *Store) RollPiece(ctx context.Context, blocks int) (clicks int64, ok bool, err error) {
	return s.rollClicks(ctx, blocks)
}
