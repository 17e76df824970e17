package postgres

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// What the tests of redaction look at.
const (
	EventsOfSubjectSQL = eventsOfSubject
	RewriteEventsSQL   = rewriteEvents
	RedactedBlock      = redactedBlock
)

// RedactEventsAnd is redactEvents in a transaction that goes on.
func (s *Store) RedactEventsAnd(
	ctx context.Context, scope affiliate.Scope, participant affiliate.ParticipantID, pseudonym string, goOn func() error,
) error {
	return s.InTx(ctx, func(tx *Tx) error {
		if _, err := redactEvents(ctx, tx, scope, participant, pseudonym); err != nil {
			return err
		}
		return goOn()
	})
}
