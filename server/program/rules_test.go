package program_test

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/program"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

type (
	rulesMessage = affiliatev1.CommissionRules
	tier         = affiliatev1.Tier
	productRate  = affiliatev1.ProductRate
	eventRate    = affiliatev1.EventRate
	recurring    = affiliatev1.Recurring
)

func TestCreateProgram_StoresAllRules(t *testing.T) {
	f := newFixture(t)
	rules := fullRequest().CommissionRules
	rules.Tiers = []*tier{
		{MinRevenueCents: proto.Int64(900_000), Percentage: proto.Float64(30)},
		{MinRevenueCents: proto.Int64(0), Percentage: proto.Float64(0.01)},
		{MinRevenueCents: proto.Int64(50_000), Percentage: proto.Float64(12.34)},
	}
	want := proto.CloneOf(rules)
	want.Tiers = []*tier{rules.Tiers[1], rules.Tiers[2], rules.Tiers[0]}
	want.Recurring.Enabled = proto.Bool(true)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P", CommissionRules: rules})
	servertest.WantMessage(t, "CreateProgram", p.CommissionRules, want)
	servertest.WantMessage(t, "GetProgram", f.get(p.Id), p)
}

func TestCreateProgram_WithoutRecurringPayments(t *testing.T) {
	f := newFixture(t)
	disabled := &recurring{Enabled: proto.Bool(false)}
	got := f.create(&affiliatev1.CreateProgramRequest{Name: "P", CommissionRules: &rulesMessage{Recurring: disabled}}).CommissionRules
	servertest.WantMessage(t, "CreateProgram", got.Recurring, disabled)
	if got.GetPercentage() != 20 {
		t.Errorf("CreateProgram returned the percentage %v, want the default 20", got.GetPercentage())
	}
}

// A mask can name fields at any depth. If it names an object, the fields that the request
// sets in this object are merged into the stored object. Lists are replaced. If the mask
// names a field and the request does not set it, the field is cleared.
func TestUpdateProgram_RulesAtEveryDepth(t *testing.T) {
	f := newFixture(t)
	noLimit := &recurring{Enabled: proto.Bool(true)}
	for _, tc := range []struct {
		name   string
		rules  *rulesMessage
		paths  []string
		change func(*rulesMessage)
	}{
		{"one limit", &rulesMessage{Recurring: &recurring{MaxMonths: proto.Int32(3)}}, []string{"commission_rules.recurring.max_months"}, func(r *rulesMessage) { r.Recurring.MaxMonths = proto.Int32(3) }},
		{"one limit cleared", &rulesMessage{Recurring: &recurring{}}, []string{"commission_rules.recurring.max_months"}, func(r *rulesMessage) { r.Recurring.MaxMonths = nil }},
		{"one limit cleared, without rules in the request", nil, []string{"commission_rules.recurring.max_payments"}, func(r *rulesMessage) { r.Recurring.MaxPayments = nil }},
		{"same limit", &rulesMessage{Recurring: &recurring{MaxMonths: proto.Int32(12)}}, []string{"commission_rules.recurring.max_months"}, func(*rulesMessage) {}},
		{"recurring cleared", &rulesMessage{}, []string{"commission_rules.recurring"}, func(r *rulesMessage) { r.Recurring = noLimit }},
		{"recurring merges", &rulesMessage{Recurring: &recurring{MaxPayments: proto.Int32(2)}}, []string{"commission_rules.recurring"}, func(r *rulesMessage) { r.Recurring.MaxPayments = proto.Int32(2) }},
		{"empty recurring", &rulesMessage{Recurring: &recurring{}}, []string{"commission_rules.recurring"}, func(*rulesMessage) {}},
		{"path of all rules merges recurring", &rulesMessage{Recurring: &recurring{MaxPayments: proto.Int32(2)}}, []string{"commission_rules"}, func(r *rulesMessage) { r.Recurring.MaxPayments = proto.Int32(2) }},
		{"recurring disabled", &rulesMessage{Recurring: &recurring{Enabled: proto.Bool(false)}}, []string{"commission_rules.recurring.enabled"}, func(r *rulesMessage) { r.Recurring = &recurring{Enabled: proto.Bool(false)} }},
		{"recurring enabled by default", nil, []string{"commission_rules.recurring.enabled"}, func(*rulesMessage) {}},
		{"tiers replaced", &rulesMessage{Tiers: []*tier{{MinRevenueCents: proto.Int64(5), Percentage: proto.Float64(2)}, {MinRevenueCents: proto.Int64(1), Percentage: proto.Float64(1)}}}, []string{"commission_rules.tiers"}, func(r *rulesMessage) {
			r.Tiers = []*tier{{MinRevenueCents: proto.Int64(1), Percentage: proto.Float64(1)}, {MinRevenueCents: proto.Int64(5), Percentage: proto.Float64(2)}}
		}},
		{"same tiers", &rulesMessage{Tiers: fullRequest().CommissionRules.Tiers}, []string{"commission_rules.tiers"}, func(*rulesMessage) {}},
		{"lists cleared", &rulesMessage{}, []string{"commission_rules.tiers", "commission_rules.products", "commission_rules.events"}, func(r *rulesMessage) { r.Tiers, r.Products, r.Events = nil, nil, nil }},
		{"path of all rules keeps absent lists", &rulesMessage{}, []string{"commission_rules"}, func(*rulesMessage) {}},
		{"path of all rules replaces a present list", &rulesMessage{Products: []*productRate{{ProductId: "B", Percentage: proto.Float64(0)}}}, []string{"commission_rules"}, func(r *rulesMessage) {
			r.Products = []*productRate{{ProductId: "B", Percentage: proto.Float64(0)}}
		}},
		{"events replaced", &rulesMessage{Events: []*eventRate{{EventType: signup}}}, []string{"commission_rules.events"}, func(r *rulesMessage) { r.Events = []*eventRate{{EventType: signup}} }},
		{"amounts set", &rulesMessage{LaterPercentage: proto.Float64(99.99), MinOrderCents: proto.Int64(0), CapCents: proto.Int64(1)}, []string{"commission_rules.later_percentage", "commission_rules.min_order_cents", "commission_rules.cap_cents"}, func(r *rulesMessage) {
			r.LaterPercentage, r.MinOrderCents, r.CapCents = proto.Float64(99.99), proto.Int64(0), proto.Int64(1)
		}},
		{"amounts cleared", nil, []string{"commission_rules.later_percentage", "commission_rules.min_order_cents", "commission_rules.cap_cents"}, func(r *rulesMessage) { r.LaterPercentage, r.MinOrderCents, r.CapCents = nil, nil, nil }},
		{"fields outside the mask", &rulesMessage{CapCents: proto.Int64(1), Recurring: &recurring{MaxMonths: proto.Int32(1)}}, []string{"commission_rules.hold_period_days"}, func(r *rulesMessage) { r.HoldPeriodDays = proto.Int32(30) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := f.create(&affiliatev1.CreateProgramRequest{Name: "P", CommissionRules: fullRequest().CommissionRules})
			want := proto.CloneOf(before.CommissionRules)
			tc.change(want)
			version := int32(1)
			if !proto.Equal(want, before.CommissionRules) {
				version = 2
			}
			got := f.mustUpdate(before.Id, &affiliatev1.UpdateProgramRequest{CommissionRules: tc.rules}, tc.paths...)
			servertest.WantMessage(t, "UpdateProgram", got.CommissionRules, want)
			if got.RulesVersion != version {
				t.Errorf("UpdateProgram returned version %d of the rules, want %d", got.RulesVersion, version)
			}
		})
	}
}

// Check reports the paths of all invalid rules at once. It reports the same paths for a
// request that creates a programme and for a request that updates a programme.
func TestCheck_ReportsThePathOfEachInvalidRule(t *testing.T) {
	service := program.New(nil, nil)
	percentage, number := proto.Float64(10), proto.Int64(10)
	for _, tc := range []struct {
		name  string
		rules *rulesMessage
		want  []string
	}{
		{"valid", fullRequest().CommissionRules, nil},
		{"too many decimals", &rulesMessage{
			LaterPercentage: proto.Float64(1.001),
			Tiers:           []*tier{{MinConversions: number, Percentage: proto.Float64(1.005)}},
			Products:        []*productRate{{ProductId: "a", Percentage: proto.Float64(0.001)}},
			Events:          []*eventRate{{EventType: purchase}, {EventType: signup, Percentage: proto.Float64(99.999)}},
		}, []string{"commission_rules.later_percentage", "commission_rules.tiers[0].percentage", "commission_rules.products[0].percentage", "commission_rules.events[1].percentage"}},
		{"a tier without a threshold, a tier with two", &rulesMessage{Tiers: []*tier{{Percentage: proto.Float64(1)}, {MinConversions: number, MinRevenueCents: number}}}, []string{"commission_rules.tiers[0].min_conversions", "commission_rules.tiers[1].min_revenue_cents", "commission_rules.tiers[1].percentage"}},
		{"tiers of two kinds", &rulesMessage{Tiers: []*tier{{MinConversions: number, Percentage: proto.Float64(1)}, {MinRevenueCents: number, Percentage: proto.Float64(1)}}}, []string{"commission_rules.tiers[1].min_revenue_cents"}},
		{"threshold twice", &rulesMessage{Tiers: []*tier{{MinConversions: number, Percentage: proto.Float64(1)}, {MinConversions: proto.Int64(1), Percentage: proto.Float64(1)}, {MinConversions: number, Percentage: proto.Float64(1)}}}, []string{"commission_rules.tiers[2].min_conversions"}},
		{"a product without a rate, a product with two", &rulesMessage{Products: []*productRate{{ProductId: "a"}, {ProductId: "b", Percentage: percentage, FlatAmountCents: number}}}, []string{"commission_rules.products[0].percentage", "commission_rules.products[1].flat_amount_cents"}},
		{"product twice", &rulesMessage{Products: []*productRate{{ProductId: "a", Percentage: percentage}, {ProductId: "a", FlatAmountCents: number}}}, []string{"commission_rules.products[1].product_id"}},
		{"event with two rates", &rulesMessage{Events: []*eventRate{{EventType: purchase, Percentage: percentage, FlatAmountCents: number}}}, []string{"commission_rules.events[0].flat_amount_cents"}},
		{"event twice", &rulesMessage{Events: []*eventRate{{EventType: signup}, {EventType: signup, FlatAmountCents: number}}}, []string{"commission_rules.events[1].event_type"}},
		{"limits of disabled recurring payments", &rulesMessage{Recurring: &recurring{Enabled: proto.Bool(false), MaxMonths: proto.Int32(1), MaxPayments: proto.Int32(1)}}, []string{"commission_rules.recurring.max_months", "commission_rules.recurring.max_payments"}},
		{"several violations", &rulesMessage{
			Percentage: percentage, FlatAmountCents: number, Recurring: &recurring{Enabled: proto.Bool(false), MaxMonths: proto.Int32(1)},
			Tiers: []*tier{{Percentage: proto.Float64(1.005)}}, Products: []*productRate{{ProductId: "a"}}, Events: []*eventRate{{EventType: signup}, {EventType: signup}},
		}, []string{
			"commission_rules.flat_amount_cents", "commission_rules.recurring.max_months", "commission_rules.tiers[0].percentage",
			"commission_rules.tiers[0].min_conversions", "commission_rules.products[0].percentage", "commission_rules.events[1].event_type",
		}},
	} {
		slices.Sort(tc.want)
		for method, req := range map[string]proto.Message{
			"create": &affiliatev1.CreateProgramRequest{Name: "P", CommissionRules: tc.rules},
			"update": &affiliatev1.UpdateProgramRequest{CommissionRules: tc.rules, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"commission_rules"}}},
		} {
			got := fields(service.Check(req))
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: Check of a request to %s found violations of %q, want %q", tc.name, method, got, tc.want)
			}
		}
	}
}

// A limit of recurring payments is invalid if the stored rules disable recurring
// payments. Check cannot see this, so the transaction must reject the update.
func TestUpdateProgram_RejectsLimitsOfDisabledRecurringPayments(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P", CommissionRules: &rulesMessage{Recurring: &recurring{Enabled: proto.Bool(false)}}})
	limit := &affiliatev1.UpdateProgramRequest{CommissionRules: &rulesMessage{Recurring: &recurring{MaxMonths: proto.Int32(1)}}}
	_, err := f.update(p.Id, limit, "commission_rules.recurring.max_months")
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "commission_rules.recurring.max_months")
	limit.CommissionRules.Recurring.Enabled = proto.Bool(true)
	got := f.mustUpdate(p.Id, limit, "commission_rules.recurring.max_months", "commission_rules.recurring.enabled")
	if months := got.CommissionRules.Recurring.GetMaxMonths(); months != 1 {
		t.Errorf("UpdateProgram returned max_months = %d, want 1", months)
	}
}

func (f *fixture) listRules(programID string, page, size int32) *affiliatev1.ListProgramRulesResponse {
	f.Helper()
	got, err := f.service.ListProgramRules(f.asOwner(), &affiliatev1.ListProgramRulesRequest{ProgramId: programID, Page: &page, PageSize: &size})
	if err != nil {
		f.Fatal(err)
	}
	return got
}

func TestListProgramRules(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	name := &f.Texts(`select name from users where id = $1`, f.owner)[0]
	versions := []*affiliatev1.ProgramRules{{Version: 1, Rules: p.CommissionRules, By: f.owner.String(), ByName: name, At: p.CreatedAt}}
	for days := range int32(4) {
		p = f.mustUpdate(p.Id, &affiliatev1.UpdateProgramRequest{CommissionRules: &rulesMessage{HoldPeriodDays: &days}}, "commission_rules.hold_period_days")
		versions = append(versions, &affiliatev1.ProgramRules{Version: days + 2, Rules: p.CommissionRules, By: f.owner.String(), ByName: name, At: p.UpdatedAt})
	}
	f.mustUpdate(p.Id, &affiliatev1.UpdateProgramRequest{Name: "Q"}, "name")
	f.createNamed("Another")
	for _, tc := range []struct {
		page int32
		want []*affiliatev1.ProgramRules
	}{
		{1, []*affiliatev1.ProgramRules{versions[4], versions[3]}},
		{3, []*affiliatev1.ProgramRules{versions[0]}},
		{9, nil},
	} {
		want := &affiliatev1.ListProgramRulesResponse{Data: tc.want, Total: 5, Page: tc.page, Limit: 2}
		servertest.WantMessage(t, fmt.Sprintf("ListProgramRules of page %d", tc.page), f.listRules(p.Id, tc.page, 2), want)
	}
}

// Rules that were stored before a field existed are read with the field's default value.
// An update that sets the default value changes nothing.
func TestProgramRules_OldVersionsAreReadWithDefaults(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	old := `{"commission_type": "percentage", "rate_bps": 2000, "hold_period_days": 30, "auto_approval": true, "net_basis": "gross"}`
	f.Exec(`update programs set rules = $2 where id = $1`, p.Id, old)
	defaults := &affiliatev1.UpdateProgramRequest{CommissionRules: &rulesMessage{Recurring: &recurring{Enabled: proto.Bool(true)}}}
	got := f.mustUpdate(p.Id, defaults,
		"commission_rules.recurring.enabled", "commission_rules.recurring.max_months", "commission_rules.tiers", "commission_rules.cap_cents")
	p.CommissionRules.NetBasis = affiliatev1.NetBasis_NET_BASIS_GROSS
	servertest.WantMessage(t, "UpdateProgram", got, p)
}
