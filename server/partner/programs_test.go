package partner_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/partner"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	scopeMine   = affiliatev1.ProgramScope_PROGRAM_SCOPE_MINE
	scopePublic = affiliatev1.ProgramScope_PROGRAM_SCOPE_PUBLIC
)

// listNames lists programmes and returns their names in the order of the response.
func (f *fixture) listNames(user affiliate.UserID, mode affiliate.Mode, req *affiliatev1.ListPartnerProgramsRequest) (names string, total int64) {
	f.Helper()
	list, err := f.service.ListPartnerPrograms(f.callContext(user, mode), req)
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
	paused := f.program(one, "Alps, paused", map[string]any{"status": "paused"})
	archived := f.program(two, "Archived", map[string]any{"status": "archived"})
	private := f.program(two, "Private", map[string]any{"is_public": false})
	f.program(two, "Draft", map[string]any{"status": "draft"})
	f.program(two, "Private of others", map[string]any{"is_public": false})
	test := f.program(one, "Alpha test", map[string]any{"mode": "test"})
	f.program(two, "alpine_100%", nil)

	// The partner joins the programmes in another order than they were created.
	private.join(jane, map[string]any{"status": "suspended"})
	alpha.join(jane, nil)
	paused.join(jane, map[string]any{"status": "rejected"})
	archived.join(jane, map[string]any{"status": "pending"})
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
		{"mine, a page", jane, "live", &req{Page: proto.Int32(2), PageSize: proto.Int32(3)}, "Private", 4},
		{"mine, beyond the end", jane, "live", &req{Page: proto.Int32(9)}, "", 4},
		{"mine by name", jane, "live", &req{Search: proto.String("aLP")}, "Alps, paused,Alpha", 2},
		{"mine of the other mode", jane, "test", &req{}, "Alpha test", 1},
		{"another partner", john, "live", &req{}, "Alpha", 1},
		{"another partner, the other mode", john, "test", &req{}, "", 0},
		{"public", jane, "live", &req{Scope: scopePublic}, "alpine_100%,Alpha", 2},
		{"public, a page", john, "live", &req{Scope: scopePublic, PageSize: proto.Int32(1)}, "alpine_100%", 2},
		{"public by name", jane, "live", &req{Scope: scopePublic, Search: proto.String("ALPI")}, "alpine_100%", 1},
		{"public, percent sign is literal", jane, "live", &req{Scope: scopePublic, Search: proto.String("alp%")}, "", 0},
		{"public by a name with special characters", jane, "live", &req{Scope: scopePublic, Search: proto.String("Alpine_100%")}, "alpine_100%", 1},
		{"public of the other mode", john, "test", &req{Scope: scopePublic}, "Alpha test", 1},
	} {
		if got, total := f.listNames(tc.user, tc.mode, tc.req); got != tc.want || total != tc.total {
			t.Errorf("%s: %q of %d, want %q of %d", tc.name, got, total, tc.want, tc.total)
		}
	}

	// A public programme shows the caller's own participation only.
	list, err := f.service.ListPartnerPrograms(f.liveContext(john), &req{Scope: scopePublic})
	if err != nil || list.Data[0].Participation != nil || list.Data[1].Participation == nil {
		t.Errorf("participations of the public programmes: %v, %v", list, err)
	}
	if list.Page != 1 || list.Limit != 20 {
		t.Errorf("page %d, limit %d", list.Page, list.Limit)
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
	group := affiliate.NewID[affiliate.Group](f.Now())
	f.Insert("groups", map[string]any{
		"workspace_id": shop, "id": group, "program_id": p.Program, "name": "secret group", "rate_bps": 1250, "created_at": f.Now(), "updated_at": f.Now(),
	})
	mine := p.join(jane, map[string]any{"referral_code": "jane", "group_id": group, "approved_at": f.Now()})
	other := p.join(john, map[string]any{"referral_code": "john", "override_flat_amount_cents": 700, "group_id": group})

	hour := f.Now().Truncate(3600e9)
	p.addDelta(mine, hour, map[string]any{"clicks": 5, "conversions": 1})
	p.addDelta(mine, hour, map[string]any{"conversions": 1, "revenue_cents": 1000, "commission_cents": 200, "currency": "EUR"})
	f.foldStats()
	p.addDelta(mine, hour, map[string]any{"clicks": 2, "commission_cents": 30, "currency": "EUR"})
	p.addDelta(mine, hour, map[string]any{"commission_cents": 9000, "currency": "USD"})
	p.addDelta(other, hour, map[string]any{"clicks": 1000})
	p.addEntry(mine, "EUR", 300)
	p.addEntry(mine, "EUR", -30)
	p.addEntry(mine, "USD", 99)
	p.addEntry(other, "EUR", 1000)

	got, err := f.service.GetPartnerProgram(f.liveContext(jane), &affiliatev1.GetPartnerProgramRequest{ProgramId: p.Program.String()})
	if err != nil {
		t.Fatal(err)
	}
	text := protojson.Format(got)
	if strings.Contains(text, "secret") || strings.Contains(text, "john") || strings.Contains(text, other.ID.String()) {
		t.Errorf("the response shows another partner's or the merchant's data: %s", text)
	}
	for name, ok := range map[string]bool{
		"names":    got.Name == "Alpha" && got.MerchantName == "The Shop" && got.GetDescription() == "D",
		"status":   got.Status == affiliatev1.ProgramStatus_PROGRAM_STATUS_ACTIVE && got.Mode == affiliatev1.Mode_MODE_LIVE && got.IsPublic,
		"pages":    got.GetWebsiteUrl() == "https://shop.example/" && got.GetLandingUrl() == "https://shop.example/land?x=1" && got.GetTermsUrl() == "https://shop.example/terms",
		"terms":    got.Currency == "EUR" && got.AttributionWindowDays == 60 && got.MinPayoutCents == 5000 && got.PayoutTermDays == 14,
		"rules":    got.CommissionRules.GetPercentage() == 20 && got.CommissionRules.GetHoldPeriodDays() == 30,
		"created":  got.CreatedAt.AsTime().UnixMilli() > 0,
		"identity": got.Participation.ParticipantId == mine.ID.String() && got.Participation.ReferralCode == "jane",
		"times":    got.Participation.Status == affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED && got.Participation.AppliedAt != nil && got.Participation.ApprovedAt != nil && got.Participation.RejectedAt == nil && got.Participation.SuspendedAt == nil,
		"link":     got.Participation.Url == "https://shop.example/land?x=1&ref=jane",
		"short":    strings.HasPrefix(got.Participation.GetShortUrl(), linkHost+"/r/") && len(got.Participation.GetShortUrl()) == len(linkHost+"/r/")+10,
		"rate":     got.Participation.CommissionRate.GetPercentage() == 12.5 && got.Participation.CommissionRate.FlatAmountCents == nil,
		"counts":   got.Participation.Clicks == 7 && got.Participation.Conversions == 2,
		"amounts":  got.Participation.CommissionCents == 230 && got.Participation.BalanceCents == 270,
	} {
		if !ok {
			t.Errorf("%s: %s", name, text)
		}
	}

	johns, err := f.service.GetPartnerProgram(f.liveContext(john), &affiliatev1.GetPartnerProgramRequest{ProgramId: p.Program.String()})
	if err != nil || johns.Participation.CommissionRate.GetFlatAmountCents() != 700 || johns.Participation.Clicks != 1000 {
		t.Errorf("the participant's own rate must replace the group's: %v, %v", johns, err)
	}

	// Without a link host the response has no short URL. Without a web page of the programme
	// it has no URL.
	f.Exec(`update programs set website_url = null, landing_url = null, status = 'draft'`)
	f.Exec(`update participants set group_id = null`)
	withoutHost := partner.New(partner.Config{Store: f.Store, Seal: f.keys})
	got, err = withoutHost.GetPartnerProgram(f.liveContext(jane), &affiliatev1.GetPartnerProgramRequest{ProgramId: p.Program.String()})
	if err != nil || got.Participation.ShortUrl != nil || got.Participation.Url != "" || got.Participation.CommissionRate != nil {
		t.Errorf("without link host, web page and rate: %v, %v", got, err)
	}
}

func TestGetPartnerProgram_ReturnsPublicAndJoinedPrograms(t *testing.T) {
	f := newFixture(t)
	jane, john := f.user("Jane"), f.user("John")
	shop := f.workspace("Shop")
	joined := func(p program) program { p.join(jane, nil); return p }
	for _, tc := range []struct {
		name  string
		id    string
		found bool
	}{
		{"public", f.program(shop, "P", nil).Program.String(), true},
		{"public, mine", joined(f.program(shop, "P", nil)).Program.String(), true},
		{"private", f.program(shop, "P", map[string]any{"is_public": false}).Program.String(), false},
		{"private, mine", joined(f.program(shop, "P", map[string]any{"is_public": false})).Program.String(), true},
		{"paused", f.program(shop, "P", map[string]any{"status": "paused"}).Program.String(), false},
		{"paused, mine", joined(f.program(shop, "P", map[string]any{"status": "paused"})).Program.String(), true},
		{"archived, mine", joined(f.program(shop, "P", map[string]any{"status": "archived"})).Program.String(), true},
		{"of the other mode", f.program(shop, "P", map[string]any{"mode": "test"}).Program.String(), false},
		{"of the other mode, mine", joined(f.program(shop, "P", map[string]any{"mode": "test"})).Program.String(), false},
		{"unknown", affiliate.NewID[affiliate.Program](f.Now()).String(), false},
		{"not a UUID", "alpha", false},
	} {
		req := &affiliatev1.GetPartnerProgramRequest{ProgramId: tc.id}
		_, err := f.service.GetPartnerProgram(f.liveContext(jane), req)
		want := affiliate.ReasonNotFound
		if tc.found {
			want = ""
		}
		if got := pgtest.ReasonOf(t, err); got != want {
			t.Errorf("%s: %q, want %q", tc.name, got, want)
		}
		// Another partner's participation does not make a programme visible.
		if _, err := f.service.GetPartnerProgram(f.liveContext(john), req); (err == nil) != (tc.found && strings.HasPrefix(tc.name, "public")) {
			t.Errorf("%s, for another partner: %v", tc.name, err)
		}
	}
}
