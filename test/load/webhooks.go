package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/test/service"
)

const (
	webhooksPath = "/webhooks"
	// endpoints is the maximum number of endpoints in a mode of a workspace.
	endpoints = 10
	// backlog is the number of pending deliveries at the start of each round. SCALE
	// multiplies it. The first backlogWarmUp deliveries are not measured, because the
	// core starts and opens connections while it sends them.
	backlog       = 30_000
	backlogWarmUp = 3_000
	// deepBacklog (multiplied by SCALE) and shallowBacklog are the sizes of two backlogs
	// that are compared. depthRound is the number of deliveries that a round measures. To
	// keep the size of the backlog, a round inserts refill new deliveries whenever refill
	// deliveries were sent.
	deepBacklog    = 1_000_000
	shallowBacklog = 1_000
	depthRound     = 15_000
	refill         = 500
	// fillBlock is the maximum number of events in one statement.
	fillBlock = 1_000
)

// webhooks contains a shop with endpoints and a database with its pending deliveries.
type webhooks struct {
	*bench
	database    *database
	shop        *shop
	credentials *credentials
	receiver    *receiver
	// body is the body of the event that is copied. wireID is the id of this event in the
	// format of the body.
	body   []byte
	wireID string
}

// measureWebhooks measures the rows W1 and W2 of the table, and the rows about the time
// of a delivery.
func measureWebhooks(ctx context.Context, b *bench) error {
	// The yardsticks run in this process, so set the same garbage collector setting as in
	// the core.
	defer debug.SetGCPercent(debug.SetGCPercent(coreGCPercent))
	w := &webhooks{bench: b}
	var err error
	if w.database, err = b.newDatabase(ctx, "webhooks", ""); err != nil {
		return err
	}
	defer w.database.drop()
	if w.shop, err = b.openShop(ctx, w.database); err != nil {
		return fmt.Errorf("open a shop: %w", err)
	}
	if w.credentials, err = b.newCredentials(); err != nil {
		return err
	}
	if err := w.measureArrival(ctx); err != nil {
		return err
	}
	if w.receiver, err = b.startReceiver(ctx, w.credentials, endpoints); err != nil {
		return err
	}
	defer w.receiver.stop()
	if err := w.registerEndpoints(ctx); err != nil {
		return err
	}
	if err := w.measureBacklog(ctx); err != nil {
		return w.receiver.fail(err)
	}
	if err := w.measureDepth(ctx); err != nil {
		return w.receiver.fail(err)
	}
	return nil
}

// readEvent reads the event of one conversion. All other events are copies of it.
func (w *webhooks) readEvent(ctx context.Context) (err error) {
	conn, err := pgx.Connect(ctx, w.database.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var id uuid.UUID
	const find = `select id, body from events where workspace_id = $1 and type = $2 limit 1`
	if err := conn.QueryRow(ctx, find, w.shop.workspace, affiliate.EventConversionCreated).Scan(&id, &w.body); err != nil {
		return fmt.Errorf("read the event to copy: %w", err)
	}
	w.wireID = affiliate.WireID(affiliate.EventID{UUID: id})
	return nil
}

// event returns a copy of the event with a new id.
func (w *webhooks) event(at time.Time) (id affiliate.EventID, body []byte) {
	id = affiliate.NewID[affiliate.EventID](at)
	return id, bytes.Replace(w.body, []byte(w.wireID), []byte(affiliate.WireID(id)), 1)
}

func (w *webhooks) registerEndpoints(ctx context.Context) error {
	core, err := w.startCore(ctx, w.database, w.credentials.settings()...)
	if err != nil {
		return err
	}
	defer core.stop()
	for _, url := range w.receiver.urls {
		if err := w.registerEndpoint(ctx, core, url); err != nil {
			return core.fail(err)
		}
	}
	return nil
}

// fill inserts events, and a delivery of each event for each endpoint, in the same way as
// publishEvents of storage/postgres. The interval between the times of two events is one
// millisecond. The last event has the current time.
func (w *webhooks) fill(ctx context.Context, db *database, deliveries int) (err error) {
	const publish = `
		with written as (
			insert into events (workspace_id, id, day, mode, type, body, created_at)
			select $1, e.id, (e.at at time zone 'UTC')::date, 'live', $2, e.body, e.at
			from unnest($3::uuid[], $4::timestamptz[], $5::bytea[]) as e (id, at, body)
			returning workspace_id, id, day, mode, type, created_at
		)
		insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, due_at, created_at)
		select w.workspace_id, e.id, delivery_id(w.id, e.id), w.day, w.mode, w.id, w.type, e.epoch, w.created_at, w.created_at
		from written w
		join webhook_endpoints e on e.workspace_id = w.workspace_id and e.mode = w.mode and e.deleted_at is null
		where e.active and e.subscriptions && array[w.type, split_part(w.type, '.', 1) || '.*', '*']`
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	events := deliveries / endpoints
	now := time.Now().UTC().Truncate(time.Millisecond)
	for from := 0; from < events; from += fillBlock {
		n := min(fillBlock, events-from)
		ids, at, bodies := make([]uuid.UUID, n), make([]time.Time, n), make([][]byte, n)
		for i := range n {
			at[i] = now.Add(time.Duration(from+i-events) * time.Millisecond)
			var id affiliate.EventID
			id, bodies[i] = w.event(at[i])
			ids[i] = id.UUID
		}
		made, err := conn.Exec(ctx, publish, w.shop.workspace, affiliate.EventConversionCreated, ids, at, bodies)
		if err == nil && made.RowsAffected() != int64(n*endpoints) {
			err = fmt.Errorf("%d events created %d deliveries", n, made.RowsAffected())
		}
		if err != nil {
			return fmt.Errorf("fill: %w", err)
		}
	}
	return nil
}

// measureBacklog measures the rows W1 and W2 of the table.
func (w *webhooks) measureBacklog(ctx context.Context) error {
	queue, err := w.newDatabase(ctx, "river", "")
	if err != nil {
		return err
	}
	defer queue.drop()
	jobs, err := w.fastestJobs(ctx, queue)
	if err != nil {
		return err
	}
	got, err := w.takeTurns(ctx, "webhooks", w.sendBacklog, w.yardstick(w.postBacklog), w.yardstick(jobs))
	if err != nil {
		return err
	}
	const yardstickName = "bare http.Client"
	what := fmt.Sprintf("deliveries of a backlog of %d", backlog*w.scale)
	w.compare("W1", what, yardstickName, "≥ 0.55", got[0], got[1], rate, perSecond)
	w.compare("", "  CPU a delivery", yardstickName, "", got[0], got[1], cpu, micros)
	w.compare("W2", what, "River's jobs that do nothing", "≥ 0.9", got[0], got[2], rate, perSecond)
	return nil
}

// sendBacklog measures a core that sends the whole backlog.
func (w *webhooks) sendBacklog(ctx context.Context) (sample, error) {
	if err := execute(ctx, w.database.url, "truncate webhook_deliveries, events"); err != nil {
		return sample{}, err
	}
	deliveries := backlog * w.scale
	if err := w.fill(ctx, w.database, deliveries); err != nil {
		return sample{}, err
	}
	if err := errors.Join(execute(ctx, w.database.url, "vacuum analyze"), w.settle(ctx), w.receiver.reset(ctx)); err != nil {
		return sample{}, err
	}
	// The core looks for endpoints with pending deliveries when it starts.
	core, err := w.startCore(ctx, w.database, w.credentials.settings()...)
	if err != nil {
		return sample{}, err
	}
	defer core.stop()
	got, err := w.receiver.measure(ctx, core.pid, backlogWarmUp, deliveries)
	arrived := time.Now()
	if err == nil {
		err = w.awaitDelivered(ctx, deliveries)
	}
	if err != nil {
		return sample{}, core.fail(err)
	}
	w.say("webhooks: all outcomes were stored %s after the last arrival", time.Since(arrived).Round(10*time.Millisecond))
	return got, nil
}

// awaitDelivered waits until all deliveries are stored as delivered with one attempt.
func (w *webhooks) awaitDelivered(ctx context.Context, deliveries int) error {
	for until := time.Now().Add(responseTimeout); ; {
		n, err := w.count(ctx, w.database, "status = 'delivered' and attempt_count = 1 and jsonb_array_length(attempts) = 1")
		if err != nil || n == deliveries {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("only %d of %d deliveries are stored as delivered", n, deliveries)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// count returns the number of deliveries that meet a condition.
func (w *webhooks) count(ctx context.Context, db *database, condition string) (n int, err error) {
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	err = conn.QueryRow(ctx, "select count(*) from webhook_deliveries where "+condition).Scan(&n)
	return n, err
}

// measureDepth measures how the time per delivery depends on the size of the backlog.
func (w *webhooks) measureDepth(ctx context.Context) error {
	if err := execute(ctx, w.database.url, "truncate webhook_deliveries, events"); err != nil {
		return err
	}
	deep, err := w.newDatabase(ctx, "webhooks_deep", w.database.name)
	if err != nil {
		return err
	}
	defer deep.drop()
	deepSize := deepBacklog * w.scale
	w.say("webhooks: creating a backlog of %d", deepSize)
	for db, n := range map[*database]int{deep: deepSize, w.database: shallowBacklog} {
		if err := errors.Join(w.fill(ctx, db, n), execute(ctx, db.url, "vacuum analyze")); err != nil {
			return err
		}
	}
	keep := func(db *database, n int) side {
		return func(ctx context.Context) (sample, error) { return w.sendSteadily(ctx, db, n) }
	}
	got, err := w.takeTurns(ctx, "a deep backlog", keep(deep, deepSize), w.yardstick(keep(w.database, shallowBacklog)))
	if err != nil {
		return err
	}
	timeEach := func(s sample) float64 { return float64(time.Second) / s.rate }
	what, yardstickName := fmt.Sprintf("a delivery while %d wait", deepSize), fmt.Sprintf("while %d wait", shallowBacklog)
	w.compare("", what, yardstickName, "≤ 1.5", got[0], got[1], timeEach, micros)
	return nil
}

// sendSteadily measures a core that sends deliveries while the backlog keeps its size.
// Whenever the number of deliveries in the constant refill has arrived, it adds the same
// number of deliveries. It inserts most of them. A conversion that it reports through the
// API creates the others, because the commit of a conversion wakes up the core's sender.
func (w *webhooks) sendSteadily(ctx context.Context, db *database, backlogSize int) (sample, error) {
	left, err := w.count(ctx, db, "due_at is not null")
	if err != nil {
		return sample{}, err
	}
	if err := errors.Join(w.fill(ctx, db, backlogSize+refill-left), w.settle(ctx), w.receiver.reset(ctx)); err != nil {
		return sample{}, err
	}
	core, err := w.startCore(ctx, db, w.credentials.settings()...)
	if err != nil {
		return sample{}, err
	}
	defer core.stop()
	var began time.Duration
	for n := refill; ; n += refill {
		nth, err := w.receiver.await(ctx, n)
		if err != nil {
			return sample{}, core.fail(err)
		}
		switch n {
		case backlogWarmUp:
			began = nth.SinceFirst
		case backlogWarmUp + depthRound:
			return sample{rate: depthRound / (nth.SinceFirst - began).Seconds()}, nil
		}
		if err := w.fill(ctx, db, refill-endpoints); err != nil {
			return sample{}, err
		}
		if err := w.reportPurchase(ctx, core); err != nil {
			return sample{}, core.fail(err)
		}
	}
}

// reportPurchase reports one purchase, which creates one delivery for each endpoint.
func (w *webhooks) reportPurchase(ctx context.Context, core *process) error {
	order, click := w.shop.nextPurchase()
	var made object
	return service.API{Address: core.address}.Call(ctx, http.MethodPost, "/conversions", w.shop.key, object{
		"event_type": "purchase", "external_transaction_id": order, "amount_cents": 10000, "currency": "EUR", "click_id": click,
	}, &made)
}
