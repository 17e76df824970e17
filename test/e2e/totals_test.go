package e2e_test

import (
	"net/http"
	"testing"
)

// TestTotals: a total that stopped counting says so, and the pages beyond it are
// there.
func TestTotals(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	w := sys.world(t, "test", nil)
	capped := func(t *testing.T, path string, total int64, header string, rows int) {
		t.Helper()
		got := w.merchant.get(t, path).want(http.StatusOK)
		if got.number("total") != total || got.header.Get("Total-Capped") != header || got.length("data") != rows {
			t.Errorf("%s: total %d, Total-Capped %q, %d rows", path, got.number("total"), got.header.Get("Total-Capped"), got.length("data"))
		}
	}

	t.Run("a list counts to 100,000", func(t *testing.T) {
		const insert = `
			insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
			select $1, gen_random_uuid(), 'test', now() + n * interval '1 second', 'system', 'test.fill', 'test', $1 from generate_series($2::int, $3::int) n`
		path := "/api/v1/workspace/audit-log?action=test.fill&pageSize=100"
		sys.exec(t, insert, w.merchant.workspace, 1, 100_000)
		capped(t, path, 100_000, "", 100)
		sys.exec(t, insert, w.merchant.workspace, 100_001, 100_002)
		capped(t, path, 100_000, "true", 100)
		capped(t, path+"&page=1001", 100_000, "true", 2)
		capped(t, path+"&page=2000", 100_000, "true", 0)
	})
	t.Run("a search counts to 10,000", func(t *testing.T) {
		path := w.programPath() + "/promo-codes?pageSize=100"
		sys.exec(t, `
			insert into promo_codes (workspace_id, id, mode, program_id, participant_id, code, discount_type, discount_value, active, sync_to_processor, sync_status, created_at, updated_at)
			select $1, gen_random_uuid(), 'test', $2, $3, 'bulk-' || n, 'percentage', 1000, true, false, 'none', now(), now() from generate_series(1, 10001) n`,
			w.merchant.workspace, w.program, w.participant)
		sys.exec(t, `
			insert into list_counts (workspace_id, program_id, what, slot, n) values ($1, $2, 'promo_codes', 0, 10001)
			on conflict (workspace_id, program_id, what, slot) do update set n = list_counts.n + excluded.n`, w.merchant.workspace, w.program)
		capped(t, path, 10_001, "", 100)
		capped(t, path+"&search=bulk", 10_000, "true", 100)
		capped(t, path+"&search=bulk&page=101", 10_000, "true", 1)
		capped(t, path+"&search=bulk-1000", 3, "", 3)
	})
}
