package link_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/click"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

func TestListLinks(t *testing.T) {
	f := newFixture(t)
	jane, john := f.join("jane"), f.join("john")
	defaultLinks := []string{jane.Link.String(), john.Link.String()}
	// These links have the same creation time. Links with the same time are sorted by id.
	slices.Sort(defaultLinks)
	slices.Reverse(defaultLinks)
	newLink := func(p pgtest.Participant, code string) string {
		f.clock.Advance(time.Minute)
		return f.NewLink(p, code).ID.String()
	}
	withUnderscore, withLetter, withHyphen, other := newLink(jane, "sale_1"), newLink(john, "salex1"), newLink(jane, "sale-2"), newLink(john, "other")
	all := append([]string{other, withHyphen, withLetter, withUnderscore}, defaultLinks...)
	elsewhere := f.NewParticipant(f.Scope, f.NewProgram(f.Scope), f.NewPartner("Jane"), pgtest.Row{"referral_code": "sale-elsewhere"})

	for name, tc := range map[string]struct {
		req   *affiliatev1.ListLinksRequest
		want  []string
		total int64
	}{
		"all":                            {&affiliatev1.ListLinksRequest{}, all, 6},
		"second page":                    {&affiliatev1.ListLinksRequest{Page: new(int32(2)), PageSize: new(int32(2))}, all[2:4], 6},
		"after the last page":            {&affiliatev1.ListLinksRequest{Page: new(int32(9))}, nil, 6},
		"one participant":                {&affiliatev1.ListLinksRequest{ParticipantId: new(jane.ID.String())}, []string{withHyphen, withUnderscore, jane.Link.String()}, 3},
		"participant of other programme": {&affiliatev1.ListLinksRequest{ParticipantId: new(elsewhere.ID.String())}, nil, 0},
		"prefix in upper case":           {&affiliatev1.ListLinksRequest{Search: new("SALE")}, []string{withHyphen, withLetter, withUnderscore}, 3},
		"underscore is not a wildcard":   {&affiliatev1.ListLinksRequest{Search: new("sale_")}, []string{withUnderscore}, 1},
		"percent sign is not a wildcard": {&affiliatev1.ListLinksRequest{Search: new("%")}, nil, 0},
		"prefix and participant":         {&affiliatev1.ListLinksRequest{Search: new("sale"), ParticipantId: new(john.ID.String())}, []string{withLetter}, 1},
		"first page of a search":         {&affiliatev1.ListLinksRequest{Search: new("sale"), PageSize: new(int32(1))}, []string{withHyphen}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if ids, total := f.listLinks(tc.req); total != tc.total || !slices.Equal(ids, tc.want) {
				t.Errorf("ListLinks returned %v, total %d, want %v, total %d", ids, total, tc.want, tc.total)
			}
		})
	}
}

// New clicks and conversions of a link are stored as deltas, and FoldStats adds these to
// the totals later. The counts must include the totals and the deltas.
func TestLinks_CountTotalsAndDeltas(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	l := f.NewLink(jane, "sale")
	record := func(link affiliate.LinkID, clicks int) {
		for range clicks {
			f.NewClick(jane, func(c *click.Click) { c.Link = link })
		}
		f.Insert("stats_deltas", pgtest.Row{
			"workspace_id": f.Scope.Workspace, "id": affiliate.NewID[affiliate.ID[analytics.StatsDelta]](f.Now()), "mode": f.Scope.Mode, "program_id": f.Program,
			"participant_id": jane.ID, "link_id": link, "currency": "EUR", "conversions": 1,
		})
	}
	record(l.ID, 3)
	if _, err := counters.Fold(t.Context(), f.DB, 100); err != nil {
		t.Fatal(err)
	}
	record(l.ID, 2)
	record(jane.Link, 4)

	want := map[string][2]int64{l.ID.String(): {5, 2}, jane.Link.String(): {4, 1}}
	requireCounts := func(call string, links ...*affiliatev1.Link) {
		t.Helper()
		for _, l := range links {
			if got := [2]int64{l.GetClicks(), l.GetConversions()}; got != want[l.GetId()] {
				t.Errorf("%s returned %d clicks and %d conversions for the link %s, want %v", call, got[0], got[1], l.GetCode(), want[l.GetId()])
			}
		}
	}
	read, err := f.getLink(l.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	requireCounts("GetLink", read)
	own, err := f.service.ListPartnerLinks(f.asPartner(jane), &affiliatev1.ListPartnerLinksRequest{})
	if err != nil || len(own.GetData()) != 2 {
		t.Fatalf("ListPartnerLinks returned %v, error %v, want 2 links", own, err)
	}
	requireCounts("ListPartnerLinks", own.GetData()...)
}

// A partner sees the links of all programmes that it is in, in all workspaces.
func TestListPartnerLinks(t *testing.T) {
	f := newFixture(t)
	jane := f.join("jane")
	f.join("john")
	f.clock.Advance(time.Minute)
	stranger, testMode := f.NewShop(affiliate.ModeLive), f.InOtherMode()
	inStranger := f.NewParticipant(stranger.Scope, stranger.Program, jane.Partner)
	inTestMode := f.NewParticipant(testMode.Scope, testMode.Program, jane.Partner)
	f.clock.Advance(time.Minute)
	sale := f.NewLink(jane, "sale").ID.String()
	if err := f.deleteLink(f.NewLink(jane, "deleted").ID.String()); err != nil {
		t.Fatal(err)
	}

	defaultLink, strangerLink, testLink := jane.Link.String(), inStranger.Link.String(), inTestMode.Link.String()
	for name, tc := range map[string]struct {
		mode  affiliate.Mode
		req   *affiliatev1.ListPartnerLinksRequest
		want  []string
		total int64
	}{
		"all":                     {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{}, []string{sale, strangerLink, defaultLink}, 3},
		"second page":             {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{Page: new(int32(2)), PageSize: new(int32(1))}, []string{strangerLink}, 3},
		"after the last page":     {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{Page: new(int32(5))}, nil, 3},
		"one programme":           {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{ProgramId: new(f.Program.String())}, []string{sale, defaultLink}, 2},
		"programme of a stranger": {affiliate.ModeLive, &affiliatev1.ListPartnerLinksRequest{ProgramId: new(stranger.Program.String())}, []string{strangerLink}, 1},
		"the other mode":          {affiliate.ModeTest, &affiliatev1.ListPartnerLinksRequest{}, []string{testLink}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := f.service.ListPartnerLinks(servertest.AsPartner(t, jane.Partner, tc.mode), tc.req)
			if err != nil {
				t.Fatal(err)
			}
			if ids := idsOf(got.GetData()); !slices.Equal(ids, tc.want) || got.GetTotal() != tc.total {
				t.Errorf("ListPartnerLinks returned %v, total %d, want %v, total %d", ids, got.GetTotal(), tc.want, tc.total)
			}
		})
	}
	_, err := f.service.ListPartnerLinks(servertest.AsPartner(t, jane.Partner, affiliate.ModeTest), &affiliatev1.ListPartnerLinksRequest{ProgramId: new(f.Program.String())})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	none, err := f.service.ListPartnerLinks(servertest.AsPartner(t, f.NewPartner("New"), affiliate.ModeLive), &affiliatev1.ListPartnerLinksRequest{})
	if err != nil || none.GetTotal() != 0 || len(none.GetData()) != 0 {
		t.Errorf("ListPartnerLinks for a partner without programmes returned %v, error %v, want no links", none, err)
	}
}
