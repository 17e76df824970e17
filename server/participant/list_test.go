package participant_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

// listNames lists the participants of the programme and returns the partners' names in
// the order of the response.
func (f *fixture) listNames(role affiliate.Role, req *affiliatev1.ListParticipantsRequest) (names []string, total int64) {
	f.Helper()
	req.ProgramId = f.Program.String()
	if err := servertest.Check(f.service, req); err != nil {
		f.Fatal(err)
	}
	list, err := f.service.ListParticipants(f.asMember(role), req)
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range list.Data {
		names = append(names, p.PartnerName)
	}
	return names, list.Total
}

// foldStats adds all statistics deltas to the stored totals.
func (f *fixture) foldStats() {
	f.Helper()
	if _, err := counters.Fold(f.Context(), f.DB, 1000); err != nil {
		f.Fatal(err)
	}
}

// sell records a sale for which the participant earns a commission.
func (f *fixture) sell(p pgtest.Participant, currency string, saleCents, commissionCents int64) commission.Commission {
	f.Helper()
	return f.NewCommission(p, func(c *commission.Commission) {
		c.Currency, c.SaleCurrency = currency, currency
		c.SaleAmountCents, c.BaseAmountCents = saleCents, saleCents
		c.AmountCents, c.OriginalAmountCents = commissionCents, commissionCents
	})
}

// A participant's stats are the stored totals, plus the deltas that are not yet added to
// the totals. Only amounts in the programme's currency count. All methods return the same
// stats.
func TestParticipantStats_IncludeDeltasAndBalance(t *testing.T) {
	f := newFixture(t)
	jane, john := f.Join("Jane", pgtest.Row{"status": "pending"}), f.Join("John")
	f.NewClick(jane)
	f.NewClick(jane)
	f.sell(jane, "EUR", 5000, 500)
	canceled := f.sell(jane, "EUR", 1000, 100)
	f.foldStats()
	f.NewClick(jane)
	f.sell(jane, "EUR", 700, 70)
	f.sell(jane, "USD", 9000, 900)
	f.MoveCommission(canceled, commission.Transition{Move: commission.MoveReject}) // subtracts the commission
	for _, cents := range []int64{400, -60} {
		f.NewLedgerEntry(jane, cents)
	}
	f.NewLedgerEntry(jane, 5, func(e *ledger.ManualEntry) { e.Currency = "USD" })
	f.NewClick(john)
	f.sell(john, "EUR", 1, 1)
	f.NewLedgerEntry(john, 8)

	want := "3 clicks, 4 conversions, revenue 6700, commission 570, balance 340"
	check := func(method string, p *affiliatev1.Participant, err error) {
		t.Helper()
		got := fmt.Sprintf("%d clicks, %d conversions, revenue %d, commission %d, balance %d",
			p.GetClicks(), p.GetConversions(), p.GetRevenueCents(), p.GetCommissionCents(), p.GetBalanceCents())
		if err != nil || got != want {
			t.Errorf("%s returned %s, error %v, want %s", method, got, err, want)
		}
	}
	id := jane.ID.String()
	check("GetParticipant", f.get(id), nil)
	list, err := f.service.ListParticipants(f.asMember(affiliate.RoleViewer), &affiliatev1.ListParticipantsRequest{
		ProgramId: f.Program.String(), SortBy: new("clicks"),
	})
	if err != nil {
		t.Fatal(err)
	}
	check("ListParticipants", list.Data[0], nil)
	moved, err := f.move(f.asOwner(), "approve", f.Program.String(), id, nil)
	check("ApproveParticipant", moved, err)
	updated, err := f.update(id, &updateRequest{Note: new("N")}, "note")
	check("UpdateParticipant", updated, err)
}

func TestListParticipants_FiltersSearchesAndSorts(t *testing.T) {
	f := newFixture(t)
	group := f.NewGroup(f.Scope, f.Program, "Gold")
	ids := map[string]string{}
	for i, tc := range []struct {
		name                       string
		inGroup, approved          bool
		clicks, sales              int
		saleCents, commissionCents int64 // of each sale
	}{
		{name: "Ada"},
		{name: "Bob", inGroup: true, approved: true, clicks: 1, sales: 2, saleCents: 15, commissionCents: 20},
		{name: "bobby", clicks: 2, sales: 4, saleCents: 3, commissionCents: 8},
		{name: "Cy_d", approved: true, clicks: 3, sales: 1, saleCents: 40, commissionCents: 25},
		{name: "Eve", inGroup: true, clicks: 4, sales: 3, saleCents: 7, commissionCents: 4},
	} {
		f.clock.Advance(time.Second)
		row := pgtest.Row{
			"partner_email": fmt.Sprintf("Mail%d@%s.example", i, tc.name), "referral_code": click.FoldCode(tc.name), "status": "pending",
		}
		if tc.approved {
			row["status"] = "approved"
		}
		if tc.inGroup {
			row["group_id"] = group.ID
		}
		p := f.Join(tc.name, row)
		ids[tc.name] = p.ID.String()
		for range tc.clicks {
			f.NewClick(p)
		}
		for range tc.sales {
			f.sell(p, "EUR", tc.saleCents, tc.commissionCents)
		}
	}
	f.foldStats()
	f.mustUpdate(ids["Ada"], &updateRequest{ReferralCode: "Zeta-1"}, "referral_code")
	f.mustUpdate(ids["Bob"], &updateRequest{Tags: []string{"vip", "press"}}, "tags")
	f.mustUpdate(ids["Eve"], &updateRequest{Tags: []string{"press"}}, "tags")
	other := f.inNewProgram()
	other.Join("Ada")
	other.Join("Bob")

	asc, desc := affiliatev1.SortOrder_SORT_ORDER_ASC, affiliatev1.SortOrder_SORT_ORDER_DESC
	viewer := affiliate.RoleViewer
	type request = affiliatev1.ListParticipantsRequest
	for name, tc := range map[string]struct {
		req   *request
		want  []string
		role  affiliate.Role // if empty, the manager
		total int64          // if 0, the number of names
	}{
		"all":                              {req: &request{}, want: []string{"Eve", "Cy_d", "bobby", "Bob", "Ada"}},
		"second page":                      {req: &request{Page: new(int32(2)), PageSize: new(int32(2))}, want: []string{"bobby", "Bob"}, total: 5},
		"after the last page":              {req: &request{Page: new(int32(4)), PageSize: new(int32(2))}, total: 5},
		"oldest first":                     {req: &request{SortOrder: asc}, want: []string{"Ada", "Bob", "bobby", "Cy_d", "Eve"}},
		"by name, descending":              {req: &request{SortBy: new("partnerName"), SortOrder: desc}, want: []string{"Eve", "Cy_d", "bobby", "Bob", "Ada"}},
		"by name, ascending":               {req: &request{SortBy: new("partnerName"), SortOrder: asc}, want: []string{"Ada", "Bob", "bobby", "Cy_d", "Eve"}},
		"by clicks":                        {req: &request{SortBy: new("clicks"), SortOrder: asc}, want: []string{"Ada", "Bob", "bobby", "Cy_d", "Eve"}},
		"by conversions":                   {req: &request{SortBy: new("conversions")}, want: []string{"bobby", "Eve", "Bob", "Cy_d", "Ada"}},
		"by revenue":                       {req: &request{SortBy: new("revenueCents")}, want: []string{"Cy_d", "Bob", "Eve", "bobby", "Ada"}},
		"by commission":                    {req: &request{SortBy: new("commissionCents")}, want: []string{"Bob", "bobby", "Cy_d", "Eve", "Ada"}},
		"status":                           {req: &request{Status: approved}, want: []string{"Cy_d", "Bob"}},
		"status, first page":               {req: &request{Status: pending, PageSize: new(int32(1))}, want: []string{"Eve"}, total: 3},
		"status without rows":              {req: &request{Status: suspended}},
		"status by commission":             {req: &request{Status: approved, SortBy: new("commissionCents")}, want: []string{"Bob", "Cy_d"}},
		"group":                            {req: &request{GroupId: new(group.ID.String())}, want: []string{"Eve", "Bob"}},
		"group and status":                 {req: &request{GroupId: new(group.ID.String()), Status: approved}, want: []string{"Bob"}},
		"tag":                              {req: &request{Tag: new("press")}, want: []string{"Eve", "Bob"}},
		"tag, second page":                 {req: &request{Tag: new("press"), Page: new(int32(2)), PageSize: new(int32(1))}, want: []string{"Bob"}, total: 2},
		"tag by clicks":                    {req: &request{Tag: new("press"), SortBy: new("clicks"), SortOrder: asc}, want: []string{"Bob", "Eve"}},
		"tag and status":                   {req: &request{Tag: new("press"), Status: approved}, want: []string{"Bob"}},
		"tag and group":                    {req: &request{Tag: new("vip"), GroupId: new(group.ID.String())}, want: []string{"Bob"}},
		"tag and name":                     {req: &request{Tag: new("press"), Search: new("eve")}, want: []string{"Eve"}},
		"part of a tag":                    {req: &request{Tag: new("pres")}},
		"tag in another case":              {req: &request{Tag: new("VIP")}},
		"name":                             {req: &request{Search: new("BOB")}, want: []string{"bobby", "Bob"}},
		"name, sorted":                     {req: &request{Search: new("bob"), SortBy: new("clicks"), SortOrder: asc}, want: []string{"Bob", "bobby"}},
		"name and status":                  {req: &request{Search: new("bob"), Status: approved}, want: []string{"Bob"}},
		"name and group":                   {req: &request{Search: new("bob"), GroupId: new(group.ID.String())}, want: []string{"Bob"}},
		"email address":                    {req: &request{Search: new("mail4@")}, want: []string{"Eve"}},
		"email address, second page":       {req: &request{Search: new("mail"), Page: new(int32(2)), PageSize: new(int32(3))}, want: []string{"Bob", "Ada"}, total: 5},
		"code":                             {req: &request{Search: new("ZETA")}, want: []string{"Ada"}},
		"replaced code":                    {req: &request{Search: new("ada")}, want: []string{"Ada"}},
		"id":                               {req: &request{Search: new(ids["Eve"])}, want: []string{"Eve"}},
		"percent sign is literal":          {req: &request{Search: new("cy%")}},
		"underscore is literal":            {req: &request{Search: new("b_b")}},
		"no match":                         {req: &request{Search: new("nobody")}},
		"viewer, email address is ignored": {role: viewer, req: &request{Search: new("mail")}},
		"viewer, by name":                  {role: viewer, req: &request{Search: new("bob")}, want: []string{"bobby", "Bob"}},
	} {
		role, wantTotal := affiliate.RoleManager, int64(len(tc.want))
		if tc.role != "" {
			role = tc.role
		}
		if tc.total != 0 {
			wantTotal = tc.total
		}
		got, total := f.listNames(role, tc.req)
		if !slices.Equal(got, tc.want) || total != wantTotal {
			t.Errorf("%s: ListParticipants returned %v and the total %d, want %v and %d", name, got, total, tc.want, wantTotal)
		}
	}
}

func TestListParticipants_RefusesUnknownFilters(t *testing.T) {
	f := newFixture(t)
	other := f.inNewProgram()
	for name, group := range map[string]affiliate.GroupID{
		"group of another programme": f.NewGroup(other.Scope, other.Program, "Gold").ID,
		"unknown group":              affiliate.NewID[affiliate.GroupID](f.Now()),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.ListParticipants(f.asOwner(), &affiliatev1.ListParticipantsRequest{
				ProgramId: f.Program.String(), GroupId: new(group.String()),
			})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	t.Run("unknown status", func(t *testing.T) {
		found := f.service.Check(&affiliatev1.ListParticipantsRequest{Status: 99})
		pgtest.RequireRefusal(t, found.Err(), affiliate.ReasonValidation, "status")
	})
}
