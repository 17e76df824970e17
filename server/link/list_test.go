package link_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestListLinks(t *testing.T) {
	w := newWorld(t)
	jane, john := w.newParticipant("jane"), w.newParticipant("john")
	want := []string{john.link, jane.link} // created at the same time, so the ids decide the order
	slices.Sort(want)
	slices.Reverse(want)
	created := map[string]string{}
	for i, code := range []string{"sale_1", "salex1", "sale-2", "other"} {
		w.advance()
		p := jane
		if i%2 == 1 {
			p = john
		}
		created[code] = w.mustCreate(p, code).GetId()
		want = append([]string{created[code]}, want...)
	}
	// Links of another programme are not listed.
	other := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	elsewhere := w.addParticipant(w.workspace, affiliate.ModeLive, other, w.NewPartner("Jane"), "sale-elsewhere")

	for name, tc := range map[string]struct {
		req   *affiliatev1.ListLinksRequest
		want  []string
		total int64
	}{
		"all":                           {&affiliatev1.ListLinksRequest{}, want, 6},
		"second page":                   {&affiliatev1.ListLinksRequest{Page: proto.Int32(2), PageSize: proto.Int32(2)}, want[2:4], 6},
		"after the last page":           {&affiliatev1.ListLinksRequest{Page: proto.Int32(9)}, nil, 6},
		"one participant":               {&affiliatev1.ListLinksRequest{ParticipantId: &jane.id}, []string{created["sale-2"], created["sale_1"], jane.link}, 3},
		"other programme's participant": {&affiliatev1.ListLinksRequest{ParticipantId: &elsewhere.id}, nil, 0},
		"prefix in upper case":          {&affiliatev1.ListLinksRequest{Search: proto.String("SALE")}, []string{created["sale-2"], created["salex1"], created["sale_1"]}, 3},
		"underscore is literal":         {&affiliatev1.ListLinksRequest{Search: proto.String("sale_")}, []string{created["sale_1"]}, 1},
		"prefix and participant":        {&affiliatev1.ListLinksRequest{Search: proto.String("sale"), ParticipantId: &john.id}, []string{created["salex1"]}, 1},
		"percent sign is literal":       {&affiliatev1.ListLinksRequest{Search: proto.String("%")}, nil, 0},
		"page of a search":              {&affiliatev1.ListLinksRequest{Search: proto.String("sale"), PageSize: proto.Int32(1)}, []string{created["sale-2"]}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if ids, total := w.listIDs(tc.req); total != tc.total || !slices.Equal(ids, tc.want) {
				t.Errorf("%v, total %d; want %v, %d", ids, total, tc.want, tc.total)
			}
		})
	}
}

// Clicks and conversions of a link include the deltas that have not yet been added to its
// totals.
func TestGetLink_TotalsIncludeUnfoldedDeltas(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	l := w.mustCreate(jane, "sale")
	w.Exec(`update link_totals set clicks = 10, conversions = 2 where link_id = $1`, l.GetId())
	for _, delta := range []struct{ id, link string }{{"1", l.GetId()}, {"2", l.GetId()}, {"3", jane.link}} {
		w.Exec(`
			insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, link_id, hour, currency, clicks, conversions)
			values ($1, gen_random_uuid(), 'live', $2, $3, $4, $5, '', 3, 1)`, w.workspace, w.program, jane.id, delta.link, w.now)
	}
	read, err := w.service.GetLink(w.asLiveMerchant(), &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()})
	if err != nil || read.GetClicks() != 16 || read.GetConversions() != 4 {
		t.Errorf("%v, %v", read, err)
	}
	own, err := w.service.ListPartnerLinks(w.asPartner(jane.partner, affiliate.ModeLive), &affiliatev1.ListPartnerLinksRequest{})
	if err != nil || own.GetTotal() != 2 || own.GetData()[0].GetClicks()+own.GetData()[1].GetClicks() != 19 {
		t.Errorf("%v, %v", own, err)
	}
}

// A partner sees the links of all its participations, across workspaces, and no others.
func TestListPartnerLinks(t *testing.T) {
	w := newWorld(t)
	jane := w.newParticipant("jane")
	w.newParticipant("john")
	w.advance()
	stranger := w.NewWorkspace()
	elsewhere := w.NewProgram(affiliate.Scope{Workspace: stranger, Mode: affiliate.ModeLive})
	inElsewhere := w.addParticipant(stranger, affiliate.ModeLive, elsewhere, jane.partner, "jane")
	testing := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeTest})
	inTesting := w.addParticipant(w.workspace, affiliate.ModeTest, testing, jane.partner, "jane")
	w.advance()
	sale := w.mustCreate(jane, "sale").GetId()
	w.mustCreate(jane, "gone")
	w.Exec(`update links set deleted_at = $1 where code = 'gone'`, w.now)

	own, other := w.program.String(), elsewhere.String()
	for name, tc := range map[string]struct {
		mode  affiliate.Mode
		req   *affiliatev1.ListPartnerLinksRequest
		want  []string
		total int64
	}{
		"all":                   {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{}, []string{sale, inElsewhere.link, jane.link}, 3},
		"a page":                {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{Page: proto.Int32(2), PageSize: proto.Int32(1)}, []string{inElsewhere.link}, 3},
		"beyond the end":        {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{Page: proto.Int32(5)}, nil, 3},
		"one programme":         {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{ProgramId: &own}, []string{sale, jane.link}, 2},
		"another programme":     {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{ProgramId: &other}, []string{inElsewhere.link}, 1},
		"the other mode":        {affiliate.ModeTest, &affiliatev1.ListPartnerLinksRequest{}, []string{inTesting.link}, 1},
		"not in the other mode": {affiliate.ModeTest, &affiliatev1.ListPartnerLinksRequest{ProgramId: &own}, nil, 0},
	} {
		res, err := w.service.ListPartnerLinks(w.asPartner(jane.partner, tc.mode), tc.req)
		if name == "not in the other mode" {
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, l := range res.GetData() {
			ids = append(ids, l.GetId())
		}
		if !slices.Equal(ids, tc.want) || res.GetTotal() != tc.total {
			t.Errorf("%s: %v, total %d; want %v, %d", name, ids, res.GetTotal(), tc.want, tc.total)
		}
	}
	none, err := w.service.ListPartnerLinks(w.asPartner(w.NewPartner("Jane"), affiliate.ModeLive), &affiliatev1.ListPartnerLinksRequest{})
	if err != nil || none.GetTotal() != 0 || len(none.GetData()) != 0 {
		t.Errorf("a partner without participations sees %v, %v", none, err)
	}
}
