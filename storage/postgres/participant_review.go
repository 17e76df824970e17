package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
// a review reason, or have it not, oldest first: the order of the index by which
// the partner finds them. Most of what a participant ever earned is not pending.
// What the move has reached before ($10 is when it was made, $11 its note) it does
// not reach again, whatever a person has done since.
const selectPendingOf = `
	select c.created_at, c.id
	from commissions c
	where c.workspace_id = $1 and c.mode = $2 and c.participant_id = $3 and c.status = 'pending'
		and c.partner_id = $6 and ($4 = any (c.review_reasons)) = $5
		and (c.created_at, c.id) > ($7, $8)
		and (
			select h.seq from commission_history h
			where h.workspace_id = c.workspace_id and h.commission_id = c.id and h.at >= $10 and h.reason = $11
			order by h.seq desc
			limit 1) is null
	order by c.created_at, c.id
	limit $9`

// The notes in the history of what a move reaches. They are looked for there, so
// another wording is another move.
const (
	suspendedNote  = "The partner was suspended."
	reinstatedNote = "The partner was reinstated."
)

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

// reviewBlock flags a block of commissions, or takes the flag off them, and leaves
// a job for what follows it. Its participant is locked.
func (s *Store) reviewBlock(ctx context.Context, tx *Tx, job affiliate.ReviewPending, partner affiliate.UserID, at time.Time) error {
	scope := affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}
	t := affiliate.CommissionTransition{
		Scope: scope, Program: job.Program, Actor: affiliate.Actor{User: job.User, Key: job.Key}, At: at,
		Move: affiliate.MoveFlag, ReviewReasons: []string{affiliate.ReviewParticipantSuspended},
	}
	note := suspendedNote
	if job.Move == affiliate.ReinstateParticipant {
		t.Move, note = affiliate.MoveClearReview, reinstatedNote
	}
	t.Note = &note
	if t.At.Before(job.Since) { // by another process's clock
		t.At = job.Since
	}
	has := t.Move == affiliate.MoveClearReview
	type pendingRow struct {
		CreatedAt time.Time
		ID        affiliate.CommissionID
	}
	rows, _ := tx.Query(ctx, selectPendingOf, scope.Workspace, scope.Mode, job.Participant, affiliate.ReviewParticipantSuspended, has, partner,
		job.After, job.AfterID, reviewChunk, job.Since, note)
	pending, err := pgx.CollectRows(rows, pgx.RowToStructByName[pendingRow])
	if err != nil {
		return fmt.Errorf("pending commissions: %w", err)
	}
	ids := make([]affiliate.CommissionID, len(pending))
	for i, c := range pending {
		ids[i] = c.ID
	}
	locked, err := lockCommissions(ctx, tx, scope, ids)
	if err != nil {
		return err
	}
	var changes []affiliate.CommissionChange
	var events []affiliate.Event
	for _, c := range locked {
		// Judged again: it may have gone on before it was locked.
		if c.Status != affiliate.CommissionPending || slices.Contains(c.ReviewReasons, affiliate.ReviewParticipantSuspended) != has {
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
