package program_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestCreateProgram_SetsDefaults(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "Späti Partner", WebsiteUrl: new("https://WWW.Shop.example/start")})
	at := server.Timestamp(f.Now().Truncate(time.Millisecond))
	want := &affiliatev1.Program{
		Id: p.Id, Name: "Späti Partner", Slug: "spati-partner", Status: affiliatev1.ProgramStatus_PROGRAM_STATUS_DRAFT,
		Mode: affiliatev1.Mode_MODE_LIVE, WebsiteUrl: new("https://WWW.Shop.example/start"),
		AllowedDomains: []string{"www.shop.example", "*.www.shop.example"}, Currency: "CHF", AttributionWindowDays: 60,
		AttributionModel: lastClick, LinkParam: "via", IsPublic: false,
		CommissionRules: &affiliatev1.CommissionRules{
			CommissionType: percentage, Percentage: new(20.0), HoldPeriodDays: proto.Int32(30), AutoApproval: new(true),
			NetBasis: affiliatev1.NetBasis_NET_BASIS_NET_OF_TAX, Recurring: &affiliatev1.Recurring{Enabled: new(true)},
		},
		RulesVersion: 1, CreatedAt: at, UpdatedAt: at, SignalPrecedence: clickFirst, FraudPolicy: fraudFlag,
	}
	servertest.WantMessage(t, "CreateProgram", p, want)
	servertest.WantMessage(t, "GetProgram", f.get(p.Id), want)
	f.WantCount(1, "first versions of the rules", `select count(*) from program_rules where program_id = $1 and version = 1 and by = $2`, p.Id, f.owner)
	f.WantCount(1, "audit records", `select count(*) from audit_log where resource_id = $1 and action = 'program.create' and actor = $2`, p.Id, f.owner.String())
}

func TestCreateProgram_StoresAllFields(t *testing.T) {
	f := newFixture(t)
	req := fullRequest()
	req.AllowedDomains = []string{"A.example", "*.B.example", "a.EXAMPLE", "*.b.example"}
	req.Currency = new("jpy")
	p := f.create(req)
	rules := proto.CloneOf(req.CommissionRules)
	rules.Recurring.Enabled = new(true)
	want := &affiliatev1.Program{
		Id: p.Id, Name: "Full", Slug: "own", Description: req.Description, Status: affiliatev1.ProgramStatus_PROGRAM_STATUS_DRAFT,
		Mode: affiliatev1.Mode_MODE_LIVE, WebsiteUrl: req.WebsiteUrl, AllowedDomains: []string{"a.example", "*.b.example"},
		LandingUrl: req.LandingUrl, Currency: "JPY", AttributionWindowDays: 7, AttributionModel: firstClick, LinkParam: "ref",
		AutoApprovePartners: true, TermsUrl: req.TermsUrl, TermsVersion: 1, PublicText: req.PublicText, ApplicationQuestions: req.ApplicationQuestions, CommissionRules: rules, RulesVersion: 1,
		CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
		SignalPrecedence: promoFirst, MinPayoutCents: 5000, PayoutTermDays: 30, FraudPolicy: fraudBlock,
	}
	servertest.WantMessage(t, "CreateProgram", p, want)
}

func TestProgramSlugs_AreUnique(t *testing.T) {
	f := newFixture(t)
	for _, want := range []string{"acme", "acme-2", "acme-3"} {
		if got := f.createNamed("Acme").Slug; got != want {
			t.Errorf("CreateProgram with the name Acme returned the slug %s, want %s", got, want)
		}
	}
	taken := &affiliatev1.CreateProgramRequest{Name: "Other", Slug: new("acme-2")}
	_, err := f.service.CreateProgram(f.asOwner(), taken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonSlugTaken)
	for name, caller := range map[string]context.Context{"the other mode": f.inOtherMode(), "another workspace": f.inOtherWorkspace()} {
		if _, err := f.service.CreateProgram(caller, taken); err != nil {
			t.Errorf("CreateProgram with the same slug in %s: %v", name, err)
		}
	}

	p := f.createNamed("Renamed")
	_, err = f.update(p.Id, &affiliatev1.UpdateProgramRequest{Slug: new("acme")}, "slug")
	pgtest.RequireRefusal(t, err, affiliate.ReasonSlugTaken)
	if got := f.mustUpdate(p.Id, &affiliatev1.UpdateProgramRequest{Slug: new("free")}, "slug").Slug; got != "free" {
		t.Errorf("UpdateProgram with the slug free returned the slug %s", got)
	}
	// A cleared slug is made from the name.
	if got := f.mustUpdate(p.Id, &affiliatev1.UpdateProgramRequest{Name: "Acme"}, "slug", "name").Slug; got != "acme-4" {
		t.Errorf("UpdateProgram that clears the slug returned the slug %s, want acme-4", got)
	}
}

func TestCreateProgram_SameNameInParallelGetsDifferentSlugs(t *testing.T) {
	f := newFixture(t)
	var calls sync.WaitGroup
	slugs := make([]string, 40)
	for i := range slugs {
		calls.Go(func() {
			p, err := f.service.CreateProgram(f.asOwner(), &affiliatev1.CreateProgramRequest{Name: "Same"})
			if err != nil {
				t.Errorf("CreateProgram: %v", err)
				return
			}
			slugs[i] = p.Slug
		})
	}
	calls.Wait()
	slices.Sort(slugs)
	if n := len(slices.Compact(slugs)); n != 40 {
		t.Errorf("40 programmes have %d different slugs, want 40", n)
	}
}

func TestListPrograms_PagesNewestFirst(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		f.clock.Advance(time.Second)
		p := f.createNamed(fmt.Sprint("P", i))
		if i == 1 {
			f.mustMove("activate", p.Id)
		}
	}
	for name, caller := range map[string]context.Context{"Other mode": f.inOtherMode(), "Other workspace": f.inOtherWorkspace()} {
		if _, err := f.service.CreateProgram(caller, &affiliatev1.CreateProgramRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		req  *affiliatev1.ListProgramsRequest
		want string
	}{
		"all":                 {&affiliatev1.ListProgramsRequest{}, "P4 P3 P2 P1 P0, total 5, page 1, limit 20"},
		"second page":         {&affiliatev1.ListProgramsRequest{Page: proto.Int32(2), PageSize: proto.Int32(2)}, "P2 P1, total 5, page 2, limit 2"},
		"after the last page": {&affiliatev1.ListProgramsRequest{Page: proto.Int32(9)}, ", total 5, page 9, limit 20"},
		"status":              {&affiliatev1.ListProgramsRequest{Status: affiliatev1.ProgramStatus_PROGRAM_STATUS_ACTIVE}, "P1, total 1, page 1, limit 20"},
		"status without rows": {&affiliatev1.ListProgramsRequest{Status: affiliatev1.ProgramStatus_PROGRAM_STATUS_PAUSED}, ", total 0, page 1, limit 20"},
	} {
		list, err := f.service.ListPrograms(f.asOwner(), tc.req)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range list.Data {
			names = append(names, p.Name)
		}
		got := fmt.Sprintf("%s, total %d, page %d, limit %d", strings.Join(names, " "), list.Total, list.Page, list.Limit)
		if got != tc.want {
			t.Errorf("%s: ListPrograms returned %s, want %s", name, got, tc.want)
		}
	}
}

func TestPrograms_OfOtherScopesAreNotFound(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	for name, tc := range map[string]struct {
		caller context.Context
		id     string
	}{
		"the other mode":    {f.inOtherMode(), p.Id},
		"another workspace": {f.inOtherWorkspace(), p.Id},
		"unknown id":        {f.asOwner(), affiliate.NewID[affiliate.ProgramID](f.Now()).String()},
		"not a UUID":        {f.asOwner(), "42"},
		"no id":             {f.asOwner(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.GetProgram(tc.caller, &affiliatev1.GetProgramRequest{ProgramId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.UpdateProgram(tc.caller, &affiliatev1.UpdateProgramRequest{
				ProgramId: tc.id, Name: "Q", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}},
			})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			for _, verb := range verbs {
				_, err = f.move(tc.caller, verb, tc.id)
				pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			}
			_, err = f.service.ListProgramRules(tc.caller, &affiliatev1.ListProgramRulesRequest{ProgramId: tc.id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	servertest.WantMessage(t, "GetProgram after refused calls", f.get(p.Id), p)
}

func TestMoveProgram_FromEveryStatus(t *testing.T) {
	f := newFixture(t)
	legal := map[string]string{
		"draft activate": "active", "draft archive": "archived",
		"active pause": "paused", "active archive": "archived",
		"paused activate": "active", "paused archive": "archived",
	}
	for _, from := range []string{"draft", "active", "paused", "archived"} {
		for _, verb := range verbs {
			id := f.NewProgram(f.scope, pgtest.Row{"status": from}).String()
			moved, err := f.move(f.asOwner(), verb, id)
			want, ok := legal[from+" "+verb]
			if !ok {
				if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid); metadata["status"] != from {
					t.Errorf("%s of a programme in the status %s: the error has the metadata %v, want its status", verb, from, metadata)
				}
				continue
			}
			if err != nil || server.EnumName(moved.Status) != want {
				t.Errorf("%s of a programme in the status %s returned %v, error %v, want the status %s", verb, from, moved, err, want)
			}
		}
	}
}

func TestActivateProgram_RequiresAWebsiteOrLandingURL(t *testing.T) {
	f := newFixture(t)
	p := f.create(&affiliatev1.CreateProgramRequest{Name: "P"})
	_, err := f.move(f.asOwner(), "activate", p.Id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "website_url")
	f.mustUpdate(p.Id, &affiliatev1.UpdateProgramRequest{LandingUrl: new("https://a.example")}, "landing_url")
	f.mustMove("activate", p.Id)
}

func TestMoveProgram_InParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	var calls sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		calls.Go(func() { _, errs[i] = f.move(f.asOwner(), "activate", p.Id) })
	}
	calls.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
			continue
		}
		if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonProgramStateInvalid); metadata["status"] != "active" {
			t.Errorf("a refused activation has the metadata %v, want status = active", metadata)
		}
	}
	if succeeded != 1 {
		t.Errorf("%d of 50 parallel activations succeeded, want 1", succeeded)
	}
	f.WantCount(1, "events", `select count(*) from events where type = 'program.updated'`)
}

func TestProgramChanges_AreAuditedAndPublished(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	// lastVersion checks that the last event is about a change of field from
	// previousValue. It returns the version of the programme in the event.
	lastVersion := func(field, previousValue string) float64 {
		t.Helper()
		object, previous := f.LastEvent(affiliate.EventProgramUpdated)
		if object["id"] != p.Id || object["name"] != "Q" || len(previous) != 1 || previous[field] != previousValue {
			t.Errorf("the event is about the programme %v with the name %v and the previous attributes %v, want %s, Q and %s = %s",
				object["id"], object["name"], previous, p.Id, field, previousValue)
		}
		version, _ := object["version"].(float64)
		return version
	}
	f.mustUpdate(p.Id, &affiliatev1.UpdateProgramRequest{Name: "Q"}, "name")
	updateVersion := lastVersion("name", "P")
	f.clock.Advance(time.Second)
	f.mustMove("activate", p.Id)
	activationVersion := lastVersion("status", "draft")
	if updateVersion == 0 || activationVersion <= updateVersion {
		t.Errorf("the events have the versions %v and %v, want increasing versions", updateVersion, activationVersion)
	}
	audit := f.Texts(`
		select concat_ws(' ', action, before, after) from audit_log
		where resource_id = $1 and action <> 'program.create' and mode = 'live' order by at`, p.Id)
	want := []string{`program.update {"name": "P"} {"name": "Q"}`, `program.activate {"status": "draft"} {"status": "active"}`}
	if !slices.Equal(audit, want) {
		t.Errorf("the audit log has %q, want %q", audit, want)
	}
	f.WantCount(2, "events in live mode", `select count(*) from events where type = 'program.updated' and convert_from(body, 'UTF8')::jsonb ->> 'mode' = 'live'`)
	f.WantCount(2, "jobs for the edge directory", `select count(*) from river.river_job where kind = 'sync_directory' and args ->> 'program' = $1`, p.Id)
}

func TestPrograms_EachChangeIncrementsVersion(t *testing.T) {
	f := newFixture(t)
	id := f.createNamed("P").Id
	want := 1
	wantVersion := func() {
		t.Helper()
		f.WantCount(1, "programmes with this version", `select count(*) from programs where id = $1 and version = $2`, id, want)
	}
	wantVersion()
	for i := range 3 {
		want++
		for range 2 { // the second update changes nothing
			f.mustUpdate(id, &affiliatev1.UpdateProgramRequest{Name: fmt.Sprint("N", i)}, "name")
			wantVersion()
		}
	}
	for _, verb := range []string{"activate", "pause", "activate"} {
		want++
		f.mustMove(verb, id)
		wantVersion()
	}
}

// A process of the previous release does not know all rules. If it changes a programme, the
// unknown rules must stay until it changes the rules.
func TestPrograms_UnknownRulesSurviveOtherChanges(t *testing.T) {
	f := newFixture(t)
	id := f.createNamed("P").Id
	f.Exec(`update programs set rules = rules || '{"new_rule": 1}' where id = $1`, id)
	f.mustMove("activate", id)
	f.mustUpdate(id, &affiliatev1.UpdateProgramRequest{Name: "Q"}, "name")
	f.WantCount(1, "programmes with the unknown rule", `select count(*) from programs where id = $1 and rules ? 'new_rule' and name = 'Q'`, id)
}

// If the audit log entry of a change cannot be stored, the change must be rolled back.
func TestPrograms_ChangeAndAuditEntryCommitTogether(t *testing.T) {
	f := newFixture(t)
	p := f.createNamed("P")
	f.Exec(`revoke insert on audit_log from tributary_app`)
	if _, err := f.move(f.asOwner(), "activate", p.Id); err == nil {
		t.Error("ActivateProgram succeeded without an audit log")
	}
	if _, err := f.update(p.Id, &affiliatev1.UpdateProgramRequest{Name: "Q"}, "name"); err == nil {
		t.Error("UpdateProgram succeeded without an audit log")
	}
	if got := f.get(p.Id); !proto.Equal(got, p) {
		t.Errorf("after the failed changes, the programme is %v, want %v", got, p)
	}
}
