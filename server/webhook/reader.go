package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// maxReadBatch is the maximum number of endpoints whose deliveries one query reads.
const maxReadBatch = 32

// reader reads the due deliveries of endpoints. Reads that are requested while a query
// runs are combined into the next query.
type reader struct {
	db       *postgres.DB
	sender   affiliate.SenderID
	log      *slog.Logger
	now      func() time.Time
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
			r.log.LogAttrs(ctx, slog.LevelWarn, "due webhook deliveries could not be read", slog.Any("error", err))
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
	targets, due, err := webhooks.Due(ctx, r.db, r.sender, queries, r.now())
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
