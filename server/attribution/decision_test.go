package attribution_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// find returns the decision in force about the conversion with an external id. A decision
// is in force until a later decision about the same conversion supersedes it.
func (f *fixture) find(external string) *affiliatev1.Decision {
	f.Helper()
	d, err := f.service.FindDecision(f.asKey(), &affiliatev1.FindDecisionRequest{ExternalTransactionId: external})
	if err != nil {
		f.Fatalf("FindDecision(%s): %v", external, err)
	}
	return d
}

// decisionForDashboard returns the decision in force about a conversion, as
// GetConversionAttribution shows it. This is the call that the dashboard uses.
func (f *fixture) decisionForDashboard(conversion string) *affiliatev1.Decision {
	f.Helper()
	d, err := f.service.GetConversionAttribution(f.asViewer(), &affiliatev1.GetConversionAttributionRequest{ConversionId: conversion})
	if err != nil {
		f.Fatalf("GetConversionAttribution(%s): %v", conversion, err)
	}
	return d
}

// equalMessages reports whether two lists contain equal messages.
func equalMessages[M proto.Message](a, b []M) bool {
	return slices.EqualFunc(a, b, func(a, b M) bool { return proto.Equal(a, b) })
}

func TestGetDecision_ReturnsAllDetails(t *testing.T) {
	f := newFixture(t)
	winner := f.Join("Wanda")
	f.NewPromoCode(winner, "spring10")
	click := f.NewClick(f.pat)
	req := saleWithClick("order-1", click.ID)
	req.PromoCode = new("SPRING10")
	r := f.report(req)
	got := f.decision(r.GetId())

	want := &affiliatev1.Decision{
		DecisionId: new(r.GetAttribution().GetDecisionId()), ConversionId: new(r.GetId()), Attributed: true,
		Method: new("promo_code"), ReasonCode: "PROMO_CODE_MATCHED", Explanation: r.GetAttribution().GetExplanation(),
		EngineVersion: attribution.EngineVersion, DecidedAt: r.GetCreatedAt(),
		Inputs: &affiliatev1.DecisionInputs{
			Mode: affiliatev1.Mode_MODE_TEST, EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, OccurredAt: r.GetOccurredAt(),
			AmountCents: 11_900, Currency: new("EUR"), TaxCents: 1_900, ClickId: new(click.ID.String()), PromoCode: new("spring10"),
		},
		Program: &affiliatev1.DecisionProgram{
			Id: f.Program.String(), WindowDays: 30, Model: affiliatev1.AttributionModel_ATTRIBUTION_MODEL_LAST_CLICK,
			Precedence: affiliatev1.SignalPrecedence_SIGNAL_PRECEDENCE_PROMO_CODE_FIRST, Name: new("P"),
		},
		Candidates: []*affiliatev1.DecisionCandidate{
			{Type: "promo_code", PromoCode: new("spring10"), ParticipantId: new(winner.ID.String()), PartnerName: new("Wanda"), Eligible: true},
			{
				Type: "click", ClickId: new(click.ID.String()), ParticipantId: new(f.pat.ID.String()), PartnerName: new("Pat"), RejectedBecause: new("OUTRANKED"),
				At: server.Timestamp(click.ReceivedAt), ExpiresAt: server.Timestamp(click.ExpiresAt),
			},
		},
		Calculation: &affiliatev1.DecisionCalculation{
			BaseAmountCents: 10_000, BaseCurrency: "EUR", NetBasis: "net_of_tax", Source: "program", RateBps: new(int64(3_000)),
			Rounding: attribution.RoundingHalfUp, AmountCents: 3_000, Currency: "EUR",
		},
		Steps: got.GetSteps(), Rule: got.GetRule(), Fraud: got.GetFraud(), // see below and the next tests
	}
	if !proto.Equal(got, want) {
		t.Errorf("GetDecision returned\n%v, want\n%v", got, want)
	}
	for i, step := range got.GetSteps() {
		if step.GetOrder() != int32(i+1) || step.GetOutcome() != "passed" || step.GetCheck() == "" || step.GetDetail() == "" {
			t.Errorf("step %d is %v, want the order %d, a passed check and a detail", i, step, i+1)
		}
	}
	if len(got.GetSteps()) < 5 || got.GetSteps()[0].GetCheck() != "promo_code.known" {
		t.Errorf("the steps are %v, want at least 5 and promo_code.known first", got.GetSteps())
	}
	if found := f.find("order-1"); !proto.Equal(found, got) {
		t.Errorf("FindDecision returned\n%v, want\n%v", found, got)
	}
	if shown := f.decisionForDashboard(r.GetId()); !proto.Equal(shown, got) {
		t.Errorf("GetConversionAttribution returned\n%v, want\n%v", shown, got)
	}
}

// A decision shows the rules that were stored with it, even if the programme's rules have
// changed. It also shows fields that the current version of the service does not know.
func TestGetDecision_ReturnsRulesAsStored(t *testing.T) {
	f := newFixture(t)
	r := f.report(saleWithClick("order-1", f.NewClick(f.pat).ID))
	const stored = `{
		"version": 4,
		"rules": {"rate_bps": 3000, "cap_cents": 1000000000000, "retired": [1, null, "x", {"y": true}]},
		"source": "program"
	}`
	f.Exec(`update attribution_decisions set trace = jsonb_set(trace, '{rule}', $1)`, stored)
	f.Exec(`update programs set rules = rules || '{"rate_bps":1}'`)
	var want map[string]any
	if err := json.Unmarshal([]byte(stored), &want); err != nil {
		t.Fatal(err)
	}
	if got := f.decision(r.GetId()).GetRule().AsMap(); !reflect.DeepEqual(got, want) {
		t.Errorf("the rules of the decision are %v, want %v", got, want)
	}
}

func TestGetDecision_ReturnsPartsOfCalculation(t *testing.T) {
	f := newFixture(t, rules(func(r *program.Rules) {
		r.Products = []program.ProductRate{{ProductID: "book", Rate: program.Rate{Bps: new(int64(500))}}}
	}))
	req := saleWithClick("order-1", f.NewClick(f.pat).ID)
	req.LineItems = []*affiliatev1.LineItem{
		{ProductId: "book", Quantity: new(int64(2)), AmountCents: 6_000}, {ProductId: "film", AmountCents: 4_000},
	}
	got := f.decision(f.report(req).GetId()).GetCalculation()
	servertest.WantFields(t, "calculation", got, &affiliatev1.DecisionCalculation{Source: "mixed", AmountCents: 1_500})
	want := []*affiliatev1.DecisionCalculationPart{
		{ProductId: "book", AmountCents: 6_000, Quantity: 2, RateBps: new(int64(500)), Source: "product"},
		{ProductId: "film", AmountCents: 4_000, Quantity: 1, RateBps: new(int64(3_000)), Source: "program"},
	}
	if !equalMessages(got.GetParts(), want) {
		t.Errorf("the parts of the calculation are %v, want %v", got.GetParts(), want)
	}
}

func TestGetDecision_ReturnsFraudSignals(t *testing.T) {
	f := newFixture(t, pgtest.Row{"fraud_policy": fraud.Observe})
	click := f.NewClick(f.pat, func(c *click.Click) { c.IsBot = true })
	r := f.report(saleWithClick("order-1", click.ID))
	got := f.decision(r.GetId()).GetFraud()
	if !equalMessages(got, r.GetFraud().GetSignals()) {
		t.Errorf("the fraud signals of the decision are %v, want those of the report, %v", got, r.GetFraud().GetSignals())
	}
	want := &affiliatev1.FraudSignal{Rule: "bot_click", Score: 70, Evidence: "The click was made by a bot."}
	if !slices.ContainsFunc(got, func(s *affiliatev1.FraudSignal) bool { return proto.Equal(s, want) }) {
		t.Errorf("the fraud signals of the decision are %v, want %v among them", got, want)
	}
}

// A candidate that comes from the customer's binding has the same customer reference as
// the conversion.
func TestDecision_CandidateHasCustomerReference(t *testing.T) {
	f := newFixture(t)
	first := saleWithClick("order-1", f.NewClick(f.pat).ID)
	first.CustomerId = new("ann")
	f.report(first)
	renewal := saleWithClick("order-2", f.NewClick(f.pat).ID)
	renewal.EventType, renewal.CustomerId = affiliatev1.EventType_EVENT_TYPE_RENEWAL, new("ann")
	simulated := f.simulate(renewal)
	conversion := f.report(renewal).GetId()
	reference := f.Texts(`select customer_ref from conversions where id::text = $1`, conversion)[0]
	if len(reference) != 64 {
		t.Fatalf("the customer reference is %q, want 64 digits", reference)
	}
	for name, d := range map[string]*affiliatev1.Decision{
		"SimulateAttribution":      simulated,
		"GetDecision":              f.decision(conversion),
		"ListDecisions":            f.list(f.Scope, &affiliatev1.ListDecisionsRequest{}).GetData()[0],
		"FindDecision":             f.find("order-2"),
		"GetConversionAttribution": f.decisionForDashboard(conversion),
	} {
		got := map[string]string{}
		for _, candidate := range d.GetCandidates() {
			got[candidate.GetType()] = candidate.GetCustomerId()
		}
		if want := map[string]string{"click": "", "customer": reference}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s returned candidates with the customers %v, want %v", name, got, want)
		}
	}
}

func TestGetDecision_WithoutAttribution(t *testing.T) {
	f := newFixture(t)
	click := f.unknownClick()
	r := f.report(saleWithClick("order-1", click))
	d := f.decision(r.GetId())
	if d.GetAttributed() || d.Method != nil || d.GetReasonCode() != "CLICK_UNKNOWN" {
		t.Errorf("the decision is %v, want CLICK_UNKNOWN without an attribution", d)
	}
	if d.GetProgram() != nil || d.GetRule() != nil || d.GetCalculation() != nil {
		t.Errorf("the decision has the programme %v, rules %v and calculation %v, want none", d.GetProgram(), d.GetRule(), d.GetCalculation())
	}
	want := []*affiliatev1.DecisionCandidate{{Type: "click", ClickId: new(click.String()), RejectedBecause: new("CLICK_UNKNOWN")}}
	if !equalMessages(d.GetCandidates(), want) {
		t.Errorf("the candidates are %v, want %v", d.GetCandidates(), want)
	}
	if steps := d.GetSteps(); len(steps) != 1 || steps[0].GetOutcome() != "failed" {
		t.Errorf("the steps are %v, want one failed check", steps)
	}
}

func TestListDecisions_LinksSupersededDecisions(t *testing.T) {
	f := newFixture(t)
	r := f.report(saleWithClick("order-1", f.NewClick(f.pat).ID))
	first := f.decision(r.GetId())
	chain := []string{first.GetDecisionId()} // oldest first
	for range 2 {
		f.clock.Advance(time.Second)
		moved, err := f.conversions.ReattributeConversion(
			servertest.AsMember(t, f.Scope, f.Owner, affiliate.RoleOwner),
			&affiliatev1.ReattributeConversionRequest{
				ConversionId: r.GetId(), ParticipantId: f.Join("Olga").ID.String(), Reason: "They called.",
			})
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, moved.GetAttribution().GetDecisionId())
	}
	servertest.WantFields(t, "decision in force", f.decision(r.GetId()), &affiliatev1.Decision{
		DecisionId: &chain[2], Method: new("manual"), ReasonCode: "MANUALLY_REASSIGNED",
	})
	list := f.list(f.Scope, &affiliatev1.ListDecisionsRequest{})
	if list.GetTotal() != 3 || len(list.GetData()) != 3 {
		t.Fatalf("ListDecisions returned %v, want 3 decisions", list)
	}
	for i, want := range []*affiliatev1.Decision{
		{DecisionId: &chain[2], Supersedes: &chain[1]},
		{DecisionId: &chain[1], Supersedes: &chain[0], SupersededBy: &chain[2]},
		{DecisionId: &chain[0], SupersededBy: &chain[1]},
	} {
		d := list.GetData()[i]
		got := &affiliatev1.Decision{DecisionId: d.DecisionId, Supersedes: d.Supersedes, SupersededBy: d.SupersededBy}
		if !proto.Equal(got, want) || d.GetConversionId() != r.GetId() {
			t.Errorf("decision %d of the list is about %s and has the ids %v, want %s and %v", i, d.GetConversionId(), got, r.GetId(), want)
		}
	}
	ofConversion, err := f.service.ListConversionDecisions(f.asViewer(), &affiliatev1.ListConversionDecisionsRequest{ConversionId: r.GetId()})
	if err != nil || !proto.Equal(ofConversion, list) {
		t.Errorf("ListConversionDecisions returned %v, %v, want the list of all decisions", ofConversion, err)
	}
	f.report(saleWithClick("order-2", f.NewClick(f.pat).ID))
	second, err := f.service.ListConversionDecisions(f.asViewer(), &affiliatev1.ListConversionDecisionsRequest{
		ConversionId: r.GetId(), Page: new(int32(2)), PageSize: new(int32(2)),
	})
	if err != nil || second.GetTotal() != 3 || len(second.GetData()) != 1 || second.GetData()[0].GetDecisionId() != chain[0] {
		t.Errorf("page 2 of ListConversionDecisions is %v, %v, want the first decision", second, err)
	}
	first.SupersededBy = &chain[1]
	if got := list.GetData()[2]; !proto.Equal(got, first) {
		t.Errorf("the first decision is now\n%v, want\n%v", got, first)
	}
}

func TestListDecisions_Filters(t *testing.T) {
	f := newFixture(t)
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	other := f.NewParticipant(f.Scope, f.NewProgram(f.Scope, rules()), f.NewPartner("Olga"))
	clickInPausedProgram := f.NewClick(other).ID
	f.Exec(`update programs set status = 'paused' where id = $1`, other.Program)
	for _, report := range []struct {
		external  string
		click     affiliate.ClickID
		decidedAt time.Time
	}{
		{"evening before", f.NewClick(f.pat).ID, day.Add(-time.Millisecond)},
		{"first of the day", f.NewClick(f.pat).ID, day},
		{"last of the day", f.unknownClick(), day.Add(24*time.Hour - time.Millisecond)},
		{"next day", clickInPausedProgram, day.Add(24 * time.Hour)},
	} {
		r := f.report(saleWithClick(report.external, report.click))
		f.Exec(`update attribution_decisions set decided_at = $2 where conversion_id = $1`, r.GetId(), report.decidedAt)
	}

	type request = affiliatev1.ListDecisionsRequest
	all := []string{"next day", "last of the day", "first of the day", "evening before"}
	for name, tc := range map[string]struct {
		req  *request
		want []string
	}{
		"no filter":                         {&request{}, all},
		"empty filters":                     {&request{From: new(""), ReasonCode: new(""), ProgramId: new("")}, all},
		"attributed":                        {&request{Attributed: new(true)}, all[2:]},
		"not attributed":                    {&request{Attributed: new(false)}, all[:2]},
		"reason":                            {&request{ReasonCode: new("CLICK_UNKNOWN")}, []string{"last of the day"}},
		"reason without decisions":          {&request{ReasonCode: new("FRAUD_BLOCKED")}, nil},
		"programme":                         {&request{ProgramId: new(f.Program.String())}, all[2:]},
		"paused programme":                  {&request{ProgramId: new(other.Program.String())}, []string{"next day"}},
		"one day":                           {&request{From: new("2026-03-10"), To: new("2026-03-10")}, all[1:3]},
		"from a day":                        {&request{From: new("2026-03-11")}, all[:1]},
		"to an instant":                     {&request{To: new("2026-03-10T00:00:00Z")}, all[2:]},
		"from an instant with a UTC offset": {&request{From: new("2026-03-10T01:00:00+01:00")}, all[:3]},
		"several filters": {
			&request{From: new("2026-03-10"), Attributed: new(false), ReasonCode: new("PROGRAM_INACTIVE"), ProgramId: new(other.Program.String())},
			[]string{"next day"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := f.list(f.Scope, tc.req)
			f.wantListed(list, tc.want)
			if list.GetTotal() != int64(len(tc.want)) {
				t.Errorf("the total is %d, want %d", list.GetTotal(), len(tc.want))
			}
		})
	}
	for name, tc := range map[string]struct {
		page, size int32
		want       []string
	}{
		"last page":     {2, 3, all[3:]},
		"after the end": {3, 2, nil},
		"middle page":   {2, 1, all[1:2]},
	} {
		t.Run(name, func(t *testing.T) {
			list := f.list(f.Scope, &request{Page: &tc.page, PageSize: &tc.size})
			f.wantListed(list, tc.want)
			if list.GetTotal() != 4 || list.GetPage() != tc.page || list.GetLimit() != tc.size {
				t.Errorf("the list has the total %d, page %d and limit %d, want 4, %d and %d",
					list.GetTotal(), list.GetPage(), list.GetLimit(), tc.page, tc.size)
			}
		})
	}
}

// wantListed compares the external ids of the conversions of listed decisions.
func (f *fixture) wantListed(list *affiliatev1.ListDecisionsResponse, want []string) {
	f.Helper()
	var got []string
	for _, d := range list.GetData() {
		got = append(got, f.Texts(`select external_transaction_id from conversions where id::text = $1`, d.GetConversionId())...)
	}
	if !slices.Equal(got, want) {
		f.Errorf("ListDecisions returned the decisions about %q, want %q", got, want)
	}
}

func TestListDecisions_RejectsInvalidFilters(t *testing.T) {
	f := newFixture(t)
	type request = affiliatev1.ListDecisionsRequest
	for name, tc := range map[string]struct {
		req    *request
		fields []string
	}{
		"end before start":          {&request{From: new("2026-03-11"), To: new("2026-03-10")}, []string{"to"}},
		"invalid dates":             {&request{From: new("March"), To: new("2026-13-01")}, []string{"from", "to"}},
		"reason in lower case":      {&request{ReasonCode: new("click_unknown")}, []string{"reason_code"}},
		"reason of candidates only": {&request{ReasonCode: new("OUTRANKED")}, []string{"reason_code"}},
		"programme id is no UUID":   {&request{ProgramId: new("P")}, []string{"program_id"}},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []string
			for _, v := range f.service.Check(tc.req) {
				fields = append(fields, v.Field)
				if strings.Contains(v.Message, "date_") {
					t.Errorf("the message %q contains a parameter that the request does not have", v.Message)
				}
			}
			if !slices.Equal(fields, tc.fields) {
				t.Errorf("Check found violations of %q, want %q", fields, tc.fields)
			}
			_, err := f.service.ListDecisions(f.asKey(), tc.req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.fields...)
		})
	}
}

func TestReads_DoNotFindOtherScopes(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat).ID.String()
	conversion := f.report(saleWithClick("order-1", f.NewClick(f.pat).ID)).GetId()
	for name, scope := range map[string]affiliate.Scope{
		"the other mode":    f.InOtherMode().Scope,
		"another workspace": f.NewShop(affiliate.ModeTest).Scope,
	} {
		f.wantNotFound(t, name, scope, conversion, "order-1", click)
		if list := f.list(scope, &affiliatev1.ListDecisionsRequest{}); list.GetTotal() != 0 || len(list.GetData()) != 0 {
			t.Errorf("ListDecisions in %s returned %v, want no decisions", name, list)
		}
	}
	unknown := affiliate.NewID[affiliate.ConversionID](f.clock.Now()).String()
	f.wantNotFound(t, "unknown ids", f.Scope, unknown, "order-2", unknown)
	const withoutTime = "00000000-0000-4000-8000-000000000000" // a UUIDv4, but click ids are UUIDv7
	f.wantNotFound(t, "click id without a time", f.Scope, "1", "1", withoutTime)
	f.wantNotFound(t, "ids that are no UUIDs", f.Scope, "1", "1", "1")
}

// wantNotFound expects that the calls that read one decision or one click find nothing.
func (f *fixture) wantNotFound(t *testing.T, name string, scope affiliate.Scope, conversion, external, click string) {
	t.Helper()
	ctx := servertest.AsSecretKey(t, scope)
	for call, read := range map[string]func() error{
		"GetDecision": func() error {
			_, err := f.service.GetDecision(ctx, &affiliatev1.GetDecisionRequest{ConversionId: conversion})
			return err
		},
		"GetConversionAttribution": func() error {
			_, err := f.service.GetConversionAttribution(ctx, &affiliatev1.GetConversionAttributionRequest{ConversionId: conversion})
			return err
		},
		"ListConversionDecisions": func() error {
			_, err := f.service.ListConversionDecisions(ctx, &affiliatev1.ListConversionDecisionsRequest{ConversionId: conversion})
			return err
		},
		"FindDecision": func() error {
			_, err := f.service.FindDecision(ctx, &affiliatev1.FindDecisionRequest{ExternalTransactionId: external})
			return err
		},
		"GetAttributedClick": func() error {
			_, err := f.service.GetAttributedClick(ctx, &affiliatev1.GetAttributedClickRequest{ClickId: click})
			return err
		},
	} {
		t.Run(call+", "+name, func(t *testing.T) { pgtest.RequireRefusal(t, read(), affiliate.ReasonNotFound) })
	}
}
