package program_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/program"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	percentage = affiliatev1.CommissionType_COMMISSION_TYPE_PERCENTAGE
	flat       = affiliatev1.CommissionType_COMMISSION_TYPE_FLAT
	firstClick = affiliatev1.AttributionModel_ATTRIBUTION_MODEL_FIRST_CLICK
	lastClick  = affiliatev1.AttributionModel_ATTRIBUTION_MODEL_LAST_CLICK
	clickFirst = affiliatev1.SignalPrecedence_SIGNAL_PRECEDENCE_CLICK_FIRST
	promoFirst = affiliatev1.SignalPrecedence_SIGNAL_PRECEDENCE_PROMO_CODE_FIRST
	fraudFlag  = affiliatev1.FraudPolicy_FRAUD_POLICY_FLAG
	fraudBlock = affiliatev1.FraudPolicy_FRAUD_POLICY_BLOCK
	purchase   = affiliatev1.EventType_EVENT_TYPE_PURCHASE
	signup     = affiliatev1.EventType_EVENT_TYPE_SIGNUP
)

var questions = []*affiliatev1.ApplicationQuestion{
	{Key: "site", Label: "Your site", Type: affiliatev1.QuestionType_QUESTION_TYPE_URL, Required: true},
	{Key: "size", Label: "Visitors", Type: affiliatev1.QuestionType_QUESTION_TYPE_SELECT, Options: []string{"few", "many"}},
}

// fullRequest returns a request in which no field has its default value.
func fullRequest() *affiliatev1.CreateProgramRequest {
	return &affiliatev1.CreateProgramRequest{
		Name: "Full", Slug: proto.String("own"), Description: proto.String("D"), WebsiteUrl: proto.String("https://a.example"),
		AllowedDomains: []string{"b.example"}, LandingUrl: proto.String("https://c.example"), Currency: proto.String("EUR"),
		AttributionWindowDays: proto.Int32(7), AttributionModel: firstClick, LinkParam: proto.String("ref"),
		PublicText: proto.String("Welcome."), ApplicationQuestions: questions,
		AutoApprovePartners: proto.Bool(true), IsPublic: proto.Bool(false), TermsUrl: proto.String("https://a.example/terms"),
		SignalPrecedence: promoFirst, MinPayoutCents: proto.Int64(5000), PayoutTermDays: proto.Int32(30), FraudPolicy: fraudBlock,
		CommissionRules: &affiliatev1.CommissionRules{
			CommissionType: flat, FlatAmountCents: proto.Int64(500), HoldPeriodDays: proto.Int32(5), AutoApproval: proto.Bool(false),
			NetBasis:        affiliatev1.NetBasis_NET_BASIS_NET_OF_TAX,
			Recurring:       &affiliatev1.Recurring{MaxMonths: proto.Int32(12), MaxPayments: proto.Int32(6)},
			LaterPercentage: proto.Float64(5), MinOrderCents: proto.Int64(1000), CapCents: proto.Int64(9000),
			Tiers:    []*affiliatev1.Tier{{MinConversions: proto.Int64(10), Percentage: proto.Float64(12.5)}},
			Products: []*affiliatev1.ProductRate{{ProductId: "A", FlatAmountCents: proto.Int64(300)}},
			Events:   []*affiliatev1.EventRate{{EventType: purchase}, {EventType: signup, Percentage: proto.Float64(1.25)}},
		},
	}
}

func TestUpdateProgram(t *testing.T) {
	f := newFixture(t)
	type req = affiliatev1.UpdateProgramRequest
	rules := func(r *affiliatev1.CommissionRules) *req { return &req{CommissionRules: r} }
	for i, tc := range []struct {
		name   string
		req    *req
		paths  []string
		change func(*affiliatev1.Program)
	}{
		{"nothing", &req{}, nil, func(*affiliatev1.Program) {}},
		{"name", &req{Name: "N"}, []string{"name"}, func(p *affiliatev1.Program) { p.Name = "N" }},
		{"field outside the mask", &req{Name: "N", Description: proto.String("no")}, []string{"name"}, func(p *affiliatev1.Program) { p.Name = "N" }},
		{"same name", &req{Name: "Full"}, []string{"name"}, func(*affiliatev1.Program) {}},
		{"description", &req{Description: proto.String("E")}, []string{"description"}, func(p *affiliatev1.Program) { p.Description = proto.String("E") }},
		{"description cleared", &req{}, []string{"description"}, func(p *affiliatev1.Program) { p.Description = nil }},
		{"URLs cleared", &req{}, []string{"website_url", "landing_url", "terms_url"}, func(p *affiliatev1.Program) {
			p.WebsiteUrl, p.LandingUrl, p.TermsUrl, p.TermsVersion = nil, nil, nil, 2
		}},
		{"URLs set", &req{WebsiteUrl: proto.String("http://x.example"), LandingUrl: proto.String("http://y.example"), TermsUrl: proto.String("http://z.example")}, []string{"website_url", "landing_url", "terms_url"}, func(p *affiliatev1.Program) {
			p.WebsiteUrl, p.LandingUrl, p.TermsUrl = proto.String("http://x.example"), proto.String("http://y.example"), proto.String("http://z.example")
			p.TermsVersion = 2
		}},
		{"terms as a text", &req{TermsText: proto.String("Be honest.")}, []string{"terms_url", "terms_text"}, func(p *affiliatev1.Program) {
			p.TermsUrl, p.TermsText, p.TermsVersion = nil, proto.String("Be honest."), 2
		}},
		{"public text and questions set", &req{PublicText: proto.String("Welcome.\n\nJoin us."), ApplicationQuestions: questions[1:]}, []string{"public_text", "application_questions"}, func(p *affiliatev1.Program) {
			p.PublicText, p.ApplicationQuestions = proto.String("Welcome.\n\nJoin us."), questions[1:]
		}},
		{"public text and questions cleared", &req{}, []string{"public_text", "application_questions"}, func(p *affiliatev1.Program) { p.PublicText, p.ApplicationQuestions = nil, nil }},
		{"domains replaced", &req{AllowedDomains: []string{"X.example", "y.example"}}, []string{"allowed_domains"}, func(p *affiliatev1.Program) { p.AllowedDomains = []string{"x.example", "y.example"} }},
		{"domains emptied", &req{}, []string{"allowed_domains"}, func(p *affiliatev1.Program) {
			p.AllowedDomains = []string{"a.example", "*.a.example", "c.example", "*.c.example"}
		}},
		{"fields with defaults set", &req{AttributionWindowDays: proto.Int32(9), AttributionModel: lastClick, LinkParam: proto.String("via"), AutoApprovePartners: proto.Bool(false), IsPublic: proto.Bool(true)}, []string{"attribution_window_days", "attribution_model", "link_param", "auto_approve_partners", "is_public"}, func(p *affiliatev1.Program) {
			p.AttributionWindowDays, p.AttributionModel, p.LinkParam, p.AutoApprovePartners, p.IsPublic = 9, lastClick, "via", false, true
		}},
		{"fields with defaults cleared", &req{}, []string{"attribution_window_days", "attribution_model", "link_param", "auto_approve_partners", "is_public"}, func(p *affiliatev1.Program) {
			p.AttributionWindowDays, p.AttributionModel, p.LinkParam, p.AutoApprovePartners, p.IsPublic = 60, lastClick, "via", false, false
		}},
		{"payout and fraud settings", &req{SignalPrecedence: clickFirst, MinPayoutCents: proto.Int64(1), PayoutTermDays: proto.Int32(2), FraudPolicy: affiliatev1.FraudPolicy_FRAUD_POLICY_OBSERVE}, []string{"signal_precedence", "min_payout_cents", "payout_term_days", "fraud_policy"}, func(p *affiliatev1.Program) {
			p.SignalPrecedence, p.MinPayoutCents, p.PayoutTermDays, p.FraudPolicy = clickFirst, 1, 2, affiliatev1.FraudPolicy_FRAUD_POLICY_OBSERVE
		}},
		{"payout and fraud settings cleared", &req{}, []string{"signal_precedence", "min_payout_cents", "payout_term_days", "fraud_policy"}, func(p *affiliatev1.Program) {
			p.SignalPrecedence, p.MinPayoutCents, p.PayoutTermDays, p.FraudPolicy = clickFirst, 0, 0, fraudFlag
		}},
		{"flat amount", rules(&affiliatev1.CommissionRules{FlatAmountCents: proto.Int64(600)}), []string{"commission_rules.flat_amount_cents"}, func(p *affiliatev1.Program) {
			p.RulesVersion, p.CommissionRules.FlatAmountCents = 2, proto.Int64(600)
		}},
		{"same flat amount", rules(&affiliatev1.CommissionRules{FlatAmountCents: proto.Int64(500)}), []string{"commission_rules.flat_amount_cents"}, func(*affiliatev1.Program) {}},
		{"empty object outside the mask", rules(&affiliatev1.CommissionRules{Recurring: &affiliatev1.Recurring{}}), nil, func(*affiliatev1.Program) {}},
		{"empty object", rules(&affiliatev1.CommissionRules{}), []string{"commission_rules"}, func(*affiliatev1.Program) {}},
		{"path of an object merges its present fields", rules(&affiliatev1.CommissionRules{HoldPeriodDays: proto.Int32(0)}), []string{"commission_rules"}, func(p *affiliatev1.Program) {
			p.RulesVersion, p.CommissionRules.HoldPeriodDays = 2, proto.Int32(0)
		}},
		{"type changed to percentage", rules(&affiliatev1.CommissionRules{CommissionType: percentage, Percentage: proto.Float64(12.34)}), []string{"commission_rules.commission_type", "commission_rules.percentage"}, func(p *affiliatev1.Program) {
			p.RulesVersion = 2
			p.CommissionRules.CommissionType, p.CommissionRules.Percentage, p.CommissionRules.FlatAmountCents = percentage, proto.Float64(12.34), nil
		}},
		{"three rules cleared", &req{}, []string{"commission_rules.hold_period_days", "commission_rules.auto_approval", "commission_rules.net_basis"}, func(p *affiliatev1.Program) {
			p.RulesVersion = 2
			p.CommissionRules.HoldPeriodDays, p.CommissionRules.AutoApproval, p.CommissionRules.NetBasis = proto.Int32(30), proto.Bool(true), affiliatev1.NetBasis_NET_BASIS_NET_OF_TAX
		}},
		{"all rules cleared", &req{}, []string{"commission_rules"}, func(p *affiliatev1.Program) {
			p.RulesVersion = 2
			p.CommissionRules = &affiliatev1.CommissionRules{
				CommissionType: percentage, Percentage: proto.Float64(20), HoldPeriodDays: proto.Int32(30), AutoApproval: proto.Bool(true),
				NetBasis: affiliatev1.NetBasis_NET_BASIS_NET_OF_TAX, Recurring: &affiliatev1.Recurring{Enabled: proto.Bool(true)},
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := fullRequest()
			req.Slug = proto.String(fmt.Sprint("own-", i))
			before := f.create(req)
			want, changes := proto.CloneOf(before), 0
			got := f.mustUpdate(before.Id, tc.req, tc.paths...)
			if tc.change(want); !proto.Equal(want, before) {
				changes = 1
				want.UpdatedAt = server.Timestamp(f.Now().Truncate(time.Millisecond))
			}
			servertest.WantMessage(t, "UpdateProgram", got, want)
			servertest.WantMessage(t, "GetProgram", f.get(before.Id), want)
			if types, _ := f.Events(before.Id); len(types) != changes {
				t.Errorf("UpdateProgram published the events %q, want %d events", types, changes)
			}
			f.WantCount(changes, "jobs for the edge directory", `select count(*) from river.river_job where kind = 'sync_directory' and args->>'program' = $1`, before.Id)
			f.WantCount(changes, "audit records", `select count(*) from audit_log where resource_id = $1 and action = 'program.update'`, before.Id)
			f.WantCount(int(want.RulesVersion), "versions of the rules", `select count(*) from program_rules where program_id = $1`, before.Id)
		})
	}
}

func TestUpdateProgram_RejectsInvalidRequests(t *testing.T) {
	f := newFixture(t)
	p := f.create(fullRequest())
	type req = affiliatev1.UpdateProgramRequest
	rules := func(r *affiliatev1.CommissionRules) *req { return &req{CommissionRules: r} }
	for _, tc := range []struct {
		name      string
		req       *req
		paths     []string
		wantField string
	}{
		{"unknown path", &req{}, []string{"colour"}, "update_mask"},
		{"status", &req{}, []string{"status"}, "update_mask"},
		{"id", &req{}, []string{"program_id"}, "update_mask"},
		{"the mask names itself", &req{}, []string{"update_mask"}, "update_mask"},
		{"asterisk", &req{}, []string{"*"}, "update_mask"},
		{"unknown rule", &req{}, []string{"commission_rules.colour"}, "update_mask"},
		{"field of a list's elements", &req{}, []string{"commission_rules.tiers.percentage"}, "update_mask"},
		{"field without a mask", &req{Name: "N"}, nil, "update_mask"},
		{"nested field without a mask", rules(&affiliatev1.CommissionRules{Recurring: &affiliatev1.Recurring{MaxMonths: proto.Int32(1)}}), nil, "update_mask"},
		{"list without a mask", rules(&affiliatev1.CommissionRules{Events: []*affiliatev1.EventRate{{EventType: signup}}}), nil, "update_mask"},
		{"cleared name", &req{}, []string{"name"}, "name"},
		{"bad URL", &req{WebsiteUrl: proto.String("shop")}, []string{"website_url"}, "website_url"},
		{"bad domain", &req{AllowedDomains: []string{"*.example", "*.*.example"}}, []string{"allowed_domains"}, "allowed_domains[1]"},
		{"top-level domain", &req{AllowedDomains: []string{"a.com", "*.COM"}}, []string{"allowed_domains"}, "allowed_domains[1]"},
		{"name with a link", &req{Name: "https://evil.example"}, []string{"name"}, "name"},
		{"public suffix", &req{AllowedDomains: []string{"*.a.co.uk", "co.uk"}}, []string{"allowed_domains"}, "allowed_domains[1]"},
		{"suffix of a hosting company", &req{AllowedDomains: []string{"a.github.io", "*.github.io"}}, []string{"allowed_domains"}, "allowed_domains[1]"},
		{"three decimals", rules(&affiliatev1.CommissionRules{CommissionType: percentage, Percentage: proto.Float64(1.005)}), []string{"commission_rules.commission_type", "commission_rules.percentage"}, "commission_rules.percentage"},
		{"cleared amount", &req{}, []string{"commission_rules.flat_amount_cents"}, "commission_rules.flat_amount_cents"},
		{"new type without its rate", rules(&affiliatev1.CommissionRules{CommissionType: percentage}), []string{"commission_rules.commission_type"}, "commission_rules.percentage"},
		{"percentage of a flat programme", rules(&affiliatev1.CommissionRules{Percentage: proto.Float64(1)}), []string{"commission_rules.percentage"}, "commission_rules.percentage"},
		{"rate of the other type", rules(&affiliatev1.CommissionRules{CommissionType: percentage, Percentage: proto.Float64(1), FlatAmountCents: proto.Int64(1)}), []string{"commission_rules"}, "commission_rules.flat_amount_cents"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := f.update(p.Id, tc.req, tc.paths...)
			pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.wantField)
		})
	}
	servertest.WantMessage(t, "GetProgram after refused updates", f.get(p.Id), p)
}

func TestCheck_CreateProgram(t *testing.T) {
	service := program.New(nil, nil)
	type rules = affiliatev1.CommissionRules
	for _, tc := range []struct {
		name       string
		req        *affiliatev1.CreateProgramRequest
		wantFields string // empty if the request is valid
	}{
		{"only a name", &affiliatev1.CreateProgramRequest{Name: "P"}, ""},
		{"name with a link", &affiliatev1.CreateProgramRequest{Name: "www.evil.example"}, "name"},
		{"all fields", fullRequest(), ""},
		{"one rule", &affiliatev1.CreateProgramRequest{CommissionRules: &rules{HoldPeriodDays: proto.Int32(0)}}, ""},
		{"two decimals", &affiliatev1.CreateProgramRequest{CommissionRules: &rules{Percentage: proto.Float64(33.33)}}, ""},
		{"0.1 + 0.2 is rounded", &affiliatev1.CreateProgramRequest{CommissionRules: &rules{Percentage: proto.Float64(0.1 + 0.2)}}, ""},
		{"three decimals", &affiliatev1.CreateProgramRequest{CommissionRules: &rules{Percentage: proto.Float64(33.333)}}, "commission_rules.percentage"},
		{"not a number", &affiliatev1.CreateProgramRequest{CommissionRules: &rules{Percentage: proto.Float64(math.NaN())}}, "commission_rules.percentage"},
		{"infinity", &affiliatev1.CreateProgramRequest{CommissionRules: &rules{Percentage: proto.Float64(math.Inf(1))}}, "commission_rules.percentage"},
		{"percentage and flat amount", &affiliatev1.CreateProgramRequest{CommissionRules: &rules{Percentage: proto.Float64(1), FlatAmountCents: proto.Int64(1)}}, "commission_rules.flat_amount_cents"},
		{"flat type without a flat amount", &affiliatev1.CreateProgramRequest{CommissionRules: &rules{CommissionType: flat}}, "commission_rules.flat_amount_cents"},
		{"percentage type without a percentage", &affiliatev1.CreateProgramRequest{CommissionRules: &rules{CommissionType: percentage}}, "commission_rules.percentage"},
		{"percentage type with a flat amount", &affiliatev1.CreateProgramRequest{CommissionRules: &rules{CommissionType: percentage, Percentage: proto.Float64(1), FlatAmountCents: proto.Int64(1)}}, "commission_rules.flat_amount_cents"},
		{"unknown currency", &affiliatev1.CreateProgramRequest{Currency: proto.String("XYZ")}, "currency"},
		{"currency code of gold", &affiliatev1.CreateProgramRequest{Currency: proto.String("XAU")}, "currency"},
		{"URL with the scheme javascript", &affiliatev1.CreateProgramRequest{LandingUrl: proto.String("javascript:alert(1)")}, "landing_url"},
		{"empty URL of the terms", &affiliatev1.CreateProgramRequest{TermsUrl: proto.String("")}, "terms_url"},
		{"several fields", &affiliatev1.CreateProgramRequest{
			WebsiteUrl: proto.String("x"), LandingUrl: proto.String("x"), Currency: proto.String("xxx"), AllowedDomains: []string{""},
			CommissionRules: &rules{CommissionType: flat},
		}, "website_url landing_url currency allowed_domains[0] commission_rules.flat_amount_cents"},
		{"URL instead of a domain", &affiliatev1.CreateProgramRequest{AllowedDomains: []string{"https://a.example"}}, "allowed_domains[0]"},
	} {
		if got := strings.Join(fields(service.Check(tc.req)), " "); got != tc.wantFields {
			t.Errorf("%s: Check found violations of %q, want %q", tc.name, got, tc.wantFields)
		}
	}
}

// Updates of different fields run in parallel. Each update changes only its own field of
// the row, so no update overwrites another one.
func TestUpdateProgram_InParallelKeepsAllChanges(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	results := make(chan error, 30)
	for i := range cap(results) {
		go func() {
			req := &affiliatev1.UpdateProgramRequest{ProgramId: p.Id}
			if i%2 == 0 {
				req.Description, req.UpdateMask = proto.String("D"), &fieldmaskpb.FieldMask{Paths: []string{"description"}}
			} else {
				req.CommissionRules = &affiliatev1.CommissionRules{HoldPeriodDays: proto.Int32(int32(i))}
				req.UpdateMask = &fieldmaskpb.FieldMask{Paths: []string{"commission_rules.hold_period_days"}}
			}
			_, err := f.service.UpdateProgram(f.asOwner(), req)
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Errorf("UpdateProgram: %v", err)
		}
	}
	if got := f.get(p.Id); got.GetDescription() != "D" || got.RulesVersion != 16 {
		t.Errorf("GetProgram returned the description %q and version %d of the rules, want D and 16", got.GetDescription(), got.RulesVersion)
	}
	// The first update of the description and each of the 15 updates of the rules change
	// the programme.
	_, objects := f.Events(p.Id)
	versions := map[any]bool{}
	for _, object := range objects {
		versions[object["version"]] = true
	}
	if len(objects) != 16 || len(versions) != 16 {
		t.Errorf("16 changes published %d events with %d different versions", len(objects), len(versions))
	}
}
