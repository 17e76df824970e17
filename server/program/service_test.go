package program_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestCreateProgram_SetsDefaults(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "Späti Partner", WebsiteUrl: proto.String("https://WWW.Shop.example/start")})
	at := server.Timestamp(f.Now().Truncate(time.Millisecond))
	want := &affiliatev1.Program{
		Id: p.Id, Name: "Späti Partner", Slug: "spati-partner", Status: affiliatev1.ProgramStatus_PROGRAM_STATUS_DRAFT,
		Mode: affiliatev1.Mode_MODE_LIVE, WebsiteUrl: proto.String("https://WWW.Shop.example/start"),
		AllowedDomains: []string{"www.shop.example"}, Currency: "CHF", AttributionWindowDays: 30,
		AttributionModel: affiliatev1.AttributionModel_ATTRIBUTION_MODEL_LAST_CLICK, LinkParam: "via", IsPublic: true,
		CommissionRules: &affiliatev1.CommissionRules{
			CommissionType: affiliatev1.CommissionType_COMMISSION_TYPE_PERCENTAGE, Percentage: proto.Float64(20),
			HoldPeriodDays: proto.Int32(30), AutoApproval: proto.Bool(true), NetBasis: affiliatev1.NetBasis_NET_BASIS_GROSS,
			Recurring: &affiliatev1.Recurring{Enabled: proto.Bool(true)},
		},
		RulesVersion: 1, CreatedAt: at, UpdatedAt: at,
		SignalPrecedence: affiliatev1.SignalPrecedence_SIGNAL_PRECEDENCE_CLICK_FIRST, FraudPolicy: affiliatev1.FraudPolicy_FRAUD_POLICY_FLAG,
	}
	if !proto.Equal(p, want) {
		t.Errorf("created %v\n   want %v", p, want)
	}
	read, err := f.service.GetProgram(f.liveContext(), &affiliatev1.GetProgramRequest{ProgramId: p.Id})
	if err != nil || !proto.Equal(read, want) {
		t.Errorf("read %v, %v", read, err)
	}
	if f.Count(`select count(*) from program_rules where program_id = $1 and version = 1 and by = $2`, p.Id, f.owner) != 1 ||
		f.Count(`select count(*) from audit_log where resource_id = $1 and action = 'program.create' and actor = $2`, p.Id, f.owner.String()) != 1 {
		t.Error("the first version of the rules or the audit record is missing")
	}
}

func TestCreateProgram_StoresAllFields(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{
		Name: "P", Slug: proto.String("own"), Description: proto.String("D"), LandingUrl: proto.String("http://land.example"),
		AllowedDomains: []string{"A.example", "*.B.example", "a.EXAMPLE", "*.b.example"}, Currency: proto.String("jpy"), AttributionWindowDays: proto.Int32(365),
		AttributionModel: affiliatev1.AttributionModel_ATTRIBUTION_MODEL_FIRST_CLICK, LinkParam: proto.String("ref"),
		AutoApprovePartners: proto.Bool(true), IsPublic: proto.Bool(false), TermsUrl: proto.String("https://a.example/terms"),
		SignalPrecedence: affiliatev1.SignalPrecedence_SIGNAL_PRECEDENCE_PROMO_CODE_FIRST, MinPayoutCents: proto.Int64(2500),
		PayoutTermDays: proto.Int32(14), FraudPolicy: affiliatev1.FraudPolicy_FRAUD_POLICY_OFF,
		CommissionRules: &affiliatev1.CommissionRules{FlatAmountCents: proto.Int64(500), HoldPeriodDays: proto.Int32(0), AutoApproval: proto.Bool(false), NetBasis: affiliatev1.NetBasis_NET_BASIS_NET_OF_TAX_SHIPPING_FEES},
	})
	if p.Slug != "own" || p.GetDescription() != "D" || p.Currency != "JPY" || p.AttributionWindowDays != 365 || p.LinkParam != "ref" ||
		p.AttributionModel != affiliatev1.AttributionModel_ATTRIBUTION_MODEL_FIRST_CLICK || !p.AutoApprovePartners || p.IsPublic ||
		!slices.Equal(p.AllowedDomains, []string{"a.example", "*.b.example"}) || p.GetTermsUrl() == "" || p.GetLandingUrl() == "" {
		t.Errorf("created %v", p)
	}
	if p.SignalPrecedence != affiliatev1.SignalPrecedence_SIGNAL_PRECEDENCE_PROMO_CODE_FIRST || p.MinPayoutCents != 2500 ||
		p.PayoutTermDays != 14 || p.FraudPolicy != affiliatev1.FraudPolicy_FRAUD_POLICY_OFF {
		t.Errorf("created %v", p)
	}
	rules := p.CommissionRules
	if rules.CommissionType != affiliatev1.CommissionType_COMMISSION_TYPE_FLAT || rules.Percentage != nil || rules.GetFlatAmountCents() != 500 ||
		rules.GetHoldPeriodDays() != 0 || rules.GetAutoApproval() || rules.NetBasis != affiliatev1.NetBasis_NET_BASIS_NET_OF_TAX_SHIPPING_FEES {
		t.Errorf("rules %v", rules)
	}
}

func TestProgramSlugs_AreUnique(t *testing.T) {
	f := newFixture(t)
	for i, want := range []string{"acme", "acme-2", "acme-3"} {
		if p := f.create(&affiliatev1.CreateProgramRequest{Name: "Acme"}); p.Slug != want {
			t.Errorf("programme %d has slug %s, want %s", i, p.Slug, want)
		}
	}
	given := &affiliatev1.CreateProgramRequest{Name: "Other", Slug: proto.String("acme-2")}
	_, err := f.service.CreateProgram(f.liveContext(), given)
	pgtest.RequireRefusal(t, err, affiliate.ReasonSlugTaken)
	for _, other := range []context.Context{f.asMerchant(f.scope.Workspace, affiliate.ModeTest), f.asMerchant(f.NewWorkspace(), affiliate.ModeLive)} {
		if _, err := f.service.CreateProgram(other, given); err != nil {
			t.Errorf("another mode or workspace: %v", err)
		}
	}

	p := f.create(&affiliatev1.CreateProgramRequest{Name: "Renamed"})
	_, err = f.update(p.Id, &affiliatev1.UpdateProgramRequest{Slug: proto.String("acme")}, "slug")
	pgtest.RequireRefusal(t, err, affiliate.ReasonSlugTaken)
	if p, err = f.update(p.Id, &affiliatev1.UpdateProgramRequest{Slug: proto.String("free")}, "slug"); err != nil || p.Slug != "free" {
		t.Errorf("a free slug: %v, %v", p, err)
	}
	if p, err = f.update(p.Id, &affiliatev1.UpdateProgramRequest{Name: "Acme"}, "slug", "name"); err != nil || p.Slug != "acme-4" {
		t.Errorf("a cleared slug: %v, %v", p, err)
	}
}

func TestCreateProgram_SameNameInParallelGetsDifferentSlugs(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	slugs := make([]string, 40)
	for i := range slugs {
		wg.Go(func() {
			p, err := f.service.CreateProgram(f.liveContext(), &affiliatev1.CreateProgramRequest{Name: "Same"})
			if err != nil {
				t.Error(err)
				return
			}
			slugs[i] = p.Slug
		})
	}
	wg.Wait()
	slices.Sort(slugs)
	if n := len(slices.Compact(slugs)); n != 40 {
		t.Errorf("%d different slugs of 40", n)
	}
}

func TestListPrograms_PagesNewestFirst(t *testing.T) {
	f := newFixture(t)
	var ids []string
	for i := range 5 {
		f.clock.Advance(time.Second)
		ids = append(ids, f.create(&affiliatev1.CreateProgramRequest{Name: fmt.Sprint("P", i), WebsiteUrl: proto.String("https://a.example")}).Id)
	}
	if _, err := f.move(f.liveContext(), "activate", ids[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := f.service.CreateProgram(f.asMerchant(f.scope.Workspace, affiliate.ModeTest), &affiliatev1.CreateProgramRequest{Name: "Other mode"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.service.CreateProgram(f.asMerchant(f.NewWorkspace(), affiliate.ModeLive), &affiliatev1.CreateProgramRequest{Name: "Other workspace"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		req   *affiliatev1.ListProgramsRequest
		want  []string
		total int64
	}{
		{&affiliatev1.ListProgramsRequest{}, []string{ids[4], ids[3], ids[2], ids[1], ids[0]}, 5},
		{&affiliatev1.ListProgramsRequest{Page: proto.Int32(2), PageSize: proto.Int32(2)}, []string{ids[2], ids[1]}, 5},
		{&affiliatev1.ListProgramsRequest{Page: proto.Int32(9)}, []string{}, 5},
		{&affiliatev1.ListProgramsRequest{Status: affiliatev1.ProgramStatus_PROGRAM_STATUS_ACTIVE}, []string{ids[1]}, 1},
		{&affiliatev1.ListProgramsRequest{Status: affiliatev1.ProgramStatus_PROGRAM_STATUS_PAUSED}, []string{}, 0},
	} {
		list, err := f.service.ListPrograms(f.liveContext(), tc.req)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, p := range list.Data {
			got = append(got, p.Id)
		}
		if !slices.Equal(got, tc.want) || list.Total != tc.total {
			t.Errorf("%v: %v of %d, want %v of %d", tc.req, got, list.Total, tc.want, tc.total)
		}
	}
	if list, _ := f.service.ListPrograms(f.liveContext(), &affiliatev1.ListProgramsRequest{}); list.Page != 1 || list.Limit != 20 {
		t.Errorf("default page %d of %d", list.Page, list.Limit)
	}
}

func TestPrograms_OfOtherScopesAreNotFound(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P", WebsiteUrl: proto.String("https://a.example")})
	mask := &fieldmaskpb.FieldMask{Paths: []string{"name"}}
	for name, tc := range map[string]struct {
		ctx context.Context
		id  string
	}{
		"another mode":      {f.asMerchant(f.scope.Workspace, affiliate.ModeTest), p.Id},
		"another workspace": {f.asMerchant(f.NewWorkspace(), affiliate.ModeLive), p.Id},
		"unknown":           {f.liveContext(), affiliate.NewID[affiliate.Program](f.Now()).String()},
		"not a UUID":        {f.liveContext(), "42"},
		"empty":             {f.liveContext(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.GetProgram(tc.ctx, &affiliatev1.GetProgramRequest{ProgramId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.UpdateProgram(tc.ctx, &affiliatev1.UpdateProgramRequest{ProgramId: tc.id, UpdateMask: mask, Name: "Q"})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			for _, verb := range []string{"activate", "pause", "archive"} {
				_, err = f.move(tc.ctx, verb, tc.id)
				pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			}
		})
	}
}

func TestMoveProgram_FromEveryStatus(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P", LandingUrl: proto.String("https://a.example")})
	legal := map[string]string{
		"draft activate": "active", "draft archive": "archived",
		"active pause": "paused", "active archive": "archived",
		"paused activate": "active", "paused archive": "archived",
	}
	for _, from := range []string{"draft", "active", "paused", "archived"} {
		for _, verb := range []string{"activate", "pause", "archive"} {
			f.Exec(`update programs set status = $2 where id = $1`, p.Id, from)
			moved, err := f.move(f.liveContext(), verb, p.Id)
			if to, ok := legal[from+" "+verb]; ok {
				if err != nil || server.EnumName(moved.Status) != to {
					t.Errorf("%s %s: %v, %v", from, verb, moved, err)
				}
				continue
			}
			if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid); metadata["status"] != from {
				t.Errorf("%s %s: metadata %v", from, verb, metadata)
			}
		}
	}
}

func TestActivateProgram_RequiresAWebPage(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	_, err := f.move(f.liveContext(), "activate", p.Id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "website_url")
	if _, err := f.update(p.Id, &affiliatev1.UpdateProgramRequest{WebsiteUrl: proto.String("https://a.example")}, "website_url"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.move(f.liveContext(), "activate", p.Id); err != nil {
		t.Error(err)
	}
}

func TestMoveProgram_InParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P", WebsiteUrl: proto.String("https://a.example")})
	var wg sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		wg.Go(func() { _, errs[i] = f.move(f.liveContext(), "activate", p.Id) })
	}
	wg.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
			continue
		}
		if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid); metadata["status"] != "active" {
			t.Errorf("metadata of a refusal: %v", metadata)
		}
	}
	if succeeded != 1 || f.Count(`select count(*) from events where type = 'program.updated'`) != 1 {
		t.Errorf("%d of 50 activations succeeded", succeeded)
	}
}

func TestProgramChanges_AreRecordedAndPublished(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P", WebsiteUrl: proto.String("https://a.example")})
	if _, err := f.update(p.Id, &affiliatev1.UpdateProgramRequest{Name: "Q"}, "name"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.move(f.liveContext(), "activate", p.Id); err != nil {
		t.Fatal(err)
	}
	type record struct{ Action, Before, After string }
	rows, _ := f.SQL.Query(t.Context(), `select action, before::text, after::text from audit_log where resource_id = $1 and action <> 'program.create' and mode = 'live' order by id`, p.Id)
	records, err := pgx.CollectRows(rows, pgx.RowToStructByName[record])
	if err != nil {
		t.Fatal(err)
	}
	want := []record{
		{"program.update", `{"name": "P"}`, `{"name": "Q"}`},
		{"program.activate", `{"status": "draft"}`, `{"status": "active"}`},
	}
	slices.SortFunc(records, func(a, b record) int { return strings.Compare(b.Action, a.Action) })
	if !slices.Equal(records, want) {
		t.Errorf("audit log %v", records)
	}

	rows, _ = f.SQL.Query(t.Context(), `select body from events where type = 'program.updated'`)
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil || len(bodies) != 2 {
		t.Fatalf("%d events, %v", len(bodies), err)
	}
	versions := map[string]float64{}
	for _, body := range bodies {
		var event struct {
			Mode string
			Data struct {
				Object   map[string]any
				Previous map[string]any `json:"previous_attributes"`
			}
		}
		if err := json.Unmarshal(body, &event); err != nil {
			t.Fatal(err)
		}
		if event.Mode != "live" || event.Data.Object["id"] != p.Id || event.Data.Object["name"] != "Q" || len(event.Data.Previous) != 1 {
			t.Errorf("event %s", body)
		}
		for changed := range event.Data.Previous {
			versions[changed], _ = event.Data.Object["version"].(float64)
		}
	}
	if versions["name"] == 0 || versions["status"] <= versions["name"] {
		t.Errorf("versions %v do not grow", versions)
	}
	if n := f.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'program' = $1`, p.Id); n != 2 {
		t.Errorf("%d jobs for the edge directory", n)
	}
}
