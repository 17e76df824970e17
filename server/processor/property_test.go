package processor_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// histories returns the number of histories of the property test. `make fault` sets the
// variable, because the long test takes several minutes.
func histories() uint64 {
	if os.Getenv("LONG_STORMS") != "" {
		return 200
	}
	return 6
}

// delivery says when the events of a history are delivered.
type delivery struct {
	name string
	// lost events are never delivered. A resync finds them at the end.
	lost bool
	// at returns the step at which an event is delivered. The step in which it was created
	// and the last step are given.
	at func(r *rand.Rand, step, last int) int
}

var deliveries = []delivery{
	{"in order", false, func(_ *rand.Rand, step, _ int) int { return step }},
	{"at the end", true, func(_ *rand.Rand, _, last int) int { return last }},
	{"delayed", true, func(r *rand.Rand, step, last int) int { return step + r.IntN(last-step+1) }},
}

// The state after all events does not depend on their order, on repetitions, and on events
// that were lost before a resync. A failure names the number of the history. To repeat it,
// add the number to the name of the test in the flag -run.
func TestApply_OrderAndRepetitionDoNotMatter(t *testing.T) {
	pgtest.Slow(t)
	clock := pgtest.NewClock(historyStart)
	database := pgtest.Open(t, clock.Now)
	database.Exec(`
		insert into fx_rates select 'USD', 'JPY', d, 150.25, now() from generate_series('2026-03-01'::date, '2026-05-01', '1 day') d`)
	for number := range histories() {
		t.Run(strconv.FormatUint(number, 10), func(t *testing.T) {
			shared := *database
			shared.TB = t
			h := newHistory(number)
			want := newPlayer(&shared, clock, h, number).play(deliveries[0])
			others := deliveries[1:]
			if histories() < 200 {
				others = others[number%2:][:1] // two deliveries take too long
			}
			for _, d := range others {
				if got := newPlayer(&shared, clock, h, number).play(d); !slices.Equal(got, want) {
					t.Errorf("history %d\n%s\ndelivered %s:\n%s\nin order:\n%s", number, h, d.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
	f := &fixture{Shop: &pgtest.Shop{Fixture: database}, clock: pgtest.NewRunningClock()}
	f.wantNoViolations()
}

// String describes the history for the message of a failure.
func (h history) String() string {
	lines := []string{fmt.Sprintf("%s, auto approval %t", h.model, h.autoApproval)}
	for i, step := range h.steps {
		lines = append(lines, fmt.Sprintf("step %d after %s: %v", i, step.at, step.events))
		for _, o := range step.objects {
			line := []string{fmt.Sprintf("    %v", o["id"])}
			for _, field := range []string{
				"status", "amount", "amount_total", "amount_paid", "currency", "customer", "payment_status", "billing_reason", "invoice",
				"client_reference_id", "metadata", "discounts", "charge",
			} {
				if value := o[field]; value != nil {
					line = append(line, fmt.Sprintf("%s=%v", field, value))
				}
			}
			lines = append(lines, strings.Join(line, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// player plays a history in a new workspace with its own stand-in for Stripe.
type player struct {
	*fixture

	history history
	random  *rand.Rand
	texts   *strings.Replacer // replaces the names of clicks by their ids
}

func newPlayer(database *pgtest.Fixture, clock *pgtest.Clock, h history, seed uint64) *player {
	database.Helper()
	clock.Set(historyStart)
	shop := database.NewShop(affiliate.ModeTest, pgtest.Row{"currency": "USD", "attribution_model": h.model}, pgtest.Rules(func(r *program.Rules) {
		r.LaterRateBps, r.Recurring.MaxPayments = new(int64(1000)), new(4)
		r.HoldDays, r.AutoApproval = 0, h.autoApproval
	}))
	p := &player{fixture: &fixture{Shop: shop, clock: clock}, history: h, random: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // a test must be repeatable
	server, err := stripeserver.New()
	if err != nil {
		database.Fatal(err)
	}
	p.stripe = server
	listener := httptest.NewServer(server)
	database.Cleanup(listener.Close)
	p.service = p.newService(listener.URL)
	p.connect()
	ada, ben := shop.Join("Ada"), shop.Join("Ben")
	shop.NewPromoCode(ben, "ben")
	received := func(age time.Duration) func(*click.Click) {
		return func(c *click.Click) {
			c.ReceivedAt, c.ExpiresAt = c.ReceivedAt.Add(-age), click.WindowEnd(c.ReceivedAt.Add(-age), 30)
		}
	}
	p.texts = strings.NewReplacer(
		historyClicks[0], shop.NewClick(ada, received(2*time.Hour)).ID.String(), historyClicks[2], shop.NewClick(ben, received(40*24*time.Hour)).ID.String(),
		historyClicks[1], shop.NewClick(ben, received(time.Hour)).ID.String(), historyClicks[3], "c0ffee00-0000-4000-8000-000000000000",
	)
	p.put(stripeserver.NewPromotionCode("promo_ben", object{"code": "BEN"}))
	return p
}

// play plays the history and returns the resulting state as lines of text.
func (p *player) play(d delivery) []string {
	p.Helper()
	last := len(p.history.steps) - 1
	due := make([][][]byte, last+1)
	for i, step := range p.history.steps {
		p.clock.Set(historyStart.Add(step.at))
		for _, o := range step.objects {
			p.put(p.named(o))
		}
		for _, e := range step.events {
			body := p.stripe.Event(e.kind, e.object, stripeserver.EventCreated(p.clock.Now()))
			if d.lost && p.random.IntN(4) == 0 {
				continue
			}
			at := d.at(p.random, i, last)
			due[at] = append(due[at], body)
			if p.random.IntN(4) == 0 {
				again := d.at(p.random, i, last)
				due[again] = append(due[again], body)
			}
		}
		if d.lost {
			p.random.Shuffle(len(due[i]), func(a, b int) { due[i][a], due[i][b] = due[i][b], due[i][a] })
		}
		for _, body := range due[i] {
			if _, err := p.deliver(body); err != nil {
				p.Fatal(err)
			}
			p.applyOne(idOf(body))
		}
		p.applyWaiting()
	}
	p.settle(d)
	p.approve()
	return p.state()
}

// named returns an object with the ids of the clicks.
func (p *player) named(o object) (named object) {
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal([]byte(p.texts.Replace(string(text))), &named)
	}
	if err != nil {
		p.Fatal(err)
	}
	return named
}

func (p *player) applyOne(event string) {
	p.Helper()
	key := processor.EventKey{Workspace: p.Scope.Workspace, Mode: p.Scope.Mode, Connection: p.connection, Event: event}
	if _, err := p.service.Apply(p.Context(), key, false); err != nil {
		p.Fatalf("apply event %s: %v", event, err)
	}
}

// waiting returns the ids of the events that are neither applied nor ignored, with their
// outcomes.
func (p *player) waiting() (ids, outcomes []string) {
	p.Helper()
	const where = ` from processor_events where workspace_id = $1 and status not in ('applied', 'ignored') order by id`
	return p.Texts(`select id`+where, p.Scope.Workspace), p.Texts(`select format('%s %s %s', type, status, reason)`+where, p.Scope.Workspace)
}

// applyWaiting runs the jobs of the waiting events until nothing changes.
func (p *player) applyWaiting() {
	p.Helper()
	ids, outcomes := p.waiting()
	for changed := true; changed && len(ids) > 0; {
		p.random.Shuffle(len(ids), func(a, b int) { ids[a], ids[b] = ids[b], ids[a] })
		for _, id := range ids {
			p.applyOne(id)
		}
		before := outcomes
		ids, outcomes = p.waiting()
		changed = !slices.Equal(outcomes, before)
	}
}

// settle finds the lost events and runs the jobs of all events. Only a subscription without
// a checkout needs time.
func (p *player) settle(d delivery) {
	p.Helper()
	if d.lost {
		p.resyncSince(historyStart)
		p.runResync()
	}
	p.applyWaiting()
	if _, waiting := p.waiting(); len(waiting) > 0 && !p.history.waits {
		p.Errorf("%s: events wait although nothing is missing: %q\n%s", d.name, waiting, p.history)
	}
	p.clock.Advance(processor.CheckoutWait)
	p.applyWaiting()
	if _, waiting := p.waiting(); len(waiting) > 0 {
		p.Errorf("%s: events wait without end: %q\n%s", d.name, waiting, p.history)
	}
	all := 0
	for _, step := range p.history.steps {
		all += len(step.events)
	}
	p.WantCount(all, "stored events", `select count(*) from processor_events where workspace_id = $1`, p.Scope.Workspace)
}

// approve approves the commissions that need no review.
func (p *player) approve() {
	p.Helper()
	ids := p.Texts(`select id::text from commissions where workspace_id = $1 and status = 'pending' and not needs_review`, p.Scope.Workspace)
	for _, text := range ids {
		id, _ := affiliate.ParseID[affiliate.CommissionID](text)
		p.MoveCommission(commission.Commission{Scope: p.Scope, Program: p.Program, ID: id}, commission.Transition{Move: commission.MoveApprove})
	}
}

// state returns what was recorded. It contains no ids that differ between workspaces.
func (p *player) state() []string {
	p.Helper()
	return p.Texts(`
		select concat_ws(' ', 'sale', external_transaction_id, event_type, amount_cents, currency, status, 'refunded', refunded_amount_cents,
			reason_code, 'payment', recurring_index, processor)
		from conversions where workspace_id = $1
		union all
		select concat_ws(' ', 'commission', c.external_transaction_id, p.partner_name, c.status, c.amount_cents, 'of', c.original_amount_cents, c.currency,
			'dispute', c.dispute_status, 'review', c.needs_review, (select array_agg(reason order by reason) from unnest(c.review_reasons) reason))
		from commissions c join participants p on p.workspace_id = c.workspace_id and p.id = c.participant_id
		where c.workspace_id = $1
		union all
		select concat_ws(' ', 'ledger', p.partner_name, e.currency, sum(e.amount_cents))
		from ledger_entries e join participants p on p.workspace_id = e.workspace_id and p.id = e.participant_id
		where e.workspace_id = $1
		group by p.partner_name, e.currency having sum(e.amount_cents) <> 0
		union all
		select concat_ws(' ', 'customer of', p.partner_name, c.bound_at, c.signal_at, c.window_ends_at)
		from customers c join participants p on p.workspace_id = c.workspace_id and p.id = c.participant_id
		where c.workspace_id = $1
		union all
		select concat_ws(' ', 'payments of a customer', payments, first_at) from customer_payments where workspace_id = $1
		union all
		select concat_ws(' ', 'code', code, redemptions) from promo_codes where workspace_id = $1
		order by 1`, p.Scope.Workspace)
}
