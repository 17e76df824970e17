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
func (s *Store) RedactEventsThen(
	ctx context.Context, scope affiliate.Scope, participant affiliate.ParticipantID, pseudonym string, beforeCommit func() error,
) error {
	return s.InTx(ctx, func(tx *Tx) error {
		if _, err := redactEvents(ctx, tx, scope, participant, pseudonym); err != nil {
			return err
		}
		return beforeCommit()
	})
}

// RedactEvents redacts events in a transaction of its own.
func (s *Store) RedactEvents(ctx context.Context, scope affiliate.Scope, participant affiliate.ParticipantID, pseudonym string) (n int, err error) {
	err = s.InTx(ctx, func(tx *Tx) error {
		n, err = tx.RedactEvents(ctx, scope, participant, pseudonym)
		return err
	})
	return n, err
}
