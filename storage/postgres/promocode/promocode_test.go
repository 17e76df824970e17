package promocode_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	promocodes "github.com/tributary-hq/tributary/storage/postgres/promocode"
)

func TestPromoCodes_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	p := f.JoinManyWithLinks()
	page := affiliate.Page{Number: 3, Size: 20}
	for name, tc := range map[string]struct {
		filter promocode.Filter
		index  string // text that the plan of the page must contain
		sorted bool   // the plan must read the page in the order of the index
		total  string // text that the plan of the total must contain; empty if not checked
	}{
		"promo codes":                    {promocode.Filter{}, "promo_codes_by_age", true, ""},
		"promo codes of a participant":   {promocode.Filter{Participant: &p.ID}, "promo_codes_by_participant", false, "Index Only Scan using promo_codes_by_participant"},
		"active promo codes":             {promocode.Filter{Active: new(true)}, "promo_codes_by_", true, "Index Only Scan using promo_codes_by_active"},
		"inactive promo codes":           {promocode.Filter{Active: new(false)}, "promo_codes_by_active", true, "Index Only Scan using promo_codes_by_active"},
		"promo codes with a rare prefix": {promocode.Filter{Search: "promo-" + f.Program.String() + "code-777"}, "promo_codes_by_code", false, "promo_codes_by_code"},
		"promo codes with any prefix":    {promocode.Filter{Search: "promo"}, "promo_codes_by_age", true, ""},
	} {
		list, count := promocodes.PromoCodeListSQL(tc.filter)
		args := promocodes.PromoCodeListArgs(f.Scope, f.Program, tc.filter, page)
		f.CheckPagePlan(name, list, args, tc.index, tc.sorted)
		if tc.total != "" {
			f.CheckPagePlan(name+": total", count, args, tc.total, false)
		}
	}
	args := pgx.NamedArgs{"partner": p.Partner, "mode": f.Scope.Mode, "program": f.Program, "limit": 20, "offset": 0}
	for _, program := range []*affiliate.ProgramID{nil, &f.Program} {
		codes, count := promocodes.PartnerPromoCodesSQL(program)
		for name, tc := range map[string]struct{ sql, index string }{
			"own promo codes":           {codes, "promo_codes_by_participant"},
			"number of own promo codes": {count, "Index Only Scan using promo_codes_by_participant"},
		} {
			f.CheckPagePlan(name, tc.sql, args, tc.index, false)
			f.CheckPagePlan(name, tc.sql, args, "participants_by_partner", false)
		}
	}
	f.CheckSearchPlan(func(db *postgres.DB) ([]affiliate.Hit, error) {
		return promocodes.Search(t.Context(), db, f.Scope, "promo")
	}, "promo_codes_code", "promo_codes_pkey")

	codes, total, err := promocodes.List(t.Context(), f.DB, f.Scope, f.Program, promocode.Filter{Search: "promo"}, affiliate.Page{Number: 1, Size: 20})
	if err != nil || total != affiliate.MaxSearchTotal+1 || len(codes) != 20 {
		t.Errorf("PromoCodes returned %d promo codes and the total %d, %v, want 20 and %d", len(codes), total, err, affiliate.MaxSearchTotal+1)
	}
}
