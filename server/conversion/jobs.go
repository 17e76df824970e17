package conversion

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
)

const (
	// sweepInterval is the time between two sweeps. A conversion and its click, or its
	// refund, may be stored by two transactions that do not see each other's rows. The
	// next sweep finds them.
	sweepInterval = 5 * time.Second
	// sweepBatch is the number of rows that a sweep reads at a time. After sweepBatches
	// batches the sweep ends, and the next sweep continues where it ended.
	sweepBatch   = 1000
	sweepBatches = 20
	// awaitedBatch is the number of conversions of one click that are read at a time.
	awaitedBatch = 100
)

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &awaitedWorker{service: s})
	river.AddWorker(workers, &sweepWorker{service: s})
	river.AddWorker(workers, &sweepRefundsWorker{service: s})
}

// PeriodicJobs returns the sweeps, which a River client inserts every sweepInterval.
func (s *Service) PeriodicJobs() []*river.PeriodicJob {
	return []*river.PeriodicJob{server.OneAtATime(river.PeriodicInterval(sweepInterval), sweepAwaited{}, true), server.OneAtATime(river.PeriodicInterval(sweepInterval), sweepRefunds{}, true)}
}

type awaitedWorker struct {
	river.WorkerDefaults[affiliate.AttributeLateClick]
	service *Service
}

func (w *awaitedWorker) Work(ctx context.Context, job *river.Job[affiliate.AttributeLateClick]) error {
	return w.service.AttributeAwaited(ctx, job.Args)
}

// AttributeAwaited decides again about every conversion that waits for a click, if the
// click has arrived. If several calls run at the same time, each conversion is still
// attributed once. If one conversion fails, the others are still attributed.
func (s *Service) AttributeAwaited(ctx context.Context, args affiliate.AttributeLateClick) error {
	for {
		waiting, err := s.store.WaitingConversions(ctx, args.Workspace, args.Click, awaitedBatch)
		if err != nil || len(waiting) == 0 {
			return err
		}
		// The click is read again for each batch, after the conversions, because the
		// programme may have changed.
		found, err := s.store.FindClick(ctx, args.Workspace, args.Click)
		if err != nil || found == nil {
			return err
		}
		var failed error
		for _, c := range waiting {
			failed = errors.Join(failed, s.attributeLate(ctx, c, found))
		}
		if failed != nil {
			// The failed conversions still wait, so the next batch would contain them
			// again and the loop would not end.
			return failed
		}
	}
}

// errSuperseded rolls back a late attribution if another decision about the conversion
// has come into force since the conversion was read.
var errSuperseded = errors.New("another decision is in force")

// attributeLate ends the wait of one conversion for its click. It makes a new decision
// unless the conversion is already attributed or the click belongs to the other mode.
func (s *Service) attributeLate(ctx context.Context, c affiliate.StoredConversion, found *affiliate.FoundClick) error {
	if c.Attributed || found.Mode != c.Scope.Mode {
		return s.store.StopAwaiting(ctx, c.Conversion)
	}
	c.Buyer = s.hasher.buyer(c.Conversion)
	inputs := inputsOf(c.Conversion)
	inputs.FoundClick = found
	err := s.store.InTx(ctx, func(tx Tx) error {
		stored, inputs, err := tx.LockAwaited(ctx, c.Conversion, inputs)
		if err != nil {
			return err
		}
		if stored.Decision != c.Decision {
			return errSuperseded
		}
		// A report with a promo code of the other mode is rejected with MODE_MISMATCH. This
		// conversion is already recorded, so the decision treats such a code as unknown.
		d, commission := decide(c.Conversion, inputs, s.now())
		late, err := stored.AttributeLate(inputs, d, commission)
		if err != nil {
			return err
		}
		return tx.ApplyLateAttribution(ctx, late)
	})
	if errors.Is(err, errSuperseded) {
		return nil
	}
	return err
}

// sweepAwaited is the job that looks for awaited clicks that have arrived. It also stops
// the wait of conversions whose clicks have not arrived in time.
type sweepAwaited struct{}

// Kind names the job.
func (sweepAwaited) Kind() string { return "sweep_awaited_clicks" }

type sweepWorker struct {
	river.WorkerDefaults[sweepAwaited]
	service *Service

	mu     sync.Mutex
	cursor affiliate.AttributeLateClick
}

func (w *sweepWorker) Work(ctx context.Context, _ *river.Job[sweepAwaited]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, err := w.service.SweepAwaited(ctx, w.cursor)
	w.cursor = next
	return err
}

// SweepAwaited runs one sweep that starts at the cursor. It returns the cursor at which
// the next sweep starts, which is zero after the last awaited click. If a click fails,
// SweepAwaited continues with the others and deletes expired rows as usual. The failed
// click is tried again when the sweeps start from the beginning.
func (s *Service) SweepAwaited(ctx context.Context, cursor affiliate.AttributeLateClick) (affiliate.AttributeLateClick, error) {
	var failed error
	for range sweepBatches {
		arrived, next, err := s.store.ArrivedClicks(ctx, cursor, sweepBatch)
		if err != nil {
			return cursor, err
		}
		for _, click := range arrived {
			failed = errors.Join(failed, s.AttributeAwaited(ctx, click))
		}
		if cursor = next; cursor == (affiliate.AttributeLateClick{}) {
			break
		}
	}
	return cursor, errors.Join(failed, s.dropExpired(ctx, s.store.DropExpiredAwaited))
}

// dropExpired calls drop until it deletes less than a full batch of expired rows, at most
// sweepBatches times.
func (s *Service) dropExpired(ctx context.Context, drop func(ctx context.Context, now time.Time, limit int) (int64, error)) error {
	for range sweepBatches {
		if dropped, err := drop(ctx, s.now(), sweepBatch); err != nil || dropped < sweepBatch {
			return err
		}
	}
	return nil
}
