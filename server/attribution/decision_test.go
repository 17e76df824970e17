package attribution_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestGetDecision_ReturnsAllDetails(t *testing.T) {
	w := newWorld(t)
	winner := w.newParticipant(w.scope, w.program)
	w.code(w.scope, w.program, winner, "spring10")
	click := w.click()
	req := named("order-1", click)
	req.PromoCode = ptr("SPRING10")
	r := w.report(req)
	d := w.decision(r.GetId())

	if d.GetDecisionId() != r.GetAttribution().GetDecisionId() || d.GetConversionId() != r.GetId() || !d.GetAttributed() ||
		d.GetMethod() != "promo_code" || d.GetReasonCode() != "PROMO_CODE_MATCHED" || d.GetExplanation() != r.GetAttribution().GetExplanation() ||
		d.GetEngineVersion() != affiliate.EngineVersion || !d.GetDecidedAt().AsTime().Equal(r.GetCreatedAt().AsTime()) ||
		d.Supersedes != nil || d.SupersededBy != nil {
		t.Errorf("%v", d)
	}
	wantInputs := &affiliatev1.DecisionInputs{
		Mode: affiliatev1.Mode_MODE_TEST, EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, OccurredAt: r.GetOccurredAt(),
		AmountCents: 11_900, Currency: ptr("EUR"), TaxCents: 1_900, ClickId: ptr(click.String()), PromoCode: ptr("spring10"),
	}
	if !proto.Equal(d.GetInputs(), wantInputs) {
		t.Errorf("inputs %v, want %v", d.GetInputs(), wantInputs)
	}
	wantProgram := &affiliatev1.DecisionProgram{
		Id: w.program.String(), WindowDays: 30, Model: affiliatev1.AttributionModel_ATTRIBUTION_MODEL_LAST_CLICK,
		Precedence: affiliatev1.SignalPrecedence_SIGNAL_PRECEDENCE_PROMO_CODE_FIRST,
	}
	if !proto.Equal(d.GetProgram(), wantProgram) {
		t.Errorf("programme %v, want %v", d.GetProgram(), wantProgram)
	}
	if c := d.GetCandidates(); len(c) != 2 ||
		!proto.Equal(c[0], &affiliatev1.DecisionCandidate{Type: "promo_code", PromoCode: ptr("spring10"), ParticipantId: ptr(winner.String()), Eligible: true}) ||
		c[1].GetType() != "click" || c[1].GetClickId() != click.String() || c[1].GetParticipantId() != w.participant.String() || c[1].GetEligible() ||
		c[1].GetRejectedBecause() != "OUTRANKED" || c[1].GetExpiresAt().AsTime().Sub(c[1].GetAt().AsTime()) != 30*24*time.Hour {
		t.Errorf("candidates %v", c)
	}
	for i, step := range d.GetSteps() {
		if step.GetOrder() != int32(i+1) || step.GetOutcome() != "passed" || step.GetCheck() == "" || step.GetDetail() == "" {
			t.Errorf("step %d: %v", i, step)
		}
	}
	if len(d.GetSteps()) < 5 || d.GetSteps()[0].GetCheck() != "promo_code.known" {
		t.Errorf("steps %v", d.GetSteps())
	}
	c := d.GetCalculation()
	if c.GetBaseAmountCents() != 10_000 || c.GetBaseCurrency() != "EUR" || c.GetNetBasis() != "net_of_tax" || c.GetSource() != "program" ||
		c.GetRateBps() != 3_000 || c.FlatAmountCents != nil || c.GetRounding() != affiliate.RoundingHalfUp || c.GetCappedAtBase() || c.GetCappedAtOrderCap() ||
		c.GetAmountCents() != 3_000 || c.GetCurrency() != "EUR" || c.FxRate != nil || c.FxDate != nil {
		t.Errorf("calculation %v", c)
	}

	byExternal, err := w.service.FindDecision(as(w.scope), &affiliatev1.FindDecisionRequest{ExternalTransactionId: "order-1"})
	if err != nil || !proto.Equal(byExternal, d) {
		t.Errorf("by the merchant's id: %v, %v", byExternal, err)
	}
	twin, err := w.service.GetConversionAttribution(w.asMerchant(), &affiliatev1.GetConversionAttributionRequest{ConversionId: r.GetId()})
	if err != nil || !proto.Equal(twin, d) {
		t.Errorf("for the dashboard: %v, %v", twin, err)
	}
}

// A decision shows the rules as they were stored with it. Later changes of the programme
// do not change them, and fields that the current version does not know are kept.
func TestGetDecision_ReturnsRulesAsStored(t *testing.T) {
	w := newWorld(t)
	r := w.report(named("order-1", w.click()))
	const stored = `{"version": 4, "rules": {"rate_bps": 3000, "cap_cents": 1000000000000, "retired": [1, null, "x", {"y": true}]}, "source": "program"}`
	w.Exec(`update attribution_decisions set trace = jsonb_set(trace, '{rule}', $1)`, stored)
	w.Exec(`update programs set rules = rules || '{"rate_bps":1}'`)
	d := w.decision(r.GetId())
	shown, err := json.Marshal(d.GetRule().AsMap())
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(shown, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(stored), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s, want %s", shown, stored)
	}
}

func TestGetDecision_ReturnsPartsAndFraudSignals(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set rules = rules || '{"products":[{"product_id":"book","rate_bps":500}]}'`)
	req := named("order-1", w.click())
	req.LineItems = []*affiliatev1.LineItem{
		{ProductId: "book", Quantity: ptr(int64(2)), AmountCents: 6_000}, {ProductId: "film", AmountCents: 4_000},
	}
	r := w.report(req)
	w.Exec(`update attribution_decisions set trace = jsonb_set(trace, '{fraud}', '[{"rule":"bot_click","score":70,"evidence":"E"}]')`)
	d := w.decision(r.GetId())
	wantParts := []*affiliatev1.DecisionCalculationPart{
		{ProductId: "book", AmountCents: 6_000, Quantity: 2, RateBps: ptr(int64(500)), Source: "product"},
		{ProductId: "film", AmountCents: 4_000, Quantity: 1, RateBps: ptr(int64(3_000)), Source: "program"},
	}
	if !slices.EqualFunc(d.GetCalculation().GetParts(), wantParts, func(a, b *affiliatev1.DecisionCalculationPart) bool { return proto.Equal(a, b) }) ||
		d.GetCalculation().GetSource() != "mixed" || d.GetCalculation().GetAmountCents() != 1_500 {
		t.Errorf("%v", d.GetCalculation())
	}
	if f := d.GetFraud(); len(f) != 1 || !proto.Equal(f[0], &affiliatev1.FraudSignal{Rule: "bot_click", Score: 70, Evidence: "E"}) {
		t.Errorf("%v", f)
	}
}

// A candidate that comes from the customer's binding has the same customer reference as
// the conversion.
func TestDecision_NamesTheCustomerOfACandidate(t *testing.T) {
	w := newWorld(t)
	first := named("order-1", w.click())
	first.CustomerId = ptr("ann")
	w.report(first)
	renewal := named("order-2", w.click())
	renewal.EventType, renewal.CustomerId = affiliatev1.EventType_EVENT_TYPE_RENEWAL, ptr("ann")
	simulated := w.simulate(renewal)
	made := w.report(renewal)
	ref := w.Texts(`select customer_ref from conversions where id = $1`, made.GetId())[0]

	listed := w.list(w.scope, &affiliatev1.ListDecisionsRequest{}).GetData()
	found, err := w.service.FindDecision(as(w.scope), &affiliatev1.FindDecisionRequest{ExternalTransactionId: "order-2"})
	if err != nil {
		t.Fatal(err)
	}
	ofConversion, err := w.service.GetConversionAttribution(w.asMerchant(), &affiliatev1.GetConversionAttributionRequest{ConversionId: made.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]*affiliatev1.Decision{
		"simulated": simulated, "read": w.decision(made.GetId()), "listed": listed[0], "found": found, "of the conversion": ofConversion,
	} {
		bound := 0
		for _, candidate := range d.GetCandidates() {
			want := ""
			if candidate.GetType() == string(affiliate.ByCustomer) {
				want = ref
				bound++
			}
			if candidate.GetCustomerId() != want {
				t.Errorf("%s: %s names the customer %q, want %q", name, candidate.GetType(), candidate.GetCustomerId(), want)
			}
		}
		if bound != 1 || len(d.GetCandidates()) < 2 || len(ref) != 64 {
			t.Errorf("%s: %v", name, d.GetCandidates())
		}
	}
}

func TestGetDecision_WithoutAttribution(t *testing.T) {
	w := newWorld(t)
	r := w.report(named("order-1", affiliate.NewID[affiliate.Click](w.now().Add(-time.Hour))))
	d := w.decision(r.GetId())
	if d.GetAttributed() || d.Method != nil || d.GetReasonCode() != "CLICK_UNKNOWN" || d.GetProgram() != nil || d.GetRule() != nil || d.GetCalculation() != nil ||
		len(d.GetCandidates()) != 1 || d.GetCandidates()[0].ParticipantId != nil || d.GetCandidates()[0].GetRejectedBecause() != "CLICK_UNKNOWN" ||
		len(d.GetSteps()) != 1 || d.GetSteps()[0].GetOutcome() != "failed" {
		t.Errorf("%v", d)
	}
}

func TestListDecisions_LinksSupersededDecisions(t *testing.T) {
	w := newWorld(t)
	r := w.report(named("order-1", w.click()))
	first := w.decision(r.GetId())
	chain := []string{first.GetDecisionId()}
	for range 2 {
		w.offset += time.Second
		to := w.newParticipant(w.scope, w.program)
		moved, err := w.conversions.ReattributeConversion(w.asMerchant(), &affiliatev1.ReattributeConversionRequest{
			ConversionId: r.GetId(), ParticipantId: to.String(), Reason: "They called.",
		})
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, moved.GetAttribution().GetDecisionId())
	}
	inForce := w.decision(r.GetId())
	if inForce.GetDecisionId() != chain[2] || inForce.GetMethod() != "manual" || inForce.GetReasonCode() != "MANUALLY_REASSIGNED" {
		t.Errorf("in force: %v", inForce)
	}
	list := w.list(w.scope, &affiliatev1.ListDecisionsRequest{})
	if list.GetTotal() != 3 {
		t.Fatalf("%v", list)
	}
	for i, d := range list.GetData() {
		at := len(chain) - 1 - i // newest first
		var before, after *string
		if at > 0 {
			before = &chain[at-1]
		}
		if at+1 < len(chain) {
			after = &chain[at+1]
		}
		if d.GetDecisionId() != chain[at] || d.GetConversionId() != r.GetId() || !reflect.DeepEqual(d.Supersedes, before) || !reflect.DeepEqual(d.SupersededBy, after) {
			t.Errorf("%s supersedes %v, superseded by %v", d.GetDecisionId(), d.Supersedes, d.SupersededBy)
		}
	}
	first.SupersededBy = &chain[1]
	if !proto.Equal(list.GetData()[2], first) {
		t.Errorf("the first decision has changed: %v", list.GetData()[2])
	}
}

func TestListDecisions_Filters(t *testing.T) {
	w := newWorld(t)
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	other := w.newProgram(w.scope)
	pausedPartner := w.newParticipant(w.scope, other)
	at := func(instant time.Time, req *affiliatev1.ReportConversionRequest) {
		t.Helper()
		r := w.report(req)
		w.Exec(`update attribution_decisions set decided_at = $2 where conversion_id = $1`, r.GetId(), instant)
	}
	at(day.Add(-time.Millisecond), named("eve", w.click()))
	at(day, named("first", w.click()))
	at(day.Add(24*time.Hour-time.Millisecond), named("unknown", affiliate.NewID[affiliate.Click](w.now().Add(-time.Hour))))
	click := w.clickIn(w.scope, other, pausedPartner)
	w.Exec(`update programs set status = 'paused' where id = $1`, other)
	at(day.Add(24*time.Hour), named("paused", click))

	type request = affiliatev1.ListDecisionsRequest
	for name, tc := range map[string]struct {
		req  *request
		want []string
	}{
		"all":                        {&request{}, []string{"paused", "unknown", "first", "eve"}},
		"attributed":                 {&request{Attributed: ptr(true)}, []string{"first", "eve"}},
		"not attributed":             {&request{Attributed: ptr(false)}, []string{"paused", "unknown"}},
		"a reason":                   {&request{ReasonCode: ptr("CLICK_UNKNOWN")}, []string{"unknown"}},
		"a reason without decisions": {&request{ReasonCode: ptr("FRAUD_BLOCKED")}, []string{}},
		"a programme":                {&request{ProgramId: ptr(w.program.String())}, []string{"first", "eve"}},
		"a paused programme":         {&request{ProgramId: ptr(other.String())}, []string{"paused"}},
		"a day":                      {&request{From: ptr("2026-03-10"), To: ptr("2026-03-10")}, []string{"unknown", "first"}},
		"from a day":                 {&request{From: ptr("2026-03-11")}, []string{"paused"}},
		"to an instant":              {&request{To: ptr("2026-03-10T00:00:00Z")}, []string{"first", "eve"}},
		"from an instant elsewhere":  {&request{From: ptr("2026-03-10T01:00:00+01:00")}, []string{"paused", "unknown", "first"}},
		"all at once": {
			&request{From: ptr("2026-03-10"), Attributed: ptr(false), ReasonCode: ptr("PROGRAM_INACTIVE"), ProgramId: ptr(other.String())},
			[]string{"paused"},
		},
		"empty ones":        {&request{From: ptr(""), ReasonCode: ptr(""), ProgramId: ptr("")}, []string{"paused", "unknown", "first", "eve"}},
		"a page":            {&request{Page: ptr(int32(2)), PageSize: ptr(int32(3))}, []string{"eve"}},
		"a page too far":    {&request{Page: ptr(int32(3)), PageSize: ptr(int32(2))}, []string{}},
		"a page in between": {&request{Page: ptr(int32(2)), PageSize: ptr(int32(1))}, []string{"unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			list := w.list(w.scope, tc.req)
			got := []string{}
			for _, d := range list.GetData() {
				got = append(got, w.Texts(`select external_transaction_id from conversions where id = $1`, d.GetConversionId())...)
			}
			total := len(tc.want)
			if tc.req.Page != nil {
				total = 4
			}
			if !slices.Equal(got, tc.want) || list.GetTotal() != int64(total) {
				t.Errorf("%v of %d, want %v of %d", got, list.GetTotal(), tc.want, total)
			}
			if tc.req.Page != nil && (list.GetPage() != tc.req.GetPage() || list.GetLimit() != tc.req.GetPageSize()) {
				t.Errorf("page %d of %d", list.GetPage(), list.GetLimit())
			}
		})
	}
}

func TestListDecisions_RejectsInvalidFilters(t *testing.T) {
	w := newWorld(t)
	type request = affiliatev1.ListDecisionsRequest
	for name, tc := range map[string]struct {
		req    *request
		fields []string
	}{
		"backwards":                 {&request{From: ptr("2026-03-11"), To: ptr("2026-03-10")}, []string{"to"}},
		"no dates":                  {&request{From: ptr("March"), To: ptr("2026-13-01")}, []string{"from", "to"}},
		"no reason":                 {&request{ReasonCode: ptr("click_unknown")}, []string{"reason_code"}},
		"reason of candidates only": {&request{ReasonCode: ptr("OUTRANKED")}, []string{"reason_code"}},
		"no id":                     {&request{ProgramId: ptr("P")}, []string{"program_id"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := w.service.Check(tc.req)
			fields := make([]string, len(found))
			for i, v := range found {
				fields[i] = v.Field
				if strings.Contains(v.Message, "date_") {
					t.Errorf("%q names a parameter that the request does not have", v.Message)
				}
			}
			if !slices.Equal(fields, tc.fields) {
				t.Errorf("%v, want %v", found, tc.fields)
			}
			_, err := w.service.ListDecisions(as(w.scope), tc.req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.fields...)
		})
	}
}

func TestReads_DoNotFindOtherScopes(t *testing.T) {
	w := newWorld(t)
	click := w.click()
	r := w.report(named("order-1", click))
	for name, scope := range map[string]affiliate.Scope{
		"the other mode":    {Workspace: w.scope.Workspace, Mode: affiliate.ModeLive},
		"another workspace": {Workspace: w.NewWorkspace(), Mode: affiliate.ModeTest},
	} {
		for call, do := range reads(w, r.GetId(), "order-1", click.String()) {
			t.Run(name+", "+call, func(t *testing.T) { pgtest.RequireRefusal(t, do(as(scope)), affiliate.ReasonNotFound) })
		}
		if list := w.list(scope, &affiliatev1.ListDecisionsRequest{}); list.GetTotal() != 0 || len(list.GetData()) != 0 {
			t.Errorf("%s lists %v", name, list)
		}
	}
	unknown := affiliate.NewID[affiliate.Conversion](w.now()).String()
	for call, do := range reads(w, unknown, "order-2", unknown) {
		t.Run("unknown, "+call, func(t *testing.T) { pgtest.RequireRefusal(t, do(as(w.scope)), affiliate.ReasonNotFound) })
	}
	for call, do := range reads(w, "1", "1", "00000000-0000-4000-8000-000000000000") {
		t.Run("malformed id, "+call, func(t *testing.T) { pgtest.RequireRefusal(t, do(as(w.scope)), affiliate.ReasonNotFound) })
	}
	_, err := w.service.GetAttributedClick(as(w.scope), &affiliatev1.GetAttributedClickRequest{ClickId: "1"})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

// reads returns the calls that read one decision or click, by name.
func reads(w *world, conversion, external, click string) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"decision": func(ctx context.Context) error {
			_, err := w.service.GetDecision(ctx, &affiliatev1.GetDecisionRequest{ConversionId: conversion})
			return err
		},
		"for the dashboard": func(ctx context.Context) error {
			_, err := w.service.GetConversionAttribution(ctx, &affiliatev1.GetConversionAttributionRequest{ConversionId: conversion})
			return err
		},
		"by the merchant's id": func(ctx context.Context) error {
			_, err := w.service.FindDecision(ctx, &affiliatev1.FindDecisionRequest{ExternalTransactionId: external})
			return err
		},
		"click": func(ctx context.Context) error {
			_, err := w.service.GetAttributedClick(ctx, &affiliatev1.GetAttributedClickRequest{ClickId: click})
			return err
		},
	}
}
