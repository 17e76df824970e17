package conversion

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

func TestReversals_TotalAndDispute(t *testing.T) {
	eur := affiliate.Money{Cents: 10_000, Currency: "EUR"}
	lost := func(cents int64) ProcessorDispute {
		return ProcessorDispute{ID: "d", Status: commission.DisputeLost, AmountCents: &cents}
	}
	for name, tc := range map[string]struct {
		reversals Reversals
		total     int64
		dispute   commission.DisputeStatus
	}{
		"nothing":                 {Reversals{}, 0, commission.DisputeNone},
		"refund by the API":       {Reversals{ReportedCents: 1_000}, 1_000, commission.DisputeNone},
		"refund at the processor": {Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, RefundedCents: 2_500}}}, 2_500, commission.DisputeNone},
		"both": {
			Reversals{ReportedCents: 1_000, Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, RefundedCents: 2_500}}}, 3_500, commission.DisputeNone,
		},
		"more than the sale": {
			Reversals{ReportedCents: 9_000, Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, RefundedCents: 2_500}}}, 10_000, commission.DisputeNone,
		},
		"open dispute": {
			Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, Disputes: []ProcessorDispute{{Status: commission.DisputeOpen}, lost(100)}}}}, 100, commission.DisputeOpen,
		},
		"lost dispute of a part": {
			Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, Disputes: []ProcessorDispute{lost(4_000), {Status: commission.DisputeWon}}}}}, 4_000, commission.DisputeLost,
		},
		"lost dispute of a refunded charge counts once": {
			Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, RefundedCents: 10_000, Disputes: []ProcessorDispute{lost(10_000)}}}}, 10_000, commission.DisputeLost,
		},
		"lost dispute in another currency": {
			Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, Disputes: []ProcessorDispute{{Status: commission.DisputeLost}}}}}, 10_000, commission.DisputeLost,
		},
		"won": {
			Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, Disputes: []ProcessorDispute{{Status: commission.DisputeWon, AmountCents: new(int64(10_000))}}}}}, 0, commission.DisputeWon,
		},
		"one of two charges, whose amounts are limited separately": {
			Reversals{Charges: []ChargeReversal{
				{Currency: "EUR", AmountCents: 4_000, RefundedCents: 4_000, Disputes: []ProcessorDispute{lost(4_000)}}, {Currency: "EUR", AmountCents: 6_000},
			}}, 4_000, commission.DisputeLost,
		},
		"amount of the charge unknown": {Reversals{Charges: []ChargeReversal{{Currency: "EUR", RefundedCents: 12_000}}}, 10_000, commission.DisputeNone},
		"share of a charge in another currency": {
			Reversals{Charges: []ChargeReversal{{Currency: "USD", AmountCents: 12_000, RefundedCents: 3_000}}}, 2_500, commission.DisputeNone,
		},
		"unknown share of a charge in another currency": {Reversals{Charges: []ChargeReversal{{Currency: "USD", RefundedCents: 1}}}, 10_000, commission.DisputeNone},
	} {
		if total := tc.reversals.totalCents(eur, true); total != tc.total {
			t.Errorf("%s: %d cents are reversed, want %d", name, total, tc.total)
		}
		if dispute := tc.reversals.dispute(); dispute != tc.dispute {
			t.Errorf("%s: dispute %s, want %s", name, dispute, tc.dispute)
		}
	}
}

// The states of a charge can arrive in any order. The result must only depend on the last
// state.
func TestReverse_DependsOnlyOnTheLastState(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		amounts := rapid.SampledFrom([]int64{0, 1, 2_500, 9_999, 10_000})
		state := rapid.Custom(func(t *rapid.T) Reversals {
			charge := ChargeReversal{Currency: "EUR", AmountCents: 10_000, RefundedCents: amounts.Draw(t, "refunded")}
			for range rapid.IntRange(0, 2).Draw(t, "disputes") {
				charge.Disputes = append(charge.Disputes, ProcessorDispute{
					Status:      rapid.SampledFrom([]commission.DisputeStatus{commission.DisputeOpen, commission.DisputeWon, commission.DisputeLost}).Draw(t, "status"),
					AmountCents: new(amounts.Draw(t, "disputed")),
				})
			}
			return Reversals{ReportedCents: 0, Charges: []ChargeReversal{charge}}
		})
		earned := percentageCommission(10_000, 3_000)
		earned.Dispute, earned.ReviewReasons = commission.DisputeNone, []string{}
		earned.Status = rapid.SampledFrom([]commission.Status{commission.Pending, commission.Approved, commission.Paid, commission.Rejected}).Draw(t, "commission")
		if earned.Status != commission.Pending {
			earned.ApprovedAt = &at
		}
		if earned.Status == commission.Paid {
			earned.PaidAt = &at
		}
		start := LockedSale{StoredConversion: StoredConversion{Conversion: conversionOf(10_000)}, Commission: &commission.Locked{Commission: earned}}
		start.Status = Recorded
		states := rapid.SliceOfN(state, 1, 4).Draw(t, "states")
		many, once := start, start
		var entries int64
		for _, state := range states {
			entries += reverse(t, &many, state, at)
		}
		onceEntries := reverse(t, &once, states[len(states)-1], at)
		for _, sale := range []*LockedSale{&many, &once} {
			// The number of changes and the time of a refund depend on the history.
			sale.Version, sale.Commission.Version, sale.Commission.UpdatedAt = 0, 0, time.Time{}
		}
		if !reflect.DeepEqual(many.Conversion, once.Conversion) || !reflect.DeepEqual(many.Commission, once.Commission) || entries != onceEntries {
			t.Fatalf("after all states: %+v\n%+v\nledger %d\nafter the last state: %+v\n%+v\nledger %d",
				many.Conversion, many.Commission.Commission, entries, once.Conversion, once.Commission.Commission, onceEntries)
		}
	})
}

// reverse applies a state to a sale and returns the sum of the ledger entries. A second
// application must change nothing.
func reverse(t *rapid.T, sale *LockedSale, state Reversals, at time.Time) (entries int64) {
	sale.Reversals = state
	r, changed, err := sale.Reverse(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range r.Changes {
		if entry := change.LedgerEntry(); entry != nil {
			entries += entry.AmountCents
		}
		sale.Commission = &commission.Locked{Commission: change.After}
	}
	if !changed && (len(r.Changes) > 0 || len(r.Events) > 0 || r.Conversion.Version != sale.Version) {
		t.Fatalf("a reversal without an effect has the changes %+v", r)
	}
	sale.Conversion = r.Conversion
	if again, changed, err := sale.Reverse(at); changed || err != nil {
		t.Fatalf("a second application changes %+v, error %v", again, err)
	}
	return entries
}

func TestReverse_EventsAndStats(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	program, participant := affiliate.ProgramID{UUID: [16]byte{15: 1}}, affiliate.ParticipantID{UUID: [16]byte{15: 2}}
	earned := percentageCommission(10_000, 3_000)
	earned.Status, earned.ApprovedAt, earned.Dispute = commission.Approved, &at, commission.DisputeNone
	sale := LockedSale{
		StoredConversion: StoredConversion{Conversion: conversionOf(10_000)},
		Decision:         attribution.Decision{Attributed: true, Program: &program, Participant: &participant},
		Commission:       &commission.Locked{Commission: earned},
	}
	sale.Status, sale.EventType = Recorded, affiliate.Purchase
	for _, step := range []struct {
		name                string
		state               ChargeReversal
		status              Status
		conversion, revenue int64                 // refunded amount, and change of the revenue
		events              []affiliate.EventName // of the commission
	}{
		{"dispute", ChargeReversal{Disputes: []ProcessorDispute{{Status: commission.DisputeOpen}}}, Disputed, 0, 0, []affiliate.EventName{affiliate.EventCommissionDisputed}},
		{
			"lost in part",
			ChargeReversal{Disputes: []ProcessorDispute{{Status: commission.DisputeLost, AmountCents: new(int64(4_000))}}},
			PartiallyRefunded, 4_000, -4_000,
			[]affiliate.EventName{affiliate.EventCommissionDisputeResolved, affiliate.EventCommissionRefunded},
		},
		{
			"won after all",
			ChargeReversal{Disputes: []ProcessorDispute{{Status: commission.DisputeWon, AmountCents: new(int64(4_000))}}},
			Recorded, 0, 4_000,
			[]affiliate.EventName{affiliate.EventCommissionDisputeResolved, affiliate.EventCommissionUpdated},
		},
		{"refund", ChargeReversal{RefundedCents: 10_000}, Refunded, 10_000, -10_000, []affiliate.EventName{affiliate.EventCommissionDisputeResolved, affiliate.EventCommissionRefunded}},
	} {
		step.state.Currency, step.state.AmountCents = "EUR", 10_000
		sale.Reversals = Reversals{Charges: []ChargeReversal{step.state}}
		r, changed, err := sale.Reverse(at)
		if err != nil || !changed || r.Conversion.Status != step.status || r.Conversion.RefundedAmountCents != step.conversion || r.Conversion.Version != sale.Version+1 {
			t.Fatalf("%s: conversion %+v, changed %v, error %v; want %s, %d refunded", step.name, r.Conversion, changed, err, step.status, step.conversion)
		}
		var events []affiliate.EventName
		for _, change := range r.Changes {
			for _, event := range change.Events() {
				events = append(events, event.Name)
			}
			sale.Commission = &commission.Locked{Commission: change.After}
		}
		if !slices.Equal(events, step.events) {
			t.Errorf("%s: events %q, want %q", step.name, events, step.events)
		}
		var revenue int64
		for _, delta := range r.Deltas {
			revenue += delta.RevenueCents
		}
		if revenue != step.revenue || (len(r.Events) == 1) != (step.revenue != 0) {
			t.Errorf("%s: revenue changes by %d with the events %+v, want %d", step.name, revenue, r.Events, step.revenue)
		}
		sale.Conversion = r.Conversion
	}
}

func TestSaleInDispute_Report(t *testing.T) {
	open, won := commission.DisputeOpen, commission.DisputeWon
	report := func(status commission.DisputeStatus, cents *int64) ReportedDispute {
		return ReportedDispute{ExternalDisputeID: "d1", Status: status, AmountCents: cents}
	}
	stored := func(status commission.DisputeStatus, cents *int64) *ProcessorDispute {
		return &ProcessorDispute{Status: status, AmountCents: cents}
	}
	for name, tc := range map[string]struct {
		paid       int64
		before     *ProcessorDispute
		report     ReportedDispute
		status     commission.DisputeStatus
		cents      *int64
		disputable string // of the refusal
	}{
		"first report":                        {paid: 100, report: report(open, new(int64(60))), status: open, cents: new(int64(60))},
		"first report without an amount":      {paid: 100, report: report(commission.DisputeLost, nil), status: commission.DisputeLost},
		"the whole sale":                      {paid: 100, report: report(open, new(int64(100))), status: open, cents: new(int64(100))},
		"more than the sale":                  {paid: 100, report: report(open, new(int64(101))), disputable: "100"},
		"a conversion without an amount":      {report: report(open, nil), disputable: "0"},
		"the end keeps the amount":            {paid: 100, before: stored(open, new(int64(60))), report: report(commission.DisputeLost, nil), status: commission.DisputeLost, cents: new(int64(60))},
		"the end changes the amount":          {paid: 100, before: stored(open, nil), report: report(commission.DisputeLost, new(int64(40))), status: commission.DisputeLost, cents: new(int64(40))},
		"open does not reopen it":             {paid: 100, before: stored(won, new(int64(60))), report: report(open, new(int64(30))), status: won, cents: new(int64(60))},
		"a lost dispute can be won on appeal": {paid: 100, before: stored(commission.DisputeLost, nil), report: report(won, nil), status: won},
	} {
		sale := SaleInDispute{StoredConversion: StoredConversion{Conversion: Conversion{Sale: attribution.Sale{Money: affiliate.Money{Cents: tc.paid, Currency: "EUR"}}}}, Dispute: tc.before}
		got, err := sale.Report(tc.report)
		if tc.disputable != "" {
			var refusal *affiliate.Error
			if !errors.As(err, &refusal) || refusal.Reason != affiliate.ReasonDisputeExceedsAmount || refusal.Metadata["disputable_cents"] != tc.disputable {
				t.Errorf("%s: %v, want %s with %s disputable cents", name, err, affiliate.ReasonDisputeExceedsAmount, tc.disputable)
			}
			continue
		}
		if want := (ProcessorDispute{ID: "d1", Status: tc.status, AmountCents: tc.cents}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
}
