package participant

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate/commission"
)

// ReviewStore changes the review flags of commissions in the database.
type ReviewStore interface {
	// ReviewPending processes the next block of a participant's pending commissions. It
	// sets their review flag if the participant was suspended, and clears the flag if the
	// participant was reinstated. If more commissions remain, it inserts a job for the
	// next block. If the participant's status has changed after the job was inserted, it
	// does nothing. Repeated calls are safe.
	ReviewPending(ctx context.Context, job commission.ReviewPending, at time.Time) error
}

// ReviewWorker runs the job commission.ReviewPending.
type ReviewWorker struct {
	river.WorkerDefaults[commission.ReviewPending]
	store ReviewStore
	now   func() time.Time
}

// NewReviewWorker returns a ReviewWorker; now is its clock.
func NewReviewWorker(store ReviewStore, now func() time.Time) *ReviewWorker {
	return &ReviewWorker{store: store, now: now}
}

// Work processes one block of commissions.
func (w *ReviewWorker) Work(ctx context.Context, job *river.Job[commission.ReviewPending]) error {
	if err := w.store.ReviewPending(ctx, job.Args, w.now().UTC().Truncate(time.Millisecond)); err != nil {
		return fmt.Errorf("review of participant %s: %w", job.Args.Participant, err)
	}
	return nil
}
