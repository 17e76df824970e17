package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	links "github.com/tributary-hq/tributary/storage/postgres/link"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	partners "github.com/tributary-hq/tributary/storage/postgres/partner"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
	promocodes "github.com/tributary-hq/tributary/storage/postgres/promocode"
)

// newSearchFixture stores n programmes and n participants. Each participant has a link, a
// promo code and a commission. The searched texts of all rows of a table begin with the
// same prefix, so that a search can match all rows.
func newSearchFixture(t *testing.T, n int) *fixture {
	t.Helper()
	f := newFixture(t)
	f.JoinWithLinks(n)
	f.ExecWithoutForeignKeys(`insert into link_totals (workspace_id, link_id) select workspace_id, id from links`)
	// 6,000 participants have two referral codes with the prefix "twin".
	f.ExecWithoutForeignKeys(`
		insert into referral_codes (workspace_id, mode, code, program_id, participant_id, link_id, created_at)
		select workspace_id, mode, 'twin-' || id || n, program_id, id, gen_random_uuid(), $1 from (
			select * from participants where program_id = $2 order by id limit 6000
		) p, generate_series(1, 2) n`, f.Now(), f.Program)
	f.CopyProgram(n)
	f.ExecWithoutForeignKeys(`
		insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id, external_transaction_id, status,
			commission_type, event_type, rate_bps, amount_cents, original_amount_cents, currency, base_amount_cents, sale_amount_cents, sale_currency,
			needs_review, review_reasons, dispute_status, rule_snapshot, version, created_at, updated_at)
		select workspace_id, gen_random_uuid(), mode, program_id, id, partner_id, gen_random_uuid(), gen_random_uuid(), 'order-' || row_number() over (order by id),
			'pending', 'percentage', 'purchase', 1000, 1, 1, 'EUR', 1, 1, 'EUR', false, '{}', 'none', '{}', 1, $1::timestamptz - random() * interval '90 days', $1
		from participants where program_id = $2`, f.Now(), f.Program)
	f.VacuumAnalyze()
	return f
}

// idsOf returns the ids of a page as texts.
func idsOf[T any](items []T, id func(T) fmt.Stringer) []string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = id(item).String()
	}
	return ids
}

// The statement that counts the matches of a search stops at affiliate.MaxSearchTotal+1.
// Pages with later matches can still be read, in the order of the list.
func TestSearches_CanReadPagesAfterTheLimitOfTheTotal(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	const matches, size = affiliate.MaxSearchTotal + 150, 100
	f := newSearchFixture(t, matches)
	newest := commission.Order{By: commission.SortCreatedAt}
	search := func(search string) func(affiliate.Page) ([]string, int64, error) {
		return func(page affiliate.Page) ([]string, int64, error) {
			found, total, err := commissions.List(t.Context(), f.DB, f.Scope, commission.Filter{Search: search}, newest, page)
			return idsOf(found, func(c commission.Item) fmt.Stringer { return c.ID }), total, err
		}
	}
	participants := func(search string, order participant.Order) func(affiliate.Page) ([]string, int64, error) {
		return func(page affiliate.Page) ([]string, int64, error) {
			found, total, err := participants.List(t.Context(), f.DB, f.Scope, f.Program, participant.Filter{Search: search}, order, page)
			return idsOf(found, func(p participant.Detail) fmt.Stringer { return p.ID }), total, err
		}
	}
	programs := func(page affiliate.Page) ([]string, int64, error) {
		found, total, err := programs.List(t.Context(), f.DB, f.Scope, program.Filter{Search: "copy"}, page)
		return idsOf(found, func(p program.Program) fmt.Stringer { return p.ID }), total, err
	}
	public := func(page affiliate.Page) ([]string, int64, error) {
		found, total, err := partners.Programs(t.Context(), f.DB, f.NewPartner("Joe"), f.Scope.Mode, partner.ProgramFilter{Public: true, Search: "copy"}, page)
		return idsOf(found, func(p partner.Program) fmt.Stringer { return p.ID }), total, err
	}
	links := func(page affiliate.Page) ([]string, int64, error) {
		found, total, err := links.List(t.Context(), f.DB, f.Scope, f.Program, link.Filter{Search: "code"}, page)
		return idsOf(found, func(l link.Link) fmt.Stringer { return l.ID }), total, err
	}
	codes := func(page affiliate.Page) ([]string, int64, error) {
		found, total, err := promocodes.List(t.Context(), f.DB, f.Scope, f.Program, promocode.Filter{Search: "promo"}, page)
		return idsOf(found, func(c promocode.PromoCode) fmt.Stringer { return c.ID }), total, err
	}
	byAge := `select id::text from %s where workspace_id = $1 and %s order by created_at desc, id desc`
	for name, tc := range map[string]struct {
		read  func(affiliate.Page) ([]string, int64, error)
		order string
	}{
		"participants": {
			participants("JANE", participant.Order{By: participant.ParticipantsByAge}), fmt.Sprintf(byAge, "participants", "true"),
		},
		"participants by name": {
			participants("jane", participant.Order{By: participant.ParticipantsByName, Ascending: true}),
			`select id::text from participants where workspace_id = $1 order by lower(partner_name) collate "C", created_at desc, id desc`,
		},
		"links":                  {links, fmt.Sprintf(byAge, "links", "code like 'code%'")},
		"promo codes":            {codes, fmt.Sprintf(byAge, "promo_codes", "true")},
		"programmes":             {programs, fmt.Sprintf(byAge, "programs", "name like 'Copy%'")},
		"public programmes":      {public, fmt.Sprintf(byAge, "programs", "name like 'Copy%'")},
		"commissions by order":   {search("order-"), fmt.Sprintf(byAge, "commissions", "true")},
		"commissions by partner": {search("jane"), fmt.Sprintf(byAge, "commissions", "true")},
	} {
		t.Run(name, func(t *testing.T) {
			all := f.Texts(tc.order, f.Scope.Workspace)
			for _, number := range []int{1, affiliate.MaxSearchTotal/size + 1, (len(all)-1)/size + 1, (len(all)-1)/size + 2} {
				page := affiliate.Page{Number: number, Size: size}
				got, total, err := tc.read(page)
				if err != nil {
					t.Fatal(err)
				}
				from := min(int(page.Offset()), len(all))
				if want := all[from:min(from+size, len(all))]; !slices.Equal(got, want) {
					t.Errorf("page %d has %d rows, want the %d rows in the order of the list", number, len(got), len(want))
				}
				// A total above the limit means that counting stopped. It can be more
				// than MaxSearchTotal+1 on the last page, where it is computed from the
				// page, and for participants, which several statements find.
				if total <= affiliate.MaxSearchTotal || total > int64(len(all)) ||
					number == 1 && !strings.HasPrefix(name, "participants") && total != affiliate.MaxSearchTotal+1 {
					t.Errorf("page %d has the total %d, want more than %d and at most %d", number, total, affiliate.MaxSearchTotal, len(all))
				}
			}
		})
	}
	t.Run("a participant with several codes is counted once", func(t *testing.T) {
		got, total, err := participants("twin-", participant.Order{By: participant.ParticipantsByAge})(affiliate.Page{Number: 60, Size: size})
		if err != nil || total != 6000 || len(got) != size {
			t.Errorf("the search for twin- returned %d rows and the total %d, %v, want %d and 6000", len(got), total, err, size)
		}
	})
	t.Run("stats", func(t *testing.T) {
		stats := func(search string) commission.Stats {
			t.Helper()
			stats, err := commissions.Stats(t.Context(), f.DB, f.Scope, commission.Filter{Search: search})
			if err != nil {
				t.Fatal(err)
			}
			return stats
		}
		for _, search := range []string{"order-", "jane"} {
			if got := stats(search); !got.Capped || got.Count != affiliate.MaxSearchTotal || got.InCurrency.AmountCents != affiliate.MaxSearchTotal {
				t.Errorf("CommissionStats of the search %q returned %+v, want a capped count of %d", search, got, affiliate.MaxSearchTotal)
			}
		}
		setExact := `update commissions set external_transaction_id = 'exact' where id in (select id from commissions where external_transaction_id <> 'exact' limit $1)`
		f.Exec(setExact, affiliate.MaxSearchTotal)
		if got := stats("exact"); got.Capped || got.Count != affiliate.MaxSearchTotal {
			t.Errorf("CommissionStats with as many matches as the limit returned %+v, want the count %d, not capped", got, affiliate.MaxSearchTotal)
		}
		f.Exec(setExact, 1)
		if got := stats("exact"); !got.Capped || got.Count != affiliate.MaxSearchTotal {
			t.Errorf("CommissionStats with one match more than the limit returned %+v, want the count %d, capped", got, affiliate.MaxSearchTotal)
		}
	})
}
