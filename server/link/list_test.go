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
	jane, john := w.joined("jane"), w.joined("john")
	want := []string{john.link, jane.link} // made in one instant; the ids decide
	slices.Sort(want)
	slices.Reverse(want)
	made := map[string]string{}
	for i, code := range []string{"sale_1", "salex1", "sale-2", "other"} {
		w.later()
		p := jane
		if i%2 == 1 {
			p = john
		}
		made[code] = w.created(p, code).GetId()
		want = append([]string{made[code]}, want...)
	}
	// Another programme's are not among them.
	other := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeLive})
	elsewhere := w.join(w.workspace, affiliate.ModeLive, other, w.NewPartner("Jane"), "sale-elsewhere")

	for name, tc := range map[string]struct {
		req   *affiliatev1.ListLinksRequest
		want  []string
		total int64
	}{
		"all":                      {&affiliatev1.ListLinksRequest{}, want, 6},
		"a page":                   {&affiliatev1.ListLinksRequest{Page: proto.Int32(2), PageSize: proto.Int32(2)}, want[2:4], 6},
		"beyond the end":           {&affiliatev1.ListLinksRequest{Page: proto.Int32(9)}, nil, 6},
		"a participant's":          {&affiliatev1.ListLinksRequest{ParticipantId: &jane.id}, []string{made["sale-2"], made["sale_1"], jane.link}, 3},
		"another programme's":      {&affiliatev1.ListLinksRequest{ParticipantId: &elsewhere.id}, nil, 0},
		"a prefix, in any case":    {&affiliatev1.ListLinksRequest{Search: proto.String("SALE")}, []string{made["sale-2"], made["salex1"], made["sale_1"]}, 3},
		"no pattern":               {&affiliatev1.ListLinksRequest{Search: proto.String("sale_")}, []string{made["sale_1"]}, 1},
		"a participant's prefix":   {&affiliatev1.ListLinksRequest{Search: proto.String("sale"), ParticipantId: &john.id}, []string{made["salex1"]}, 1},
		"nothing has it":           {&affiliatev1.ListLinksRequest{Search: proto.String("%")}, nil, 0},
		"a page of what was found": {&affiliatev1.ListLinksRequest{Search: proto.String("sale"), PageSize: proto.Int32(1)}, []string{made["sale-2"]}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if ids, total := w.list(tc.req); total != tc.total || !slices.Equal(ids, tc.want) {
				t.Errorf("%v, total %d; want %v, %d", ids, total, tc.want, tc.total)
			}
		})
	}
}

// What is not folded into the sums yet counts at once, for its own link only.
func TestLinkTotalsAreSumsAndDeltas(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	l := w.created(jane, "sale")
	w.Exec(`update link_totals set clicks = 10, conversions = 2 where link_id = $1`, l.GetId())
	for _, delta := range []struct{ id, link string }{{"1", l.GetId()}, {"2", l.GetId()}, {"3", jane.link}} {
		w.Exec(`
			insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, link_id, hour, currency, clicks, conversions)
			values ($1, gen_random_uuid(), 'live', $2, $3, $4, $5, '', 3, 1)`, w.workspace, w.program, jane.id, delta.link, w.now)
	}
	read, err := w.service.GetLink(w.live(), &affiliatev1.GetLinkRequest{ProgramId: w.program.String(), LinkId: l.GetId()})
	if err != nil || read.GetClicks() != 16 || read.GetConversions() != 4 {
		t.Errorf("%v, %v", read, err)
	}
	own, err := w.service.ListPartnerLinks(w.partner(jane.partner, affiliate.ModeLive), &affiliatev1.ListPartnerLinksRequest{})
	if err != nil || own.GetTotal() != 2 || own.GetData()[0].GetClicks()+own.GetData()[1].GetClicks() != 19 {
		t.Errorf("%v, %v", own, err)
	}
}

// A partner's list spans workspaces, and nothing but its own participations.
func TestListPartnerLinks(t *testing.T) {
	w := newWorld(t)
	jane := w.joined("jane")
	w.joined("john")
	w.later()
	stranger := w.NewWorkspace()
	elsewhere := w.NewProgram(affiliate.Scope{Workspace: stranger, Mode: affiliate.ModeLive})
	also := w.join(stranger, affiliate.ModeLive, elsewhere, jane.partner, "jane")
	testing := w.NewProgram(affiliate.Scope{Workspace: w.workspace, Mode: affiliate.ModeTest})
	tried := w.join(w.workspace, affiliate.ModeTest, testing, jane.partner, "jane")
	w.later()
	sale := w.created(jane, "sale").GetId()
	w.created(jane, "gone")
	w.Exec(`update links set deleted_at = $1 where code = 'gone'`, w.now)

	own, other := w.program.String(), elsewhere.String()
	for name, tc := range map[string]struct {
		mode  affiliate.Mode
		req   *affiliatev1.ListPartnerLinksRequest
		want  []string
		total int64
	}{
		"all":                   {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{}, []string{sale, also.link, jane.link}, 3},
		"a page":                {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{Page: proto.Int32(2), PageSize: proto.Int32(1)}, []string{also.link}, 3},
		"beyond the end":        {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{Page: proto.Int32(5)}, nil, 3},
		"one programme":         {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{ProgramId: &own}, []string{sale, jane.link}, 2},
		"another":               {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{ProgramId: &other}, []string{also.link}, 1},
		"the other mode":        {affiliate.ModeTest, &affiliatev1.ListPartnerLinksRequest{}, []string{tried.link}, 1},
		"not in the other mode": {affiliate.ModeTest, &affiliatev1.ListPartnerLinksRequest{ProgramId: &own}, nil, 0},
	} {
		res, err := w.service.ListPartnerLinks(w.partner(jane.partner, tc.mode), tc.req)
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
	none, err := w.service.ListPartnerLinks(w.partner(w.NewPartner("Jane"), affiliate.ModeLive), &affiliatev1.ListPartnerLinksRequest{})
	if err != nil || none.GetTotal() != 0 || len(none.GetData()) != 0 {
		t.Errorf("a stranger sees %v, %v", none, err)
	}
}
