package postgres

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// eventsOfSubject reads the next events that tell personal data of a participant.
// Their rows are locked in the order of their ids, so that two who redact the
// same wait for each other and do not lock each other out.
const eventsOfSubject = `
	select id, day, body from events
	where workspace_id = @workspace and mode = @mode and subject_id = @subject and id > @after
	order by id
	limit @most
	for no key update`

const rewriteEvents = `
	update events e set body = n.body
	from unnest(@ids::uuid[], @days::date[], @bodies::bytea[]) as n (id, day, body)
	where e.workspace_id = @workspace and e.mode = @mode and e.id = n.id and e.day = n.day`

// redactedBlock bounds the bodies that are held in memory at a time.
const redactedBlock = 200

// RedactEvents puts the pseudonym in the place of a participant's personal data in
// all stored bodies of events, so that nothing of it leaves any more, and returns
// how many it has rewritten. Deliveries, ids and instants stay: the signature is
// made when a body is sent.
func (s *Store) RedactEvents(
	ctx context.Context, scope affiliate.Scope, participant affiliate.ParticipantID, pseudonym string,
) (int, error) {
	// Who makes events of a participant holds its row, or that of the promo code it
	// deletes. Without them an event that is being made would be missed.
	const hold = `
		select from participants
		where workspace_id = $1 and mode = $2 and id = $3
		for no key update`
	const holdPromoCodes = `
		select from promo_codes
		where workspace_id = $1 and mode = $2 and participant_id = $3
		order by code collate "C"
		for no key update`
	var redacted int
	err := s.InTx(ctx, func(tx *Tx) error {
		for _, statement := range []string{hold, holdPromoCodes} {
			if _, err := tx.Exec(ctx, statement, scope.Workspace, scope.Mode, participant); err != nil {
				return err
			}
		}
		var err error
		redacted, err = redactEvents(ctx, tx, scope, participant, pseudonym)
		return err
	})
	return redacted, err
}

// redactEvents is RedactEvents in the transaction of the erasure, which holds the
// participant and its promo codes. A body that is redacted already stays.
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
		rows, err := tx.Query(ctx, eventsOfSubject, pgx.NamedArgs{
			"workspace": scope.Workspace, "mode": scope.Mode, "subject": participant, "after": after, "most": redactedBlock,
		})
		if err != nil {
			return redacted, err
		}
		block, err := pgx.CollectRows(rows, pgx.RowToStructByName[stored])
		if err != nil {
			return redacted, err
		}
		var (
			ids    []affiliate.EventID
			days   []time.Time
			bodies [][]byte
		)
		for _, event := range block {
			body, err := affiliate.RedactBody(event.Body, pseudonym)
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
		if redacted += len(ids); len(block) < redactedBlock {
			return redacted, nil
		}
	}
}
