package participant_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) get(id string) *affiliatev1.Participant {
	f.Helper()
	p, err := f.service.GetParticipant(f.asMerchant(affiliate.RoleOwner), &affiliatev1.GetParticipantRequest{ProgramId: f.Program.String(), ParticipantId: id})
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// listNames lists the participants of the programme and returns the partners' names in
// the order of the response.
func (f *fixture) listNames(role affiliate.Role, req *affiliatev1.ListParticipantsRequest) (names []string, total int64) {
	f.Helper()
	req.ProgramId = f.Program.String()
	if wrong := f.service.Check(req); len(wrong) > 0 {
		f.Fatal(wrong.Err())
	}
	list, err := f.service.ListParticipants(f.asMerchant(role), req)
	if err != nil {
		f.Fatal(err)
	}
	names = []string{}
	for _, p := range list.Data {
		names = append(names, p.PartnerName)
	}
	return names, list.Total
}

func (f *fixture) newGroup(program affiliate.ProgramID) affiliate.GroupID {
	f.Helper()
	id := affiliate.NewID[affiliate.Group](f.Now())
	f.Exec(`insert into groups (workspace_id, id, program_id, name, rate_bps, created_at, updated_at) values ($1, $2, $3, gen_random_uuid()::text, 1000, $4, $4)`,
		f.Scope.Workspace, id, program, f.Now())
	return id
}

// A participant's stats are the stored totals, plus the deltas that have not yet been
// added to them, plus the balance. Only amounts in the programme's currency count. All
// methods return the same stats.
func TestParticipantStats_IncludeUnfoldedDeltas(t *testing.T) {
	f := newFixture(t)
	p, other := f.mustApply("Jane"), f.mustApply("John")
	f.Exec(`update participant_totals set clicks = 10, conversions = 3, revenue_cents = 5000, commission_cents = 500 where participant_id = $1`, p.Id)
	delta := func(participant, currency string, clicks, conversions, revenue, commission int64) {
		f.Exec(`
			insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, hour, currency, clicks, conversions, revenue_cents, commission_cents)
			values ($1, gen_random_uuid(), 'live', $2, $3, $4, $5, $6, $7, $8, $9)`,
			f.Scope.Workspace, f.Program, participant, f.Now(), currency, clicks, conversions, revenue, commission)
	}
	delta(p.Id, "", 2, 0, 0, 0)
	delta(p.Id, "EUR", 0, 1, 700, 70)
	delta(p.Id, "EUR", 0, 0, -200, -20)
	delta(p.Id, "USD", 0, 1, 9000, 900)
	delta(other.Id, "EUR", 1, 1, 1, 1)
	addBalance := func(participant, currency string, slot, cents int64) {
		f.Exec(`insert into ledger_balances (workspace_id, participant_id, currency, slot, balance_cents) values ($1, $2, $3, $4, $5)`,
			f.Scope.Workspace, participant, currency, slot, cents)
	}
	addBalance(p.Id, "EUR", 0, 400)
	addBalance(p.Id, "EUR", 5, -60)
	addBalance(p.Id, "USD", 0, 5)
	addBalance(other.Id, "EUR", 0, 8)

	check := func(name string, got *affiliatev1.Participant) {
		t.Helper()
		if got.Clicks != 12 || got.Conversions != 5 || got.RevenueCents != 5500 || got.CommissionCents != 550 || got.BalanceCents != 340 {
			t.Errorf("%s: %v", name, got)
		}
	}
	check("get", f.get(p.Id))
	list, err := f.service.ListParticipants(f.asMerchant(affiliate.RoleViewer), &affiliatev1.ListParticipantsRequest{ProgramId: p.ProgramId, SortBy: proto.String("clicks")})
	if err != nil || list.Data[0].Id != p.Id {
		t.Fatalf("%v, %v", list, err)
	}
	check("list", list.Data[0])
	moved, err := f.move(f.asMerchant(affiliate.RoleOwner), "approve", p.ProgramId, p.Id, nil)
	if err != nil {
		t.Fatal(err)
	}
	check("move", moved)
	patched, err := f.update(p.Id, &affiliatev1.UpdateParticipantRequest{Note: proto.String("N")}, "note")
	if err != nil {
		t.Fatal(err)
	}
	check("update", patched)
}

func TestListParticipants_FiltersSearchesAndSorts(t *testing.T) {
	f := newFixture(t)
	ids := map[string]string{}
	for i, name := range []string{"Ada", "Bob", "bobby", "Cy_d", "Eve"} {
		f.clock.Advance(time.Second)
		p := f.mustApply(name)
		ids[name] = p.Id
		f.Exec(`update participant_totals set clicks = $2, conversions = $3, revenue_cents = $4, commission_cents = $5 where participant_id = $1`,
			p.Id, i, (i*2)%5, (i*3)%5, (i*4)%5)
		f.Exec(`update participants set partner_email = $2 where id = $1`, p.Id, fmt.Sprintf("Mail%d@%s.example", i, name))
	}
	// Another programme has participants with the same names.
	own, group := f.Program, f.newGroup(f.Program)
	f.Program = f.NewProgram(f.Scope)
	elsewhere := f.newGroup(f.Program)
	for _, name := range []string{"Ada", "Bob"} {
		f.mustApply(name)
	}
	f.Program = own
	for _, name := range []string{"Bob", "Eve"} {
		if _, err := f.update(ids[name], &affiliatev1.UpdateParticipantRequest{GroupId: proto.String(group.String())}, "group_id"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.update(ids["Ada"], &affiliatev1.UpdateParticipantRequest{ReferralCode: "Zeta-1"}, "referral_code"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Bob", "Cy_d"} {
		if _, err := f.move(f.asMerchant(affiliate.RoleOwner), "approve", own.String(), ids[name], nil); err != nil {
			t.Fatal(err)
		}
	}
	approved := affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED
	asc, desc := affiliatev1.SortOrder_SORT_ORDER_ASC, affiliatev1.SortOrder_SORT_ORDER_DESC
	type request = affiliatev1.ListParticipantsRequest
	for name, tc := range map[string]struct {
		req  *request
		want []string
	}{
		"all":                     {&request{}, []string{"Eve", "Cy_d", "bobby", "Bob", "Ada"}},
		"oldest":                  {&request{SortOrder: asc}, []string{"Ada", "Bob", "bobby", "Cy_d", "Eve"}},
		"by name, descending":     {&request{SortBy: proto.String("partnerName"), SortOrder: desc}, []string{"Eve", "Cy_d", "bobby", "Bob", "Ada"}},
		"by name, ascending":      {&request{SortBy: proto.String("partnerName"), SortOrder: asc}, []string{"Ada", "Bob", "bobby", "Cy_d", "Eve"}},
		"by clicks":               {&request{SortBy: proto.String("clicks"), SortOrder: asc}, []string{"Ada", "Bob", "bobby", "Cy_d", "Eve"}},
		"by conversions":          {&request{SortBy: proto.String("conversions")}, []string{"bobby", "Eve", "Bob", "Cy_d", "Ada"}},
		"by revenue":              {&request{SortBy: proto.String("revenueCents")}, []string{"Cy_d", "Bob", "Eve", "bobby", "Ada"}},
		"by commission":           {&request{SortBy: proto.String("commissionCents")}, []string{"Bob", "bobby", "Cy_d", "Eve", "Ada"}},
		"a status":                {&request{Status: approved}, []string{"Cy_d", "Bob"}},
		"a status by commission":  {&request{Status: approved, SortBy: proto.String("commissionCents")}, []string{"Bob", "Cy_d"}},
		"a group":                 {&request{GroupId: proto.String(group.String())}, []string{"Eve", "Bob"}},
		"a group and a status":    {&request{GroupId: proto.String(group.String()), Status: approved}, []string{"Bob"}},
		"a name":                  {&request{Search: proto.String("BOB")}, []string{"bobby", "Bob"}},
		"a name, sorted":          {&request{Search: proto.String("bob"), SortBy: proto.String("clicks"), SortOrder: asc}, []string{"Bob", "bobby"}},
		"a name and a status":     {&request{Search: proto.String("bob"), Status: approved}, []string{"Bob"}},
		"a name and a group":      {&request{Search: proto.String("bob"), GroupId: proto.String(group.String())}, []string{"Bob"}},
		"an address":              {&request{Search: proto.String("mail4@")}, []string{"Eve"}},
		"a code":                  {&request{Search: proto.String("ZETA")}, []string{"Ada"}},
		"a code that is an alias": {&request{Search: proto.String("ada")}, []string{"Ada"}},
		"an id":                   {&request{Search: proto.String(ids["Eve"])}, []string{"Eve"}},
		"percent sign is literal": {&request{Search: proto.String("cy%")}, []string{}},
		"underscore is literal":   {&request{Search: proto.String("b_b")}, []string{}},
		"no match":                {&request{Search: proto.String("nobody")}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, total := f.listNames(affiliate.RoleManager, tc.req)
			if !slices.Equal(got, tc.want) || total != int64(len(tc.want)) {
				t.Errorf("%v of %d, want %v", got, total, tc.want)
			}
		})
	}
	if got, total := f.listNames(affiliate.RoleViewer, &request{Search: proto.String("mail")}); len(got) != 0 || total != 0 {
		t.Errorf("a viewer finds %v by an address", got)
	}
	if got, _ := f.listNames(affiliate.RoleViewer, &request{Search: proto.String("bob")}); len(got) != 2 {
		t.Errorf("a viewer finds %v by a name", got)
	}
	if got, total := f.listNames(affiliate.RoleManager, &request{Search: proto.String("mail"), Page: proto.Int32(2), PageSize: proto.Int32(3)}); !slices.Equal(got, []string{"Bob", "Ada"}) || total != 5 {
		t.Errorf("the second page has %v of %d", got, total)
	}

	for name, group := range map[string]affiliate.GroupID{
		"another programme's": elsewhere, "an unknown": affiliate.NewID[affiliate.Group](f.Now()),
	} {
		_, err := f.service.ListParticipants(f.asMerchant(affiliate.RoleManager), &request{ProgramId: own.String(), GroupId: proto.String(group.String())})
		if !errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
			t.Errorf("%s group: %v", name, err)
		}
	}

	// The other mode and another workspace do not have the programme.
	for _, other := range []server.Principal{
		{Workspace: f.Scope.Workspace, Mode: affiliate.ModeTest},
		{Workspace: affiliate.NewID[affiliate.Workspace](f.Now()), Mode: affiliate.ModeLive},
	} {
		other.Kind, other.User, other.Role = server.MerchantToken, f.Owner, affiliate.RoleOwner
		_, err := f.service.ListParticipants(server.WithPrincipal(t.Context(), other), &request{ProgramId: own.String(), Search: proto.String("bob")})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
}
