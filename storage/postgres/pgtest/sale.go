package pgtest

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// UnstoredClick returns a click on the default link of a participant, received now,
// without storing it. Its attribution window is 30 days. The functions in change modify
// the click.
func (f *Fixture) UnstoredClick(p Participant, change ...func(*click.Click)) click.Click {
	now := f.Now().UTC().Truncate(time.Millisecond)
	c := click.Click{
		ID: affiliate.NewID[affiliate.ClickID](now), Scope: p.Scope, Program: p.Program, Participant: p.ID, Link: p.Link, ReferralCode: p.Code,
		ClickedAt: now, ReceivedAt: now, ExpiresAt: click.WindowEnd(now, 30), CreatedAt: now, Consent: click.ConsentGranted,
	}
	apply(&c, change)
	return c
}

// NewClick stores a click on the default link of a participant, received now. The
// functions in change modify the click before it is stored.
func (f *Fixture) NewClick(p Participant, change ...func(*click.Click)) click.Click {
	f.Helper()
	c := f.UnstoredClick(p, change...)
	if err := clicks.Store(f.Context(), f.DB, []click.Click{c}); err != nil {
		f.Fatal(err)
	}
	return c
}

// NewConversion records a purchase of 10.00 EUR that is not attributed to any
// participant. The functions in change modify the conversion before it is recorded.
func (f *Fixture) NewConversion(scope affiliate.Scope, change ...func(*conversion.Conversion)) conversion.Conversion {
	f.Helper()
	now := f.Now()
	c := f.purchase(scope, now)
	apply(&c, change)
	f.record(c, attribution.Decision{Reason: attribution.WhyClickUnknown, Explanation: "No click with this id."}, nil)
	return c
}

// NewCommission records a purchase of 10.00 EUR of which a participant earns 20 percent,
// and returns the commission. The commission is pending and has no hold period. The
// functions in change modify the commission before it is recorded. They may set the
// status to approved. With any other status, the totals and the ledger would be wrong,
// because storage expects a new commission to be pending or approved.
func (f *Fixture) NewCommission(p Participant, change ...func(*commission.Commission)) commission.Commission {
	f.Helper()
	now := f.Now()
	conversion, rate := f.purchase(p.Scope, now), int64(2000)
	c := commission.Commission{
		ID: affiliate.NewID[affiliate.CommissionID](now), Scope: p.Scope, Program: p.Program, Participant: p.ID, Partner: p.Partner,
		Conversion: conversion.ID, Decision: affiliate.NewID[affiliate.DecisionID](now), ExternalTransactionID: conversion.ExternalTransactionID,
		Status: commission.Pending, Type: program.Percentage, EventType: conversion.EventType, RateBps: &rate,
		AmountCents: 200, OriginalAmountCents: 200, Currency: "EUR", BaseAmountCents: 1000, SaleAmountCents: 1000, SaleCurrency: "EUR",
		ReviewReasons: []string{}, Dispute: commission.DisputeNone, Rule: attribution.RuleSnapshot{Version: 1, Rules: grossRules()},
		Version: 1, CreatedAt: now, UpdatedAt: now,
	}
	apply(&c, change)
	conversion.ExternalTransactionID, conversion.CustomerRef = c.ExternalTransactionID, c.CustomerRef
	conversion.Money = affiliate.Money{Cents: c.SaleAmountCents, Currency: c.SaleCurrency}
	method := attribution.ByClick
	f.record(conversion, attribution.Decision{
		ID: c.Decision, Attributed: true, Method: &method, Reason: attribution.WhyClickMatched, Explanation: "A click.",
		Program: &c.Program, Participant: &c.Participant, Click: c.Click, PromoCode: c.PromoCode, ClickedAt: &now,
	}, &c)
	return c
}

// NewLedgerEntry adds an adjustment of the given amount to a participant's ledger, in the
// currency of the programme. The functions in change modify the entry before it is
// stored.
func (f *Fixture) NewLedgerEntry(p Participant, cents int64, change ...func(*ledger.ManualEntry)) {
	f.Helper()
	e := ledger.ManualEntry{
		Scope: p.Scope, Program: p.Program, Participant: p.ID, Type: ledger.EntryAdjustment, AmountCents: cents, Reason: "R",
		By: affiliate.System, At: f.Now(),
	}
	apply(&e, change)
	if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		participant, err := ledgers.LockParticipant(f.Context(), tx, e.Scope, e.Program, e.Participant)
		if err != nil {
			return err
		}
		entry, err := e.Entry(participant, nil)
		if err != nil {
			return err
		}
		return ledgers.Insert(f.Context(), tx, entry)
	}); err != nil {
		f.Fatal(err)
	}
}

// purchase returns a purchase of 10.00 EUR.
func (f *Fixture) purchase(scope affiliate.Scope, now time.Time) conversion.Conversion {
	id := affiliate.NewID[affiliate.ConversionID](now)
	return conversion.Conversion{
		ID: id, Scope: scope, ExternalTransactionID: id.String(), EventType: affiliate.Purchase,
		Sale:       attribution.Sale{Money: affiliate.Money{Cents: 1000, Currency: "EUR"}},
		OccurredAt: now, CreatedAt: now, Source: conversion.SourceAPI, Status: conversion.Recorded, Version: 1,
	}
}

// record records a conversion with the given decision and commission.
func (f *Fixture) record(c conversion.Conversion, d attribution.Decision, earned *commission.Commission) {
	f.Helper()
	if d.ID.IsZero() {
		d.ID = affiliate.NewID[affiliate.DecisionID](c.CreatedAt)
	}
	d.Conversion, d.EngineVersion, d.DecidedAt = c.ID, attribution.EngineVersion, c.CreatedAt
	in := attribution.Inputs{Mode: c.Mode, EventType: c.EventType, OccurredAt: c.OccurredAt, Sale: c.Sale}
	if earned != nil {
		in.FoundClick = &attribution.FoundClick{Mode: c.Mode, ReceivedAt: c.OccurredAt, Earner: attribution.Earner{
			Program: earned.Program, Participant: earned.Participant, Partner: earned.Partner, WindowDays: 30, Rule: earned.Rule,
		}}
	}
	var aliases []string
	if conversion.IsProcessorID(c.ExternalTransactionID) {
		aliases = []string{c.ExternalTransactionID}
	}
	_, err := f.Record(Report{
		Report: conversions.Report{Conversion: c, Inputs: in, Aliases: aliases},
		Decide: func(attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
			return d, earned, nil
		},
	})
	if err != nil {
		f.Fatal(err)
	}
}

func apply[T any](record *T, changes []func(*T)) {
	for _, change := range changes {
		change(record)
	}
}

// MoveCommission applies a transition to a commission and returns the commission after
// the transition. The caller sets only the move and the fields that belong to the move.
// The actor is the system and the time is now.
func (f *Fixture) MoveCommission(c commission.Commission, t commission.Transition) commission.Commission {
	f.Helper()
	t.Scope, t.Program, t.Commission, t.Actor, t.At = c.Scope, c.Program, c.ID, affiliate.System, f.Now()
	var change commission.Change
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		locked, err := payouts.LockCommission(f.Context(), tx, c.Scope, c.Program, c.ID)
		if err != nil {
			return err
		}
		if change, err = locked.Move(t); err != nil {
			return err
		}
		return payouts.ApplyCommissionChanges(f.Context(), tx, change)
	})
	if err != nil {
		f.Fatalf("%s of a commission: %v", t.Move, err)
	}
	return change.After
}

// MoveTogether makes several moves in one transaction, as payouts and refunds do. It
// locks all commissions with one statement and applies all changes together. All moves
// must be of one scope. A commission can move more than once. If one move fails, no
// move is made.
func MoveTogether(ctx context.Context, db *postgres.DB, moves ...commission.Transition) error {
	return db.InTx(ctx, func(tx *postgres.Tx) error {
		ids := make([]affiliate.CommissionID, len(moves))
		for i, move := range moves {
			ids[i] = move.Commission
		}
		found, err := commissions.Lock(ctx, tx, moves[0].Scope, ids)
		if err != nil {
			return err
		}
		locked := map[affiliate.CommissionID]commission.Locked{}
		for _, c := range found {
			locked[c.ID] = c
		}
		var changes []commission.Change
		for _, move := range moves {
			c, ok := locked[move.Commission]
			if !ok {
				return affiliate.Refuse(affiliate.ReasonNotFound)
			}
			change, err := c.Move(move)
			if err != nil {
				return err
			}
			c.Commission = change.After
			locked[c.ID] = c
			changes = append(changes, change)
		}
		return payouts.ApplyCommissionChanges(ctx, tx, changes...)
	})
}

// DecideAt returns the function that decides about a conversion. The function decides in
// the same way as the service, at the given time.
func DecideAt(c conversion.Conversion, at time.Time) func(attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
	return func(in attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
		d := attribution.Attribute(in)
		d.ID, d.Conversion, d.DecidedAt = affiliate.NewID[affiliate.DecisionID](at), c.ID, at
		if d.Earning == nil {
			return d, nil, nil
		}
		commission := conversion.NewCommission(affiliate.NewID[affiliate.CommissionID](at), c, d, at)
		return d, &commission, nil
	}
}

// Report returns the report of a purchase of 1.00 EUR. click can be zero. The functions
// in change modify the purchase.
func (s *Shop) Report(external string, click affiliate.ClickID, change ...func(*conversion.Conversion)) Report {
	s.Helper()
	now := s.Now().UTC()
	c := conversion.Conversion{
		ID: affiliate.NewID[affiliate.ConversionID](now), Scope: s.Scope, ExternalTransactionID: external,
		EventType: affiliate.Purchase, Sale: attribution.Sale{Money: affiliate.Money{Cents: 100, Currency: "EUR"}},
		OccurredAt: now, CreatedAt: now, Source: conversion.SourceAPI, Status: conversion.Recorded, Version: 1,
	}
	var found *attribution.FoundClick
	if !click.IsZero() {
		var err error
		if found, err = conversions.NewClicks(s.DB).Find(s.Context(), s.Scope.Workspace, click); err != nil {
			s.Fatal(err)
		}
		c.Click = &click
	}
	for _, f := range change {
		f(&c)
	}
	in := attribution.Inputs{
		Mode: c.Mode, EventType: c.EventType, OccurredAt: c.OccurredAt, Sale: c.Sale, Click: c.Click, FoundClick: found, PromoCode: c.PromoCode,
	}
	return Report{conversions.Report{Conversion: c, Inputs: in}, DecideAt(c, now)}
}

// ByCustomer returns a function that adds a customer reference to a conversion.
func ByCustomer(ref string) func(*conversion.Conversion) {
	return func(c *conversion.Conversion) { c.CustomerRef = &ref }
}

// Report is a report of a conversion with the function that decides about it.
type Report struct {
	conversions.Report
	Decide func(found attribution.Inputs) (attribution.Decision, *commission.Commission, error)
}

// Record records a report in a transaction of its own.
func (f *Fixture) Record(r Report) (conversions.Recorded, error) {
	f.Helper()
	batch := []*conversions.Report{&r.Report}
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		if err := conversions.LockReports(f.Context(), tx, batch); err != nil {
			return err
		}
		if r.Open() {
			d, earned, err := r.Decide(r.Found())
			r.Report.Decide(d, earned)
			r.Err = err
		}
		if err := conversions.InsertReports(f.Context(), tx, batch); err != nil {
			return err
		}
		if err := conversions.FinishReports(f.Context(), tx, batch); err != nil {
			return err
		}
		return r.Err
	})
	return r.Recorded, err
}
