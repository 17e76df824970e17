package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// reviewChunk bounds the commissions of one statement.
const reviewChunk = 500

// selectPendingOf names a participant's pending commissions that have a review
// reason, or have it not, in the order in which they are locked. The partner finds
// them by index: most of what a participant ever earned is not pending.
const selectPendingOf = `
	select c.id
	from commissions c
	where c.workspace_id = $1 and c.mode = $2 and c.participant_id = $3 and c.status = 'pending'
		and c.partner_id = $6 and ($4 = any (c.review_reasons)) = $5
	order by c.id`

// reviewPending keeps what a suspended participant has waiting from being approved
// without a person, and takes that back when the participant is reinstated. It is
// the last thing that a move locks anything for. A conversion decided at the same
// moment may miss the flag; automatic approval asks for the participant's status
// as well.
func (s *Store) reviewPending(
	ctx context.Context, tx pgx.Tx, p affiliate.Participant, move affiliate.ParticipantMove, at time.Time, by affiliate.Actor,
) error {
	t := affiliate.CommissionTransition{
		Scope: p.Scope, Program: p.Program, Actor: by, At: at, ReviewReasons: []string{affiliate.ReviewParticipantSuspended},
	}
	switch move {
	case affiliate.SuspendParticipant:
		t.Move = affiliate.MoveFlag
	case affiliate.ReinstateParticipant:
		t.Move = affiliate.MoveClearReview
	default:
		return nil
	}
	has := t.Move == affiliate.MoveClearReview
	rows, err := tx.Query(ctx, selectPendingOf, p.Scope.Workspace, p.Scope.Mode, p.ID, affiliate.ReviewParticipantSuspended, has, p.Partner)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.CommissionID])
	if err != nil {
		return fmt.Errorf("pending commissions: %w", err)
	}
	var changes []affiliate.CommissionChange
	var events []affiliate.Event
	// The chunks follow the order of the ids, as one call would.
	for chunk := range slices.Chunk(ids, reviewChunk) {
		locked, err := lockCommissions(ctx, tx, p.Scope, chunk, waitForRows)
		if err != nil {
			return err
		}
		for _, c := range locked {
			// Judged again: it may have gone on before it was locked.
			if c.Status != affiliate.CommissionPending || slices.Contains(c.ReviewReasons, affiliate.ReviewParticipantSuspended) != has {
				continue
			}
			t.Commission = c.ID
			change, err := c.move(t)
			if err != nil {
				return err
			}
			changes = append(changes, change)
			events = append(events, change.Events()...)
		}
	}
	if err := settle(ctx, tx, changes...); err != nil {
		return err
	}
	return s.publishInBlocks(ctx, tx, events)
}
