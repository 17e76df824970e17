package postgres

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// Statements and limits that the tests check.
const (
	SelectEventsOfSubjectSQL = selectEventsOfSubject
	RewriteEventsSQL         = rewriteEvents
	RedactionBatch           = redactionBatch
)

// RedactEventsThen redacts events in a transaction and then calls beforeCommit. The
// transaction commits if beforeCommit returns nil.
func RedactEventsThen(
	ctx context.Context, db *DB, scope affiliate.Scope, participant affiliate.ParticipantID, pseudonym string, beforeCommit func() error,
) error {
	return db.InTx(ctx, func(tx *Tx) error {
		if _, err := redactEvents(ctx, tx, scope, participant, pseudonym); err != nil {
			return err
		}
		return beforeCommit()
	})
}

// RedactEventsAlone redacts events in a transaction of its own.
func RedactEventsAlone(ctx context.Context, db *DB, scope affiliate.Scope, participant affiliate.ParticipantID, pseudonym string) (n int, err error) {
	err = db.InTx(ctx, func(tx *Tx) error {
		n, err = RedactEvents(ctx, tx, scope, participant, pseudonym)
		return err
	})
	return n, err
}
