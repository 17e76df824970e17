package link_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/storage/postgres"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestLinks_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	p := f.JoinManyWithLinks()

	page := affiliate.Page{Number: 3, Size: 20}
	for name, tc := range map[string]struct {
		filter link.Filter
		index  string // text that the plan of the page must contain
		sorted bool   // the plan must read the page in the order of the index
	}{
		"links":                                {link.Filter{}, "links_by_age", true},
		"links of a participant":               {link.Filter{Participant: &p.ID}, "links_by_participant", false},
		"links with a rare prefix":             {link.Filter{Search: "code-777"}, "links_by_code", false},
		"links with any prefix":                {link.Filter{Search: "code"}, "links_by_age", true},
		"links of a participant with a prefix": {link.Filter{Search: "code", Participant: &p.ID}, "links_by_participant", false},
	} {
		list, count := links.LinkListSQL(tc.filter)
		args := links.LinkListArgs(f.Scope, f.Program, tc.filter, page)
		f.CheckPagePlan(name, list, args, tc.index, tc.sorted)
		f.CheckPagePlan(name+": deltas", list, args, "stats_deltas_by_link", false)
		// The total of all links is stored, so no statement counts it. For a prefix that
		// all links have, Postgres may scan the whole table.
		if tc.filter != (link.Filter{}) && tc.index != "links_by_age" {
			f.CheckPagePlan(name+": total", count, args, "links_by_", false)
		}
	}
	args := pgx.NamedArgs{"partner": p.Partner, "mode": f.Scope.Mode, "program": f.Program, "limit": 20, "offset": 0}
	for _, program := range []*affiliate.ProgramID{nil, &f.Program} {
		list, count := links.PartnerLinksSQL(program)
		for name, tc := range map[string]struct{ sql, index string }{
			"own links":           {list, "links_by_participant"},
			"number of own links": {count, "Index Only Scan using links_by_participant"},
		} {
			f.CheckPagePlan(name, tc.sql, args, tc.index, false)
			f.CheckPagePlan(name, tc.sql, args, "participants_by_partner", false)
		}
	}

	f.CheckSearchPlan(func(db *postgres.DB) ([]affiliate.Hit, error) {
		return links.Search(t.Context(), db, f.Scope, "code")
	}, "links_by_code", "links_short_key_key")

	// Check the results of these statements too. The total of a search counts at most
	// MaxSearchTotal+1 rows.
	filter := link.Filter{Search: "code-"}
	found, total, err := links.List(t.Context(), f.DB, f.Scope, f.Program, filter, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != affiliate.MaxSearchTotal+1 || len(found) != 20 || found[0].Clicks != 1 {
		t.Errorf("Links returned %d links and the total %d, %v, want 20 and %d", len(found), total, err, affiliate.MaxSearchTotal+1)
	}
	own, total, err := links.ListOfPartner(t.Context(), f.DB, p.Partner, f.Scope.Mode, &f.Program, affiliate.Page{Number: 3, Size: 20})
	if err != nil || total != 51 || len(own) != 11 {
		t.Errorf("PartnerLinks returned %d links and the total %d, %v, want 11 and 51", len(own), total, err)
	}
}

// When a partner joins a programme, the store calls links.Insert for the default link.
// Therefore links.Insert must update the totals and counts itself.
func TestInsertLink_MaintainsCountAndTotals(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Jane") // has one link
	keys := map[string]bool{}
	for i := range 20 {
		stored, err := links.InsertLink(t.Context(), f.DB, link.Link{
			ID: affiliate.NewID[affiliate.LinkID](f.Now()), Scope: f.Scope, Program: f.Program, Participant: p.ID, Code: fmt.Sprint("c", i),
			Destination: new(string), Version: 1, CreatedAt: f.Now(), UpdatedAt: f.Now(),
		})
		if err != nil || len(stored.ShortKey) != 10 {
			t.Fatalf("InsertLink returned %+v, %v, want a link with a short key of 10 characters", stored, err)
		}
		keys[stored.ShortKey] = true
	}
	_, total, err := links.List(t.Context(), f.DB, f.Scope, f.Program, link.Filter{}, affiliate.Page{Number: 1, Size: 1})
	if err != nil || total != 21 || len(keys) != 20 {
		t.Errorf("the total is %d with %d different new short keys, %v, want 21 and 20", total, len(keys), err)
	}
	_, total, err = links.List(t.Context(), f.DB, f.Scope, f.Program, link.Filter{Participant: &p.ID}, affiliate.Page{Number: 1, Size: 1})
	if err != nil || total != 21 {
		t.Errorf("the total of the participant is %d, %v, want 21", total, err)
	}
	// A link of an unknown participant must be rejected.
	unknown := affiliate.NewID[affiliate.ParticipantID](f.Now())
	if _, err := links.InsertLink(t.Context(), f.DB, link.Link{
		ID: affiliate.NewID[affiliate.LinkID](f.Now()), Scope: f.Scope, Program: f.Program, Participant: unknown, Code: "c", IsDefault: true,
		Version: 1, CreatedAt: f.Now(), UpdatedAt: f.Now(),
	}); err == nil {
		t.Error("a link of an unknown participant was stored")
	}
}
