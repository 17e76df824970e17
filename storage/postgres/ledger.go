package postgres

import (
	"cmp"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const insertLedgerEntry = `
	insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency,
		commission_id, payout_id, reason, created_by, created_at)
	values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`

const changeBalance = `
	insert into ledger_balances as b (workspace_id, participant_id, currency, slot, balance_cents)
	values ($1, $2, $3, $4, $5)
	on conflict (workspace_id, participant_id, currency, slot) do update set balance_cents = b.balance_cents + excluded.balance_cents`

// queueLedger adds entries, and their sums to the balances, whose rows are taken
// in one order. The entries are of one workspace.
func queueLedger(batch *pgx.Batch, slot int16, entries ...affiliate.LedgerEntry) {
	type account struct {
		affiliate.ParticipantID
		Currency string
	}
	sums := map[account]int64{}
	for _, e := range entries {
		batch.Queue(insertLedgerEntry, e.Scope.Workspace, e.ID, e.Scope.Mode, e.Program, e.Participant, e.Partner, e.Type,
			e.AmountCents, e.Currency, e.Commission, e.Payout, e.Reason, e.CreatedBy, e.CreatedAt)
		sums[account{e.Participant, e.Currency}] += e.AmountCents
	}
	for _, of := range slices.SortedFunc(maps.Keys(sums), func(a, b account) int {
		return cmp.Or(cmp.Compare(a.ParticipantID.String(), b.ParticipantID.String()), cmp.Compare(a.Currency, b.Currency))
	}) {
		batch.Queue(changeBalance, entries[0].Scope.Workspace, of.ParticipantID, of.Currency, slot, sums[of])
	}
}
