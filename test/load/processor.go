package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stripe/stripe-go/v85/webhook"

	"github.com/tributary-hq/tributary/test/service"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

const (
	processorRound = 2 * time.Second
	// burstEvents is the number of events that arrive at once in row S2.
	burstEvents = 10_000
	// applyTimeout is the longest time until the events of a burst are applied.
	applyTimeout = 10 * time.Minute
)

// measureProcessor measures the rows S1 and S2 of the results.
func measureProcessor(ctx context.Context, b *bench) error {
	pgbench, err := b.findPgbench(ctx)
	if err != nil {
		return err
	}
	db, err := b.newDatabase(ctx, "processor", "")
	if err != nil {
		return err
	}
	defer db.drop()
	s, err := b.openShop(ctx, db)
	if err != nil {
		return fmt.Errorf("open a shop: %w", err)
	}
	twin, err := b.newDatabase(ctx, "pgbench", db.name)
	if err != nil {
		return err
	}
	defer twin.drop()
	stripe, err := stripeserver.New()
	if err != nil {
		return err
	}
	standIn := httptest.NewServer(stripe)
	defer standIn.Close()
	core, err := b.startCore(ctx, db, "TRIBUTARY_PUBLIC_URL=https://api.example.com", "TRIBUTARY_STRIPE_API_URL="+standIn.URL)
	if err != nil {
		return err
	}
	defer core.stop()
	a, err := connectAccount(ctx, core, s, stripe)
	if err != nil {
		return core.fail(err)
	}
	if err := b.measureResponses(ctx, core, a, pgbench, twin); err != nil {
		return core.fail(err)
	}
	if err := b.measureBurst(ctx, core, a, s, db); err != nil {
		return core.fail(err)
	}
	return nil
}

// processorAccount is a connected account. Its events are checkouts, each with its own ids.
type processorAccount struct {
	path, secret string
	// template is an event in which placeholder stands for the number of the event.
	template string
	sent     atomic.Int64
}

// placeholder is the number of the event in the template.
const placeholder = "NNNNNNNNNN"

// connectAccount connects an account in the live mode of the shop.
func connectAccount(ctx context.Context, core *process, s *shop, stripe *stripeserver.Server) (*processorAccount, error) {
	var status struct{ ID string }
	api := service.API{Address: core.address}
	err := api.Call(ctx, http.MethodPost, "/integrations/stripe", s.merchant, object{"restrictedKey": "rk_live_0123456789abcdef"}, &status)
	if err != nil {
		return nil, err
	}
	stripe.Put(stripeserver.NewSession("cs_"+placeholder, object{
		"payment_intent": "pi_" + placeholder, "amount_total": 4_900, "currency": "eur", "livemode": true, "client_reference_id": s.clickID(1),
	}))
	event := stripe.Event("checkout.session.completed", "cs_"+placeholder, stripeserver.EventID("evt_"+placeholder), stripeserver.EventLivemode(true))
	return &processorAccount{
		path: "/webhooks/stripe/" + status.ID, secret: stripe.Endpoints()[0].Secret, template: string(event),
	}, nil
}

// appendEvent appends the request with a new event.
func (a *processorAccount) appendEvent(dst []byte, _ int) []byte {
	body := strings.ReplaceAll(a.template, placeholder, fmt.Sprintf("%010d", a.sent.Add(1)))
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: []byte(body), Secret: a.secret})
	dst = append(dst, "POST "+a.path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nStripe-Signature: "+signed.Header+
		"\r\nContent-Type: application/json\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"...)
	return append(dst, body...)
}

// measureResponses measures the responses to events. The core is paused while pgbench runs,
// because its jobs would disturb pgbench.
func (b *bench) measureResponses(ctx context.Context, core *process, a *processorAccount, pgbench string, twin *database) error {
	script := b.file("event.sql")
	// The stored body is a little longer than the event, because it is encrypted.
	if err := os.WriteFile(script, fmt.Appendf(nil, insertEvent, len(a.template)+64), 0o600); err != nil {
		return err
	}
	const clients = 16
	receive := func(ctx context.Context) (sample, error) {
		if err := errors.Join(b.settle(ctx), core.resume()); err != nil {
			return sample{}, err
		}
		got, err := traffic{
			address: core.address, processes: measuredProcesses{pid: core.pid}, connections: clients, measured: processorRound,
			status: http.StatusOK, request: a.appendEvent,
		}.run(ctx)
		return got, errors.Join(err, core.pause())
	}
	insert := func(ctx context.Context) (sample, error) {
		if err := b.settle(ctx); err != nil {
			return sample{}, err
		}
		return b.pgbench(ctx, pgbench, twin, script, clients, 1, processorRound)
	}
	if err := core.pause(); err != nil {
		return err
	}
	got, err := b.takeTurns(ctx, "events of Stripe", receive, b.yardstick(insert))
	if err := errors.Join(err, core.resume()); err != nil {
		return err
	}
	b.compare("S1", "POST /webhooks/stripe, 16 in flight", "pgbench", "", got[0], got[1], rate, perSecond)
	b.compare("", "  p50", "pgbench", "", got[0], got[1], p50, millis)
	b.compare("", "  p99", "pgbench", "", got[0], got[1], p99, millis)
	return nil
}

// insertEvent is the script of pgbench's transaction: an event and its job.
const insertEvent = `
begin;
insert into processor_events (workspace_id, connection_id, id, mode, type, account_id, body, resync, status, happened_at, received_at)
select w.id, '00000000-0000-0000-0000-000000000001', 'evt_' || gen_random_uuid(), 'live', 'checkout.session.completed', 'acct_1',
	convert_to(repeat('x', %d), 'UTF8'), false, 'received', now(), now()
from workspaces w limit 1;
insert into river.river_job (args, kind, max_attempts, metadata, priority, queue, state, scheduled_at, tags)
values ('{"workspace":"00000000-0000-0000-0000-000000000001","mode":"live","connection":"00000000-0000-0000-0000-000000000001","event":"evt_0123456789"}',
	'apply_processor_event', 14, '{}', 1, 'processor', 'available', now(), '{}');
commit;
`

// measureBurst measures the latency of reports while a burst of events is applied, and
// checks that no event is lost.
func (b *bench) measureBurst(ctx context.Context, core *process, a *processorAccount, s *shop, db *database) error {
	report := func(ctx context.Context) (sample, error) {
		return traffic{
			address: core.address, processes: measuredProcesses{pid: core.pid}, connections: 4, measured: processorRound,
			status: http.StatusCreated, request: s.appendReport,
		}.run(ctx)
	}
	quiet := func(ctx context.Context) (sample, error) {
		if err := errors.Join(a.waitUntilApplied(ctx, db), b.settle(ctx)); err != nil {
			return sample{}, err
		}
		return report(ctx)
	}
	during := func(ctx context.Context) (sample, error) {
		if err := errors.Join(a.waitUntilApplied(ctx, db), b.settle(ctx), a.burst(ctx, core)); err != nil {
			return sample{}, err
		}
		got, err := report(ctx)
		if err != nil {
			return got, err
		}
		waiting, err := a.waiting(ctx, db)
		if err == nil && waiting == 0 {
			err = errors.New("the burst was applied before the measurement ended: send more events")
		}
		return got, err
	}
	got, err := b.takeTurns(ctx, "reports while events are applied", during, quiet)
	if err != nil {
		return err
	}
	b.compare("S2", fmt.Sprintf("POST /conversions while %d events are applied, p50", burstEvents), "without events", "≤ 2", got[0], got[1], p50, millis)
	b.compare("", "  p99", "without events", "≤ 2", got[0], got[1], p99, millis)
	return a.waitUntilApplied(ctx, db)
}

// burst sends burstEvents events as fast as the core accepts them.
func (a *processorAccount) burst(ctx context.Context, core *process) error {
	const connections = 16
	target := a.sent.Load() + burstEvents
	_, err := measureWorkers(ctx, connections, 0, measuredProcesses{pid: core.pid}, func(ctx context.Context, n int, _ *atomic.Int32) ([]time.Duration, error) {
		var phase atomic.Int32
		stopping := traffic{address: core.address, status: http.StatusOK, request: func(dst []byte, n int) []byte {
			if a.sent.Load() >= target-connections {
				phase.Store(over)
			}
			return a.appendEvent(dst, n)
		}}
		return stopping.connection(ctx, n, &phase)
	})
	return err
}

// waiting returns the number of events that are not applied yet. It returns an error if an
// event was lost or has failed.
func (a *processorAccount) waiting(ctx context.Context, db *database) (waiting int64, err error) {
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var stored, applied, conversions int64
	err = conn.QueryRow(ctx, `
		select count(*), count(*) filter (where status = 'applied'), (select count(*) from conversions where source = 'stripe')
		from processor_events`).Scan(&stored, &applied, &conversions)
	switch sent := a.sent.Load(); {
	case err != nil:
		return 0, err
	case stored != sent || applied == stored && conversions != sent:
		return 0, fmt.Errorf("%d events were acknowledged, but %d are stored and made %d conversions", sent, stored, conversions)
	}
	return stored - applied, nil
}

func (a *processorAccount) waitUntilApplied(ctx context.Context, db *database) error {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	for {
		waiting, err := a.waiting(ctx, db)
		if err != nil || waiting == 0 {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d events are not applied: %w", waiting, err)
		}
	}
}
