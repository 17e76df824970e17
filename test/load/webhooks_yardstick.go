package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// bareClient posts signed bodies without the other work of a webhook sender.
type bareClient struct {
	http   *http.Client
	secret webhook.Secret
}

// newBareClient returns a client that keeps up to the given number of connections to each
// host open.
func newBareClient(creds *credentials, connections int) bareClient {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return bareClient{
		secret: webhook.NewSecret(),
		http: &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: creds.pool, MinVersion: tls.VersionTLS12},
			Protocols:       &protocols, DisableCompression: true, MaxIdleConnsPerHost: connections,
		}},
	}
}

func (c bareClient) close() { c.http.CloseIdleConnections() }

func (c bareClient) post(ctx context.Context, url, id string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	now := time.Now()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	request.Header.Set("Webhook-Signature", webhook.Sign([]webhook.Secret{c.secret}, id, now, body))
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s returned status %d", url, response.StatusCode)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// postBacklog is the yardstick of row W1. Like the core, it posts the whole backlog to
// the same endpoints, with the same number of requests in flight. The bodies come from
// memory.
func (w *webhooks) postBacklog(ctx context.Context) (sample, error) {
	client := newBareClient(w.credentials, webhook.InFlight)
	defer client.close()
	deliveries := backlog * w.scale
	ids, bodies := make([]string, deliveries/endpoints), make([][]byte, deliveries/endpoints)
	for i := range ids {
		var id affiliate.EventID
		id, bodies[i] = w.event(time.Now())
		ids[i] = affiliate.WireID(id)
	}
	if err := errors.Join(w.settle(ctx), w.receiver.reset(ctx)); err != nil {
		return sample{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, url := range w.receiver.urls {
		var next atomic.Int64
		for range webhook.InFlight {
			group.Go(func() {
				for n := int(next.Add(1)) - 1; n < len(ids); n = int(next.Add(1)) - 1 {
					if err := client.post(ctx, url, ids[n], bodies[n]); err != nil {
						cancel(err)
						return
					}
				}
			})
		}
	}
	got, err := w.receiver.measure(ctx, os.Getpid(), backlogWarmUp, deliveries)
	if err != nil {
		err = errors.Join(err, context.Cause(ctx))
		cancel(err)
	}
	group.Wait()
	return got, err
}

// noOp is a River job that does nothing.
type noOp struct{}

// Kind returns the name of the job kind.
func (noOp) Kind() string { return "no_op" }

// fastestJobs returns the yardstick of row W2 with the number of workers that is the
// fastest on this machine.
func (w *webhooks) fastestJobs(ctx context.Context, db *database) (side, error) {
	var fastest side
	highestRate, bestWorkers := 0.0, 0
	for _, workers := range []int{100, 300, 1000} {
		jobs := func(ctx context.Context) (sample, error) { return w.completeJobs(ctx, db, workers) }
		got, err := jobs(ctx)
		if err != nil {
			return nil, err
		}
		if got.rate > highestRate {
			highestRate, bestWorkers, fastest = got.rate, workers, jobs
		}
	}
	w.say("webhooks: River runs with %d workers", bestWorkers)
	return fastest, nil
}

// completeJobs measures River with as many jobs as the backlog has deliveries.
func (w *webhooks) completeJobs(ctx context.Context, db *database, workers int) (sample, error) {
	if err := execute(ctx, db.url, "truncate river.river_job"); err != nil {
		return sample{}, err
	}
	store, err := postgres.Open(ctx, postgres.Config{URL: db.url})
	if err != nil {
		return sample{}, err
	}
	defer store.Close()
	registered := river.NewWorkers()
	river.AddWorker(registered, river.WorkFunc(func(context.Context, *river.Job[noOp]) error { return nil }))
	client, err := store.WorkerClient(&river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers: registered, Logger: slog.New(slog.DiscardHandler),
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 10 * time.Millisecond,
	})
	if err != nil {
		return sample{}, err
	}
	jobs := backlog * w.scale
	const block = 5_000
	for from := 0; from < jobs; from += block {
		params := make([]river.InsertManyParams, min(block, jobs-from))
		for i := range params {
			params[i].Args = noOp{}
		}
		if _, err := client.InsertManyFast(ctx, params); err != nil {
			return sample{}, err
		}
	}
	if err := errors.Join(execute(ctx, db.url, "vacuum analyze river.river_job"), w.settle(ctx)); err != nil {
		return sample{}, err
	}
	// River sends the event about a completed job after it has stored the completion.
	completed, end := client.SubscribeConfig(&river.SubscribeConfig{ChanSize: jobs, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	defer end()
	if err := client.Start(ctx); err != nil {
		return sample{}, err
	}
	defer func() { _ = client.Stop(context.WithoutCancel(ctx)) }()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	var began time.Time
	for n := range jobs {
		select {
		case <-completed:
		case <-ctx.Done():
			return sample{}, fmt.Errorf("only %d of %d jobs completed: %w", n, jobs, ctx.Err())
		}
		if n+1 == backlogWarmUp {
			began = time.Now()
		}
	}
	return sample{rate: float64(jobs-backlogWarmUp) / time.Since(began).Seconds()}, nil
}
