package attribution

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// inputsWonBy returns inputs that attribute the conversion by the given method.
func inputsWonBy(method Method) Inputs {
	in := everySignal()
	switch method {
	case ByClick:
		in.PromoCode, in.FoundPromoCode, in.Customer.Binding = nil, nil, nil
	case ByPromoCode:
		in.Click, in.FoundClick, in.Customer.Binding = nil, nil, nil
	case ByCustomer:
		in.Click, in.FoundClick, in.PromoCode, in.FoundPromoCode = nil, nil, nil, nil
	case ByAssignment:
		in.Assigned = new(in.FoundClick.Earner)
	}
	in.Customer.Payments = map[affiliate.ProgramID]CustomerPayments{in.winner(method).Program: {1, clickedAt.AddDate(0, -2, 0)}}
	return in
}

// winner returns the participant to whom the signal of the method leads.
func (in Inputs) winner(method Method) *Earner {
	switch method {
	case ByPromoCode:
		return &in.FoundPromoCode.Earner
	case ByCustomer:
		return &in.Customer.Binding.Earner
	case ByAssignment:
		return in.Assigned
	default:
		return &in.FoundClick.Earner
	}
}

func TestExplain_CreditedConversions(t *testing.T) {
	const event = "The purchase on 1 March 2026 at 13:00:00.000 UTC"
	creditTexts := map[Method]string{
		ByClick:      event + " is credited to the partner whose link was clicked on 1 March 2026 at 12:00:00.000 UTC",
		ByPromoCode:  event + ` is credited to the partner whose promo code "spring10" was used`,
		ByCustomer:   event + " is credited to the partner who brought the customer on 28 February 2026 at 12:00:00.000 UTC",
		ByAssignment: event + ` has been assigned by hand to a partner of programme "Spring"`,
	}
	earningTexts := map[Method]string{
		ByClick:      `. The purchase happened within the attribution window of programme "Spring", which ends on 31 March 2026 at 12:00:00.000 UTC.`,
		ByPromoCode:  `. The promo code belongs to programme "Spring".`,
		ByCustomer:   `. In programme "Spring" a customer's later events are credited to the partner who brought the customer.`,
		ByAssignment: ".",
	}
	for name, tc := range map[string]struct {
		change           func(*Earner)
		noCommissionText string // empty if the conversion earns a commission
	}{
		"earns":                    {func(*Earner) {}, ""},
		"suspended":                {func(e *Earner) { e.ParticipantStatus = participant.Suspended }, `the partner's participation in programme "Spring" is suspended`},
		"event type earns nothing": {func(e *Earner) { e.Rule.Rules.Events = []program.EventRate{{EventType: affiliate.Lead}} }, `programme "Spring" pays for leads only`},
		"below the minimum":        {func(e *Earner) { e.Rule.Rules.MinOrderCents = new(int64(10_001)) }, `programme "Spring" pays for orders of at least 100.01 EUR only, and this one was 100.00 EUR`},
		"first payment only":       {func(e *Earner) { e.Rule.Rules.Recurring.FirstPaymentOnly = true }, `programme "Spring" pays for a customer's first payment only`},
		"payments used up":         {func(e *Earner) { e.Rule.Rules.Recurring.MaxPayments = new(1) }, `programme "Spring" pays for a customer's first payment only, and this was number 2`},
		"months used up":           {func(e *Earner) { e.Rule.Rules.Recurring.MaxMonths = new(1) }, `programme "Spring" pays for a customer's first month only, which ended on 1 February 2026 at 12:00:00.000 UTC`},
		"months left":              {func(e *Earner) { e.Rule.Rules.Recurring.MaxMonths = new(3) }, ""},
	} {
		for method, start := range creditTexts {
			t.Run(name+" by "+string(method), func(t *testing.T) {
				in := inputsWonBy(method)
				tc.change(in.winner(method))
				want := start + earningTexts[method]
				if tc.noCommissionText != "" {
					want = start + ", but earns no commission, because " + tc.noCommissionText + "."
				}
				if got := Attribute(in).Explanation; got != want {
					t.Errorf("explanation\n got %s\nwant %s", got, want)
				}
			})
		}
	}
}

func TestExplain_NotCreditedConversions(t *testing.T) {
	const start = "The purchase on 1 March 2026 at 13:00:00.000 UTC is not credited to a partner, because "
	for name, tc := range map[string]struct {
		method Method
		change func(*Inputs)
		want   string
	}{
		"click after the event": {
			ByClick, func(in *Inputs) { in.FoundClick.ReceivedAt = clickedAt.Add(2 * time.Hour) },
			"the click was later: on 1 March 2026 at 14:00:00.000 UTC.",
		},
		"click expired": {
			ByClick, func(in *Inputs) { in.FoundClick.ExpiresAt = clickedAt.Add(time.Minute) },
			`it happened after the end of the attribution window of programme "Spring": ` +
				`the click was on 1 March 2026 at 12:00:00.000 UTC, and the window ended on 1 March 2026 at 12:01:00.000 UTC.`,
		},
		"click unknown": {
			ByClick, func(in *Inputs) { in.FoundClick, in.Click = nil, &affiliate.ClickID{} },
			"no click with the id 00000000-0000-0000-0000-000000000000 has been recorded here.",
		},
		"promo code unknown": {
			ByPromoCode, func(in *Inputs) { in.FoundPromoCode = nil },
			`no programme has the promo code "spring10".`,
		},
		"promo code inactive": {
			ByPromoCode, func(in *Inputs) { in.FoundPromoCode.Active = false },
			`the promo code "spring10" is not active.`,
		},
		"promo code expired": {
			ByPromoCode, func(in *Inputs) { in.FoundPromoCode.ExpiresAt = &clickedAt },
			`the promo code "spring10" was only valid until 1 March 2026 at 12:00:00.000 UTC.`,
		},
		"promo code used up": {
			ByPromoCode, func(in *Inputs) { in.FoundPromoCode.MaxRedemptions = new(int64(0)) },
			`the promo code "spring10" has reached its limit of redemptions.`,
		},
		"programme paused, by promo code": {
			ByPromoCode, func(in *Inputs) { in.FoundPromoCode.ProgramStatus = program.Paused },
			`programme "Spring" is not active.`,
		},
		"programme paused, by customer": {
			ByCustomer, func(in *Inputs) { in.Customer.Binding.ProgramStatus = program.Paused },
			`programme "Spring" is not active.`,
		},
		"partner erased, by hand": {
			ByAssignment, func(in *Inputs) { in.Assigned.ParticipantErased = true },
			"the partner's data has been erased.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := inputsWonBy(tc.method)
			tc.change(&in)
			if got := Attribute(in).Explanation; got != start+tc.want {
				t.Errorf("explanation\n got %s\nwant %s", got, start+tc.want)
			}
		})
	}
}

// The explanation must not say which rules fired, because it may be sent to the
// partner.
func TestExplain_BlockedConversions(t *testing.T) {
	in := inputsWonBy(ByPromoCode)
	winner := &signal{Candidate: Candidate{Type: ByPromoCode, PromoCode: in.PromoCode}, earner: &in.FoundPromoCode.Earner}
	const start = `The purchase on 1 March 2026 at 13:00:00.000 UTC is credited to the partner whose promo code "spring10" was used, but earns no commission, because `
	for why, want := range map[Reason]string{
		WhySelfReferralBlocked: `it appears to come from the partner, and programme "Spring" does not pay partners for their own conversions.`,
		WhyFraudBlocked:        `it did not pass the checks of programme "Spring" against abuse.`,
	} {
		d := Decision{Attributed: true, Reason: why, Trace: Trace{Fraud: []fraud.Signal{{Rule: "self_referral_email", Score: 100, Evidence: "evidence"}}}}
		if got := explain(in, d, nil, winner, "evidence"); got != start+want {
			t.Errorf("%s:\n got %s\nwant %s", why, got, start+want)
		}
	}
}

func TestExplain_OtherSignals(t *testing.T) {
	const won = `The purchase on 1 March 2026 at 13:00:00.000 UTC is credited to the partner whose promo code "spring10" was used. ` +
		`The promo code belongs to programme "Spring".`
	for name, tc := range map[string]struct {
		change func(*Inputs)
		want   string
	}{
		"click outranked": {
			func(in *Inputs) { in.FoundClick.Precedence = program.PromoCodeFirst },
			won + " The reported click has a lower precedence. An earlier event of the customer has a lower precedence.",
		},
		"click unknown, customer's partner erased": {
			func(in *Inputs) { in.FoundClick, in.Customer.Binding.ParticipantErased = nil, true },
			won + " The reported click has not been recorded here. An earlier event of the customer could not be used.",
		},
		"click expired, no customer": {
			func(in *Inputs) { in.FoundClick.ExpiresAt, in.Customer = clickedAt, nil },
			won + " The attribution window of the reported click had ended.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := everySignal()
			tc.change(&in)
			if got := Attribute(in).Explanation; got != tc.want {
				t.Errorf("explanation\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestExplain_BoundCustomerAfterTheWindow(t *testing.T) {
	in := inputsWonBy(ByCustomer)
	in.Customer.Binding.WindowEndsAt = in.OccurredAt.Add(-time.Millisecond)
	const want = "The purchase on 1 March 2026 at 13:00:00.000 UTC is credited to the partner who brought the customer on 28 February 2026 at 12:00:00.000 UTC. " +
		`The attribution window ended on 1 March 2026 at 12:59:59.999 UTC, but in programme "Spring" a customer's later events are credited to the partner who brought the customer.`
	if got := Attribute(in).Explanation; got != want {
		t.Errorf("explanation\n got %s\nwant %s", got, want)
	}
}

func TestFormatMoney(t *testing.T) {
	for want, money := range map[string]affiliate.Money{
		"0.00 EUR": {Cents: 0, Currency: "EUR"}, "0.05 EUR": {Cents: 5, Currency: "EUR"}, "49.00 EUR": {Cents: 4_900, Currency: "EUR"}, "1234567.89 USD": {Cents: 123_456_789, Currency: "USD"},
		"4900 JPY": {Cents: 4_900, Currency: "JPY"}, "0 JPY": {Cents: 0, Currency: "JPY"}, "4.900 KWD": {Cents: 4_900, Currency: "KWD"}, "0.001 KWD": {Cents: 1, Currency: "KWD"},
	} {
		if got := affiliate.FormatMoney(money); got != want {
			t.Errorf("FormatMoney(%v) = %q, want %q", money, got, want)
		}
	}
}

// A sale of a payment processor can lack every signal.
func TestAttribute_WithoutSignals(t *testing.T) {
	in := everySignal()
	in.Click, in.FoundClick, in.PromoCode, in.FoundPromoCode, in.Customer.Binding = nil, nil, nil, nil, nil
	for name, customer := range map[string]*FoundCustomer{"customer that is not bound": in.Customer, "no customer": nil} {
		in.Customer = customer
		d := Attribute(in)
		const want = "The purchase on 1 March 2026 at 13:00:00.000 UTC is not credited to a partner, " +
			"because it names neither a click nor a promo code, and no partner has brought the customer."
		if d.Attributed || d.Reason != WhyNoSignal || !d.Reason.IsDecisionReason() || d.Explanation != want || d.Earning != nil || len(d.Trace.Candidates) != 0 {
			t.Errorf("%s: the decision is %+v", name, d)
		}
	}
}
