package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const insertLedgerEntries = `
	insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency,
		commission_id, payout_id, reason, created_by, created_at)
	values %s`

const changeBalances = `
	insert into ledger_balances as b (workspace_id, participant_id, currency, slot, balance_cents)
	values %s
	on conflict (workspace_id, participant_id, currency, slot) do update set balance_cents = b.balance_cents + excluded.balance_cents`

var (
	ledgerRows  = rowsOf(insertLedgerEntries, 14)
	balanceRows = rowsOf(changeBalances, 5)
)

// account is what has a balance: a participant in one currency.
type account struct {
	Participant affiliate.ParticipantID
	Currency    string
}

// queueLedger adds entries, and their sums to the balances, whose rows are taken
// in one order.
func queueLedger(batch *pgx.Batch, slot int16, entries ...affiliate.LedgerEntry) {
	type balance struct {
		workspace affiliate.WorkspaceID
		account
	}
	sums := map[balance]int64{}
	rows := make([][]any, len(entries))
	for i, e := range entries {
		rows[i] = []any{
			e.Scope.Workspace, e.ID, e.Scope.Mode, e.Program, e.Participant, e.Partner, e.Type, e.AmountCents, e.Currency,
			e.Commission, e.Payout, e.Reason, e.CreatedBy, e.CreatedAt,
		}
		sums[balance{e.Scope.Workspace, account{e.Participant, e.Currency}}] += e.AmountCents
	}
	ledgerRows.queue(batch, rows...)
	balances := make([][]any, 0, len(sums))
	for _, of := range slices.SortedFunc(maps.Keys(sums), func(a, b balance) int {
		return cmp.Or(
			bytes.Compare(a.workspace.UUID[:], b.workspace.UUID[:]), bytes.Compare(a.Participant.UUID[:], b.Participant.UUID[:]), cmp.Compare(a.Currency, b.Currency))
	}) {
		balances = append(balances, []any{of.workspace, of.Participant, of.Currency, slot, sums[of]})
	}
	balanceRows.queue(batch, balances...)
}

// AddLedgerEntry adds an entry that a person makes and returns it. Errors:
// NOT_FOUND, PARTICIPANT_ERASED.
func (s *Store) AddLedgerEntry(ctx context.Context, e affiliate.HandEntry) (affiliate.LedgerEntry, error) {
	const lock = `
		select t.partner_id, t.erased_at is not null as erased, p.currency
		from participants t
		join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.id = $4
		for no key update of t`
	var entry affiliate.LedgerEntry
	err := s.InTx(ctx, func(tx *Tx) error {
		var partner affiliate.UserID
		var erased bool
		var currency string
		err := tx.QueryRow(ctx, lock, e.Scope.Workspace, e.Scope.Mode, e.Program, e.Participant).Scan(&partner, &erased, &currency)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return affiliate.Refuse(affiliate.ReasonNotFound)
		case err != nil:
			return fmt.Errorf("participant: %w", err)
		case erased:
			return affiliate.Refuse(affiliate.ReasonParticipantErased)
		case e.Currency != "":
			currency = e.Currency
		}
		entry = affiliate.LedgerEntry{
			ID: affiliate.NewID[affiliate.LedgerEntry](e.At), Scope: e.Scope, Program: e.Program, Participant: e.Participant,
			Partner: partner, Type: e.Type, AmountCents: e.AmountCents, Currency: currency, Reason: &e.Reason,
			CreatedBy: e.By.String(), CreatedAt: e.At,
		}
		batch := &pgx.Batch{}
		queueLedger(batch, anySlot(), entry)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		return tx.Audit(ctx, affiliate.AuditLine{
			Workspace: e.Scope.Workspace, Mode: &e.Scope.Mode, Actor: e.By, At: e.At,
			Action: "ledger." + string(e.Type), ResourceType: "ledger_entry", ResourceID: entry.ID,
			After: map[string]any{
				"participant_id": e.Participant, "amount_cents": e.AmountCents, "currency": currency, "reason": e.Reason,
			},
		})
	})
	return entry, err
}
