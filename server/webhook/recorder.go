package webhook

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// maxRecordBatch is the maximum number of outcomes in one transaction.
const maxRecordBatch = 512

// recorder stores the outcomes of attempts. Outcomes that are added while a transaction
// runs are stored in the next transaction.
type recorder struct {
	SenderConfig
	pending *batcher[finishedAttempt]
}

// finishedAttempt is an attempt whose outcome must be stored. The endpoint is notified
// when the outcome is stored.
type finishedAttempt struct {
	webhook.AttemptResult
	endpoint *servedEndpoint
}

func (r *recorder) add(a finishedAttempt) { r.pending.add(a) }

// run stores outcomes until ctx ends.
func (r *recorder) run(ctx context.Context) {
	for {
		batch := r.pending.take(ctx, maxRecordBatch)
		if len(batch) == 0 {
			return
		}
		if failed := r.store(ctx, batch); len(failed) > 0 {
			r.pending.add(failed...)
			sleep(ctx, pauseAfterError)
		}
	}
}

// flush stores the remaining outcomes when the process stops. It returns after the first
// error. Attempts whose outcomes are not stored will be repeated.
func (r *recorder) flush(ctx context.Context) error {
	for {
		batch := r.pending.tryTake(maxRecordBatch)
		if len(batch) == 0 {
			return nil
		}
		if err := r.storeBatch(ctx, batch); err != nil {
			return err
		}
	}
}

// store stores the outcomes of a batch and returns the outcomes that could not be stored.
// If the transaction for the whole batch fails, store uses one transaction for each
// endpoint, so that a locked row of one endpoint does not affect the other endpoints. It
// stops after two more failed transactions, because the database is then probably not
// available.
func (r *recorder) store(ctx context.Context, batch []finishedAttempt) (failed []finishedAttempt) {
	err := r.storeBatch(ctx, batch)
	if err == nil {
		return nil
	}
	r.Log.LogAttrs(ctx, slog.LevelWarn, "outcomes of webhook attempts could not be stored", slog.Any("error", err))
	failures := 0
	for _, part := range byEndpoint(batch) {
		if failures < 2 {
			if err = r.storeBatch(ctx, part); err == nil {
				continue
			}
			failures++
		}
		failed = append(failed, part...)
	}
	return failed
}

func byEndpoint(batch []finishedAttempt) [][]finishedAttempt {
	index := map[webhook.EndpointKey]int{}
	var parts [][]finishedAttempt
	for _, a := range batch {
		i, ok := index[a.Key]
		if !ok {
			i = len(parts)
			index[a.Key] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], a)
	}
	return parts
}

func (r *recorder) storeBatch(ctx context.Context, batch []finishedAttempt) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTimeout)
	defer cancel()
	results := make([]webhook.AttemptResult, len(batch))
	for i, a := range batch {
		results[i] = a.AttemptResult
	}
	disabled, err := record(ctx, r.DB, results, r.Now())
	if err != nil {
		return err
	}
	isDisabled := map[webhook.EndpointKey]bool{}
	for _, e := range disabled {
		isDisabled[e.Key()] = true
		r.Log.LogAttrs(ctx, slog.LevelInfo, "a webhook endpoint was disabled",
			slog.String("endpoint", e.ID.String()), slog.String("reason", string(*e.DisabledReason)))
	}
	for _, part := range byEndpoint(batch) {
		part[0].endpoint.outcomesStored(part, isDisabled[part[0].Key])
	}
	return nil
}

// record stores the outcomes of attempts. The results must be in the order in which the
// attempts ended. record disables an endpoint if its outcomes require this, and returns
// the disabled endpoints. An outcome that is already stored changes nothing. at is the
// current time.
func record(ctx context.Context, db *postgres.DB, results []webhook.AttemptResult, at time.Time) (disabled []webhook.Endpoint, err error) {
	err = db.InSendingTx(ctx, func(tx *postgres.Tx) error {
		disabled = nil
		applied, err := applyOutcomes(ctx, tx, results)
		if err != nil || len(applied) == 0 {
			return err
		}
		keys := make([]webhook.EndpointKey, 0, len(applied))
		for key := range applied {
			keys = append(keys, key)
		}
		endpoints, err := webhooks.LockEndpoints(ctx, tx, keys)
		if err != nil {
			return err
		}
		var notifications []notification.Notification
		for i, before := range endpoints {
			after := webhook.CountOutcomes(before, applied[before.Key()])
			endpoints[i] = after
			notifications = append(notifications, webhook.HealthNotifications(before, after, at)...)
			if before.Active && !after.Active {
				disabled = append(disabled, after)
			}
		}
		if err := webhooks.UpdateEndpoints(ctx, tx, endpoints); err != nil {
			return err
		}
		for _, e := range disabled {
			reason := map[string]any{"active": e.Active, "disabled_reason": e.DisabledReason}
			line := e.Audit("webhook.disable", affiliate.System, e.UpdatedAt, nil, reason)
			if err := errors.Join(tx.Enqueue(ctx, e.CancelDeliveries()), tx.Audit(ctx, line)); err != nil {
				return err
			}
		}
		return tx.Notify(ctx, notifications...)
	})
	return disabled, err
}

// applyOutcomes stores the effects of attempts on their deliveries. It returns the
// changes that it has stored, by endpoint.
func applyOutcomes(ctx context.Context, tx *postgres.Tx, results []webhook.AttemptResult) (map[webhook.EndpointKey][]webhook.DeliveryChange, error) {
	changes := make([]webhook.DeliveryChange, len(results))
	for i, r := range results {
		changes[i] = r.Apply(r.Delivery.State)
	}
	ids, err := webhooks.ApplyOutcomes(ctx, tx, changes)
	if err != nil {
		return nil, err
	}
	unchanged := make(map[affiliate.DeliveryID]bool, len(ids))
	for _, id := range ids {
		unchanged[id] = true
	}
	applied := map[webhook.EndpointKey][]webhook.DeliveryChange{}
	for _, c := range changes {
		if !unchanged[c.Result.Delivery.ID] {
			changed, ok, err := applyToChanged(ctx, tx, c.Result)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			c = changed
		}
		applied[c.Result.Key] = append(applied[c.Result.Key], c)
	}
	return applied, nil
}

// applyToChanged stores the effect of an attempt on a delivery whose state changed during
// the attempt. This happens if a user requested a retry or if the endpoint was disabled.
// applyToChanged returns false if the attempt is already stored or if the delivery does
// not exist.
func applyToChanged(ctx context.Context, tx *postgres.Tx, r webhook.AttemptResult) (webhook.DeliveryChange, bool, error) {
	delivery, err := webhooks.LockDeliveryOf(ctx, tx, r.Key, r.Delivery.ID)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonWebhookNotFound)) || err == nil && delivery.Attempts != r.Delivery.Attempts {
		return webhook.DeliveryChange{}, false, nil
	}
	if err != nil {
		return webhook.DeliveryChange{}, false, err
	}
	change := r.Apply(delivery.State)
	applied, err := webhooks.ApplyOutcomes(ctx, tx, []webhook.DeliveryChange{change})
	return change, slices.Contains(applied, r.Delivery.ID), err
}

// maxReadBatch is the maximum number of endpoints whose deliveries one query reads.
const maxReadBatch = 32

// reader reads the due deliveries of endpoints. Reads that are requested while a query
// runs are combined into the next query.
type reader struct {
	SenderConfig
	sender   affiliate.SenderID
	requests *batcher[readRequest]
}

// readRequest is an endpoint's request for its due deliveries. The reader calls reply
// once, in the reader's goroutine.
type readRequest struct {
	query webhook.DueQuery
	reply func(readResult)
}

type readResult struct {
	target *webhook.Target // nil if the endpoint is not active or not leased to this process
	due    []webhook.DueDelivery
}

func (r *reader) request(request readRequest) { r.requests.add(request) }

// run reads until ctx ends. It repeats a failed read after a pause.
func (r *reader) run(ctx context.Context) {
	for {
		requests := r.requests.take(ctx, maxReadBatch)
		if len(requests) == 0 {
			return
		}
		if err := r.read(ctx, requests); err != nil && ctx.Err() == nil {
			r.Log.LogAttrs(ctx, slog.LevelWarn, "due webhook deliveries could not be read", slog.Any("error", err))
			r.requests.add(requests...)
			sleep(ctx, pauseAfterError)
		}
	}
}

func (r *reader) read(ctx context.Context, requests []readRequest) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	queries := make([]webhook.DueQuery, len(requests))
	for i, request := range requests {
		queries[i] = request.query
	}
	targets, due, err := webhooks.Due(ctx, r.DB, r.sender, queries, r.Now())
	if err != nil {
		return err
	}
	results := make(map[affiliate.EndpointID]*readResult, len(targets))
	for i := range targets {
		results[targets[i].ID] = &readResult{target: &targets[i]}
	}
	for _, d := range due {
		if result := results[d.Endpoint]; result != nil {
			result.due = append(result.due, d)
		}
	}
	for _, request := range requests {
		if result := results[request.query.Key.ID]; result != nil {
			request.reply(*result)
		} else {
			request.reply(readResult{})
		}
	}
	return nil
}

// batcher passes items from many goroutines to one goroutine, which processes them in
// batches. Items that are added while a batch is processed belong to the next batch.
type batcher[T any] struct {
	mu    sync.Mutex
	items []T
	added chan struct{} // receives a value when items are added
}

func newBatcher[T any]() *batcher[T] { return &batcher[T]{added: make(chan struct{}, 1)} }

func (c *batcher[T]) add(items ...T) {
	c.mu.Lock()
	c.items = append(c.items, items...)
	c.mu.Unlock()
	select {
	case c.added <- struct{}{}:
	default:
	}
}

// take waits until there are items. It then removes and returns the oldest items, at most
// n. It returns nil if ctx ends.
func (c *batcher[T]) take(ctx context.Context, n int) []T {
	for {
		if taken := c.tryTake(n); len(taken) > 0 {
			return taken
		}
		select {
		case <-c.added:
		case <-ctx.Done():
			return nil
		}
	}
}

// tryTake removes and returns the oldest items, at most n. It does not wait.
func (c *batcher[T]) tryTake(n int) []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	n = min(n, len(c.items))
	taken := c.items[:n:n]
	c.items = c.items[n:]
	return taken
}

// sleep waits for the duration d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
