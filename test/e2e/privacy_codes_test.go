package e2e_test

import (
	"net/http"
	"testing"
)

// The rows of the accounts cannot be locked, as if they were missing.
func TestErasure_OfMissingAccounts(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	for _, table := range []string{"users", "workspaces"} {
		sys.exec(t, `alter table `+table+` enable row level security`)
		sys.exec(t, `create policy readable on `+table+` for select using (true)`)
	}
	f.partner.post(t, "/api/v1/partner/account/erase", confirmed).wantError(http.StatusNotFound, "PARTNER_NOT_FOUND")
	f.merchant.post(t, "/api/v1/merchant/account/erase", confirmed).wantError(http.StatusNotFound, "MERCHANT_NOT_FOUND")
}

func TestExport_OfTooManyRecordsIsRefused(t *testing.T) {
	t.Parallel()
	sys := start(t, setup{})
	f := sys.newFixture(t, "test", nil)
	sys.exec(t, `drop index ledger_entries_by_partner, ledger_entries_by_commission, ledger_entries_by_payout`) // 250,001 rows are inserted
	sys.execWithoutForeignKeys(t, `
		insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency, created_by, created_at)
		select $1, ('0190a1b2-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'test', $2, $3, $4, 'bonus', 0, 'USD', 'system', now()
		from generate_series(1, 250001) n`,
		f.merchant.workspace, f.program, f.participant, f.partner.id)
	f.merchant.post(t, f.participantPath()+"/export", nil).wantError(http.StatusUnprocessableEntity, "EXPORT_TOO_LARGE")
}
