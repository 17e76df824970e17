package webhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// maxReadBatch is the maximum number of endpoints whose deliveries one query reads.
const maxReadBatch = 32

// reader reads the due deliveries of endpoints. Reads that are requested while a query
// runs are combined into the next query.
type reader struct {
	queue    Queue
	sender   affiliate.SenderID
	log      *slog.Logger
	now      func() time.Time
	requests *batcher[readRequest]
}

// readRequest is an endpoint's request for its due deliveries. The reader calls reply
// once, in the reader's goroutine.
type readRequest struct {
	read  webhook.ReadRequest
	reply func(readResult)
}

// readResult is the response to a readRequest.
type readResult struct {
	target *webhook.Target // nil if the endpoint is not active or not leased to this process
	due    []webhook.DueDelivery
}

// request adds a request. It does not block.
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
	reads := make([]webhook.ReadRequest, len(requests))
	for i, request := range requests {
		reads[i] = request.read
	}
	targets, due, err := r.queue.Due(ctx, r.sender, reads, r.now())
	if err != nil {
		return err
	}
	pages := make(map[affiliate.EndpointID]*readResult, len(targets))
	for i := range targets {
		pages[targets[i].Key.ID] = &readResult{target: &targets[i]}
	}
	for _, d := range due {
		if p := pages[d.Endpoint]; p != nil {
			p.due = append(p.due, d)
		}
	}
	for _, request := range requests {
		if p := pages[request.read.Key.ID]; p != nil {
			request.reply(*p)
		} else {
			request.reply(readResult{})
		}
	}
	return nil
}
