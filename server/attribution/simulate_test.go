package attribution_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// simulationOf returns the simulation request with the fields of a report.
func simulationOf(t testing.TB, report *affiliatev1.ReportConversionRequest) *affiliatev1.SimulateAttributionRequest {
	t.Helper()
	wire, err := proto.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	simulation := &affiliatev1.SimulateAttributionRequest{}
	if err := proto.Unmarshal(wire, simulation); err != nil {
		t.Fatal(err)
	}
	return simulation
}

func (w *world) simulate(report *affiliatev1.ReportConversionRequest) *affiliatev1.Decision {
	w.Helper()
	d, err := w.service.SimulateAttribution(as(w.scope), simulationOf(w.TB, report))
	if err != nil {
		w.Fatal(err)
	}
	return d
}

// withoutIDs returns a copy of a decision without its ids and its time, which differ
// between any two decisions.
func withoutIDs(d *affiliatev1.Decision) *affiliatev1.Decision {
	d = proto.CloneOf(d)
	d.DecisionId, d.ConversionId, d.DecidedAt = nil, nil, nil
	return d
}

// For every reason code, a report gets the decision that was simulated just before.
func TestSimulation_DecidesLikeReport(t *testing.T) {
	w := newWorld(t)
	other := w.newParticipant(w.scope, w.program)
	w.code(w.scope, w.program, other, "spring10")
	w.code(w.scope, w.program, other, "used", pgtest.Row{"max_redemptions": 1, "redemptions": 1})
	w.code(w.scope, w.program, other, "last", pgtest.Row{"max_redemptions": 1})
	w.Exec(`update programs set rules = rules || '{"tiers":[{"min_conversions":1,"rate_bps":3100}],"later_rate_bps":1000}'`)
	unknown := affiliate.NewID[affiliate.Click](w.now().Add(-time.Hour))
	expired := w.clickIn(w.scope, w.program, other, pgtest.Row{"expires_at": w.now().Add(-time.Hour)})
	w.Exec(`update programs set fraud_policy = 'block'`)
	mailbox := w.Texts(`select partner_email from participants where id = $1`, w.participant)[0]
	w.Insert("fx_rates", pgtest.Row{"base": "USD", "quote": "EUR", "date": w.now().UTC().Add(-time.Minute), "rate": 0.9, "loaded_at": w.now()})
	suspended := w.NewParticipant(w.scope, w.program, w.NewPartner("Sue"), pgtest.Row{"status": "suspended"}).ID
	bound := named("bind", w.click())
	bound.CustomerId = ptr("ann")
	w.report(bound)

	happened := timestamppb.New(w.now().Add(-time.Minute).UTC().Truncate(time.Millisecond))
	for i, tc := range []struct {
		click  affiliate.ClickID
		code   string
		change func(*affiliatev1.ReportConversionRequest)
		reason string
	}{
		{click: w.click(), reason: "CLICK_MATCHED"},
		{click: w.click(), code: "SPRING10", reason: "PROMO_CODE_MATCHED"},
		{click: unknown, code: "Spring10", reason: "PROMO_CODE_MATCHED"},
		{code: "last", reason: "PROMO_CODE_MATCHED"},
		{code: "used", reason: "PROMO_CODE_INACTIVE"},
		{code: "none", reason: "PROMO_CODE_UNKNOWN"},
		{click: unknown, reason: "CLICK_UNKNOWN"},
		{click: expired, reason: "CLICK_EXPIRED"},
		{click: w.clickIn(w.scope, w.program, suspended), reason: "PARTICIPANT_NOT_APPROVED"},
		{click: expired, reason: "CUSTOMER_BOUND", change: func(r *affiliatev1.ReportConversionRequest) { r.CustomerId = ptr("ann") }},
		{click: unknown, reason: "CUSTOMER_BOUND", change: func(r *affiliatev1.ReportConversionRequest) {
			r.EventType, r.CustomerId = affiliatev1.EventType_EVENT_TYPE_RENEWAL, ptr("ann")
		}},
		{click: w.click(), reason: "CLICK_MATCHED", change: func(r *affiliatev1.ReportConversionRequest) { r.CustomerId = ptr("ben") }},
		{click: w.click(), reason: "RULE_NOT_APPLICABLE", change: func(r *affiliatev1.ReportConversionRequest) {
			r.EventType, r.AmountCents, r.Currency, r.TaxCents = affiliatev1.EventType_EVENT_TYPE_LEAD, nil, nil, nil
		}},
		{click: w.click(), reason: "CLICK_MATCHED", change: func(r *affiliatev1.ReportConversionRequest) {
			r.Currency, r.CustomerEmail, r.CustomerIp, r.CustomerUserAgent = ptr("usd"), ptr("ann@shop.example"), ptr("203.0.113.7"), ptr("agent")
		}},
		{click: w.click(), reason: "SELF_REFERRAL_BLOCKED", change: func(r *affiliatev1.ReportConversionRequest) { r.CustomerEmail = &mailbox }},
	} {
		t.Run(fmt.Sprint(i, " ", tc.reason), func(t *testing.T) {
			report := sale(fmt.Sprint("order-", i))
			report.OccurredAt = happened
			if !tc.click.IsZero() {
				report.ClickId = ptr(tc.click.String())
			}
			if tc.code != "" {
				report.PromoCode = &tc.code
			}
			if tc.change != nil {
				tc.change(report)
			}
			before := w.now().UTC().Truncate(time.Millisecond)
			simulated := w.simulate(report)
			if simulated.DecisionId != nil || simulated.ConversionId != nil || simulated.Supersedes != nil || simulated.SupersededBy != nil {
				t.Errorf("a simulation has the ids of a stored decision: %v", simulated)
			}
			if at := simulated.GetDecidedAt().AsTime(); at.Before(before) || at.After(w.now()) {
				t.Errorf("decided at %s, called at %s", at, before)
			}
			if simulated.GetReasonCode() != tc.reason {
				t.Errorf("%s: %s", simulated.GetReasonCode(), simulated.GetExplanation())
			}
			stored := w.decision(w.report(report).GetId())
			if !proto.Equal(withoutIDs(simulated), withoutIDs(stored)) {
				t.Errorf("\nsimulated %v\n reported %v", simulated, stored)
			}
		})
	}
}

// snapshot returns all rows of all tables.
func (w *world) snapshot() map[string][]string {
	w.Helper()
	rows := map[string][]string{}
	for _, table := range w.Texts(`
		select quote_ident(schemaname) || '.' || quote_ident(tablename) from pg_tables where schemaname in ('public', 'river')`) {
		rows[table] = w.Texts(`select xmin::text || ' ' || ctid || ' ' || t::text from ` + table + ` t order by 1`)
	}
	return rows
}

func TestSimulation_StoresNothing(t *testing.T) {
	w := newWorld(t)
	w.code(w.scope, w.program, w.participant, "spring10", pgtest.Row{"max_redemptions": 5})
	bound := named("bind", w.click())
	bound.CustomerId = ptr("ann")
	w.report(bound)
	click := w.click()
	before := w.snapshot()
	for _, customer := range []string{"ann", "nobody yet"} {
		for _, click := range []affiliate.ClickID{click, affiliate.NewID[affiliate.Click](w.now().Add(-time.Hour))} {
			report := named("bind", click) // a simulation ignores that this external id exists
			report.PromoCode, report.CustomerId, report.CustomerEmail = ptr("spring10"), &customer, ptr("ann@example.com")
			if d := w.simulate(report); d.GetReasonCode() != "PROMO_CODE_MATCHED" {
				t.Errorf("%v", d)
			}
		}
	}
	after := w.snapshot()
	if len(before) < 30 || len(before["public.promo_codes"]) != 1 || len(before["public.customers"]) != 1 {
		t.Fatalf("the snapshot is not complete: %v", before)
	}
	for table, rows := range after {
		if !slices.Equal(rows, before[table]) {
			t.Errorf("%s changed:\n%q\n%q", table, before[table], rows)
		}
	}
}

// A simulation does not wait for the row locks that a report would wait for.
func TestSimulation_WaitsForNoLocks(t *testing.T) {
	w := newWorld(t)
	w.code(w.scope, w.program, w.participant, "spring10")
	bound := named("bind", w.click())
	bound.CustomerId = ptr("ann")
	w.report(bound)
	tx, err := w.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, table := range []string{"customers", "customer_payments", "promo_codes", "conversions", "programs", "participants"} {
		if _, err := tx.Exec(t.Context(), `select from `+table+` for update`); err != nil {
			t.Fatal(err)
		}
	}
	report := sale("order-1")
	report.PromoCode, report.CustomerId = ptr("spring10"), ptr("ann")
	if d := w.simulate(report); d.GetReasonCode() != "PROMO_CODE_MATCHED" || len(d.GetCandidates()) != 2 {
		t.Errorf("%v", d)
	}
}

func TestSimulation_LooksUpClickOnce(t *testing.T) {
	w := newWorld(t)
	at := w.now().UTC().Truncate(time.Millisecond)
	id := affiliate.NewID[affiliate.Click](at)
	if d := w.simulate(named("", id)); d.GetReasonCode() != "CLICK_UNKNOWN" || w.clicks.looks.Load() != 1 || w.clicks.tailLooks.Load() != 1 {
		t.Errorf("%v after %d look-ups in Postgres and %d in the tail", d, w.clicks.looks.Load(), w.clicks.tailLooks.Load())
	}
	w.clicks.inTail = []affiliate.Click{{
		ID: id, Scope: w.scope, Program: w.program, Participant: w.participant, ReceivedAt: at, ExpiresAt: affiliate.WindowEnd(at, 30),
	}}
	if d := w.simulate(named("", id)); d.GetReasonCode() != "CLICK_MATCHED" || d.GetCalculation().GetAmountCents() != 3_000 {
		t.Errorf("in the tail: %v", d)
	}
	future := affiliate.NewID[affiliate.Click](at.Add(time.Hour))
	w.clicks.inTail[0].ID = future
	if d := w.simulate(named("", future)); d.GetReasonCode() != "CLICK_UNKNOWN" {
		t.Errorf("from the future: %v", d)
	}
}

func TestSimulation_UsesExchangeRateOfTheDay(t *testing.T) {
	w := newWorld(t)
	day := w.now().UTC()
	w.Insert("fx_rates", pgtest.Row{"base": "USD", "quote": "EUR", "date": day, "rate": "0.9", "loaded_at": day})
	report := named("order-1", w.click())
	report.Currency, report.OccurredAt = ptr("USD"), timestamppb.New(day)
	c := w.simulate(report).GetCalculation()
	if c.GetFxRate() != "0.9" || c.GetFxDate() != day.Format(time.DateOnly) || c.GetBaseCurrency() != "USD" || c.GetCurrency() != "EUR" || c.GetAmountCents() != 2_700 {
		t.Errorf("%v", c)
	}
}

func TestSimulation_RejectsLikeReport(t *testing.T) {
	w := newWorld(t)
	live := affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeLive}
	program := w.newProgram(live)
	participant := w.newParticipant(live, program)
	w.code(live, program, participant, "live10")
	foreign := affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeTest}
	foreignProgram := w.newProgram(foreign)
	w.code(foreign, foreignProgram, w.newParticipant(foreign, foreignProgram), "theirs")
	withCode := func(code string) *affiliatev1.ReportConversionRequest {
		r := sale("order-1")
		r.PromoCode = &code
		return r
	}
	nothing := sale("order-1")
	nothing.ClickId, nothing.PromoCode, nothing.CustomerId = ptr(""), ptr(""), ptr("ann")
	for name, tc := range map[string]struct {
		report *affiliatev1.ReportConversionRequest
		want   affiliate.Reason
	}{
		"no signal":                 {nothing, affiliate.ReasonNoAttributionSignal},
		"a click of the other mode": {named("order-1", w.clickIn(live, program, participant)), affiliate.ReasonModeMismatch},
		"a code of the other mode":  {withCode("LIVE10"), affiliate.ReasonModeMismatch},
		"another workspace's code":  {withCode("theirs"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := w.service.SimulateAttribution(as(w.scope), simulationOf(t, tc.report))
			if got := pgtest.ReasonOf(t, err); got != tc.want {
				t.Errorf("%v, %s, want %s", d, got, tc.want)
			}
			if tc.want == "" && d.GetReasonCode() != "PROMO_CODE_UNKNOWN" {
				t.Errorf("%v", d)
			}
			_, err = w.conversions.ReportConversion(as(w.scope), tc.report)
			if got := pgtest.ReasonOf(t, err); got != tc.want {
				t.Errorf("a report gets %s", got)
			}
		})
	}
}

func TestSimulation_IsValidatedLikeReport(t *testing.T) {
	w := newWorld(t)
	good := named("order-1", affiliate.NewID[affiliate.Click](w.now()))
	if found := w.service.Check(simulationOf(t, good)); len(found) != 0 {
		t.Errorf("%v", found)
	}
	bad := proto.CloneOf(good)
	bad.AmountCents, bad.Currency, bad.ClickId = nil, ptr("ABC"), ptr("x")
	bad.CustomerEmail, bad.CustomerIp = ptr("nobody"), ptr("here")
	bad.OccurredAt = timestamppb.New(w.now().Add(time.Hour))
	bad.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue("\x00")}}
	found := w.service.Check(simulationOf(t, bad))
	if want := w.conversions.Check(bad); len(found) < 7 || !reflect.DeepEqual(found, want) {
		t.Errorf("%v, want %v", found, want)
	}
}

// A simulation is converted to a report by the field numbers, so the two messages must
// have the same fields.
func TestSimulation_HasFieldsOfReport(t *testing.T) {
	simulation := (&affiliatev1.SimulateAttributionRequest{}).ProtoReflect().Descriptor().Fields()
	report := (&affiliatev1.ReportConversionRequest{}).ProtoReflect().Descriptor().Fields()
	if simulation.Len() != report.Len() {
		t.Errorf("%d fields and %d", simulation.Len(), report.Len())
	}
	for i := range simulation.Len() {
		field := simulation.Get(i)
		twin := report.ByNumber(field.Number())
		switch {
		case twin == nil:
			t.Errorf("a report has no field %d", field.Number())
		case field.Name() != twin.Name(), field.JSONName() != twin.JSONName(), field.Kind() != twin.Kind(), field.Cardinality() != twin.Cardinality(),
			typeOf(field) != typeOf(twin):
			t.Errorf("%v is not %v", field, twin)
		}
	}
}

// typeOf returns the name of a field's message or enum type, or "" for other kinds.
func typeOf(field protoreflect.FieldDescriptor) protoreflect.FullName {
	switch {
	case field.Message() != nil:
		return field.Message().FullName()
	case field.Enum() != nil:
		return field.Enum().FullName()
	}
	return ""
}
