package webhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// readTogether bounds the endpoints whose deliveries one query reads.
const readTogether = 32

// reader reads due deliveries. Reads that are asked for while one is under way become
// the next one.
type reader struct {
	queue  Queue
	sender affiliate.SenderID
	log    *slog.Logger
	now    func() time.Time
	asked  *collector[readRequest]
}

// readRequest asks for a read. reply is called once, in another goroutine.
type readRequest struct {
	read  webhook.Read
	reply func(page)
}

// page is the result of one endpoint's read.
type page struct {
	target *webhook.Target // nil: this process does not serve the endpoint
	due    []webhook.DueDelivery
}

// ask requests a read. It does not block.
func (r *reader) ask(request readRequest) { r.asked.add(request) }

// run reads until ctx ends. A read that fails is repeated after a pause.
func (r *reader) run(ctx context.Context) {
	for {
		requests := r.asked.take(ctx, readTogether)
		if len(requests) == 0 {
			return
		}
		if err := r.read(ctx, requests); err != nil && ctx.Err() == nil {
			r.log.LogAttrs(ctx, slog.LevelWarn, "due webhook deliveries could not be read", slog.Any("error", err))
			r.asked.add(requests...)
			sleep(ctx, pauseAfterError)
		}
	}
}

func (r *reader) read(ctx context.Context, requests []readRequest) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	reads := make([]webhook.Read, len(requests))
	for i, request := range requests {
		reads[i] = request.read
	}
	targets, due, err := r.queue.Due(ctx, r.sender, reads, r.now())
	if err != nil {
		return err
	}
	pages := make(map[affiliate.EndpointID]*page, len(targets))
	for i := range targets {
		pages[targets[i].Key.ID] = &page{target: &targets[i]}
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
			request.reply(page{})
		}
	}
	return nil
}
