package participant_test

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// newPartners returns a fixture with participants of two programmes. The other mode and another
// workspace have participants too.
func newPartners(t *testing.T) (f *fixture, second affiliate.ProgramID, gold affiliate.GroupID) {
	t.Helper()
	f = newFixture(t)
	second = f.NewProgram(f.Scope, pgtest.Row{"name": "Second", "currency": "USD"})
	gold = f.NewGroup(f.Scope, second, "Gold").ID
	f.Join("Anna")
	f.Join("Berta", pgtest.Row{"status": "pending"})
	for _, name := range []string{"Carl", "=Dora"} {
		p := f.NewParticipant(f.Scope, second, f.NewPartner(name))
		f.Exec(`update participants set group_id = $2, tags = '{press,vip}' where id = $1`, p.ID, gold)
	}
	f.Exec(`update participant_totals s set clicks = ascii(t.partner_name) from participants t where t.id = s.participant_id`)
	f.InOtherMode().Join("Anna")
	f.NewShop(f.Scope.Mode).Join("Anna")
	return f, second, gold
}

func TestListPartners_OfAllPrograms(t *testing.T) {
	f, second, gold := newPartners(t)
	type request = affiliatev1.ListPartnersRequest
	byName := func(r *request) *request {
		r.SortBy, r.SortOrder = new("partnerName"), affiliatev1.SortOrder_SORT_ORDER_ASC
		return r
	}
	for name, tc := range map[string]struct {
		req  *request
		want []string
	}{
		"all by name":            {byName(&request{}), []string{"=Dora", "Anna", "Berta", "Carl"}},
		"all by clicks":          {&request{SortBy: new("clicks")}, []string{"Carl", "Berta", "Anna", "=Dora"}},
		"programme":              {byName(&request{ProgramId: new(f.Program.String())}), []string{"Anna", "Berta"}},
		"status":                 {&request{Status: affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_PENDING}, []string{"Berta"}},
		"group":                  {byName(&request{GroupId: new(gold.String())}), []string{"=Dora", "Carl"}},
		"group of the programme": {byName(&request{GroupId: new(gold.String()), ProgramId: new(second.String())}), []string{"=Dora", "Carl"}},
		"tag":                    {byName(&request{Tag: new("vip")}), []string{"=Dora", "Carl"}},
		"search":                 {&request{Search: new("ann")}, []string{"Anna"}},
		"search and status":      {&request{Search: new("ann"), Status: affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_PENDING}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := f.service.ListPartners(f.asMember(affiliate.RoleViewer), tc.req)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range list.GetData() {
				names = append(names, p.GetPartnerName())
				inSecond := p.GetProgramId() == second.String()
				if inSecond != (p.GetProgramName() == "Second") || inSecond != (p.GetCurrency() == "USD") || strings.Contains(p.GetPartnerEmail(), "jane") {
					t.Errorf("the list has %v, want the name and currency of the programme and a masked address", p)
				}
			}
			if !slices.Equal(names, tc.want) || list.GetTotal() != int64(len(tc.want)) {
				t.Errorf("ListPartners returned %q and the total %d, want %q", names, list.GetTotal(), tc.want)
			}
		})
	}
	for page, want := range map[int32]string{1: "=Dora", 2: "Anna", 4: "Carl", 5: ""} {
		req := byName(&request{Page: &page, PageSize: new(int32(1))})
		list, err := f.service.ListPartners(f.asMember(affiliate.RoleOwner), req)
		if err != nil || list.GetTotal() != 4 || (want == "") != (len(list.GetData()) == 0) || want != "" && list.GetData()[0].GetPartnerName() != want {
			t.Errorf("page %d is %v, %v, want %s of 4", page, list, err, want)
		}
	}
	unknown := affiliate.NewID[affiliate.ProgramID](f.Now()).String()
	for name, req := range map[string]*request{
		"unknown programme":              {ProgramId: &unknown},
		"unknown group":                  {GroupId: &unknown},
		"programme of the other mode":    {ProgramId: new(f.InOtherMode().Program.String())},
		"group of another programme":     {GroupId: new(gold.String()), ProgramId: new(f.Program.String())},
		"programme of another workspace": {ProgramId: new(f.NewShop(f.Scope.Mode).Program.String())},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.ListPartners(f.asMember(affiliate.RoleOwner), req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
}

func TestExportPartners(t *testing.T) {
	f, _, _ := newPartners(t)
	export := func(role affiliate.Role, req *affiliatev1.ExportPartnersRequest) [][]string {
		t.Helper()
		req.SortBy, req.SortOrder = new("partnerName"), affiliatev1.SortOrder_SORT_ORDER_ASC
		d := servertest.NewDownload(f.asMember(role))
		if err := f.service.ExportPartners(req, d); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(d.Text())).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	rows := export(affiliate.RoleOwner, &affiliatev1.ExportPartnersRequest{})
	column := func(row int, name string) string { return rows[row][slices.Index(rows[0], name)] }
	if len(rows) != 5 || column(1, "partnerName") != "'=Dora" || column(1, "programName") != "Second" || column(1, "tags") != "press, vip" ||
		column(1, "currency") != "USD" || column(1, "clicks") != "61" || !strings.HasPrefix(column(2, "partnerEmail"), "jane-") {
		t.Errorf("ExportPartners returned %q", rows)
	}
	rows = export(affiliate.RoleViewer, &affiliatev1.ExportPartnersRequest{Search: new("ann")})
	if len(rows) != 2 || column(1, "partnerName") != "Anna" || strings.Contains(column(1, "partnerEmail"), "jane") {
		t.Errorf("ExportPartners returned %q to a viewer, want Anna with a masked address", rows)
	}
}
