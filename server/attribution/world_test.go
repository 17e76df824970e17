package attribution_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/attribution"
	"github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is a workspace with a 30 percent programme and an approved partner. Its services
// use a real database.
type world struct {
	*pgtest.Fixture
	service     *attribution.Service
	conversions *conversion.Service
	clicks      *clicks
	scope       affiliate.Scope
	program     affiliate.ProgramID
	participant affiliate.ParticipantID
	offset      time.Duration // of the services' clock
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	w.Fixture = pgtest.Open(t, w.now)
	w.clicks = &clicks{Store: stores.Conversion(w.Store)}
	w.conversions = conversion.New(conversion.Config{
		Store: w.clicks, Tail: w.clicks, HashKey: []byte("key of the tests"), Now: w.now, Log: slog.New(slog.DiscardHandler),
	})
	w.service = attribution.New(w.Store, w.conversions)
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeTest}
	w.program = w.newProgram(w.scope)
	w.participant = w.newParticipant(w.scope, w.program)
	return w
}

func (w *world) now() time.Time { return time.Now().Add(w.offset) }

func (w *world) newProgram(scope affiliate.Scope) affiliate.ProgramID {
	w.Helper()
	return w.NewProgram(scope, pgtest.Row{
		"name": "Spring", "rules_version": 4, "signal_precedence": "promo_code_first",
		"rules": `{"commission_type":"percentage","rate_bps":3000,"hold_period_days":30,"auto_approval":true,"net_basis":"net_of_tax"}`,
	})
}

func (w *world) newParticipant(scope affiliate.Scope, program affiliate.ProgramID) affiliate.ParticipantID {
	w.Helper()
	return w.NewParticipant(scope, program, w.NewPartner("Pat")).ID
}

// clickIn stores a click of a participant, received now.
func (w *world) clickIn(scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID, changes ...pgtest.Row) affiliate.ClickID {
	w.Helper()
	at := w.now().UTC().Truncate(time.Millisecond)
	id := affiliate.NewID[affiliate.Click](at)
	w.Insert("clicks", append([]pgtest.Row{{
		"workspace_id": scope.Workspace, "id": id, "clicked_at": at, "mode": scope.Mode, "program_id": program, "participant_id": participant,
		"referral_code": "pat", "received_at": at, "expires_at": affiliate.WindowEnd(at, 30), "created_at": at.Add(time.Second),
		"consent": "granted", "is_bot": false, "ip_hash": []byte("hash"), "ip_prefix": "203.0.113.0/24", "ua_hash": []byte("agent"),
	}}, changes...)...)
	return id
}

func (w *world) click() affiliate.ClickID {
	w.Helper()
	return w.clickIn(w.scope, w.program, w.participant)
}

// code stores a promo code that is usable unless changes says otherwise.
func (w *world) code(scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID, code string, changes ...pgtest.Row) {
	w.Helper()
	w.Insert("promo_codes", append([]pgtest.Row{{
		"workspace_id": scope.Workspace, "id": affiliate.NewID[affiliate.PromoCode](w.now()), "program_id": program, "participant_id": participant,
		"mode": scope.Mode, "code": code, "discount_type": "percentage", "discount_value": 1000, "active": true,
		"sync_to_processor": false, "sync_status": "none", "created_at": w.now(), "updated_at": w.now(),
	}}, changes...)...)
}

// as returns the context of a call with a secret key of the scope.
func as(scope affiliate.Scope) context.Context {
	return server.WithPrincipal(context.Background(), server.Principal{Kind: server.SecretKey, Workspace: scope.Workspace, Mode: scope.Mode})
}

// asMerchant returns the context of a call with a merchant's token.
func (w *world) asMerchant() context.Context {
	w.Helper()
	return server.WithPrincipal(context.Background(), server.Principal{
		Kind: server.MerchantToken, User: affiliate.NewID[affiliate.User](w.now()), Workspace: w.scope.Workspace, Mode: w.scope.Mode, Role: affiliate.RoleViewer,
	})
}

// sale returns a report of a sale of 119 EUR with 19 EUR of tax. The caller adds a click
// or a promo code.
func sale(external string) *affiliatev1.ReportConversionRequest {
	return &affiliatev1.ReportConversionRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: external,
		AmountCents: ptr(int64(11_900)), Currency: ptr("EUR"), TaxCents: ptr(int64(1_900)),
	}
}

func named(external string, click affiliate.ClickID) *affiliatev1.ReportConversionRequest {
	r := sale(external)
	r.ClickId = ptr(click.String())
	return r
}

func (w *world) report(req *affiliatev1.ReportConversionRequest) *affiliatev1.ReportConversionResponse {
	w.Helper()
	r, err := w.conversions.ReportConversion(as(w.scope), req)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func (w *world) decision(conversion string) *affiliatev1.Decision {
	w.Helper()
	d, err := w.service.GetDecision(as(w.scope), &affiliatev1.GetDecisionRequest{ConversionId: conversion})
	if err != nil {
		w.Fatal(err)
	}
	return d
}

func (w *world) list(scope affiliate.Scope, req *affiliatev1.ListDecisionsRequest) *affiliatev1.ListDecisionsResponse {
	w.Helper()
	if wrong := w.service.Check(req); len(wrong) > 0 {
		w.Fatal(wrong.Err())
	}
	list, err := w.service.ListDecisions(as(scope), req)
	if err != nil {
		w.Fatal(err)
	}
	return list
}

// clicks is the real store and a tail of the click stream. It counts the look-ups in
// both.
type clicks struct {
	conversion.Store
	inTail    []affiliate.Click
	looks     atomic.Int64
	tailLooks atomic.Int64
}

func (c *clicks) FindClick(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error) {
	c.looks.Add(1)
	return c.Store.FindClick(ctx, workspace, id)
}

func (c *clicks) Find(_ context.Context, id affiliate.ClickID) (affiliate.Click, bool, error) {
	c.tailLooks.Add(1)
	for _, click := range c.inTail {
		if click.ID == id {
			return click, true, nil
		}
	}
	return affiliate.Click{}, false, nil
}

func ptr[T any](v T) *T { return &v }
