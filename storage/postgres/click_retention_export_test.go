package postgres

import "context"

// The statements whose plans are asserted, and the size of their batches.
const (
	PurgeDaySQL        = purgeDay
	PurgeStraySQL      = purgeStray
	DropDeadLettersSQL = dropDeadLetters
	RetentionBatch     = retentionBatch
)

// RollPiece is RollClicks with pieces of so many blocks.
func (s *Store) RollPiece(ctx context.Context, blocks int) (clicks int64, did bool, err error) {
	return s.rollClicks(ctx, blocks)
}
