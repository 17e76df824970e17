package affiliate

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestReversals_TotalAndDispute(t *testing.T) {
	eur := Money{10_000, "EUR"}
	lost := func(cents int64) ProcessorDispute {
		return ProcessorDispute{ID: "d", Status: DisputeLost, AmountCents: &cents}
	}
	for name, tc := range map[string]struct {
		reversals Reversals
		total     int64
		dispute   DisputeStatus
	}{
		"nothing":                 {Reversals{}, 0, DisputeNone},
		"refund by the API":       {Reversals{ReportedCents: 1_000}, 1_000, DisputeNone},
		"refund at the processor": {Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, RefundedCents: 2_500}}}, 2_500, DisputeNone},
		"both": {
			Reversals{ReportedCents: 1_000, Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, RefundedCents: 2_500}}}, 3_500, DisputeNone,
		},
		"more than the sale": {
			Reversals{ReportedCents: 9_000, Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, RefundedCents: 2_500}}}, 10_000, DisputeNone,
		},
		"open dispute": {
			Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, Disputes: []ProcessorDispute{{Status: DisputeOpen}, lost(100)}}}}, 100, DisputeOpen,
		},
		"lost dispute of a part": {
			Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, Disputes: []ProcessorDispute{lost(4_000), {Status: DisputeWon}}}}}, 4_000, DisputeLost,
		},
		"lost dispute of a refunded charge counts once": {
			Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, RefundedCents: 10_000, Disputes: []ProcessorDispute{lost(10_000)}}}}, 10_000, DisputeLost,
		},
		"lost dispute in another currency": {
			Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, Disputes: []ProcessorDispute{{Status: DisputeLost}}}}}, 10_000, DisputeLost,
		},
		"won": {
			Reversals{Charges: []ChargeReversal{{Currency: "EUR", AmountCents: 10_000, Disputes: []ProcessorDispute{{Status: DisputeWon, AmountCents: ref[int64](10_000)}}}}}, 0, DisputeWon,
		},
		"one of two charges, whose amounts are limited separately": {
			Reversals{Charges: []ChargeReversal{
				{Currency: "EUR", AmountCents: 4_000, RefundedCents: 4_000, Disputes: []ProcessorDispute{lost(4_000)}}, {Currency: "EUR", AmountCents: 6_000},
			}}, 4_000, DisputeLost,
		},
		"amount of the charge unknown": {Reversals{Charges: []ChargeReversal{{Currency: "EUR", RefundedCents: 12_000}}}, 10_000, DisputeNone},
		"share of a charge in another currency": {
			Reversals{Charges: []ChargeReversal{{Currency: "USD", AmountCents: 12_000, RefundedCents: 3_000}}}, 2_500, DisputeNone,
		},
		"unknown share of a charge in another currency": {Reversals{Charges: []ChargeReversal{{Currency: "USD", RefundedCents: 1}}}, 10_000, DisputeNone},
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
					Status:      rapid.SampledFrom([]DisputeStatus{DisputeOpen, DisputeWon, DisputeLost}).Draw(t, "status"),
					AmountCents: ref(amounts.Draw(t, "disputed")),
				})
			}
			return Reversals{ReportedCents: 0, Charges: []ChargeReversal{charge}}
		})
		commission := percentageCommission(10_000, 3_000)
		commission.Dispute, commission.ReviewReasons = DisputeNone, []string{}
		commission.Status = rapid.SampledFrom([]CommissionStatus{CommissionPending, CommissionApproved, CommissionPaid, CommissionRejected}).Draw(t, "commission")
		if commission.Status != CommissionPending {
			commission.ApprovedAt = &at
		}
		if commission.Status == CommissionPaid {
			commission.PaidAt = &at
		}
		start := LockedSale{StoredConversion: StoredConversion{Conversion: conversionOf(10_000)}, Commission: &LockedCommission{Commission: commission}}
		start.Status = ConversionRecorded
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
		sale.Commission = &LockedCommission{Commission: change.After}
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
	program, participant := ProgramID{UUID: [16]byte{15: 1}}, ParticipantID{UUID: [16]byte{15: 2}}
	commission := percentageCommission(10_000, 3_000)
	commission.Status, commission.ApprovedAt, commission.Dispute = CommissionApproved, &at, DisputeNone
	sale := LockedSale{
		StoredConversion: StoredConversion{Conversion: conversionOf(10_000)},
		Decision:         Decision{Attributed: true, Program: &program, Participant: &participant},
		Commission:       &LockedCommission{Commission: commission},
	}
	sale.Status, sale.EventType = ConversionRecorded, Purchase
	for _, step := range []struct {
		name                string
		state               ChargeReversal
		status              ConversionStatus
		conversion, revenue int64       // refunded amount, and change of the revenue
		events              []EventName // of the commission
	}{
		{"dispute", ChargeReversal{Disputes: []ProcessorDispute{{Status: DisputeOpen}}}, ConversionDisputed, 0, 0, []EventName{EventCommissionDisputed}},
		{
			"lost in part",
			ChargeReversal{Disputes: []ProcessorDispute{{Status: DisputeLost, AmountCents: ref[int64](4_000)}}},
			ConversionPartiallyRefunded, 4_000, -4_000,
			[]EventName{EventCommissionDisputeResolved, EventCommissionRefunded},
		},
		{
			"won after all",
			ChargeReversal{Disputes: []ProcessorDispute{{Status: DisputeWon, AmountCents: ref[int64](4_000)}}},
			ConversionRecorded, 0, 4_000,
			[]EventName{EventCommissionDisputeResolved, EventCommissionUpdated},
		},
		{"refund", ChargeReversal{RefundedCents: 10_000}, ConversionRefunded, 10_000, -10_000, []EventName{EventCommissionDisputeResolved, EventCommissionRefunded}},
	} {
		step.state.Currency, step.state.AmountCents = "EUR", 10_000
		sale.Reversals = Reversals{Charges: []ChargeReversal{step.state}}
		r, changed, err := sale.Reverse(at)
		if err != nil || !changed || r.Conversion.Status != step.status || r.Conversion.RefundedAmountCents != step.conversion || r.Conversion.Version != sale.Version+1 {
			t.Fatalf("%s: conversion %+v, changed %v, error %v; want %s, %d refunded", step.name, r.Conversion, changed, err, step.status, step.conversion)
		}
		var events []EventName
		for _, change := range r.Changes {
			for _, event := range change.Events() {
				events = append(events, event.Name)
			}
			sale.Commission = &LockedCommission{Commission: change.After}
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
	open, won := DisputeOpen, DisputeWon
	report := func(status DisputeStatus, cents *int64) ReportedDispute {
		return ReportedDispute{ExternalDisputeID: "d1", Status: status, AmountCents: cents}
	}
	stored := func(status DisputeStatus, cents *int64) *ProcessorDispute {
		return &ProcessorDispute{Status: status, AmountCents: cents}
	}
	for name, tc := range map[string]struct {
		paid       int64
		before     *ProcessorDispute
		report     ReportedDispute
		status     DisputeStatus
		cents      *int64
		disputable string // of the refusal
	}{
		"first report":                        {paid: 100, report: report(open, ref[int64](60)), status: open, cents: ref[int64](60)},
		"first report without an amount":      {paid: 100, report: report(DisputeLost, nil), status: DisputeLost},
		"the whole sale":                      {paid: 100, report: report(open, ref[int64](100)), status: open, cents: ref[int64](100)},
		"more than the sale":                  {paid: 100, report: report(open, ref[int64](101)), disputable: "100"},
		"a conversion without an amount":      {report: report(open, nil), disputable: "0"},
		"the end keeps the amount":            {paid: 100, before: stored(open, ref[int64](60)), report: report(DisputeLost, nil), status: DisputeLost, cents: ref[int64](60)},
		"the end changes the amount":          {paid: 100, before: stored(open, nil), report: report(DisputeLost, ref[int64](40)), status: DisputeLost, cents: ref[int64](40)},
		"open does not reopen it":             {paid: 100, before: stored(won, ref[int64](60)), report: report(open, ref[int64](30)), status: won, cents: ref[int64](60)},
		"a lost dispute can be won on appeal": {paid: 100, before: stored(DisputeLost, nil), report: report(won, nil), status: won},
	} {
		sale := SaleInDispute{StoredConversion: StoredConversion{Conversion: Conversion{Sale: Sale{Paid: Money{tc.paid, "EUR"}}}}, Dispute: tc.before}
		got, err := sale.Report(tc.report)
		if tc.disputable != "" {
			var refusal *Error
			if !errors.As(err, &refusal) || refusal.Reason != ReasonDisputeExceedsAmount || refusal.Metadata["disputable_cents"] != tc.disputable {
				t.Errorf("%s: %v, want %s with %s disputable cents", name, err, ReasonDisputeExceedsAmount, tc.disputable)
			}
			continue
		}
		if want := (ProcessorDispute{ID: "d1", Status: tc.status, AmountCents: tc.cents}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
}
