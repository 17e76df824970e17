package buyer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	buyers "github.com/tributary-hq/tributary/storage/postgres/buyer"
)

const (
	// jobTimeout is the longest time of one run of the job. maxRunTime is the time after which
	// a run begins no further transaction, and another run continues.
	jobTimeout = 5 * time.Minute
	maxRunTime = 4 * time.Minute
	// releaseTimeout is the longest time for storing that an attempt has ended.
	releaseTimeout = 10 * time.Second
	// nextRun is the time until the next run continues.
	nextRun = time.Second
)

// errJoined rolls back a part of the work, because a request has joined the erasure in the
// meantime. The erasure continues with the progress that the request has stored.
var errJoined = errors.New("a request has joined the erasure")

// retryDelays are the times after each failure until the next attempt.
var retryDelays = [privacy.MaxBuyerErasureFailures - 1]time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute}

// AddWorkers registers the worker of the job privacy.EraseBuyer.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &server.Worker[privacy.EraseBuyer]{Limit: jobTimeout, Run: func(ctx context.Context, job *river.Job[privacy.EraseBuyer]) error {
		return server.Snooze(s.Work(ctx, job.Args))
	}})
}

// Work works on an erasure for a limited time. If the erasure has not ended, wait is the time
// until the next call. If a step fails, Work returns the wait and no error, because the
// erasure counts its failures itself.
func (s *Service) Work(ctx context.Context, job privacy.EraseBuyer) (wait time.Duration, err error) {
	worker, now := uuid.New(), s.now()
	e, err := buyers.ClaimErasure(ctx, s.DB, job, worker, now, now.Add(privacy.BuyerErasureLease))
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return s.timeUntilFree(ctx, job)
	}
	if err != nil {
		return 0, err
	}
	if e.Failures >= privacy.MaxBuyerErasureFailures {
		return 0, s.finish(ctx, e, worker, privacy.BuyerErasureFailed)
	}
	for until := now.Add(maxRunTime); s.now().Before(until); {
		var done bool
		if e, done, wait, err = s.advance(ctx, e, worker); err != nil {
			return s.fail(ctx, e, worker, err)
		}
		if done {
			return 0, nil
		}
		if wait > 0 {
			break
		}
	}
	return max(wait, nextRun), s.release(ctx, e, worker, false)
}

// timeUntilFree returns the time until the lease of another worker expires. It is 0 if the
// erasure has ended or does not exist.
func (s *Service) timeUntilFree(ctx context.Context, job privacy.EraseBuyer) (time.Duration, error) {
	e, err := buyers.Erasure(ctx, s.DB, job.Workspace, job.Operation)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) || err == nil && e.Status != privacy.BuyerErasureProcessing {
		return 0, nil
	}
	return max(e.Lease.Until.Sub(s.now()), nextRun), err
}

// advance does a part of the current step in one transaction, which also stores the progress
// and renews the lease. done is true if the erasure has ended. If wait is not zero, the work
// cannot go on before this time has passed.
func (s *Service) advance(ctx context.Context, e privacy.BuyerErasure, worker uuid.UUID) (next privacy.BuyerErasure, done bool, wait time.Duration, err error) {
	if e.Progress.Step == privacy.EraseAgain {
		if err := s.Analytics.AddAll(ctx, e.Workspace); err != nil {
			return e, false, 0, err
		}
	}
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		next, done = e, false
		result, err := s.work(ctx, tx, e)
		if err != nil {
			return fmt.Errorf("step %s: %w", e.Progress.Step, err)
		}
		// The lock comes last, so that requests do not wait for the work.
		current, err := buyers.LockErasure(ctx, tx, e)
		if err != nil {
			return err
		}
		if !current.RequestedAt.Equal(e.RequestedAt) || current.Progress != e.Progress {
			next = current
			return errJoined
		}
		wait, next.Progress.Position = result.wait, result.position
		switch {
		case result.next != "":
			next.Progress = privacy.BuyerErasureProgress{Step: result.next}
		case result.finished:
			next.Progress, done = afterStep(e.Progress.Step)
		}
		if !done {
			return buyers.Advance(ctx, tx, next, worker, s.now().Add(privacy.BuyerErasureLease))
		}
		return s.finishIn(ctx, tx, e, worker, privacy.BuyerErasureDone)
	})
	if errors.Is(err, errJoined) {
		return next, false, 0, nil
	}
	if err != nil {
		return e, false, 0, err
	}
	return next, done, wait, nil
}

// afterStep returns the progress at the beginning of the step after the given one. The
// result last is true if no step follows.
func afterStep(step privacy.BuyerErasureStep) (next privacy.BuyerErasureProgress, last bool) {
	for i, s := range privacy.BuyerErasureSteps {
		if s == step && i+1 < len(privacy.BuyerErasureSteps) {
			return privacy.BuyerErasureProgress{Step: privacy.BuyerErasureSteps[i+1]}, false
		}
	}
	return next, true
}

// finish stores the final status of an erasure, with its event and notification.
func (s *Service) finish(ctx context.Context, e privacy.BuyerErasure, worker uuid.UUID, status privacy.BuyerErasureStatus) error {
	return s.DB.InTx(ctx, func(tx *postgres.Tx) error { return s.finishIn(ctx, tx, e, worker, status) })
}

func (s *Service) finishIn(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, worker uuid.UUID, status privacy.BuyerErasureStatus) error {
	now := s.now()
	if err := buyers.FinishErasure(ctx, tx, e, worker, status, now); err != nil {
		return err
	}
	err := tx.Audit(ctx, affiliate.AuditLine{
		Workspace: e.Workspace, Actor: affiliate.System, At: now, Action: "buyer.erasure_ended", ResourceType: resourceErasure, ResourceID: e.ID,
		After: map[string]privacy.BuyerErasureStatus{"status": status},
	})
	if err != nil {
		return err
	}
	return tx.Publish(ctx, e.Event(status, now))
}

// fail handles an error of a step. The error does not count as a failure if the process stops
// or another worker has the lease. It counts if the job has timed out, because the next attempt
// would take as long. The failure with the number MaxBuyerErasureFailures ends the erasure.
func (s *Service) fail(ctx context.Context, e privacy.BuyerErasure, worker uuid.UUID, cause error) (wait time.Duration, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return 0, errors.Join(cause, s.release(ctx, e, worker, false))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if errors.Is(cause, affiliate.Refuse(affiliate.ReasonNotFound)) {
		// Another worker has the lease.
		return nextRun, nil
	}
	s.Log.LogAttrs(ctx, slog.LevelWarn, "an attempt to erase a buyer has failed",
		slog.String("workspace", e.Workspace.String()), slog.String("operation", e.ID.String()), slog.Int("failures", e.Failures+1), slog.Any("error", cause))
	if e.Failures+1 >= privacy.MaxBuyerErasureFailures {
		return 0, s.finish(ctx, e, worker, privacy.BuyerErasureFailed)
	}
	return retryDelays[e.Failures], s.release(ctx, e, worker, true)
}

// release ends the lease, even if ctx has ended. If failed is true, it also counts a failure.
func (s *Service) release(ctx context.Context, e privacy.BuyerErasure, worker uuid.UUID, failed bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	return buyers.ReleaseErasure(ctx, s.DB, e, worker, failed)
}

// maxValue is the greatest length of a value that can identify a buyer.
const maxValue = 320

// isAbout reports whether an event of a payment processor is about the buyer: it contains the
// identity, or a customer or the id of an erased sale in the lists of the erasure. It compares the
// digests of all texts in the event. The result ids has the ids of sales and charges in the event.
func (s *Service) isAbout(ctx context.Context, tx *postgres.Tx, e privacy.BuyerErasure, event privacy.WaitingEvent) (about bool, ids []string, err error) {
	body, err := s.Events.OpenEvent(event.ConnectionID, event.Body)
	if err != nil {
		return false, nil, err
	}
	texts, err := textsIn(body)
	if err != nil {
		return false, nil, err
	}
	scope := affiliate.Scope{Workspace: e.Workspace, Mode: event.Mode}
	var refs, erased []string
	for _, text := range texts {
		about = about || e.Identity.Is(s.BuyerKeys, e.Workspace, e.Identity.Kind, text)
		refs = append(refs, s.BuyerKeys.CustomerRefs(e.Workspace, text)...)
		if conversion.IsProcessorID(text) {
			ids, erased = append(ids, text), append(erased, s.ErasureKeys.ProcessorIDs(scope, text)...)
		}
	}
	if about {
		return true, ids, nil
	}
	found, err := buyers.Customers(ctx, tx, e, refs)
	if err == nil && len(found) == 0 {
		found, err = buyers.ErasedAliases(ctx, tx, e, event.Mode, erased)
	}
	return len(found) > 0, ids, err
}

// textsIn returns the texts in a JSON document that can identify a buyer, without
// duplicates. The names of fields are texts too, which is harmless.
func textsIn(document []byte) ([]string, error) {
	var texts []string
	in := json.NewDecoder(bytes.NewReader(document))
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			slices.Sort(texts)
			return slices.Compact(texts), nil
		}
		if err != nil {
			return nil, err
		}
		if text, ok := token.(string); ok && text != "" && len(text) <= maxValue {
			texts = append(texts, text)
		}
	}
}
