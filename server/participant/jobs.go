package participant

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

// ReviewStore is the part of the database that ReviewWorker uses.
type ReviewStore interface {
	// ReviewPending sets the review flag on the next block of a suspended participant's
	// pending commissions, or clears it if the participant was reinstated. If commissions
	// remain, it inserts a job for the next block. It does nothing if the participant's
	// status has changed since the job was inserted. It can be repeated safely.
	ReviewPending(ctx context.Context, job affiliate.ReviewPending, at time.Time) error
}

// ReviewWorker runs the job affiliate.ReviewPending.
type ReviewWorker struct {
	river.WorkerDefaults[affiliate.ReviewPending]
	store ReviewStore
	now   func() time.Time
}

// NewReviewWorker returns a ReviewWorker; now is its clock.
func NewReviewWorker(store ReviewStore, now func() time.Time) *ReviewWorker {
	return &ReviewWorker{store: store, now: now}
}

// Work updates one block of commissions.
func (w *ReviewWorker) Work(ctx context.Context, job *river.Job[affiliate.ReviewPending]) error {
	if err := w.store.ReviewPending(ctx, job.Args, w.now().UTC().Truncate(time.Millisecond)); err != nil {
		return fmt.Errorf("review of participant %s: %w", job.Args.Participant, err)
	}
	return nil
}
