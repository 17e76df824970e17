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
	// sweepEvery bounds how long a conversion can wait whose click was stored, or
	// which was refunded, while it was itself being stored, so that neither saw the
	// other.
	sweepEvery = 5 * time.Second
	// sweepBatch and sweepBatches bound the work of one sweep; the next one goes
	// on where it stopped.
	sweepBatch   = 1000
	sweepBatches = 20
	// awaitedBatch bounds the conversions of one click that are read at a time.
	awaitedBatch = 100
)

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &awaitedWorker{service: s})
	river.AddWorker(workers, &sweepWorker{service: s})
	river.AddWorker(workers, &sweepRefundsWorker{service: s})
}

// PeriodicJobs are the jobs that have to be started again and again.
func (s *Service) PeriodicJobs() []*river.PeriodicJob {
	return []*river.PeriodicJob{server.OneAtATime(river.PeriodicInterval(sweepEvery), sweepAwaited{}, true), server.OneAtATime(river.PeriodicInterval(sweepEvery), sweepRefunds{}, true)}
}

type awaitedWorker struct {
	river.WorkerDefaults[affiliate.AttributeLateClick]
	service *Service
}

func (w *awaitedWorker) Work(ctx context.Context, job *river.Job[affiliate.AttributeLateClick]) error {
	return w.service.AttributeAwaited(ctx, job.Args)
}

// AttributeAwaited decides again about every conversion that waits for a click, if the
// click has arrived. Several runs at the same time attribute each conversion once. A
// conversion that fails does not delay the others.
func (s *Service) AttributeAwaited(ctx context.Context, args affiliate.AttributeLateClick) error {
	for {
		waiting, err := s.store.AwaitedConversions(ctx, args.Workspace, args.Click, awaitedBatch)
		if err != nil || len(waiting) == 0 {
			return err
		}
		// Read after the waiting ones, each time: the programme may have changed.
		found, err := s.store.FindClick(ctx, args.Workspace, args.Click)
		if err != nil || found == nil {
			return err
		}
		var failed error
		for _, c := range waiting {
			failed = errors.Join(failed, s.attributeLate(ctx, c, found))
		}
		if failed != nil {
			// What failed is still waiting and would be read again and again.
			return failed
		}
	}
}

// errSuperseded rolls back a late attribution of a conversion about which another
// decision is in force by now.
var errSuperseded = errors.New("another decision is in force")

// attributeLate ends one conversion's wait, with a new decision where there is
// anything new to say.
func (s *Service) attributeLate(ctx context.Context, c affiliate.StoredConversion, found *affiliate.FoundClick) error {
	if c.Attributed || found.Mode != c.Scope.Mode {
		return s.store.ForgetAwaited(ctx, c.Conversion)
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
		// It is too late to refuse: a promo code of the other mode is unknown.
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

// sweepAwaited looks for awaited clicks that have arrived, and gives up on old
// ones.
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

// SweepAwaited is one sweep from a cursor on; it returns where the next one
// goes on, zero after the end. A click that fails is passed over until the next
// round, so that it holds up neither the others nor the giving up.
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

// dropExpired gives up, a batch at a time, on what has waited for too long.
func (s *Service) dropExpired(ctx context.Context, drop func(ctx context.Context, now time.Time, limit int) (int64, error)) error {
	for range sweepBatches {
		if dropped, err := drop(ctx, s.now(), sweepBatch); err != nil || dropped < sweepBatch {
			return err
		}
	}
	return nil
}
