package program_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) preview(program string, rules *rulesMessage, example *affiliatev1.ExampleConversion, paths ...string) (*affiliatev1.ProgramRulesPreview, error) {
	req := &affiliatev1.PreviewProgramRulesRequest{
		ProgramId: program, CommissionRules: rules, Example: example, UpdateMask: &fieldmaskpb.FieldMask{Paths: append(paths, "example")},
	}
	if found := f.service.Check(req); len(found) > 0 {
		return nil, found.Err()
	}
	return f.service.PreviewProgramRules(f.asOwner(), req)
}

func TestPreviewProgramRules_ComparesRules(t *testing.T) {
	f := newFixture(t)
	program := f.createNamed("P").Id
	sale := func(change func(e *affiliatev1.ExampleConversion)) *affiliatev1.ExampleConversion {
		example := &affiliatev1.ExampleConversion{AmountCents: proto.Int64(12_000), TaxCents: proto.Int64(2_000)}
		if change != nil {
			change(example)
		}
		return example
	}
	for _, tc := range []struct {
		name             string
		rules            *rulesMessage
		path             string
		example          *affiliatev1.ExampleConversion
		current, changed int64 // -1 means that nothing is earned
		reason           string
	}{
		{"same rules", nil, "", sale(nil), 2_000, 2_000, ""},
		{"other rate", &rulesMessage{Percentage: proto.Float64(12.5)}, "commission_rules.percentage", sale(nil), 2_000, 1_250, ""},
		{"cleared field has its default", &rulesMessage{}, "commission_rules.net_basis", sale(nil), 2_000, 2_000, ""},
		{"basis", &rulesMessage{NetBasis: affiliatev1.NetBasis_NET_BASIS_GROSS}, "commission_rules.net_basis", sale(nil), 2_000, 2_400, ""},
		{
			"tier without earlier totals", &rulesMessage{Tiers: []*tier{{MinConversions: proto.Int64(0), Percentage: proto.Float64(40)}}},
			"commission_rules.tiers", sale(nil), 2_000, 4_000, "",
		},
		{
			"product", &rulesMessage{Products: []*productRate{{ProductId: "beans", FlatAmountCents: proto.Int64(150)}}}, "commission_rules.products",
			sale(func(e *affiliatev1.ExampleConversion) {
				e.LineItems = []*affiliatev1.ExampleLineItem{{ProductId: "beans", Quantity: proto.Int64(3), AmountCents: 12_000}}
			}),
			2_000, 450, "",
		},
		{
			"later payment", &rulesMessage{LaterPercentage: proto.Float64(5)}, "commission_rules.later_percentage",
			sale(func(e *affiliatev1.ExampleConversion) { e.PaymentNumber = proto.Int32(2) }), 2_000, 500, "",
		},
		{
			"last payment inside the months", &rulesMessage{Recurring: &recurring{MaxMonths: proto.Int32(2)}}, "commission_rules.recurring.max_months",
			sale(func(e *affiliatev1.ExampleConversion) { e.PaymentNumber = proto.Int32(3) }), 2_000, 2_000, "",
		},
		{
			"payment after the months", &rulesMessage{Recurring: &recurring{MaxMonths: proto.Int32(2)}}, "commission_rules.recurring.max_months",
			sale(func(e *affiliatev1.ExampleConversion) { e.PaymentNumber = proto.Int32(4) }), 2_000, -1, "RECURRING_LIMIT_REACHED",
		},
		{"small order", &rulesMessage{MinOrderCents: proto.Int64(12_001)}, "commission_rules.min_order_cents", sale(nil), 2_000, -1, "RULE_NOT_APPLICABLE"},
		{
			"event that does not earn yet", &rulesMessage{Events: []*eventRate{{EventType: affiliatev1.EventType_EVENT_TYPE_LEAD, FlatAmountCents: proto.Int64(700)}}},
			"commission_rules.events", &affiliatev1.ExampleConversion{EventType: affiliatev1.EventType_EVENT_TYPE_LEAD}, -1, 700, "",
		},
		{
			"currency without a rate", &rulesMessage{CapCents: proto.Int64(1)}, "commission_rules.cap_cents",
			sale(func(e *affiliatev1.ExampleConversion) { e.Currency = proto.String("jpy") }), 2_000, 2_000, "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var paths []string
			if tc.path != "" {
				paths = []string{tc.path}
			}
			got, err := f.preview(program, tc.rules, tc.example, paths...)
			if err != nil {
				t.Fatal(err)
			}
			amount := func(c *affiliatev1.PreviewedCommission) int64 {
				if c.GetEarns() != (c.GetCalculation() != nil) || c.GetEarns() != (c.ReasonCode == nil) {
					t.Errorf("PreviewProgramRules returned %v, want either a calculation or a reason", c)
				}
				if !c.GetEarns() {
					return -1
				}
				return c.GetCalculation().GetAmountCents()
			}
			if current, changed := amount(got.Current), amount(got.Changed); current != tc.current || changed != tc.changed || got.Changed.GetReasonCode() != tc.reason {
				t.Errorf("PreviewProgramRules returned %v and %v, want %d and %d, reason %q", got.Current, got.Changed, tc.current, tc.changed, tc.reason)
			}
		})
	}
	if got := f.get(program); got.RulesVersion != 1 {
		t.Errorf("after the previews the rules have the version %d, want 1", got.RulesVersion)
	}
}

func TestPreviewProgramRules_UsesParticipant(t *testing.T) {
	f := newFixture(t)
	program := f.createNamed("P").Id
	id, _ := affiliate.ParseID[affiliate.ProgramID](program)
	group, err := f.service.CreateGroup(f.asOwner(), &affiliatev1.CreateGroupRequest{ProgramId: program, Name: "Best", Percentage: proto.Float64(30)})
	if err != nil {
		t.Fatal(err)
	}
	join := func(changes pgtest.Row) *string {
		p := f.NewParticipant(f.scope, id, f.NewPartner("Ada"), changes).ID.String()
		return &p
	}
	plain, grouped := join(pgtest.Row{}), join(pgtest.Row{"group_id": group.Id})
	own := join(pgtest.Row{"override_rate_bps": 5_000, "group_id": group.Id})
	join(pgtest.Row{"override_rate_bps": 5_000, "status": "pending"})
	f.Exec(`insert into participant_totals (workspace_id, participant_id, program_id, conversions) values ($1, $2, $3, 7)
		on conflict (workspace_id, participant_id) do update set conversions = 7`, f.scope.Workspace, *plain, program)

	tiers := &rulesMessage{Tiers: []*tier{{MinConversions: proto.Int64(7), Percentage: proto.Float64(40)}}}
	for _, tc := range []struct {
		name        string
		participant *string
		want        int64
		source      string
	}{{"own conversions reach the tier", plain, 400, "tier"}, {"group", grouped, 300, "group"}, {"own rate", own, 500, "participant"}} {
		got, err := f.preview(program, tiers, &affiliatev1.ExampleConversion{AmountCents: proto.Int64(1_000), ParticipantId: tc.participant}, "commission_rules.tiers")
		if err != nil {
			t.Fatal(err)
		}
		if c := got.Changed.GetCalculation(); c.GetAmountCents() != tc.want || c.GetSource() != tc.source {
			t.Errorf("%s: PreviewProgramRules returned %v, want %d from %s", tc.name, c, tc.want, tc.source)
		}
		servertest.WantMessage(t, "participants", got.Participants, &affiliatev1.ParticipantRates{ProgramRate: 1, GroupRate: 1, OwnRate: 1})
	}
	other := f.createNamed("Q").Id
	_, err = f.preview(other, nil, &affiliatev1.ExampleConversion{AmountCents: proto.Int64(1_000), ParticipantId: plain})
	if !errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		t.Errorf("PreviewProgramRules with a participant of another programme returned %v, want NOT_FOUND", err)
	}
}

func TestPreviewProgramRules_RejectsBadInput(t *testing.T) {
	f := newFixture(t)
	program := f.createNamed("P").Id
	sale := &affiliatev1.ExampleConversion{AmountCents: proto.Int64(1_000)}
	if found := f.service.Check(&affiliatev1.PreviewProgramRulesRequest{ProgramId: program}); len(found) > 0 {
		t.Errorf("Check of a request without an example returned %v, want nothing, because the proto has the rule", found)
	}
	for _, tc := range []struct {
		name    string
		rules   *rulesMessage
		example *affiliatev1.ExampleConversion
		paths   []string
		field   string
	}{
		{"rate of another type", &rulesMessage{FlatAmountCents: proto.Int64(1)}, sale, []string{"commission_rules.flat_amount_cents"}, "commission_rules.flat_amount_cents"},
		{"too many decimals", &rulesMessage{Percentage: proto.Float64(1.234)}, sale, []string{"commission_rules.percentage"}, "commission_rules.percentage"},
		{"purchase without amount", nil, &affiliatev1.ExampleConversion{}, nil, "example.amount_cents"},
		{"unknown currency", nil, &affiliatev1.ExampleConversion{AmountCents: proto.Int64(1), Currency: proto.String("XXZ")}, nil, "example.currency"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := f.preview(program, tc.rules, tc.example, tc.paths...)
			var invalid *affiliate.Error
			if !errors.As(err, &invalid) || len(invalid.Violations) != 1 || invalid.Violations[0].Field != tc.field {
				t.Errorf("PreviewProgramRules returned %v, want a violation of %s", err, tc.field)
			}
		})
	}
}
