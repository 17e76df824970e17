package webhook

import (
	"context"
	"log/slog"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// recordTogether bounds the outcomes of one transaction.
const recordTogether = 512

// recorder stores the outcomes of attempts. Outcomes that come while a transaction is
// under way are stored by the next one.
type recorder struct {
	queue    Queue
	log      *slog.Logger
	finished *collector[finishedAttempt]
}

// finishedAttempt is an outcome to store, and the endpoint to notify once it is stored.
type finishedAttempt struct {
	webhook.AttemptResult
	endpoint *servedEndpoint
}

// add hands over an outcome. It does not block.
func (r *recorder) add(a finishedAttempt) { r.finished.add(a) }

// run stores outcomes until ctx ends.
func (r *recorder) run(ctx context.Context) {
	for {
		batch := r.finished.take(ctx, recordTogether)
		if len(batch) == 0 {
			return
		}
		if failed := r.store(ctx, batch); len(failed) > 0 {
			r.finished.add(failed...)
			sleep(ctx, pauseAfterError)
		}
	}
}

// flush stores what is left when the process stops. It gives up at the first error:
// attempts whose outcome is not stored are repeated.
func (r *recorder) flush(ctx context.Context) error {
	for {
		batch := r.finished.tryTake(recordTogether)
		if len(batch) == 0 {
			return nil
		}
		if err := r.storeTogether(ctx, batch); err != nil {
			return err
		}
	}
}

// store stores a batch and returns what could not be stored. If the batch fails, each
// endpoint's part is stored by itself, so that a lock on one endpoint's row does not
// stop the others. After two failures the database is taken for unavailable.
func (r *recorder) store(ctx context.Context, batch []finishedAttempt) (failed []finishedAttempt) {
	err := r.storeTogether(ctx, batch)
	if err == nil {
		return nil
	}
	r.log.LogAttrs(ctx, slog.LevelWarn, "outcomes of webhook attempts could not be stored", slog.Any("error", err))
	failures := 0
	for _, part := range byEndpoint(batch) {
		if failures < 2 {
			if err = r.storeTogether(ctx, part); err == nil {
				continue
			}
			failures++
		}
		failed = append(failed, part...)
	}
	return failed
}

func byEndpoint(batch []finishedAttempt) [][]finishedAttempt {
	at := map[affiliate.EndpointKey]int{}
	var parts [][]finishedAttempt
	for _, a := range batch {
		i, ok := at[a.Key]
		if !ok {
			i = len(parts)
			at[a.Key] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], a)
	}
	return parts
}

func (r *recorder) storeTogether(ctx context.Context, batch []finishedAttempt) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTimeout)
	defer cancel()
	results := make([]webhook.AttemptResult, len(batch))
	for i, a := range batch {
		results[i] = a.AttemptResult
	}
	disabled, err := record(ctx, r.queue, results)
	if err != nil {
		return err
	}
	isDisabled := map[affiliate.EndpointKey]bool{}
	for _, e := range disabled {
		isDisabled[e.Key()] = true
		r.log.LogAttrs(ctx, slog.LevelInfo, "a webhook endpoint was disabled",
			slog.String("endpoint", e.ID.String()), slog.String("reason", string(*e.DisabledReason)))
	}
	for _, part := range byEndpoint(batch) {
		part[0].endpoint.recorded(part, isDisabled[part[0].Key])
	}
	return nil
}
