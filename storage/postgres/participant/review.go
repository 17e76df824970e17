package participant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
)

// When a participant is suspended, its pending commissions are flagged for review in
// chunks. The first chunk is flagged in the transaction of the suspension, so that a
// participant with few commissions needs no job. Each further chunk has its own job and
// transaction. The size of a transaction therefore does not grow with the number of
// commissions.
//
// A commission that is not flagged yet cannot be paid out, because a payout locks the
// participant and checks its status. Automatic approval checks the status too, but does
// not lock the participant. It may therefore still approve a commission if it runs at
// the same time as the suspension.

// reviewChunk is the maximum number of commissions in one chunk.
const reviewChunk = 500

// reviewPending flags the pending commissions of a suspended participant for review, so
// that they are not approved automatically. When the participant is reinstated, it
// removes the flags. It processes the first chunk itself and enqueues a job for the
// rest. A move must call it after taking all its other locks. If a conversion is
// decided at the same time, its commission may stay without a flag.
func reviewPending(
	ctx context.Context, tx *postgres.Tx, p participant.Participant, move participant.Move, at time.Time, by affiliate.Actor,
) error {
	if move != participant.SuspendParticipant && move != participant.ReinstateParticipant {
		return nil
	}
	return reviewNextChunk(ctx, tx, commission.ReviewPending{
		Workspace: p.Scope.Workspace, Mode: p.Scope.Mode, Program: p.Program, Participant: p.ID, Move: move, Since: at,
		User: by.User, Key: by.Key, ServiceToken: by.ServiceToken,
	}, p.Partner, at)
}

// ReviewPending runs one job. It does nothing if the participant has another status now
// or was suspended again, because the later move has its own jobs. If a job runs twice
// because a process crashed before the job was marked as completed, the second run
// processes the next chunk.
func ReviewPending(ctx context.Context, db *postgres.DB, job commission.ReviewPending, at time.Time) error {
	// The participant stays locked. Therefore no chunk is flagged after the suspension
	// has ended, and two runs of the same job do not process the same chunk.
	const lockIfUnchanged = `
		select partner_id from participants
		where workspace_id = $1 and mode = $2 and program_id = $3 and id = $4 and status = $5
			and (status <> 'suspended' or suspended_at = $6)
		for no key update`
	return db.InTx(ctx, func(tx *postgres.Tx) error {
		var partner affiliate.UserID
		err := tx.QueryRow(ctx, lockIfUnchanged, job.Workspace, job.Mode, job.Program, job.Participant, job.Move.To(), job.Since).Scan(&partner)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("lock participant: %w", err)
		}
		return reviewNextChunk(ctx, tx, job, partner, at)
	})
}

// reviewNextChunk flags a chunk of commissions, or removes their flags, and enqueues a
// job for the rest. The caller must have locked the participant.
func reviewNextChunk(ctx context.Context, tx *postgres.Tx, job commission.ReviewPending, partner affiliate.UserID, at time.Time) error {
	t := job.Transition(at)
	type pendingRow struct {
		CreatedAt time.Time
		ID        affiliate.CommissionID
	}
	rows, _ := tx.Query(ctx, commissions.SelectPendingOf, pgx.NamedArgs{
		"workspace": job.Workspace, "mode": job.Mode, "participant": job.Participant, "partner": partner,
		"review_reason": participant.ReviewParticipantSuspended, "flagged": !job.AddsFlag(),
		"after": job.After, "after_id": job.AfterID, "since": job.Since, "code": t.Code, "limit": reviewChunk,
	})
	pending, err := pgx.CollectRows(rows, pgx.RowToStructByName[pendingRow])
	if err != nil {
		return fmt.Errorf("read pending commissions: %w", err)
	}
	ids := make([]affiliate.CommissionID, len(pending))
	for i, c := range pending {
		ids[i] = c.ID
	}
	locked, err := commissions.Lock(ctx, tx, t.Scope, ids)
	if err != nil {
		return err
	}
	var changes []commission.Change
	var events []affiliate.Event
	for _, c := range locked {
		if !job.MustChange(c.Commission) { // the commission has changed since it was read
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
	if err := commissions.StoreChanges(ctx, tx, changes...); err != nil {
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
