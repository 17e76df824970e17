package conversion

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

const (
	// sweepInterval is the time between two sweeps. A sweep is a run of a job that
	// searches all waiting conversions, or all parked refunds, for work that is still to
	// be done. If a conversion and its click, or a conversion and its refund, are stored
	// at the same time, neither transaction sees the row of the other transaction. The
	// next sweep then processes the click or the refund.
	sweepInterval = 5 * time.Second
	// sweepBatch is the number of rows that a sweep reads at a time. A sweep ends after
	// sweepBatches batches. The next sweep continues after the last row.
	sweepBatch   = 1000
	sweepBatches = 20
	// awaitedBatch limits the waiting conversions that one query reads.
	awaitedBatch = 100
)

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[conversion.AttributeLateClick]) error {
		return s.AttributeAwaited(ctx, job.Args.AwaitedClick)
	}))
	river.AddWorker(workers, &sweepWorker[sweepAwaited, click.AwaitedClick]{sweep: s.SweepAwaited})
	river.AddWorker(workers, &sweepWorker[sweepRefunds, conversion.ParkedSale]{sweep: s.SweepRefunds})
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[processor.ReverseConversion]) error {
		return s.Reverse(ctx, affiliate.Scope{Workspace: job.Args.Workspace, Mode: job.Args.Mode}, job.Args.Conversion)
	}))
}

// PeriodicJobs returns the jobs that run the sweeps, every sweepInterval.
func (s *Service) PeriodicJobs() []*river.PeriodicJob {
	every := river.PeriodicInterval(sweepInterval)
	return []*river.PeriodicJob{server.OneAtATime(every, sweepAwaited{}, true), server.OneAtATime(every, sweepRefunds{}, true)}
}

// AttributeAwaited makes new decisions about all conversions that wait for a click that
// has arrived. Parallel calls attribute each conversion once. A failure of one conversion
// does not affect the others.
func (s *Service) AttributeAwaited(ctx context.Context, click click.AwaitedClick) error {
	for {
		waiting, err := conversions.WaitingConversions(ctx, s.db, click.Workspace, click.Click, awaitedBatch)
		if err != nil || len(waiting) == 0 {
			return err
		}
		// The click is read again for each batch, because its programme may have changed.
		found, err := s.clicks.Find(ctx, click.Workspace, click.Click)
		if err != nil || found == nil {
			return err
		}
		var failed error
		for _, c := range waiting {
			failed = errors.Join(failed, s.attributeLate(ctx, c, found))
		}
		if failed != nil {
			// The failed conversions still wait. Without this return, the next batch
			// would contain them again and the loop would not end.
			return failed
		}
	}
}

// errSuperseded rolls back a late attribution. It means that another decision was stored,
// or that the buyer was erased, after the conversion was read.
var errSuperseded = errors.New("the conversion has changed")

// attributeLate makes a new decision about a conversion whose click has arrived, and ends
// the conversion's wait. If the conversion is already attributed, or if the click and the
// conversion have different modes (test and live), it makes no decision and only ends the
// wait. If the buyer of the conversion was erased, it erases the click instead.
func (s *Service) attributeLate(ctx context.Context, c conversion.StoredConversion, found *attribution.FoundClick) error {
	if c.BuyerErased || c.Attributed || found.Mode != c.Mode {
		return s.db.InTx(ctx, func(tx *postgres.Tx) error {
			if c.BuyerErased {
				if err := clicks.EraseOfBuyers(ctx, tx, c.Scope, *c.Click); err != nil {
					return err
				}
			}
			return conversions.StopAwaiting(ctx, tx, c.Conversion)
		})
	}
	c.Buyer = s.hasher.buyer(c.Conversion)
	inputs := inputsOf(c.Conversion)
	inputs.FoundClick = found
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		stored, inputs, err := conversions.LockAwaited(ctx, tx, c.Conversion, inputs)
		if err != nil {
			return err
		}
		if stored.Decision != c.Decision || stored.BuyerErased {
			return errSuperseded
		}
		// A report with a promo code of the other mode is rejected with MODE_MISMATCH.
		// This conversion is already recorded and cannot be rejected, so the decision
		// treats a promo code of the other mode as unknown.
		d, commission := decide(c.Conversion, inputs, s.now())
		late, err := stored.AttributeLate(inputs, d, commission)
		if err != nil {
			return err
		}
		return conversions.ApplyLateAttribution(ctx, tx, late)
	})
	if errors.Is(err, errSuperseded) {
		return nil
	}
	return err
}

// sweepAwaited is the job that attributes waiting conversions whose clicks have arrived.
// It also ends the wait of conversions whose clicks have not arrived in time.
type sweepAwaited struct{}

// Kind returns the name of the job in River.
func (sweepAwaited) Kind() string { return "sweep_awaited_clicks" }

// sweepWorker runs a sweep from the cursor that the previous sweep of this process returned.
type sweepWorker[Job river.JobArgs, Cursor any] struct {
	river.WorkerDefaults[Job]
	sweep func(ctx context.Context, cursor Cursor) (next Cursor, err error)

	mu     sync.Mutex
	cursor Cursor
}

func (w *sweepWorker[Job, Cursor]) Work(ctx context.Context, _ *river.Job[Job]) (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cursor, err = w.sweep(ctx, w.cursor)
	return err
}

// SweepAwaited runs one sweep. It starts after the click in cursor and returns the cursor
// for the next sweep. The cursor is zero after the last click, so the next sweep starts
// with the first. If the conversions of one click cannot be attributed, SweepAwaited
// continues with the other clicks, and a later sweep tries again.
func (s *Service) SweepAwaited(ctx context.Context, cursor click.AwaitedClick) (click.AwaitedClick, error) {
	var failed error
	for range sweepBatches {
		arrived, next, err := conversions.ArrivedClicks(ctx, s.db, cursor, sweepBatch)
		if err != nil {
			return cursor, errors.Join(failed, err)
		}
		for _, click := range arrived {
			failed = errors.Join(failed, s.AttributeAwaited(ctx, click))
		}
		if cursor = next; cursor == (click.AwaitedClick{}) {
			break
		}
	}
	return cursor, errors.Join(failed, s.dropExpired(ctx, conversions.DropExpiredAwaited))
}

// dropExpired calls the function drop until it deletes less than a full batch of expired rows,
// but at most sweepBatches times. The function returns the number of the deleted rows.
func (s *Service) dropExpired(ctx context.Context, drop func(ctx context.Context, db *postgres.DB, now time.Time, limit int) (int64, error)) error {
	for range sweepBatches {
		if dropped, err := drop(ctx, s.db, s.now(), sweepBatch); err != nil || dropped < sweepBatch {
			return err
		}
	}
	return nil
}
