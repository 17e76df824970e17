package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// recordedTogether bounds the conversions of one transaction.
	recordedTogether = 64
	// recorders is how many such transactions are at work at the same time: while
	// one waits for the disk the other uses the processor.
	recorders = 2
	// recordTimeout ends a transaction, and what is repeated of it, when the callers
	// have long gone.
	recordTimeout = 30 * time.Second
)

// recorder lets conversions that are reported at the same time share a
// transaction: those that come while one is at work wait for it and make up the
// next. Nothing waits for company, so a single report is recorded at once.
type recorder struct {
	record func(batch []*recording)

	mu      sync.Mutex
	waiting []*recording // in the order in which they came
	running int
}

// add hands over a report; its done is closed when it is recorded.
func (r *recorder) add(report *recording) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, report)
	if r.running < recorders {
		r.running++
		go r.run()
	}
}

// withdraw takes a report back that nobody works on yet.
func (r *recorder) withdraw(report *recording) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = slices.DeleteFunc(r.waiting, func(other *recording) bool { return other == report })
}

func (r *recorder) run() {
	for {
		batch := r.take()
		if len(batch) == 0 {
			return
		}
		r.record(batch)
		for _, report := range batch {
			close(report.done)
		}
	}
}

// take picks the next batch, and none when nothing waits: the runner ends then. No
// two of a batch want the same, so that each is decided by what the one before has
// left; the later one waits for the next batch.
func (r *recorder) take() []*recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	var batch, later []*recording
	taken := map[want]bool{}
	for i, report := range r.waiting {
		if len(batch) == recordedTogether {
			later = append(later, r.waiting[i:]...)
			break
		}
		wants := wantsOf(report.Report)
		collides := slices.ContainsFunc(wants, func(w want) bool { return taken[w] })
		// What comes behind one that has to wait may not overtake it.
		for _, w := range wants {
			taken[w] = true
		}
		if collides {
			later = append(later, report)
		} else {
			batch = append(batch, report)
		}
	}
	r.waiting = later
	if len(batch) == 0 {
		r.running--
	}
	return batch
}

// want is something that one conversion of a batch can have.
type want struct {
	scope      affiliate.Scope
	kind, name string
}

func wantsOf(r affiliate.Report) []want {
	c := r.Conversion
	wants := []want{{c.Scope, "conversion", c.ExternalTransactionID}}
	if c.CustomerRef != nil {
		wants = append(wants, want{c.Scope, "customer", *c.CustomerRef})
	}
	if c.CustomerEmailHash != nil {
		wants = append(wants, want{c.Scope, "buyer", string(c.CustomerEmailHash)})
	}
	if c.PromoCode != nil {
		wants = append(wants, want{c.Scope, "promo code", *c.PromoCode})
	}
	if r.Key != nil {
		wants = append(wants, want{c.Scope, r.Key.Method, r.Key.Key})
	}
	return wants
}

// RecordConversion decides about a conversion, stores it with the decision, the
// commission that it earns and all that follows, and tells the world. The inputs
// come with everything but what is found here, under locks that last until all is
// stored: the promo code, the customer, refunds that came early, and the facts
// that fraud rules and currencies need.
//
// Conversions that are reported at the same time share a transaction; each has its
// own outcome. Errors: what the report's Decide refuses; CONVERSION_DUPLICATE,
// when the external id is taken; IDEMPOTENCY_KEY_REUSED. Nothing is stored then.
// Whoever does not wait for the end cannot know whether it was recorded.
func (s *Store) RecordConversion(ctx context.Context, report affiliate.Report) (affiliate.Recorded, error) {
	r := &recording{Report: report, done: make(chan struct{})}
	s.recorder.add(r)
	select {
	case <-r.done:
		return r.recorded, r.err
	case <-ctx.Done():
		s.recorder.withdraw(r)
		return affiliate.Recorded{}, ctx.Err()
	}
}

// recordBatch gives each report its outcome. A batch that fails before it was
// committed is repeated one by one, so that what cannot be recorded keeps none of
// the others from it; unless the database does not answer at all, which it would
// not do for the next one either. When COMMIT was sent, and its answer lost,
// nothing is repeated: what became of the batch is unknown, and all are told so.
func (s *Store) recordBatch(batch []*recording) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
	defer cancel()
	committing, err := s.tryRecord(ctx, batch)
	if err == nil {
		return
	}
	alone := len(batch) > 1 && !committing && answered(err)
	for _, r := range batch {
		if alone {
			_, err = s.tryRecord(ctx, []*recording{r})
			alone = err == nil || answered(err)
		}
		if err != nil {
			r.recorded, r.err = affiliate.Recorded{}, err
		}
	}
}

// tryRecord is recordTogether, of which a panic is a failure like others.
func (s *Store) tryRecord(ctx context.Context, batch []*recording) (committing bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("record %d conversions: panic: %v\n%s", len(batch), p, debug.Stack())
		}
	}()
	return s.recordTogether(ctx, batch)
}

// answered reports whether an error is about what was asked for, and not about the
// way to the database.
func answered(err error) bool {
	var pgErr *pgconn.PgError
	var connectErr *pgconn.ConnectError
	if errors.As(err, &connectErr) {
		return false
	}
	return errors.As(err, &pgErr) || !pgconn.Timeout(err)
}
