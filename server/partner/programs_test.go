package partner_test

import (
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/partner"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	scopeMine   = affiliatev1.ProgramScope_PROGRAM_SCOPE_MINE
	scopePublic = affiliatev1.ProgramScope_PROGRAM_SCOPE_PUBLIC
)

// listNames lists programmes and returns their names in the order of the response.
func (f *fixture) listNames(user affiliate.UserID, mode affiliate.Mode, req *affiliatev1.ListPartnerProgramsRequest) (names string, total int64) {
	f.Helper()
	list, err := f.service.ListPartnerPrograms(f.asPartner(user, mode), req)
	if err != nil {
		f.Fatal(err)
	}
	var all []string
	for _, p := range list.Data {
		all = append(all, p.Name)
	}
	return strings.Join(all, ","), list.Total
}

func TestListPartnerPrograms(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	one, two := f.workspace("One"), f.workspace("Two")
	alpha := f.program(one, "Alpha", nil)
	paused := f.program(one, "Alps, paused", pgtest.Row{"status": "paused"})
	archived := f.program(two, "Archived", pgtest.Row{"status": "archived"})
	private := f.program(two, "Private", pgtest.Row{"is_public": false})
	f.program(two, "Draft", pgtest.Row{"status": "draft"})
	f.program(two, "Private of others", pgtest.Row{"is_public": false})
	test := f.program(one, "Alpha test", pgtest.Row{"mode": "test"})
	f.program(two, "alpine_100%", nil)

	// The partner joins the programmes in another order than they were created.
	private.join(jane, pgtest.Row{"status": "suspended"})
	alpha.join(jane, nil)
	paused.join(jane, pgtest.Row{"status": "rejected"})
	archived.join(jane, pgtest.Row{"status": "pending"})
	test.join(jane, nil)
	alpha.join(john, nil)

	type req = affiliatev1.ListPartnerProgramsRequest
	for _, tc := range []struct {
		name  string
		user  affiliate.UserID
		mode  affiliate.Mode
		req   *req
		want  string
		total int64
	}{
		{"mine by default", jane, "live", &req{}, "Archived,Alps, paused,Alpha,Private", 4},
		{"mine", jane, "live", &req{Scope: scopeMine}, "Archived,Alps, paused,Alpha,Private", 4},
		{"mine, second page", jane, "live", &req{Page: proto.Int32(2), PageSize: proto.Int32(3)}, "Private", 4},
		{"mine, after the last page", jane, "live", &req{Page: proto.Int32(9)}, "", 4},
		{"mine by name", jane, "live", &req{Search: new("aLP")}, "Alps, paused,Alpha", 2},
		{"mine of the other mode", jane, "test", &req{}, "Alpha test", 1},
		{"another partner", john, "live", &req{}, "Alpha", 1},
		{"another partner, the other mode", john, "test", &req{}, "", 0},
		{"public", jane, "live", &req{Scope: scopePublic}, "alpine_100%,Alpha", 2},
		{"public, first page", john, "live", &req{Scope: scopePublic, PageSize: proto.Int32(1)}, "alpine_100%", 2},
		{"public by name", jane, "live", &req{Scope: scopePublic, Search: new("ALPI")}, "alpine_100%", 1},
		{"public, percent sign is literal", jane, "live", &req{Scope: scopePublic, Search: new("alp%")}, "", 0},
		{"public by a name with special characters", jane, "live", &req{Scope: scopePublic, Search: new("Alpine_100%")}, "alpine_100%", 1},
		{"public of the other mode", john, "test", &req{Scope: scopePublic}, "Alpha test", 1},
	} {
		if got, total := f.listNames(tc.user, tc.mode, tc.req); got != tc.want || total != tc.total {
			t.Errorf("%s: ListPartnerPrograms returned %q and the total %d, want %q and %d", tc.name, got, total, tc.want, tc.total)
		}
	}

	list, err := f.service.ListPartnerPrograms(f.asLivePartner(john), &req{Scope: scopePublic})
	if err != nil || len(list.Data) != 2 {
		t.Fatalf("ListPartnerPrograms of public programmes returned %v, error %v, want two programmes", list, err)
	}
	if list.Data[0].Participation != nil || list.Data[1].Participation == nil {
		t.Errorf("ListPartnerPrograms returned the participations %v and %v, want none and the caller's participation",
			list.Data[0].Participation, list.Data[1].Participation)
	}
	if list.Page != 1 || list.Limit != 20 {
		t.Errorf("ListPartnerPrograms returned page %d with the limit %d, want the defaults 1 and 20", list.Page, list.Limit)
	}
}

func TestGetPartnerProgram(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	shop := f.workspace("The Shop")
	p := f.program(shop, "Alpha", map[string]any{
		"description": "D", "landing_url": "https://shop.example/land?x=1", "terms_url": "https://shop.example/terms",
		"min_payout_cents": 5000, "payout_term_days": 14, "attribution_window_days": 60, "link_param": "ref",
	})
	group := f.NewGroup(p.Scope, p.Program, "secret group", func(g *program.Group) { g.Rate.Bps = new(int64(1250)) }).ID
	mine := p.join(jane, pgtest.Row{"referral_code": "jane", "group_id": group, "approved_at": f.Now()})
	other := p.join(john, pgtest.Row{"referral_code": "john", "override_flat_amount_cents": 700, "group_id": group})

	p.addDelta(mine, pgtest.Row{"clicks": 5, "conversions": 1})
	p.addDelta(mine, pgtest.Row{"conversions": 1, "revenue_cents": 1000, "commission_cents": 200, "currency": "EUR"})
	f.foldStats()
	p.addDelta(mine, pgtest.Row{"clicks": 2, "commission_cents": 30, "currency": "EUR"})
	p.addDelta(mine, pgtest.Row{"commission_cents": 9000, "currency": "USD"})
	p.addDelta(other, pgtest.Row{"clicks": 1000})
	p.addEntry(mine, "EUR", 300)
	p.addEntry(mine, "EUR", -30)
	p.addEntry(mine, "USD", 99)
	p.addEntry(other, "EUR", 1000)

	get := func(service *partner.Service, user affiliate.UserID) *affiliatev1.PartnerProgram {
		t.Helper()
		got, err := service.GetPartnerProgram(f.asLivePartner(user), &affiliatev1.GetPartnerProgramRequest{ProgramId: p.Program.String()})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := get(f.service, jane)
	if text := protojson.Format(got); strings.Contains(text, "secret") || strings.Contains(text, "john") || strings.Contains(text, other.ID.String()) {
		t.Errorf("GetPartnerProgram shows another partner's or the merchant's data: %s", text)
	}
	shortURL := got.GetParticipation().GetShortUrl()
	servertest.WantMessage(t, "GetPartnerProgram", got, &affiliatev1.PartnerProgram{
		Id: p.Program.String(), Name: "Alpha", MerchantName: "The Shop", Description: new("D"),
		Status: affiliatev1.ProgramStatus_PROGRAM_STATUS_ACTIVE, Mode: affiliatev1.Mode_MODE_LIVE, IsPublic: true,
		WebsiteUrl: new("https://shop.example/"), LandingUrl: new("https://shop.example/land?x=1"), TermsUrl: new("https://shop.example/terms"),
		Currency: "EUR", AttributionWindowDays: 60, MinPayoutCents: 5000, PayoutTermDays: 14,
		CommissionRules: got.GetCommissionRules(), CreatedAt: got.GetCreatedAt(),
		Participation: &affiliatev1.Participation{
			ParticipantId: mine.ID.String(), ReferralCode: "jane", Status: affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED,
			AppliedAt: got.GetParticipation().GetAppliedAt(), ApprovedAt: got.GetParticipation().GetApprovedAt(),
			Url: "https://shop.example/land?x=1&ref=jane", ShortUrl: &shortURL,
			CommissionRate: &affiliatev1.CommissionRate{Percentage: new(12.5)},
			Clicks:         7, Conversions: 2, CommissionCents: 230, BalanceCents: 270,
		},
	})
	servertest.WantFields(t, "commission_rules", got.GetCommissionRules(), &affiliatev1.CommissionRules{Percentage: new(20.0), HoldPeriodDays: new(int32(30))})
	if got.GetCreatedAt() == nil || got.GetParticipation().GetAppliedAt() == nil || got.GetParticipation().GetApprovedAt() == nil {
		t.Errorf("GetPartnerProgram returned %v without created_at, applied_at or approved_at", got)
	}
	if !regexp.MustCompile(`^` + linkHost + `/r/.{10}$`).MatchString(shortURL) {
		t.Errorf("GetPartnerProgram returned the short URL %s, want %s/r/ and 10 characters", shortURL, linkHost)
	}
	// The rate of the participant replaces the rate of the group.
	servertest.WantFields(t, "the other partner's participation", get(f.service, john).GetParticipation(), &affiliatev1.Participation{
		CommissionRate: &affiliatev1.CommissionRate{FlatAmountCents: new(int64(700))}, Clicks: 1000,
	})
}

// The service has no link host, the programme has no web page, and the participant has no
// rate of its own.
func TestGetPartnerProgram_OmitsMissingURLsAndRate(t *testing.T) {
	f := newFixture(t)
	jane := f.user("Jane")
	p := f.program(f.workspace("Shop"), "Alpha", pgtest.Row{"website_url": nil, "status": "draft"})
	p.join(jane, nil)
	service := partner.New(partner.Config{DB: f.DB, Seal: f.keys})
	got, err := service.GetPartnerProgram(f.asLivePartner(jane), &affiliatev1.GetPartnerProgramRequest{ProgramId: p.Program.String()})
	if err != nil {
		t.Fatal(err)
	}
	if p := got.Participation; p.ShortUrl != nil || p.Url != "" || p.CommissionRate != nil {
		t.Errorf("GetPartnerProgram returned the short URL %q, the URL %q and the rate %v, want none", p.GetShortUrl(), p.Url, p.CommissionRate)
	}
}

func TestGetPartnerProgram_ReturnsPublicAndJoinedPrograms(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	shop := f.workspace("Shop")
	newProgram := func(changes pgtest.Row, joined bool) string {
		p := f.program(shop, "P", changes)
		if joined {
			p.join(jane, nil)
		}
		return p.Program.String()
	}
	for name, tc := range map[string]struct {
		id          string
		janeFindsIt bool
		johnFindsIt bool // John has joined no programme.
	}{
		"public":                       {newProgram(nil, false), true, true},
		"public and joined":            {newProgram(nil, true), true, true},
		"private":                      {newProgram(pgtest.Row{"is_public": false}, false), false, false},
		"private and joined":           {newProgram(pgtest.Row{"is_public": false}, true), true, false},
		"paused":                       {newProgram(pgtest.Row{"status": "paused"}, false), false, false},
		"paused and joined":            {newProgram(pgtest.Row{"status": "paused"}, true), true, false},
		"archived and joined":          {newProgram(pgtest.Row{"status": "archived"}, true), true, false},
		"of the other mode":            {newProgram(pgtest.Row{"mode": "test"}, false), false, false},
		"of the other mode and joined": {newProgram(pgtest.Row{"mode": "test"}, true), false, false},
		"unknown":                      {affiliate.NewID[affiliate.ProgramID](f.Now()).String(), false, false},
		"not a UUID":                   {"alpha", false, false},
	} {
		for user, findsIt := range map[affiliate.UserID]bool{jane: tc.janeFindsIt, john: tc.johnFindsIt} {
			_, err := f.service.GetPartnerProgram(f.asLivePartner(user), &affiliatev1.GetPartnerProgramRequest{ProgramId: tc.id})
			want := affiliate.ReasonNotFound
			if findsIt {
				want = ""
			}
			if got := pgtest.ReasonOf(t, err); got != want {
				t.Errorf("%s: GetPartnerProgram returned the error code %q, want %q (the caller is Jane: %t)", name, got, want, user == jane)
			}
		}
	}
}
