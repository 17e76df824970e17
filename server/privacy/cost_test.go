package privacy_test

import (
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// copyRow inserts copies of a row of the workspace: a tenth of them into the workspace, and the
// others into another one.
const copyRow = `
	insert into TABLE
	select p.*
	from (select t as r from TABLE t where workspace_id = $1 limit 1) s, generate_series(1, $3) n,
		lateral jsonb_populate_record(s.r, jsonb_build_object('id', gen_random_uuid()) || CHANGES ||
			case when n % 10 = 0 then '{}' else jsonb_build_object('workspace_id', $2::text, 'participant_id', gen_random_uuid()) end) p`

// The steps read the rows of their workspace in the order of indexes. They do not scan tables,
// which contain the data of all workspaces. Mails and dead letters have no index of the
// workspace; they are kept for a few weeks, and are read in the order of their ids.
func TestErase_ScansNoTable(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	other := f.NewShop(affiliate.ModeLive)
	const rows = 8000
	for table, changes := range map[string]string{
		"conversions":    `jsonb_build_object('external_transaction_id', 'order-' || n)`,
		"commissions":    `jsonb_build_object('decision_id', gen_random_uuid())`,
		"ledger_entries": `'{}'::jsonb`,
		"audit_log":      `'{}'::jsonb`,
		"events":         `'{}'::jsonb`,
		"clicks":         `'{}'::jsonb`,
	} {
		f.copyRows(table, changes, other.Scope.Workspace, rows)
	}
	f.addClickDays(f.ada, 1, 10)
	f.addClickDays(pgtest.Participant{Scope: other.Scope, Program: other.Program}, 10, rows/10)
	f.VacuumAnalyze("conversions", "commissions", "ledger_entries", "audit_log", "events", "clicks", "click_days")
	const scanned = `
		select coalesce(sum(seq_tup_read), 0) from pg_stat_user_tables
		where relname ~ '^(conversions|commissions|ledger_entries|audit_log|events_|clicks_[0-9d]|click_days|attribution_decisions|commission_history)'`
	f.Exec(`select pg_stat_reset()`)
	if _, err := f.service.EraseMerchantAccount(servertest.AsMember(t, f.Scope, f.Owner, affiliate.RoleOwner), &affiliatev1.EraseMerchantAccountRequest{}); err != nil {
		t.Fatal(err)
	}
	f.finish(f.erasure())
	f.DB.Close() // its connections report what they have read
	pgtest.Eventually(t, "the connections have reported what they have read", func() bool {
		return f.Count(`select coalesce(sum(idx_tup_fetch), 0) from pg_stat_user_tables where relname = 'conversions'`) > 0
	})
	if n := f.Count(scanned); n > rows {
		t.Errorf("the erasure has scanned %d rows without an index: %v", n, f.Texts(`select relname || ' ' || seq_tup_read from pg_stat_user_tables where seq_tup_read > 100 order by 1`))
	}
	f.WantCount(rows*9/10, "conversions of the other workspace", `select count(*) from conversions where workspace_id = $1 and external_transaction_id like 'order-%'`, other.Scope.Workspace)
	f.WantCount(0, "conversions of the workspace", `select count(*) from conversions where workspace_id = $1 and external_transaction_id not like 'erased-%'`, f.Scope.Workspace)
}

// copyRows copies a row of the workspace, with the changes, into the workspace and another one.
func (f *fixture) copyRows(table, changes string, other affiliate.WorkspaceID, rows int) {
	f.Helper()
	statement := strings.NewReplacer("TABLE", table, "CHANGES", changes).Replace(copyRow)
	f.ExecWithoutForeignKeys(statement, f.Scope.Workspace, other, rows)
}
