package participant

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

// ReviewStore does the work of affiliate.ReviewPending.
type ReviewStore interface {
	// ReviewPending flags the next pending commissions of a suspended participant,
	// or takes the flag off those of a reinstated one, and leaves a job for what
	// follows. It does nothing for a participant whom another move has taken
	// elsewhere by now. It may be repeated.
	ReviewPending(ctx context.Context, job affiliate.ReviewPending, at time.Time) error
}

// ReviewWorker works affiliate.ReviewPending.
type ReviewWorker struct {
	river.WorkerDefaults[affiliate.ReviewPending]
	store ReviewStore
	now   func() time.Time
}

// NewReviewWorker makes the worker.
func NewReviewWorker(store ReviewStore, now func() time.Time) *ReviewWorker {
	return &ReviewWorker{store: store, now: now}
}

// Work takes one block.
func (w *ReviewWorker) Work(ctx context.Context, job *river.Job[affiliate.ReviewPending]) error {
	if err := w.store.ReviewPending(ctx, job.Args, w.now().UTC().Truncate(time.Millisecond)); err != nil {
		return fmt.Errorf("review of participant %s: %w", job.Args.Participant, err)
	}
	return nil
}
