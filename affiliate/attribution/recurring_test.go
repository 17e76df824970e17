package attribution

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

func TestAddMonths(t *testing.T) {
	for _, tc := range []struct {
		from   string
		months int
		want   string
	}{
		{"2026-01-15T10:30:00.123Z", 1, "2026-02-15T10:30:00.123Z"},
		{"2026-01-31T23:59:59.999Z", 1, "2026-02-28T23:59:59.999Z"},
		{"2028-01-31T00:00:00.000Z", 1, "2028-02-29T00:00:00.000Z"},
		{"2028-02-29T00:00:00.000Z", 12, "2029-02-28T00:00:00.000Z"},
		{"2026-03-31T08:00:00.000Z", 1, "2026-04-30T08:00:00.000Z"},
		{"2026-08-31T08:00:00.000Z", 6, "2027-02-28T08:00:00.000Z"},
		{"2026-12-31T08:00:00.000Z", 120, "2036-12-31T08:00:00.000Z"},
	} {
		from, err := time.Parse(time.RFC3339, tc.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := affiliate.FormatTime(addMonths(from, tc.months)); got != tc.want {
			t.Errorf("%s plus %d months is %s, want %s", tc.from, tc.months, got, tc.want)
		}
	}
}

func TestAddMonths_StaysInTheMonth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := clickedAt.Add(time.Duration(rapid.Int64Range(0, 5*365*24).Draw(t, "hours")) * time.Hour)
		months := rapid.IntRange(1, 120).Draw(t, "months")
		got := addMonths(from, months)
		passed := (got.Year()-from.Year())*12 + int(got.Month()-from.Month())
		if passed != months || got.Day() > from.Day() || got.Hour() != from.Hour() {
			t.Fatalf("%s plus %d months is %s, want the same or an earlier day of the right month", from, months, got)
		}
		if got.Day() < from.Day() && got.AddDate(0, 0, 1).Day() != 1 {
			t.Fatalf("%s plus %d months is %s, which is not the month's last day", from, months, got)
		}
	})
}

func TestAttribute_RecurringLimits(t *testing.T) {
	first := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	monthEnd := time.Date(2026, 2, 28, 9, 0, 0, 0, time.UTC)
	firstOnly, three, month := program.Recurring{FirstPaymentOnly: true}, program.Recurring{MaxPayments: new(3)}, program.Recurring{MaxMonths: new(1)}
	for name, tc := range map[string]struct {
		limits    program.Recurring
		paid      *int // earlier payments; nil if the report names no customer
		event     affiliate.EventType
		recurring bool
		at        time.Time
		failed    string // check that fails; empty if the conversion earns a commission
		text      string // part of the explanation
	}{
		"no limit, payment 100":                                    {program.Recurring{}, new(99), affiliate.Renewal, true, monthEnd, "", ""},
		"first payment only, first payment":                        {firstOnly, new(0), affiliate.Purchase, false, monthEnd, "", ""},
		"first payment only, the first known payment is a renewal": {firstOnly, new(0), affiliate.Renewal, true, monthEnd, "", ""},
		"first payment only, second payment":                       {firstOnly, new(1), affiliate.Purchase, false, monthEnd, "rules.first_payment", "pays for a customer's first payment only"},
		"first payment only, not a payment":                        {firstOnly, new(1), affiliate.Signup, false, monthEnd, "", ""},
		"first payment only, a purchase without a customer":        {firstOnly, nil, affiliate.Purchase, false, monthEnd, "", ""},
		"first payment only, a renewal without a customer":         {firstOnly, nil, affiliate.Renewal, false, monthEnd, "rules.first_payment", "pays for a customer's first payment only"},
		"first payment only, recurring, without a customer":        {firstOnly, nil, affiliate.Purchase, true, monthEnd, "rules.first_payment", "pays for a customer's first payment only"},
		"three payments, the third":                                {three, new(2), affiliate.Renewal, true, monthEnd, "", ""},
		"three payments, the fourth":                               {three, new(3), affiliate.Renewal, true, monthEnd, "rules.max_payments", "pays for a customer's first 3 payments only, and this was number 4"},
		"three payments, without a customer":                       {three, nil, affiliate.Renewal, true, monthEnd, "", ""},
		"three payments, not a payment":                            {three, new(9), affiliate.Signup, true, monthEnd, "", ""},
		"one payment, the second":                                  {program.Recurring{MaxPayments: new(1)}, new(1), affiliate.Renewal, true, monthEnd, "rules.max_payments", "first payment only, and this was number 2"},
		"one month, first payment":                                 {month, new(0), affiliate.Purchase, false, monthEnd.AddDate(1, 0, 0), "", ""},
		"one month, 1 ms before the month ends":                    {month, new(1), affiliate.Renewal, true, monthEnd.Add(-time.Millisecond), "", ""},
		"one month, when the month ends":                           {month, new(1), affiliate.Renewal, true, monthEnd, "", ""},
		"one month, 1 ms after the month ended":                    {month, new(1), affiliate.Renewal, true, monthEnd.Add(time.Millisecond), "rules.max_months", "first month only, which ended on 28 February 2026 at 09:00:00.000 UTC"},
		"two months, after one":                                    {program.Recurring{MaxMonths: new(2)}, new(1), affiliate.Renewal, true, monthEnd.Add(time.Hour), "", ""},
		"two months, after both":                                   {program.Recurring{MaxMonths: new(2)}, new(1), affiliate.Renewal, true, first.AddDate(0, 3, 0), "rules.max_months", "first 2 months only, which ended on 31 March 2026"},
		"one month, without a customer":                            {month, nil, affiliate.Renewal, true, monthEnd.AddDate(1, 0, 0), "", ""},
		"one month, not a payment":                                 {month, new(1), affiliate.Signup, false, monthEnd.AddDate(1, 0, 0), "", ""},
		"both limits exceeded":                                     {program.Recurring{MaxPayments: new(1), MaxMonths: new(1)}, new(1), affiliate.Renewal, true, monthEnd.AddDate(1, 0, 0), "rules.max_payments", "number 2"},
		"both limits, only months exceeded":                        {program.Recurring{MaxPayments: new(2), MaxMonths: new(1)}, new(1), affiliate.Renewal, true, monthEnd.AddDate(1, 0, 0), "rules.max_months", "first month only"},
	} {
		t.Run(name, func(t *testing.T) {
			in := matchingInputs()
			in.EventType, in.IsRecurring, in.OccurredAt = tc.event, tc.recurring, tc.at
			in.FoundClick.ReceivedAt, in.FoundClick.ExpiresAt = tc.at, tc.at
			earner := &in.FoundClick.Earner
			earner.Rule.Rules.Recurring = tc.limits
			earner.Rule.Rules.Events = []program.EventRate{{EventType: affiliate.Purchase}, {EventType: affiliate.Renewal}, {EventType: affiliate.Signup}}
			if tc.paid != nil {
				in.Customer = &FoundCustomer{Payments: map[affiliate.ProgramID]CustomerPayments{affiliate.NewID[affiliate.ProgramID](clickedAt): {50, first}}}
				if *tc.paid > 0 {
					in.Customer.Payments[earner.Program] = CustomerPayments{*tc.paid, first}
				}
			}
			d := Attribute(in)
			want := WhyClickMatched
			if tc.failed != "" {
				want = WhyRecurringLimitReached
			}
			if d.Reason != want || !d.Attributed || (d.Earning != nil) != (tc.failed == "") || firstFailure(d.Trace.Steps) != tc.failed {
				t.Fatalf("reason %s, failed check %q; want %s, %q", d.Reason, firstFailure(d.Trace.Steps), want, tc.failed)
			}
			if !strings.Contains(d.Explanation, tc.text) {
				t.Errorf("the explanation %q does not contain %q", d.Explanation, tc.text)
			}
			index := d.RecurringIndex
			switch isCounted := tc.paid != nil && tc.event.Priced(); {
			case isCounted != (index != nil):
				t.Errorf("RecurringIndex is %v, want a number: %v", index, isCounted)
			case isCounted && *index != *tc.paid+1:
				t.Errorf("RecurringIndex is %d, want %d", *index, *tc.paid+1)
			}
		})
	}
}

func TestAttribute_MinimumOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		sale  Sale
		event affiliate.EventType
		earns bool
	}{
		"below":                              {Sale{Money: affiliate.Money{Cents: 4_999, Currency: "EUR"}}, affiliate.Purchase, false},
		"at the minimum":                     {Sale{Money: affiliate.Money{Cents: 5_000, Currency: "EUR"}}, affiliate.Purchase, true},
		"above":                              {Sale{Money: affiliate.Money{Cents: 5_001, Currency: "EUR"}}, affiliate.Purchase, true},
		"below the minimum only without tax": {Sale{Money: affiliate.Money{Cents: 5_000, Currency: "EUR"}, TaxCents: 900}, affiliate.Purchase, true},
		"another currency":                   {Sale{Money: affiliate.Money{Cents: 1, Currency: "USD"}}, affiliate.Purchase, true},
		"event without an order":             {Sale{}, affiliate.Signup, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := matchingInputs()
			in.Sale, in.EventType = tc.sale, tc.event
			rules := &in.FoundClick.Rule.Rules
			rules.MinOrderCents, rules.NetBasis = new(int64(5_000)), program.NetOfTax
			rules.Events = []program.EventRate{{EventType: affiliate.Purchase}, {EventType: affiliate.Signup, Rate: flat(300)}}
			d := Attribute(in)
			if !d.Attributed || (d.Earning != nil) != tc.earns {
				t.Fatalf("reason %s, earns %+v; want a commission: %v", d.Reason, d.Earning, tc.earns)
			}
			if !tc.earns && (d.Reason != WhyRuleNotApplicable || firstFailure(d.Trace.Steps) != "rules.order_large_enough" ||
				!strings.Contains(d.Explanation, "orders of at least 50.00 EUR only, and this one was 49.99 EUR")) {
				t.Errorf("reason %s, failed check %q, explanation %q; want %s, the check of the order size, and both amounts",
					d.Reason, firstFailure(d.Trace.Steps), d.Explanation, WhyRuleNotApplicable)
			}
		})
	}
}

func TestAttribute_EventTypesThatEarn(t *testing.T) {
	for name, tc := range map[string]struct {
		events []program.EventRate
		pays   []affiliate.EventType
		text   string // part of the explanation for other event types
	}{
		"no list":     {nil, []affiliate.EventType{affiliate.Purchase, affiliate.Renewal}, "pays for purchases and renewals only"},
		"one event":   {[]program.EventRate{{EventType: affiliate.Trial}}, []affiliate.EventType{affiliate.Trial}, "pays for trials only"},
		"some events": {[]program.EventRate{{EventType: affiliate.Purchase}, {EventType: affiliate.Lead, Rate: flat(1)}, {EventType: affiliate.Custom, Rate: flat(1)}}, []affiliate.EventType{affiliate.Purchase, affiliate.Lead, affiliate.Custom}, "pays for purchases, leads and custom events only"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, event := range allEvents {
				in := matchingInputs()
				in.EventType = event
				in.FoundClick.Rule.Rules.Events = tc.events
				d := Attribute(in)
				pays := false
				for _, e := range tc.pays {
					pays = pays || e == event
				}
				if (d.Earning != nil) != pays || (d.Reason == WhyRuleNotApplicable) == pays {
					t.Errorf("%s: reason %s, earns %+v; want a commission: %v", event, d.Reason, d.Earning, pays)
				}
				if !pays && !strings.Contains(d.Explanation, tc.text) {
					t.Errorf("%s: the explanation %q does not contain %q", event, d.Explanation, tc.text)
				}
			}
		})
	}
}
