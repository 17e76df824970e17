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

// RedactEventsThen redacts events and then calls the function then in the same
// transaction.
func (s *Store) RedactEventsThen(
	ctx context.Context, scope affiliate.Scope, participant affiliate.ParticipantID, pseudonym string, then func() error,
) error {
	return s.InTx(ctx, func(tx *Tx) error {
		if _, err := redactEvents(ctx, tx, scope, participant, pseudonym); err != nil {
			return err
		}
		return then()
	})
}
