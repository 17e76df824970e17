package participant

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
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

// NewReviewWorker returns the worker of the job commission.ReviewPending; now is its clock. A
// job processes one chunk of commissions. It belongs to one suspension or reinstatement. It does
// nothing if the status was changed since then, because the later change has its own jobs. If a job runs
// twice because a process crashed before the job was marked as completed, the second run
// processes the next chunk.
func NewReviewWorker(db *postgres.DB, now func() time.Time) *server.Worker[commission.ReviewPending] {
	return &server.Worker[commission.ReviewPending]{Run: server.ForArgs(func(ctx context.Context, job commission.ReviewPending) error {
		return db.InTx(ctx, func(tx *postgres.Tx) error {
			partner, found, err := participants.LockForReview(ctx, tx, job)
			if err != nil || !found {
				return err
			}
			return reviewNextChunk(ctx, tx, job, partner, now().UTC().Truncate(time.Millisecond))
		})
	})}
}

// reviewNextChunk flags a chunk of the pending commissions of a suspended participant for
// review, so that they are not approved automatically. After the participant was reinstated,
// it removes the flags. It enqueues a job for the rest. The caller must have locked the
// participant.
func reviewNextChunk(ctx context.Context, tx *postgres.Tx, job commission.ReviewPending, partner affiliate.UserID, at time.Time) error {
	t := job.Transition(at)
	pending, err := participants.PendingCommissions(ctx, tx, job, partner, *t.Code, reviewChunk)
	if err != nil {
		return err
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
	job.After, job.AfterID = last.CreatedAt, last.ID
	return tx.Enqueue(ctx, job)
}
