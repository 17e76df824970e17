package attribution_test

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	attributionservice "github.com/tributary-hq/tributary/server/attribution"
	"github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

const partnerEmail = "pat@corp.example"

type reportRequest = affiliatev1.ReportConversionRequest

// fixture is a shop in test mode with the service under test and the service to which
// merchants report conversions. The programme pays 30 percent of the amount without tax,
// and promo codes take precedence over clicks. Pat is an approved participant.
type fixture struct {
	*pgtest.Shop
	service     *attributionservice.Service
	conversions *conversion.Service
	tail        *clickTail
	clock       *pgtest.Clock
	pat         pgtest.Participant
}

// newFixture returns a fixture. program changes the columns of the programme.
func newFixture(t *testing.T, program ...pgtest.Row) *fixture {
	t.Helper()
	clock := pgtest.NewRunningClock()
	program = append([]pgtest.Row{{"signal_precedence": "promo_code_first"}, rules()}, program...)
	f := &fixture{Shop: pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest, program...), tail: &clickTail{}, clock: clock}
	f.use(f.DB)
	f.pat = f.NewParticipant(f.Scope, f.Program, f.NewPartner("Pat", pgtest.Row{"email": partnerEmail}))
	return f
}

// use makes the fixture use services with a handle of the database.
func (f *fixture) use(db *postgres.DB) {
	f.conversions = conversion.New(conversion.Config{
		DB: db, Tail: f.tail, HashKeys: affiliate.HashKeys{[]byte("key of the tests")}, Now: f.clock.Now, Log: slog.New(slog.DiscardHandler),
	})
	f.service = attributionservice.New(db, f.conversions)
}

// rules returns the columns for the rules of a programme: 30 percent of the amount
// without tax. change changes the rules.
func rules(change ...func(*program.Rules)) pgtest.Row {
	netOfTax := func(r *program.Rules) { r.NetBasis = program.NetOfTax }
	return pgtest.Rules(append([]func(*program.Rules){netOfTax}, change...)...)
}

// unknownClick returns the id of a click that is not stored. The click is an hour old, so
// a report does not wait for its ingestion.
func (f *fixture) unknownClick() affiliate.ClickID {
	return affiliate.NewID[affiliate.ClickID](f.clock.Now().Add(-time.Hour))
}

// expired changes a click so that its attribution window ended an hour ago.
func (f *fixture) expired(c *click.Click) { c.ExpiresAt = f.clock.Now().Add(-time.Hour) }

// sale returns the report of a sale of 119 EUR with 19 EUR of tax. It has no click and no
// promo code.
func sale(external string) *reportRequest {
	return &reportRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: external,
		AmountCents: new(int64(11_900)), Currency: new("EUR"), TaxCents: new(int64(1_900)),
	}
}

func saleWithClick(external string, click affiliate.ClickID) *reportRequest {
	r := sale(external)
	r.ClickId = new(click.String())
	return r
}

func saleWithCode(external, code string) *reportRequest {
	r := sale(external)
	r.PromoCode = &code
	return r
}

// asKey returns the context of a call with a secret key of the shop.
func (f *fixture) asKey() context.Context { return servertest.AsSecretKey(f, f.Scope) }

// asViewer returns the context of a call by a member with the role viewer.
func (f *fixture) asViewer() context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleViewer)
}

func (f *fixture) report(req *reportRequest) *affiliatev1.ReportConversionResponse {
	f.Helper()
	r, err := f.conversions.ReportConversion(f.asKey(), req)
	if err != nil {
		f.Fatalf("ReportConversion(%v): %v", req, err)
	}
	return r
}

// decision returns the decision in force about a conversion.
func (f *fixture) decision(conversion string) *affiliatev1.Decision {
	f.Helper()
	d, err := f.service.GetDecision(f.asKey(), &affiliatev1.GetDecisionRequest{ConversionId: conversion})
	if err != nil {
		f.Fatalf("GetDecision(%s): %v", conversion, err)
	}
	return d
}

func (f *fixture) list(scope affiliate.Scope, req *affiliatev1.ListDecisionsRequest) *affiliatev1.ListDecisionsResponse {
	f.Helper()
	if found := f.service.Check(req); len(found) > 0 {
		f.Fatalf("the check of ListDecisions(%v) found %v", req, found)
	}
	list, err := f.service.ListDecisions(servertest.AsSecretKey(f, scope), req)
	if err != nil {
		f.Fatalf("ListDecisions(%v): %v", req, err)
	}
	return list
}

// clickTail is the tail of the click stream, which is its newest part. The service reads it
// to find clicks that are not in the database yet. clickTail counts these reads.
type clickTail struct {
	clicks []click.Click
	reads  atomic.Int64
}

func (c *clickTail) Find(_ context.Context, id affiliate.ClickID) (click.Click, bool, error) {
	c.reads.Add(1)
	for _, click := range c.clicks {
		if click.ID == id {
			return click, true, nil
		}
	}
	return click.Click{}, false, nil
}
