package attribution_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// simulationOf returns the simulation request with the fields of a report.
func simulationOf(t testing.TB, report *reportRequest) *affiliatev1.SimulateAttributionRequest {
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

func (f *fixture) simulate(report *reportRequest) *affiliatev1.Decision {
	f.Helper()
	d, err := f.service.SimulateAttribution(f.asKey(), simulationOf(f, report))
	if err != nil {
		f.Fatalf("SimulateAttribution(%v): %v", report, err)
	}
	return d
}

// wantReason compares the reason of a simulated decision.
func (f *fixture) wantReason(d *affiliatev1.Decision, want string) {
	f.Helper()
	if d.GetReasonCode() != want {
		f.Errorf("the simulated reason is %s (%s), want %s", d.GetReasonCode(), d.GetExplanation(), want)
	}
}

// withoutIDs returns a copy of a decision without its ids and its time, which differ
// between any two decisions.
func withoutIDs(d *affiliatev1.Decision) *affiliatev1.Decision {
	d = proto.CloneOf(d)
	d.DecisionId, d.ConversionId, d.DecidedAt = nil, nil, nil
	return d
}

// For every reason code, a report gets the decision that was simulated just before. The
// cases run in this order, because each report can change the decisions about later
// reports.
func TestSimulation_DecidesLikeReport(t *testing.T) {
	f := newFixture(t, pgtest.Row{"fraud_policy": fraud.Block}, rules(func(r *program.Rules) {
		r.Tiers, r.LaterRateBps = []program.Tier{{MinConversions: new(int64(1)), RateBps: 3100}}, new(int64(1000))
	}))
	other := f.Join("Olga")
	f.NewPromoCode(other, "spring10")
	f.NewPromoCode(other, "last", func(c *promocode.PromoCode) { c.MaxRedemptions = new(int64(1)) })
	f.NewPromoCode(f.Join("Uwe"), "used-up", func(c *promocode.PromoCode) { c.MaxRedemptions = new(int64(1)) })
	f.report(saleWithCode("only redemption", "used-up"))
	newClick := func() affiliate.ClickID { return f.NewClick(f.pat).ID }
	unknown, expired := f.unknownClick(), f.NewClick(other, f.expired).ID
	f.Insert("fx_rates", pgtest.Row{
		"base": "USD", "quote": "EUR", "date": f.clock.Now().UTC().Add(-time.Minute), "rate": 0.9, "loaded_at": f.clock.Now(),
	})
	suspended := f.NewClick(f.Join("Sue", pgtest.Row{"status": "suspended"})).ID
	binding := saleWithClick("binding of a customer", newClick())
	binding.CustomerId = new("ann")
	f.report(binding)

	occurredAt := timestamppb.New(f.clock.Now().Add(-time.Minute).UTC().Truncate(time.Millisecond))
	for _, tc := range []struct {
		name   string
		click  affiliate.ClickID
		code   string
		change func(*reportRequest)
		reason string
	}{
		{name: "click", click: newClick(), reason: "CLICK_MATCHED"},
		{name: "click and promo code", click: newClick(), code: "SPRING10", reason: "PROMO_CODE_MATCHED"},
		{name: "unknown click and promo code", click: unknown, code: "Spring10", reason: "PROMO_CODE_MATCHED"},
		{name: "last redemption", code: "last", reason: "PROMO_CODE_MATCHED"},
		{name: "used-up code", code: "used-up", reason: "PROMO_CODE_INACTIVE"},
		{name: "unknown code", code: "none", reason: "PROMO_CODE_UNKNOWN"},
		{name: "unknown click", click: unknown, reason: "CLICK_UNKNOWN"},
		{name: "expired click", click: expired, reason: "CLICK_EXPIRED"},
		{name: "suspended participant", click: suspended, reason: "PARTICIPANT_NOT_APPROVED"},
		{
			name: "expired click of a bound customer", click: expired, reason: "CUSTOMER_BOUND",
			change: func(r *reportRequest) { r.CustomerId = new("ann") },
		},
		{
			name: "renewal with an unknown click", click: unknown, reason: "CUSTOMER_BOUND",
			change: func(r *reportRequest) {
				r.EventType, r.CustomerId = affiliatev1.EventType_EVENT_TYPE_RENEWAL, new("ann")
			},
		},
		{
			name: "renewal with only the bound customer", reason: "CUSTOMER_BOUND",
			change: func(r *reportRequest) {
				r.EventType, r.CustomerId = affiliatev1.EventType_EVENT_TYPE_RENEWAL, new("ann")
			},
		},
		{
			name: "new customer", click: newClick(), reason: "CLICK_MATCHED",
			change: func(r *reportRequest) { r.CustomerId = new("ben") },
		},
		{
			name: "lead", click: newClick(), reason: "RULE_NOT_APPLICABLE",
			change: func(r *reportRequest) {
				r.EventType, r.AmountCents, r.Currency, r.TaxCents = affiliatev1.EventType_EVENT_TYPE_LEAD, nil, nil, nil
			},
		},
		{
			name: "another currency and data of the buyer", click: newClick(), reason: "CLICK_MATCHED",
			change: func(r *reportRequest) {
				r.Currency, r.CustomerEmail = new("usd"), new("ann@shop.example")
				r.CustomerIp, r.CustomerUserAgent = new("203.0.113.7"), new("agent")
			},
		},
		{
			name: "self-referral", click: newClick(), reason: "SELF_REFERRAL_BLOCKED",
			change: func(r *reportRequest) { r.CustomerEmail = new(partnerEmail) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			report := sale(tc.name)
			report.OccurredAt = occurredAt
			if !tc.click.IsZero() {
				report.ClickId = new(tc.click.String())
			}
			if tc.code != "" {
				report.PromoCode = &tc.code
			}
			if tc.change != nil {
				tc.change(report)
			}
			before := f.clock.Now().UTC().Truncate(time.Millisecond)
			simulated := f.simulate(report)
			if simulated.DecisionId != nil || simulated.ConversionId != nil || simulated.Supersedes != nil || simulated.SupersededBy != nil {
				t.Errorf("the simulation has the ids of a stored decision: %v", simulated)
			}
			if at, after := simulated.GetDecidedAt().AsTime(), f.clock.Now(); at.Before(before) || at.After(after) {
				t.Errorf("decided_at of the simulation is %s, want a time between %s and %s", at, before, after)
			}
			f.wantReason(simulated, tc.reason)
			stored := f.decision(f.report(report).GetId())
			if !proto.Equal(withoutIDs(simulated), withoutIDs(stored)) {
				t.Errorf("the report got the decision\n%v, want the simulated one\n%v", stored, simulated)
			}
		})
	}
}

// snapshot returns all rows of all tables, by table.
func (f *fixture) snapshot() map[string][]string {
	f.Helper()
	rows := map[string][]string{}
	for _, table := range f.Texts(`
		select quote_ident(schemaname) || '.' || quote_ident(tablename) from pg_tables where schemaname in ('public', 'river')`) {
		rows[table] = f.Texts(`select xmin::text || ' ' || ctid || ' ' || t::text from ` + table + ` t order by 1`)
	}
	return rows
}

func TestSimulation_StoresNothing(t *testing.T) {
	f := newFixture(t)
	f.NewPromoCode(f.pat, "spring10", func(c *promocode.PromoCode) { c.MaxRedemptions = new(int64(5)) })
	binding := saleWithClick("order-1", f.NewClick(f.pat).ID)
	binding.CustomerId = new("ann")
	f.report(binding)
	click := f.NewClick(f.pat)
	before := f.snapshot()
	for _, customer := range []string{"ann", "new customer"} {
		for _, click := range []affiliate.ClickID{click.ID, f.unknownClick()} {
			report := saleWithClick("order-1", click) // a simulation ignores that a conversion has this external id
			report.PromoCode, report.CustomerId, report.CustomerEmail = new("spring10"), &customer, new("ann@example.com")
			f.wantReason(f.simulate(report), "PROMO_CODE_MATCHED")
		}
	}
	after := f.snapshot()
	if len(before) < 30 || len(before["public.promo_codes"]) != 1 || len(before["public.customers"]) != 1 {
		t.Fatalf("the snapshot has %d tables, %d promo codes and %d customers, want at least 30, 1 and 1",
			len(before), len(before["public.promo_codes"]), len(before["public.customers"]))
	}
	for table, rows := range after {
		if !slices.Equal(rows, before[table]) {
			t.Errorf("the simulations changed the rows of %s to\n%q, want\n%q", table, rows, before[table])
		}
	}
}

// A simulation does not wait for the row locks that a report would wait for.
func TestSimulation_WaitsForNoLocks(t *testing.T) {
	f := newFixture(t)
	f.NewPromoCode(f.pat, "spring10")
	binding := saleWithClick("binding of a customer", f.NewClick(f.pat).ID)
	binding.CustomerId = new("ann")
	f.report(binding)
	tx, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, table := range []string{"customers", "customer_payments", "promo_codes", "conversions", "programs", "participants"} {
		if _, err := tx.Exec(t.Context(), `select from `+table+` for update`); err != nil {
			t.Fatal(err)
		}
	}
	report := saleWithCode("order-1", "spring10")
	report.CustomerId = new("ann")
	d := f.simulate(report)
	f.wantReason(d, "PROMO_CODE_MATCHED")
	if len(d.GetCandidates()) != 2 {
		t.Errorf("the candidates are %v, want the promo code and the customer", d.GetCandidates())
	}
}

func TestSimulation_LooksUpClickOnce(t *testing.T) {
	f := newFixture(t)
	var queries atomic.Int64
	f.use(f.OpenHooked(func(sql string, _ []any) error {
		if strings.Contains(sql, "from clicks") {
			queries.Add(1)
		}
		return nil
	}))
	stored := f.UnstoredClick(f.pat)
	f.wantReason(f.simulate(saleWithClick("", stored.ID)), "CLICK_UNKNOWN")
	if queries, reads := queries.Load(), f.tail.reads.Load(); queries != 1 || reads != 1 {
		t.Errorf("the simulation made %d queries for clicks and %d reads of the tail, want 1 and 1", queries, reads)
	}

	f.tail.clicks = []click.Click{stored}
	d := f.simulate(saleWithClick("", stored.ID))
	f.wantReason(d, "CLICK_MATCHED")
	if got := d.GetCalculation().GetAmountCents(); got != 3_000 {
		t.Errorf("the click in the tail earns %d, want 3000", got)
	}

	stored.ID = affiliate.NewID[affiliate.ClickID](f.clock.Now().Add(25 * time.Hour))
	f.tail.clicks = []click.Click{stored}
	f.wantReason(f.simulate(saleWithClick("", stored.ID)), "CLICK_UNKNOWN")
}

func TestSimulation_UsesExchangeRateOfTheDay(t *testing.T) {
	f := newFixture(t)
	now := f.clock.Now().UTC()
	f.Insert("fx_rates", pgtest.Row{"base": "USD", "quote": "EUR", "date": now, "rate": "0.9", "loaded_at": now})
	report := saleWithClick("order-1", f.NewClick(f.pat).ID)
	report.Currency, report.OccurredAt = new("USD"), timestamppb.New(now)
	servertest.WantFields(t, "calculation", f.simulate(report).GetCalculation(), &affiliatev1.DecisionCalculation{
		FxRate: new("0.9"), FxDate: new(now.Format(time.DateOnly)), BaseCurrency: "USD", Currency: "EUR", AmountCents: 2_700,
	})
}

func TestSimulation_RejectsLikeReport(t *testing.T) {
	f := newFixture(t)
	lia := f.InOtherMode(rules()).Join("Lia")
	f.NewPromoCode(lia, "live10")
	f.NewPromoCode(f.NewShop(affiliate.ModeTest, rules()).Join("Pia"), "theirs")
	withoutSignal := saleWithClick("order-1", affiliate.ClickID{})
	withoutSignal.ClickId, withoutSignal.PromoCode, withoutSignal.CustomerId = new(""), new(""), new("ann")
	for name, tc := range map[string]struct {
		report *reportRequest
		want   affiliate.Reason
	}{
		"no signal":                       {withoutSignal, affiliate.ReasonNoAttributionSignal},
		"click of the other mode":         {saleWithClick("order-1", f.NewClick(lia).ID), affiliate.ReasonModeMismatch},
		"promo code of the other mode":    {saleWithCode("order-1", "LIVE10"), affiliate.ReasonModeMismatch},
		"promo code of another workspace": {saleWithCode("order-1", "theirs"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := f.service.SimulateAttribution(f.asKey(), simulationOf(t, tc.report))
			if got := pgtest.ReasonOf(t, err); got != tc.want {
				t.Errorf("SimulateAttribution returned the error code %q, want %q", got, tc.want)
			}
			if tc.want == "" {
				f.wantReason(d, "PROMO_CODE_UNKNOWN")
			}
			_, err = f.conversions.ReportConversion(f.asKey(), tc.report)
			if got := pgtest.ReasonOf(t, err); got != tc.want {
				t.Errorf("ReportConversion returned the error code %q, want %q", got, tc.want)
			}
		})
	}
}

func TestSimulation_IsValidatedLikeReport(t *testing.T) {
	f := newFixture(t)
	valid := saleWithClick("order-1", affiliate.NewID[affiliate.ClickID](f.clock.Now()))
	if err := servertest.Check(f.service, simulationOf(t, valid)); err != nil {
		t.Errorf("the check of a valid simulation returned %v", err)
	}
	invalid := proto.CloneOf(valid)
	invalid.AmountCents, invalid.Currency, invalid.ClickId = nil, new("ABC"), new("x")
	invalid.CustomerEmail, invalid.CustomerIp = new("nobody"), new("here")
	invalid.OccurredAt = timestamppb.New(f.clock.Now().Add(time.Hour))
	invalid.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue("\x00")}}
	got, want := f.service.Check(simulationOf(t, invalid)), f.conversions.Check(invalid)
	if len(want) < 7 || !reflect.DeepEqual(got, want) {
		t.Errorf("the check of the simulation found %v, want at least 7 violations as in the report, %v", got, want)
	}
}

// A simulation is converted to a report by the field numbers, so the two messages must
// have the same fields.
func TestSimulation_HasFieldsOfReport(t *testing.T) {
	simulation := (&affiliatev1.SimulateAttributionRequest{}).ProtoReflect().Descriptor().Fields()
	report := (&reportRequest{}).ProtoReflect().Descriptor().Fields()
	if simulation.Len() != report.Len() {
		t.Errorf("a simulation has %d fields and a report %d, want the same number", simulation.Len(), report.Len())
	}
	for i := range simulation.Len() {
		a := simulation.Get(i)
		b := report.ByNumber(a.Number())
		if b == nil || a.Name() != b.Name() || a.JSONName() != b.JSONName() || a.Kind() != b.Kind() || a.Cardinality() != b.Cardinality() ||
			typeOf(a) != typeOf(b) {
			t.Errorf("field %d is %v in a simulation and %v in a report", a.Number(), a, b)
		}
	}
}

// typeOf returns the name of a field's message or enum type, or an empty name for other
// kinds.
func typeOf(field protoreflect.FieldDescriptor) protoreflect.FullName {
	switch {
	case field.Message() != nil:
		return field.Message().FullName()
	case field.Enum() != nil:
		return field.Enum().FullName()
	}
	return ""
}
