package fraud_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	fraudservice "github.com/tributary-hq/tributary/server/fraud"
	"github.com/tributary-hq/tributary/server/servertest"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

const (
	confirmed = affiliatev1.FraudEventStatus_FRAUD_EVENT_STATUS_CONFIRMED
	dismissed = affiliatev1.FraudEventStatus_FRAUD_EVENT_STATUS_DISMISSED
	open      = affiliatev1.FraudEventStatus_FRAUD_EVENT_STATUS_OPEN
)

// fixture is a shop with a participant and the service under test.
type fixture struct {
	*pgtest.Shop
	service *fraudservice.Service
	clock   *pgtest.Clock
	pat     pgtest.Participant
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive, pgtest.Row{"name": "Spring"})
	return &fixture{shop, fraudservice.New(shop.DB, clock.Now), clock, shop.Join("Pat")}
}

// asOwner returns the context of a call by the owner of a shop.
func asOwner(shop *pgtest.Shop) context.Context {
	return servertest.AsMember(shop, shop.Scope, shop.Owner, affiliate.RoleOwner)
}

var (
	botClick    = fraud.Signal{Rule: "bot_click", Score: 70, Evidence: "The click is from a bot."}
	sameAddress = fraud.Signal{Rule: "self_referral_email", Score: 100, Evidence: "The buyer has the partner's e-mail address."}
)

// suspectedSale is a purchase of 10.00 EUR with fraud signals.
type suspectedSale struct {
	event      string // id of the fraud event
	conversion conversion.Conversion
	commission *commission.Commission // nil if the conversion is blocked
}

// newSuspectedSale records a purchase with the fraud signal botClick, one second after
// the previous purchase. action is what the fraud policy did. A blocked purchase also has
// the signal sameAddress and no commission.
func (f *fixture) newSuspectedSale(p pgtest.Participant, action fraud.Action) suspectedSale {
	f.Helper()
	f.clock.Advance(time.Second)
	now, rate, method := f.Now(), int64(2000), attribution.ByClick
	id := affiliate.NewID[affiliate.ConversionID](now)
	sale := conversion.Conversion{
		ID: id, Scope: p.Scope, ExternalTransactionID: id.String(), EventType: affiliate.Purchase,
		Sale:       attribution.Sale{Money: affiliate.Money{Cents: 1000, Currency: "EUR"}},
		OccurredAt: now, CreatedAt: now, Source: conversion.SourceAPI, Status: conversion.Recorded, Version: 1,
	}
	decision := attribution.Decision{
		ID: affiliate.NewID[affiliate.DecisionID](now), Conversion: id, Attributed: true, Method: &method, Reason: attribution.WhyClickMatched,
		Explanation: "A click.", EngineVersion: attribution.EngineVersion, Program: &p.Program, Participant: &p.ID, ClickedAt: &now, DecidedAt: now,
		FraudAction: action, Trace: attribution.Trace{Fraud: []fraud.Signal{botClick}},
	}
	earned := &commission.Commission{
		ID: affiliate.NewID[affiliate.CommissionID](now), Scope: p.Scope, Program: p.Program, Participant: p.ID, Partner: p.Partner,
		Conversion: id, Decision: decision.ID, ExternalTransactionID: sale.ExternalTransactionID, Status: commission.Pending,
		Type: program.Percentage, EventType: sale.EventType, RateBps: &rate, AmountCents: 200, OriginalAmountCents: 200, Currency: "EUR",
		BaseAmountCents: 1000, SaleAmountCents: 1000, SaleCurrency: "EUR", ReviewReasons: []string{}, Dispute: commission.DisputeNone,
		Rule: attribution.RuleSnapshot{Version: 1, Rules: program.DefaultRules()}, AutoApproveAt: &now, Version: 1, CreatedAt: now, UpdatedAt: now,
	}
	switch action {
	case fraud.Flagged:
		earned.NeedsReview, earned.ReviewReasons = true, []string{attribution.ReviewFraud}
	case fraud.Blocked:
		decision.Reason, earned = attribution.WhySelfReferralBlocked, nil
		decision.Trace.Fraud = []fraud.Signal{sameAddress, botClick}
	case fraud.Observed:
	}
	_, err := f.Record(pgtest.Report{
		Report: conversions.Report{
			Conversion: sale,
			Inputs:     attribution.Inputs{Mode: sale.Mode, EventType: sale.EventType, OccurredAt: now, Sale: sale.Sale},
		},
		Decide: func(attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
			return decision, earned, nil
		},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.clock.Advance(time.Millisecond)
	return suspectedSale{decision.ID.String(), sale, earned}
}

// resolve resolves a fraud event as the shop's owner. If note is empty, the request has
// no note.
func (f *fixture) resolve(event string, outcome affiliatev1.FraudEventStatus, note string) (*affiliatev1.FraudEvent, error) {
	req := &affiliatev1.ResolveFraudEventRequest{EventId: event, Outcome: outcome}
	if note != "" {
		req.Note = &note
	}
	return f.service.ResolveFraudEvent(asOwner(f.Shop), req)
}

// listEventIDs returns the ids on a page of the shop's fraud events, and the number of
// events on all pages.
func (f *fixture) listEventIDs(req *affiliatev1.ListFraudEventsRequest) (ids []string, total int64) {
	f.Helper()
	page, err := f.service.ListFraudEvents(asOwner(f.Shop), req)
	if err != nil {
		f.Fatalf("ListFraudEvents with %v: %v", req, err)
	}
	for _, event := range page.GetData() {
		ids = append(ids, event.GetId())
	}
	return ids, page.GetTotal()
}

// getCommission returns a commission as it is stored.
func (f *fixture) getCommission(id affiliate.CommissionID) commission.Commission {
	f.Helper()
	detail, err := commissions.Get(f.Context(), f.DB, f.Scope, f.Program, id)
	if err != nil {
		f.Fatal(err)
	}
	return detail.Commission
}
