package conversion

import (
	"reflect"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

func TestNewCommission_StatusAndDueDates(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		holdDays int
		auto     bool
		flagged  bool
		status   commission.Status
		hold     *time.Time
		approve  *time.Time
	}{
		"hold, automatic":             {30, true, false, commission.Pending, daysAfter(at, 30), daysAfter(at, 30)},
		"hold, manual approval":       {30, false, false, commission.Pending, daysAfter(at, 30), nil},
		"hold, flagged":               {30, true, true, commission.Pending, daysAfter(at, 30), daysAfter(at, 30)},
		"no hold, automatic":          {0, true, false, commission.Approved, nil, daysAfter(at, 0)},
		"no hold, manual approval":    {0, false, false, commission.Pending, nil, nil},
		"no hold, automatic, flagged": {0, true, true, commission.Pending, nil, daysAfter(at, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			calc := attribution.Calculation{AmountCents: 5, FlatCents: new(int64(5)), ReviewReasons: []string{}}
			if tc.flagged {
				calc.ReviewReasons = []string{attribution.ReviewFXRateMissing}
			}
			rules := program.Rules{HoldDays: tc.holdDays, AutoApproval: tc.auto}
			code, index := "spring10", 2
			d := attribution.Decision{PromoCode: &code, RecurringIndex: &index, Earning: &attribution.Earning{Earner: attribution.Earner{Rule: attribution.RuleSnapshot{Version: 3, Rules: rules, Source: attribution.FromParticipant, Override: &program.Rate{FlatCents: new(int64(5))}}}, Calculation: calc}}
			c := NewCommission(affiliate.NewID[affiliate.CommissionID](at), Conversion{}, d, at)
			if c.Status != tc.status || !equalTimes(c.HoldUntil, tc.hold) || !equalTimes(c.AutoApproveAt, tc.approve) {
				t.Errorf("status %s, hold until %v, approve at %v; want %s, %v, %v", c.Status, c.HoldUntil, c.AutoApproveAt, tc.status, tc.hold, tc.approve)
			}
			if approved := c.Status == commission.Approved; approved != (c.ApprovedAt != nil) || approved != (c.ApprovedBy != nil) {
				t.Errorf("status %s, but approved at %v by %v", c.Status, c.ApprovedAt, c.ApprovedBy)
			}
			if c.Version != 1 || c.OriginalAmountCents != 5 || !reflect.DeepEqual(c.Rule, d.Earning.Earner.Rule) ||
				*c.PromoCode != code || *c.RecurringIndex != index {
				t.Errorf("commission %+v\nwant version 1, original amount 5, and the rule, promo code and index of the decision", c)
			}
		})
	}
}

// The type of a commission depends on the applied rate, not on the type of the
// programme's rules.
func TestNewCommission_HasTypeOfAppliedRate(t *testing.T) {
	for name, tc := range map[string]struct {
		override program.Rate
		want     program.CommissionType
	}{
		"flat":       {program.Rate{FlatCents: new(int64(700))}, program.Flat},
		"percentage": {program.Rate{Bps: new(int64(0))}, program.Percentage},
	} {
		for _, rules := range []program.Rules{{Type: program.Percentage, RateBps: new(int64(3000))}, {Type: program.Flat, FlatCents: new(int64(100))}} {
			t.Run(name+" in "+string(rules.Type), func(t *testing.T) {
				in := creditedInputs()
				in.FoundClick.Rule = attribution.RuleSnapshot{Version: 1, Rules: rules, Override: &tc.override}
				c := NewCommission(affiliate.NewID[affiliate.CommissionID](reportedAt), Conversion{}, attribution.Attribute(in), reportedAt)
				if c.Type != tc.want || !reflect.DeepEqual(program.Rate{Bps: c.RateBps, FlatCents: c.FlatCents}, tc.override) || c.Rule.Source != attribution.FromParticipant {
					t.Errorf("type %s, rate %v, flat amount %v, source %s; want %s with %+v from %s",
						c.Type, c.RateBps, c.FlatCents, c.Rule.Source, tc.want, tc.override, attribution.FromParticipant)
				}
			})
		}
	}
}

func daysAfter(t time.Time, days int) *time.Time {
	t = t.Add(time.Duration(days) * 24 * time.Hour)
	return &t
}

func equalTimes(a, b *time.Time) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Equal(*b))
}

func TestNewCommission_HasExchangeRateOfCalculation(t *testing.T) {
	in := creditedInputs()
	in.FoundClick.Currency = "EUR"
	in.Sale.Money = affiliate.Money{Cents: 10_000, Currency: "USD"}
	in.Rates = map[string]attribution.FXRate{"EUR": {Base: "USD", Quote: "EUR", Date: time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC), Rate: "0.9259259259"}}
	in.FoundClick.Rule.Rules = program.Rules{Type: program.Percentage, RateBps: new(int64(3000)), NetBasis: program.Gross}
	d := attribution.Attribute(in)
	c := NewCommission(affiliate.NewID[affiliate.CommissionID](reportedAt), Conversion{Sale: in.Sale}, d, reportedAt)
	if c.AmountCents != 2_778 || c.Currency != "EUR" || c.SaleCurrency != "USD" || c.BaseAmountCents != 10_000 || c.NeedsReview ||
		c.FXRate == nil || *c.FXRate != "0.9259259259" || c.FXDate == nil || c.FXDate.Format(time.RFC3339) != "2026-03-09T00:00:00Z" {
		t.Errorf("commission %+v\nwant 2778 EUR for a base of 10000 in USD, with the rate 0.9259259259 of 2026-03-09, without review", c)
	}
	if calc := d.Trace.Calculation; *calc.FXRate != *c.FXRate || *calc.FXDate != "2026-03-09" {
		t.Errorf("the calculation has the rate %s of %s, want %s of 2026-03-09", *calc.FXRate, *calc.FXDate, *c.FXRate)
	}
	in.Rates = nil
	if c = NewCommission(affiliate.NewID[affiliate.CommissionID](reportedAt), Conversion{Sale: in.Sale}, attribution.Attribute(in), reportedAt); c.FXRate != nil || c.FXDate != nil || !c.NeedsReview {
		t.Errorf("without an exchange rate, the commission has the rate %v of %v, needs review %v; want no rate and a review", c.FXRate, c.FXDate, c.NeedsReview)
	}
}

var reportedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// creditedInputs returns a purchase of 100 EUR that is credited to its click, with a rate
// of 30 percent.
func creditedInputs() attribution.Inputs {
	return attribution.Inputs{
		Mode: affiliate.ModeTest, EventType: affiliate.Purchase, OccurredAt: reportedAt, Sale: attribution.Sale{Money: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
		Click: new(affiliate.NewID[affiliate.ClickID](reportedAt)),
		FoundClick: &attribution.FoundClick{
			Mode: affiliate.ModeTest, ReceivedAt: reportedAt, ExpiresAt: reportedAt.AddDate(0, 0, 30),
			Earner: attribution.Earner{
				Program: affiliate.NewID[affiliate.ProgramID](reportedAt), ProgramStatus: program.Active, Currency: "EUR",
				Rule:        attribution.RuleSnapshot{Rules: program.Rules{Type: program.Percentage, RateBps: new(int64(3000)), NetBasis: program.Gross}},
				Participant: affiliate.NewID[affiliate.ParticipantID](reportedAt), ParticipantStatus: participant.Approved,
			},
		},
	}
}
