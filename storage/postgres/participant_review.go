package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// A suspended participant's pending commissions are flagged in blocks: one with
// the suspension itself, so that it is seen at once where there are few, and each
// further one in a transaction and a job of its own, so that no transaction grows
// with what a participant has earned. What is not flagged yet is held back by the
// participant's status, which payouts ask for under the participant's lock; an
// automatic approval asks for it too, and may at most be the last before the
// suspension.

// reviewChunk bounds the commissions of one block.
const reviewChunk = 500

// selectPendingOf reads the next of a participant's pending commissions that have
// a review reason, or do not have it, oldest first: the order of the index by which
// the partner finds them. Most of what a participant ever earned is not pending.
// A commission that the same move has reached before, which the code in its history
// says, is left as people have made it since.
const selectPendingOf = `
	select c.created_at, c.id
	from commissions c
	where c.workspace_id = @workspace and c.mode = @mode and c.participant_id = @participant and c.status = 'pending'
		and c.partner_id = @partner and (@review_reason = any (c.review_reasons)) = @flagged
		and (c.created_at, c.id) > (@after, @after_id)
		and (
			select h.seq from commission_history h
			where h.workspace_id = c.workspace_id and h.commission_id = c.id and h.at >= @since and h.code = @code
			order by h.seq desc
			limit 1) is null
	order by c.created_at, c.id
	limit @limit`

// reviewPending keeps what a suspended participant has waiting from being approved
// without a person, and takes that back when the participant is reinstated: a
// block of it here, the rest in jobs. It is the last thing that a move locks
// anything for. A conversion decided at the same moment may miss the flag.
func (s *Store) reviewPending(
	ctx context.Context, tx *Tx, p affiliate.Participant, move affiliate.ParticipantMove, at time.Time, by affiliate.Actor,
) error {
	if move != affiliate.SuspendParticipant && move != affiliate.ReinstateParticipant {
		return nil
	}
	return s.reviewBlock(ctx, tx, affiliate.ReviewPending{
		Workspace: p.Scope.Workspace, Mode: p.Scope.Mode, Program: p.Program, Participant: p.ID, Move: move, Since: at, User: by.User, Key: by.Key,
	}, p.Partner, at)
}

// ReviewPending works one job. It does nothing when the participant stands
// elsewhere by now, or is suspended anew: another move has begun at the first
// commission. A job that is repeated, because a process died before its end was
// noted, takes the next block.
func (s *Store) ReviewPending(ctx context.Context, job affiliate.ReviewPending, at time.Time) error {
	// Held from the reading on, so that no block follows the end of a suspension, and
	// a job that is at work twice does not look for its block beside itself.
	const stands = `
		select partner_id from participants
		where workspace_id = $1 and mode = $2 and program_id = $3 and id = $4 and status = $5
			and (status <> 'suspended' or suspended_at = $6)
		for no key update`
	return s.InTx(ctx, func(tx *Tx) error {
		var partner affiliate.UserID
		err := tx.QueryRow(ctx, stands, job.Workspace, job.Mode, job.Program, job.Participant, job.Move.To(), job.Since).Scan(&partner)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("participant: %w", err)
		}
		return s.reviewBlock(ctx, tx, job, partner, at)
	})
}

// reviewBlock moves a block of commissions and enqueues a job for the rest. The
// participant is locked.
func (s *Store) reviewBlock(ctx context.Context, tx *Tx, job affiliate.ReviewPending, partner affiliate.UserID, at time.Time) error {
	t := job.Transition(at)
	type pendingRow struct {
		CreatedAt time.Time
		ID        affiliate.CommissionID
	}
	rows, _ := tx.Query(ctx, selectPendingOf, pgx.NamedArgs{
		"workspace": job.Workspace, "mode": job.Mode, "participant": job.Participant, "partner": partner,
		"review_reason": affiliate.ReviewParticipantSuspended, "flagged": !job.Flags(),
		"after": job.After, "after_id": job.AfterID, "since": job.Since, "code": t.Code, "limit": reviewChunk,
	})
	pending, err := pgx.CollectRows(rows, pgx.RowToStructByName[pendingRow])
	if err != nil {
		return fmt.Errorf("pending commissions: %w", err)
	}
	ids := make([]affiliate.CommissionID, len(pending))
	for i, c := range pending {
		ids[i] = c.ID
	}
	locked, err := lockCommissions(ctx, tx, t.Scope, ids)
	if err != nil {
		return err
	}
	var changes []affiliate.CommissionChange
	var events []affiliate.Event
	for _, c := range locked {
		if !job.Concerns(c.Commission) { // changed before it was locked
			continue
		}
		t.Commission = c.ID
		change, err := c.Move(t)
		if err != nil {
			return err
		}
		changes = append(changes, change)
		events = append(events, change.Events()...)
	}
	if err := settle(ctx, tx, changes...); err != nil {
		return err
	}
	if err := tx.Publish(ctx, events...); err != nil {
		return err
	}
	if len(pending) < reviewChunk {
		return nil
	}
	last := pending[len(pending)-1]
	job.After, job.AfterID = last.CreatedAt.UTC(), last.ID
	return tx.Enqueue(ctx, job)
}
