package click

import (
	"context"

	"github.com/tributary-hq/tributary/storage/postgres"
)

// Statements whose query plans the tests check, and their batch size.
const (
	PurgeDaySQL        = purgeDay
	PurgeStraySQL      = purgeStray
	DropDeadLettersSQL = dropDeadLetters
	RetentionBatch     = retentionBatch
)

// RollPiece works like Roll, but processes at most the given number of table
// blocks.
func RollPiece(ctx context.Context, tx *postgres.Tx, blocks int) (clicks int64, ok bool, err error) {
	return rollClicks(ctx, tx, blocks)
}
