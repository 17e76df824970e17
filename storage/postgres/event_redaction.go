package postgres

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

// selectEventsOfSubject reads events that contain personal data of a participant,
// starting after the id @after. It locks the rows in the order of their ids, so that two
// concurrent redactions of the same participant do not deadlock.
const selectEventsOfSubject = `
	select id, day, body from events
	where workspace_id = @workspace and mode = @mode and subject_id = @subject and id > @after
	order by id
	limit @most
	for no key update`

const rewriteEvents = `
	update events e set body = n.body
	from unnest(@ids::uuid[], @days::date[], @bodies::bytea[]) as n (id, day, body)
	where e.workspace_id = @workspace and e.mode = @mode and e.id = n.id and e.day = n.day`

// redactionBatch is the maximum number of event bodies that are in memory at the same
// time.
const redactionBatch = 200

// RedactEvents replaces a participant's personal data with the pseudonym in all stored
// event bodies, and returns the number of bodies that it changed. Later deliveries of
// these events contain only the pseudonym. Deliveries, event ids and times stay the
// same. The signature of a delivery is valid for the new body, because it is computed
// when the body is sent.
func RedactEvents(
	ctx context.Context, tx *Tx, scope affiliate.Scope, participant affiliate.ParticipantID, pseudonym string,
) (int, error) {
	// A transaction that creates an event about a participant has locked either the
	// participant or, if it deletes a promo code, this promo code. Because RedactEvents
	// locks the same rows, it misses no event.
	const lockParticipant = `
		select from participants
		where workspace_id = $1 and mode = $2 and id = $3
		for no key update`
	const lockPromoCodes = `
		select from promo_codes
		where workspace_id = $1 and mode = $2 and participant_id = $3
		order by code collate "C"
		for no key update`
	for _, statement := range []string{lockParticipant, lockPromoCodes} {
		if _, err := tx.Exec(ctx, statement, scope.Workspace, scope.Mode, participant); err != nil {
			return 0, err
		}
	}
	return redactEvents(ctx, tx, scope, participant, pseudonym)
}

// redactEvents does the work of RedactEvents within a transaction that has locked the
// participant and the participant's promo codes. It does not write a body that is
// already redacted.
func redactEvents(
	ctx context.Context, tx *Tx, scope affiliate.Scope, participant affiliate.ParticipantID, pseudonym string,
) (redacted int, err error) {
	type stored struct {
		ID   affiliate.EventID
		Day  time.Time
		Body []byte
	}
	var after affiliate.EventID
	for {
		block, err := List[stored](ctx, tx, selectEventsOfSubject, pgx.NamedArgs{
			"workspace": scope.Workspace, "mode": scope.Mode, "subject": participant, "after": after, "most": redactionBatch,
		})
		if err != nil {
			return redacted, err
		}
		var (
			ids    []affiliate.EventID
			days   []time.Time
			bodies [][]byte
		)
		for _, event := range block {
			body, err := privacy.RedactBody(event.Body, pseudonym)
			if err != nil {
				return redacted, fmt.Errorf("event %s: %w", event.ID, err)
			}
			after = event.ID
			if !bytes.Equal(body, event.Body) {
				ids, days, bodies = append(ids, event.ID), append(days, event.Day), append(bodies, body)
			}
		}
		if len(ids) > 0 {
			if _, err := tx.Exec(ctx, rewriteEvents, pgx.NamedArgs{
				"workspace": scope.Workspace, "mode": scope.Mode, "ids": ids, "days": days, "bodies": bodies,
			}); err != nil {
				return redacted, err
			}
		}
		if redacted += len(ids); len(block) < redactionBatch {
			return redacted, nil
		}
	}
}
