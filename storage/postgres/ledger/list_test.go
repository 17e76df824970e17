package ledger_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// The statement for a total counts at most affiliate.MaxTotal+1 entries. Pages with later
// entries can still be read. On the last page, the total is exact, because the store
// computes it from the page.
func TestLedger_TotalIsLimited(t *testing.T) {
	pgtest.Slow(t)
	f := newFixture(t)
	p := f.Join("Jane")
	f.ExecWithoutForeignKeys(`
		insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency, reason, created_by, created_at)
		select workspace_id, gen_random_uuid(), mode, program_id, id, partner_id, case when n % 100 = 0 then 'adjustment' else 'bonus' end, 1, 'EUR', 'x', 'system',
			$1::timestamptz + n * interval '1 second'
		from participants, generate_series(1, $2::integer) n`, f.Now(), affiliate.MaxTotal+150)
	for _, tc := range []struct {
		kind   ledger.EntryType
		number int
		rows   int
		total  int64
	}{
		{"", 1, 100, affiliate.MaxTotal + 1},
		{"", 1002, 50, affiliate.MaxTotal + 150}, // the last page
		{"", 2000, 0, affiliate.MaxTotal + 1},
		{ledger.EntryAdjustment, 1, 100, 1001},
		{ledger.EntryAdjustment, 11, 1, 1001},
	} {
		filter, page := ledger.Filter{Type: tc.kind}, affiliate.Page{Number: tc.number, Size: 100}
		entries, total, _, err := ledgers.List(t.Context(), f.DB, f.Scope, f.Program, p.ID, filter, page)
		if err != nil || len(entries) != tc.rows || total != tc.total {
			t.Errorf("Ledger with the type %q returned %d entries on page %d and the total %d, %v, want %d and %d", tc.kind, len(entries), tc.number, total, err, tc.rows, tc.total)
		}
		own, total, _, err := ledgers.ListOfPartner(t.Context(), f.DB, p.Partner, f.Scope.Mode, filter, page)
		if err != nil || len(own) != tc.rows || total != tc.total {
			t.Errorf("PartnerLedger with the type %q returned %d entries on page %d and the total %d, %v, want %d and %d", tc.kind, len(own), tc.number, total, err, tc.rows, tc.total)
		}
	}
}
