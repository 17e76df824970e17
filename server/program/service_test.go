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
	"github.com/tributary-hq/tributary/server/program"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is a workspace in a new database.
type world struct {
	*pgtest.Fixture
	t         *testing.T
	service   *program.Service
	workspace affiliate.WorkspaceID
	user      affiliate.UserID
	now       time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.service = program.New(w.Store, w.Now)
	w.user, w.workspace = w.NewMerchant("M"), w.NewWorkspace(pgtest.Row{"currency": "CHF"})
	return w
}

func (w *world) asMerchant(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{
		Kind: server.MerchantToken, User: w.user, Workspace: workspace, Role: affiliate.RoleOwner, Mode: mode,
	})
}

// liveContext returns the context of a call in live mode by an owner of the workspace.
func (w *world) liveContext() context.Context { return w.asMerchant(w.workspace, affiliate.ModeLive) }

func (w *world) create(req *affiliatev1.CreateProgramRequest) *affiliatev1.Program {
	w.t.Helper()
	if wrong := w.service.Check(req); len(wrong) > 0 {
		w.t.Fatalf("check: %v", wrong)
	}
	p, err := w.service.CreateProgram(w.liveContext(), req)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) update(id string, req *affiliatev1.UpdateProgramRequest, paths ...string) (*affiliatev1.Program, error) {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	req.ProgramId, req.UpdateMask = id, &fieldmaskpb.FieldMask{Paths: paths}
	if wrong := w.service.Check(req); len(wrong) > 0 {
		return nil, wrong.Err()
	}
	return w.service.UpdateProgram(w.liveContext(), req)
}

func (w *world) move(ctx context.Context, verb, id string) (*affiliatev1.Program, error) {
	switch verb {
	case "activate":
		return w.service.ActivateProgram(ctx, &affiliatev1.ActivateProgramRequest{ProgramId: id})
	case "pause":
		return w.service.PauseProgram(ctx, &affiliatev1.PauseProgramRequest{ProgramId: id})
	default:
		return w.service.ArchiveProgram(ctx, &affiliatev1.ArchiveProgramRequest{ProgramId: id})
	}
}

func TestCreateProgram_SetsDefaults(t *testing.T) {
	w := newWorld(t)
	p := w.create(&affiliatev1.CreateProgramRequest{Name: "Späti Partner", WebsiteUrl: proto.String("https://WWW.Shop.example/start")})
	at := server.Timestamp(w.now.Truncate(time.Millisecond))
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
	read, err := w.service.GetProgram(w.liveContext(), &affiliatev1.GetProgramRequest{ProgramId: p.Id})
	if err != nil || !proto.Equal(read, want) {
		t.Errorf("read %v, %v", read, err)
	}
	if w.Count(`select count(*) from program_rules where program_id = $1 and version = 1 and by = $2`, p.Id, w.user) != 1 ||
		w.Count(`select count(*) from audit_log where resource_id = $1 and action = 'program.create' and actor = $2`, p.Id, w.user.String()) != 1 {
		t.Error("the first version of the rules or the audit record is missing")
	}
}

func TestCreateProgram_StoresAllFields(t *testing.T) {
	w := newWorld(t)
	p := w.create(&affiliatev1.CreateProgramRequest{
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
	w := newWorld(t)
	for i, want := range []string{"acme", "acme-2", "acme-3"} {
		if p := w.create(&affiliatev1.CreateProgramRequest{Name: "Acme"}); p.Slug != want {
			t.Errorf("programme %d has slug %s, want %s", i, p.Slug, want)
		}
	}
	given := &affiliatev1.CreateProgramRequest{Name: "Other", Slug: proto.String("acme-2")}
	_, err := w.service.CreateProgram(w.liveContext(), given)
	pgtest.RequireRefusal(t, err, affiliate.ReasonSlugTaken)
	for _, other := range []context.Context{w.asMerchant(w.workspace, affiliate.ModeTest), w.asMerchant(w.NewWorkspace(), affiliate.ModeLive)} {
		if _, err := w.service.CreateProgram(other, given); err != nil {
			t.Errorf("another mode or workspace: %v", err)
		}
	}

	p := w.create(&affiliatev1.CreateProgramRequest{Name: "Renamed"})
	_, err = w.update(p.Id, &affiliatev1.UpdateProgramRequest{Slug: proto.String("acme")}, "slug")
	pgtest.RequireRefusal(t, err, affiliate.ReasonSlugTaken)
	if p, err = w.update(p.Id, &affiliatev1.UpdateProgramRequest{Slug: proto.String("free")}, "slug"); err != nil || p.Slug != "free" {
		t.Errorf("a free slug: %v, %v", p, err)
	}
	if p, err = w.update(p.Id, &affiliatev1.UpdateProgramRequest{Name: "Acme"}, "slug", "name"); err != nil || p.Slug != "acme-4" {
		t.Errorf("a cleared slug: %v, %v", p, err)
	}
}

func TestCreateProgram_SameNameInParallelGetsDifferentSlugs(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	slugs := make([]string, 40)
	for i := range slugs {
		wg.Go(func() {
			p, err := w.service.CreateProgram(w.liveContext(), &affiliatev1.CreateProgramRequest{Name: "Same"})
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
	w := newWorld(t)
	var ids []string
	for i := range 5 {
		w.now = w.now.Add(time.Second)
		ids = append(ids, w.create(&affiliatev1.CreateProgramRequest{Name: fmt.Sprint("P", i), WebsiteUrl: proto.String("https://a.example")}).Id)
	}
	if _, err := w.move(w.liveContext(), "activate", ids[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.CreateProgram(w.asMerchant(w.workspace, affiliate.ModeTest), &affiliatev1.CreateProgramRequest{Name: "Other mode"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.service.CreateProgram(w.asMerchant(w.NewWorkspace(), affiliate.ModeLive), &affiliatev1.CreateProgramRequest{Name: "Other workspace"}); err != nil {
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
		list, err := w.service.ListPrograms(w.liveContext(), tc.req)
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
	if list, _ := w.service.ListPrograms(w.liveContext(), &affiliatev1.ListProgramsRequest{}); list.Page != 1 || list.Limit != 20 {
		t.Errorf("default page %d of %d", list.Page, list.Limit)
	}
}

func TestPrograms_OfOtherScopesAreNotFound(t *testing.T) {
	w := newWorld(t)
	p := w.create(&affiliatev1.CreateProgramRequest{Name: "P", WebsiteUrl: proto.String("https://a.example")})
	mask := &fieldmaskpb.FieldMask{Paths: []string{"name"}}
	for name, tc := range map[string]struct {
		ctx context.Context
		id  string
	}{
		"another mode":      {w.asMerchant(w.workspace, affiliate.ModeTest), p.Id},
		"another workspace": {w.asMerchant(w.NewWorkspace(), affiliate.ModeLive), p.Id},
		"unknown":           {w.liveContext(), affiliate.NewID[affiliate.Program](w.now).String()},
		"not a UUID":        {w.liveContext(), "42"},
		"empty":             {w.liveContext(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.service.GetProgram(tc.ctx, &affiliatev1.GetProgramRequest{ProgramId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = w.service.UpdateProgram(tc.ctx, &affiliatev1.UpdateProgramRequest{ProgramId: tc.id, UpdateMask: mask, Name: "Q"})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			for _, verb := range []string{"activate", "pause", "archive"} {
				_, err = w.move(tc.ctx, verb, tc.id)
				pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			}
		})
	}
}

func TestMoveProgram_FromEveryStatus(t *testing.T) {
	w := newWorld(t)
	p := w.create(&affiliatev1.CreateProgramRequest{Name: "P", LandingUrl: proto.String("https://a.example")})
	legal := map[string]string{
		"draft activate": "active", "draft archive": "archived",
		"active pause": "paused", "active archive": "archived",
		"paused activate": "active", "paused archive": "archived",
	}
	for _, from := range []string{"draft", "active", "paused", "archived"} {
		for _, verb := range []string{"activate", "pause", "archive"} {
			w.Exec(`update programs set status = $2 where id = $1`, p.Id, from)
			moved, err := w.move(w.liveContext(), verb, p.Id)
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
	w := newWorld(t)
	p := w.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	_, err := w.move(w.liveContext(), "activate", p.Id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "website_url")
	if _, err := w.update(p.Id, &affiliatev1.UpdateProgramRequest{WebsiteUrl: proto.String("https://a.example")}, "website_url"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.move(w.liveContext(), "activate", p.Id); err != nil {
		t.Error(err)
	}
}

func TestMoveProgram_InParallelSucceedsOnce(t *testing.T) {
	w := newWorld(t)
	p := w.create(&affiliatev1.CreateProgramRequest{Name: "P", WebsiteUrl: proto.String("https://a.example")})
	var wg sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		wg.Go(func() { _, errs[i] = w.move(w.liveContext(), "activate", p.Id) })
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
	if succeeded != 1 || w.Count(`select count(*) from events where type = 'program.updated'`) != 1 {
		t.Errorf("%d of 50 activations succeeded", succeeded)
	}
}

func TestProgramChanges_AreRecordedAndPublished(t *testing.T) {
	w := newWorld(t)
	p := w.create(&affiliatev1.CreateProgramRequest{Name: "P", WebsiteUrl: proto.String("https://a.example")})
	if _, err := w.update(p.Id, &affiliatev1.UpdateProgramRequest{Name: "Q"}, "name"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.move(w.liveContext(), "activate", p.Id); err != nil {
		t.Fatal(err)
	}
	type record struct{ Action, Before, After string }
	rows, _ := w.SQL.Query(t.Context(), `select action, before::text, after::text from audit_log where resource_id = $1 and action <> 'program.create' and mode = 'live' order by id`, p.Id)
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

	rows, _ = w.SQL.Query(t.Context(), `select body from events where type = 'program.updated'`)
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
	if n := w.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'program' = $1`, p.Id); n != 2 {
		t.Errorf("%d jobs for the edge directory", n)
	}
}
