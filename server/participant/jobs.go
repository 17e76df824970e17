package participant

import (
	"context"
	"fmt"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
)

// ReviewWorker runs the job commission.ReviewPending.
type ReviewWorker struct {
	river.WorkerDefaults[commission.ReviewPending]
	db  *postgres.DB
	now func() time.Time
}

// NewReviewWorker returns a ReviewWorker; now is its clock.
func NewReviewWorker(db *postgres.DB, now func() time.Time) *ReviewWorker {
	return &ReviewWorker{db: db, now: now}
}

// Work processes one block of commissions.
func (w *ReviewWorker) Work(ctx context.Context, job *river.Job[commission.ReviewPending]) error {
	if err := participants.ReviewPending(ctx, w.db, job.Args, w.now().UTC().Truncate(time.Millisecond)); err != nil {
		return fmt.Errorf("review of participant %s: %w", job.Args.Participant, err)
	}
	return nil
}
