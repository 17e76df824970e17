package e2e_test

import (
	"net/http"
	"testing"
)

// TestTotals checks that lists count their items only up to a maximum. If a list has more
// items, the field total is the maximum, and the response has the header Total-Capped.
// The items after the maximum can still be read on the pages that follow.
func TestTotals(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	wantTotalFor := func(t *testing.T, client apiClient, path string, total int64, header string, rows int) {
		t.Helper()
		got := client.get(t, path).wantStatus(http.StatusOK)
		if got.number("total") != total || got.header.Get("Total-Capped") != header || got.length("data") != rows {
			t.Errorf("GET %s returns the total %d, Total-Capped %q and %d items, want %d, %q and %d", path, got.number("total"), got.header.Get("Total-Capped"), got.length("data"), total, header, rows)
		}
	}
	wantTotal := func(t *testing.T, path string, total int64, header string, rows int) {
		t.Helper()
		wantTotalFor(t, f.merchant.apiClient, path, total, header, rows)
	}

	t.Run("a list counts at most 100,000 items", func(t *testing.T) {
		const insert = `
			insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
			select $1, gen_random_uuid(), 'test', now() + n * interval '1 second', 'system', 'test.fill', 'test', $1 from generate_series($2::int, $3::int) n`
		path := "/api/v1/workspace/audit-log?action=test.fill&pageSize=100"
		sys.exec(t, insert, f.merchant.workspace, 1, 100_000)
		wantTotal(t, path, 100_000, "", 100)
		sys.exec(t, insert, f.merchant.workspace, 100_001, 100_002)
		wantTotal(t, path, 100_000, "true", 100)
		wantTotal(t, path+"&page=1001", 100_000, "true", 2)
		wantTotal(t, path+"&page=2000", 100_000, "true", 0)
	})
	t.Run("a search counts at most 10,000 items", func(t *testing.T) {
		path := f.programPath() + "/promo-codes?pageSize=100"
		sys.exec(t, `
			insert into promo_codes (workspace_id, id, mode, program_id, participant_id, code, discount_type, discount_value, active, sync_to_processor, sync_status, created_at, updated_at)
			select $1, gen_random_uuid(), 'test', $2, $3, 'bulk-' || n, 'percentage', 1000, true, false, 'none', now(), now() from generate_series(1, 10001) n`,
			f.merchant.workspace, f.program, f.participant)
		sys.exec(t, `
			insert into list_counts (workspace_id, program_id, what, slot, n) values ($1, $2, 'promo_codes', 0, 10001)
			on conflict (workspace_id, program_id, what, slot) do update set n = list_counts.n + excluded.n`, f.merchant.workspace, f.program)
		wantTotal(t, path, 10_001, "", 100)
		wantTotal(t, path+"&active=true", 10_001, "", 100)
		wantTotal(t, path+"&participantId="+f.participant, 10_001, "", 100)
		wantTotalFor(t, f.partner.apiClient, "/api/v1/partner/promo-codes?pageSize=100", 10_001, "", 100)
		wantTotal(t, path+"&search=bulk", 10_000, "true", 100)
		wantTotal(t, path+"&search=bulk&page=101", 10_000, "true", 1)
		wantTotal(t, path+"&search=bulk-1000", 3, "", 3)
	})
	t.Run("the statistics of a search count at most 10,000 commissions", func(t *testing.T) {
		f.earnCommission(t)
		insertCopies := func(t *testing.T, first, last int) {
			t.Helper()
			sys.exec(t, `
				insert into commissions
				select copy.* from commissions c, generate_series($2::int, $3::int) n,
					jsonb_populate_record(c, jsonb_build_object('id', gen_random_uuid(), 'decision_id', gen_random_uuid(), 'external_transaction_id', 'many-' || n)) copy
				where c.workspace_id = $1 and c.external_transaction_id not like 'many-%'`,
				f.merchant.workspace, first, last)
		}
		wantStats := func(t *testing.T, header string) {
			t.Helper()
			for _, path := range []string{"/api/v1/commissions/stats", f.programPath() + "/commissions/stats"} {
				got := f.merchant.get(t, path+"?search=many-").wantStatus(http.StatusOK).wantFields(object{"totalCount": 10_000})
				if got.header.Get("Total-Capped") != header {
					t.Errorf("%s: Total-Capped %q, want %q", path, got.header.Get("Total-Capped"), header)
				}
			}
		}
		insertCopies(t, 1, 10_000)
		wantStats(t, "")
		wantTotal(t, "/api/v1/commissions?search=many-&pageSize=100", 10_000, "", 100)
		insertCopies(t, 10_001, 10_001)
		wantStats(t, "true")
		wantTotal(t, "/api/v1/commissions?search=many-&pageSize=100", 10_000, "true", 100)
		wantTotal(t, "/api/v1/commissions?search=many-&pageSize=100&page=101", 10_000, "true", 1)
	})
	t.Run("a partner's search in the public programmes counts at most 10,000 programmes", func(t *testing.T) {
		sys.exec(t, `
			insert into programs
			select copy.* from programs p, generate_series(1, 10001) n,
				jsonb_populate_record(p, jsonb_build_object('id', gen_random_uuid(), 'slug', 'public-' || n, 'name', 'Public ' || n)) copy
			where p.id = $1`, f.program)
		path := "/api/v1/partner/programs?scope=public&pageSize=100"
		wantTotalFor(t, f.partner.apiClient, path, 10_002, "", 100)
		wantTotalFor(t, f.partner.apiClient, path+"&search=public", 10_000, "true", 100)
		wantTotalFor(t, f.partner.apiClient, path+"&search=public&page=101", 10_000, "true", 1)
	})
}
