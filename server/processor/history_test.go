package processor_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

// historyStart is the time at which the account is connected. The sales happen after it.
var historyStart = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// history is a random history of a shop at Stripe. All numbers in it come from its seed.
//
// Sales of one customer have distinct times, and each of them is paid before the next one
// begins. Otherwise the number of a payment would depend on when its event is applied:
// Stripe does not say when a checkout was completed, so a checkout counts from its creation.
type history struct {
	model program.AttributionModel
	// autoApproval means that commissions are approved at once. Refunds and disputes then
	// reach the ledger.
	autoApproval bool
	steps        []historyStep
	// waits means that a subscription has no checkout, so its first invoice waits for one.
	waits bool
}

// historyStep is a change at Stripe. Texts of the objects may contain the names of clicks
// from historyClicks.
type historyStep struct {
	at      time.Duration // since historyStart
	objects []object
	events  []stripeEvent
}

type stripeEvent struct{ kind, object string }

// historyClicks are the names of the clicks that the sales of a history may refer to. The
// click of-noone does not exist.
var historyClicks = []string{"click-of-ada", "click-of-ben", "expired-click-of-ben", "click-of-noone"}

// historian generates a history.
type historian struct {
	*rand.Rand
	history

	now           time.Duration
	ids           int
	next          func() // the action that must follow; nil for any
	charges       []*historyCharge
	subscriptions []*historySubscription
}

// historyCharge is a charge that can be refunded and disputed.
type historyCharge struct {
	id       string
	created  int64
	amount   int
	currency string
	refunds  []*historyRefund
	disputed bool
	dispute  func(status string) object // nil if no dispute is open
}

type historyRefund struct {
	id     string
	amount int
	failed bool
}

type historySubscription struct {
	id, customer, currency string
	renewals               int // that will follow
}

// newHistory returns the history with a number.
func newHistory(number uint64) history {
	g := &historian{Rand: rand.New(rand.NewPCG(number, 0))} //nolint:gosec // a test must be repeatable
	g.model = pick(g.Rand, program.LastClick, program.FirstClick)
	g.autoApproval = g.IntN(2) == 0
	for range 5 + g.IntN(8) {
		g.act()
	}
	for g.next != nil {
		g.act()
	}
	return g.history
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// act adds one action to the history. Actions that are not possible yet are replaced by a
// checkout.
func (g *historian) act() {
	g.now += pick(g.Rand, time.Second, 10*time.Second, 10*time.Minute, 20*time.Hour) + time.Duration(g.IntN(60))*time.Second
	action := g.checkout
	switch r := g.IntN(10); {
	case g.next != nil:
		action, g.next = g.next, nil
	case r < 2:
		action = g.subscribe
	case r < 4 && g.renewable() != nil:
		action = g.renew
	case r < 8 && len(g.charges) > 0:
		action = pick(g.Rand, g.refund, g.refund, g.failRefund, g.dispute, g.dispute)
	}
	action()
}

func (g *historian) step(objects []object, events ...stripeEvent) {
	g.steps = append(g.steps, historyStep{g.now, objects, events})
}

func (g *historian) unix() int64 { return historyStart.Add(g.now).Unix() }

func (g *historian) id() int {
	g.ids++
	return g.ids
}

// amount returns an amount that Stripe accepts in every currency.
func (g *historian) amount() int { return 10 * (1 + g.IntN(2_000)) }

// signal returns the fields of a session that say who brought the customer.
func (g *historian) signal() object {
	click := pick(g.Rand, historyClicks...)
	return pick(g.Rand,
		object{}, object{}, object{"client_reference_id": "user-17"},
		object{"metadata": object{"aff_click_id": click}}, object{"client_reference_id": click},
		object{"discounts": []any{object{"promotion_code": "promo_ben"}}},
		object{"client_reference_id": "click-of-ada", "discounts": []any{object{"promotion_code": "promo_ben"}}},
	)
}

func with(overrides ...object) object {
	all := object{}
	for _, o := range overrides {
		maps.Copy(all, o)
	}
	return all
}

// charge adds a charge for the payment intent with the same number.
func (g *historian) charge(n, amount int, currency string) object {
	c := &historyCharge{id: fmt.Sprintf("ch_%d", n), created: g.unix(), amount: amount, currency: currency}
	g.charges = append(g.charges, c)
	return c.object()
}

func (c *historyCharge) refunded() (total int) {
	for _, r := range c.refunds {
		if !r.failed {
			total += r.amount
		}
	}
	return total
}

func (c *historyCharge) object() object {
	return stripeserver.NewCharge(c.id, object{
		"amount": c.amount, "amount_refunded": c.refunded(), "currency": c.currency, "created": c.created, "refunded": c.refunded() == c.amount,
	})
}

// checkout is a checkout of one payment. It may be paid later, fail, cost nothing or have
// an invoice.
func (g *historian) checkout() {
	n, amount, currency := g.id(), g.amount(), pick(g.Rand, "usd", "usd", "jpy", "kwd")
	id, intent := fmt.Sprintf("cs_%d", n), fmt.Sprintf("pi_%d", n)
	fields := with(g.signal(), object{
		"created": g.unix(), "amount_total": amount, "currency": currency, "payment_intent": intent, "customer": pick[any](g.Rand, nil, "cus_1", "cus_1", "cus_2"),
	})
	session := func(overrides object) object { return stripeserver.NewSession(id, with(fields, overrides)) }
	switch r := g.IntN(10); {
	case r == 0:
		g.step([]object{session(object{"payment_status": "no_payment_required", "amount_total": 0, "payment_intent": nil})}, completed(id))
	case r < 4:
		g.step([]object{session(object{"payment_status": "unpaid"})}, completed(id))
		g.next = func() {
			if r == 1 {
				g.step([]object{session(object{"payment_status": "unpaid"})}, stripeEvent{"checkout.session.async_payment_failed", id})
				return
			}
			g.step([]object{session(nil), g.charge(n, amount, currency)}, stripeEvent{"checkout.session.async_payment_succeeded", id})
		}
	case r == 4 && fields["customer"] != nil:
		invoice := g.invoice(n, amount, object{"customer": fields["customer"], "currency": currency, "billing_reason": "manual"})
		invoiced := session(object{"invoice": fmt.Sprintf("in_%d", n)})
		g.step(append(invoice, invoiced), g.inAnyOrder(completed(id), paid(n))...)
	default:
		g.step([]object{session(nil), g.charge(n, amount, currency)}, completed(id))
	}
}

func completed(session string) stripeEvent { return stripeEvent{"checkout.session.completed", session} }

func paid(invoice int) stripeEvent { return stripeEvent{"invoice.paid", fmt.Sprintf("in_%d", invoice)} }

func (g *historian) inAnyOrder(events ...stripeEvent) []stripeEvent {
	g.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	return events
}

// invoice returns an invoice that is paid now, with one or two payments.
func (g *historian) invoice(n, amount int, fields object) []object {
	currency, _ := fields["currency"].(string)
	objects := []object{stripeserver.NewInvoice(fmt.Sprintf("in_%d", n), with(object{
		"amount_paid": amount, "created": g.unix(), "status_transitions": object{"paid_at": g.unix()},
	}, fields))}
	parts := []int{amount}
	switch {
	case amount == 0:
		return objects
	case amount > 10 && g.IntN(5) == 0:
		parts = []int{10, amount - 10}
	}
	for i, part := range parts {
		payment := n
		if i > 0 {
			payment = g.id()
		}
		objects = append(objects, g.charge(payment, part, currency), stripeserver.NewInvoicePayment(fmt.Sprintf("inpay_%d", payment), object{
			"invoice": fmt.Sprintf("in_%d", n), "amount_paid": part, "currency": currency, "created": g.unix(),
			"payment": object{"type": "payment_intent", "payment_intent": fmt.Sprintf("pi_%d", payment)},
		}))
	}
	return objects
}

func (s *historySubscription) parent(metadata object) object {
	return object{"type": "subscription_details", "subscription_details": object{"subscription": s.id, "metadata": metadata}}
}

// subscribe begins a subscription. The session and the first invoice become visible in any
// order. Some subscriptions begin with a trial, and some have no checkout.
func (g *historian) subscribe() {
	n, amount, signal, metadata := g.id(), g.amount(), g.signal(), object{}
	sub := &historySubscription{
		id: fmt.Sprintf("sub_%d", n), customer: pick(g.Rand, "cus_1", "cus_1", "cus_2"), currency: pick(g.Rand, "usd", "jpy", "kwd"), renewals: g.IntN(4),
	}
	g.subscriptions = append(g.subscriptions, sub)
	status := "paid"
	if g.IntN(4) == 0 {
		signal, metadata = object{}, object{"aff_click_id": "click-of-ada"}
	}
	if g.IntN(3) == 0 {
		amount, status = 0, "no_payment_required"
	}
	id := fmt.Sprintf("cs_%d", n)
	session := stripeserver.NewSession(id, with(signal, object{
		"mode": "subscription", "customer": sub.customer, "subscription": sub.id, "invoice": fmt.Sprintf("in_%d", n), "payment_intent": nil,
		"created": g.unix(), "amount_total": amount, "currency": sub.currency, "payment_status": status,
	}))
	if g.IntN(3) == 0 {
		g.now += time.Second // the invoice is paid after the creation of the session
	}
	invoice := g.invoice(n, amount, object{
		"customer": sub.customer, "currency": sub.currency, "billing_reason": "subscription_create", "parent": sub.parent(metadata),
	})
	switch g.IntN(6) {
	case 0:
		g.step([]object{session}, completed(id))
		g.next = func() { g.step(invoice, paid(n)) }
	case 1:
		g.step(invoice, paid(n))
		g.now += time.Second
		g.step([]object{session}, completed(id))
	case 2:
		g.step(invoice, paid(n))
		g.waits = true
	default:
		g.step(append(invoice, session), g.inAnyOrder(completed(id), paid(n))...)
	}
}

func (g *historian) renewable() *historySubscription {
	for _, sub := range g.subscriptions {
		if sub.renewals > 0 {
			return sub
		}
	}
	return nil
}

// renew renews a subscription or changes its plan.
func (g *historian) renew() {
	n, amount, sub := g.id(), g.amount(), g.renewable()
	reason := pick(g.Rand, "subscription_cycle", "subscription_cycle", "subscription_update")
	if reason == "subscription_update" && g.IntN(3) == 0 {
		amount = 0 // the new plan costs nothing now
	}
	sub.renewals--
	g.step(g.invoice(n, amount, object{
		"customer": sub.customer, "currency": sub.currency, "billing_reason": reason, "parent": sub.parent(object{}),
	}), paid(n))
}

// refund refunds a part or the rest of a charge.
func (g *historian) refund() {
	c := pick(g.Rand, g.charges...)
	rest := c.amount - c.refunded()
	if rest == 0 {
		g.checkout()
		return
	}
	r := &historyRefund{id: fmt.Sprintf("re_%d", g.id()), amount: rest}
	if rest > 10 && g.IntN(3) > 0 {
		r.amount = 10 * (1 + g.IntN(rest/10-1))
	}
	c.refunds = append(c.refunds, r)
	g.step([]object{c.object(), g.refundObject(c, r, pick(g.Rand, "succeeded", "pending"))},
		g.inAnyOrder(stripeEvent{"charge.refunded", c.id}, stripeEvent{"refund.created", r.id})...)
}

func (g *historian) refundObject(c *historyCharge, r *historyRefund, status string) object {
	return stripeserver.NewRefund(r.id, object{
		"charge": c.id, "payment_intent": "pi_" + c.id[len("ch_"):], "amount": r.amount, "currency": c.currency, "created": g.unix(), "status": status,
	})
}

// failRefund makes a refund fail.
func (g *historian) failRefund() {
	for _, c := range g.charges {
		for _, r := range c.refunds {
			if !r.failed {
				r.failed = true
				g.step([]object{c.object(), g.refundObject(c, r, pick(g.Rand, "failed", "canceled"))}, stripeEvent{"refund.failed", r.id})
				return
			}
		}
	}
	g.refund()
}

// dispute opens a dispute about a charge, or closes it.
func (g *historian) dispute() {
	c := pick(g.Rand, g.charges...)
	switch {
	case c.dispute != nil:
		closed := c.dispute(pick(g.Rand, "won", "lost", "lost", "warning_closed"))
		c.dispute = nil
		id, _ := closed["id"].(string)
		g.step([]object{closed}, stripeEvent{"charge.dispute.closed", id})
	case c.disputed:
		g.refund()
	default:
		id, amount, created := fmt.Sprintf("dp_%d", g.id()), pick(g.Rand, c.amount, 10), g.unix()
		c.disputed = true
		c.dispute = func(status string) object {
			return stripeserver.NewDispute(id, object{
				"charge": c.id, "payment_intent": "pi_" + c.id[len("ch_"):], "amount": amount, "currency": c.currency, "created": created, "status": status,
			})
		}
		g.step([]object{c.dispute(pick(g.Rand, "needs_response", "warning_needs_response", "under_review"))}, stripeEvent{"charge.dispute.created", id})
	}
}
