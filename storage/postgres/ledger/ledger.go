// Package ledger has the SQL of the ledger: entries are only inserted, and each insertion updates
// the balance of the participant in the same transaction.
package ledger

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var insertEntries = postgres.RowsOf[ledger.Entry](`insert into ledger_entries ({columns}) values {rows}`)

var addBalances = postgres.RowsOf[balanceRow](`
	insert into ledger_balances as b ({columns})
	values {rows}
	on conflict (workspace_id, participant_id, currency, slot) do update set balance_cents = b.balance_cents + excluded.balance_cents`)

type balanceRow struct {
	WorkspaceID   affiliate.WorkspaceID
	ParticipantID affiliate.ParticipantID
	Currency      string
	Slot          int16
	BalanceCents  int64
}

// Queue queues the statements that insert entries and update the balances. They
// lock the balance rows in a fixed order.
func Queue(batch *pgx.Batch, slot int16, entries ...ledger.Entry) {
	insertEntries.Queue(batch, entries...)
	sums := map[balanceRow]int64{} // the keys have no amount
	for _, e := range entries {
		sums[balanceRow{WorkspaceID: e.Workspace, ParticipantID: e.Participant, Currency: e.Currency, Slot: slot}] += e.AmountCents
	}
	balances := slices.SortedFunc(maps.Keys(sums), func(a, b balanceRow) int {
		return cmp.Or(
			bytes.Compare(a.WorkspaceID.UUID[:], b.WorkspaceID.UUID[:]), bytes.Compare(a.ParticipantID.UUID[:], b.ParticipantID.UUID[:]),
			cmp.Compare(a.Currency, b.Currency))
	})
	for i, b := range balances {
		balances[i].BalanceCents = sums[b]
	}
	addBalances.Queue(batch, balances...)
}

// Insert inserts entries and updates the balances.
func Insert(ctx context.Context, tx *postgres.Tx, entries ...ledger.Entry) error {
	batch := &pgx.Batch{}
	Queue(batch, postgres.RandomSlot(), entries...)
	return postgres.Send(ctx, tx, "write ledger entries", batch)
}

// Get returns the entry with the given id.
func Get(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id string) (ledger.Entry, error) {
	read := `
		select ` + ledgerColumns + `
		from ledger_entries l
		where l.workspace_id = $1 and l.mode = $2 and l.id = $3`
	return postgres.OneRow[ledger.Entry](tx.Query(ctx, read, scope.Workspace, scope.Mode, id))
}

// LockParticipant locks a participant whose ledger gets an entry. Errors: NOT_FOUND.
func LockParticipant(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
) (ledger.Participant, error) {
	const lock = `
		select t.partner_id, t.erased_at is not null as erased, p.currency
		from participants t
		join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.id = $4
		for no key update of t`
	return postgres.OneRow[ledger.Participant](tx.Query(ctx, lock, scope.Workspace, scope.Mode, program, id))
}
