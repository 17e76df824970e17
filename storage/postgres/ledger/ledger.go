// Package ledger has the SQL of the ledger: entries are only inserted, and each insertion updates
// the balance of the participant in the same transaction.
package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var insertLedgerEntries = postgres.RowsOf[newLedgerEntryRow](`insert into ledger_entries ({columns}) values {rows}`)

type newLedgerEntryRow struct {
	WorkspaceID   affiliate.WorkspaceID   `db:"workspace_id"`
	ID            ledger.EntryID          `db:"id"`
	Mode          affiliate.Mode          `db:"mode"`
	ProgramID     affiliate.ProgramID     `db:"program_id"`
	ParticipantID affiliate.ParticipantID `db:"participant_id"`
	PartnerID     affiliate.UserID        `db:"partner_id"`
	Type          ledger.EntryType        `db:"type"`
	AmountCents   int64                   `db:"amount_cents"`
	Currency      string                  `db:"currency"`
	CommissionID  *affiliate.CommissionID `db:"commission_id"`
	PayoutID      *affiliate.PayoutID     `db:"payout_id"`
	Reason        *string                 `db:"reason"`
	CreatedBy     string                  `db:"created_by"`
	CreatedAt     time.Time               `db:"created_at"`
	OccurredAt    *time.Time              `db:"occurred_at"`
}

var addBalances = postgres.RowsOf[balanceRow](`
	insert into ledger_balances as b ({columns})
	values {rows}
	on conflict (workspace_id, participant_id, currency, slot) do update set balance_cents = b.balance_cents + excluded.balance_cents`)

type balanceRow struct {
	WorkspaceID   affiliate.WorkspaceID   `db:"workspace_id"`
	ParticipantID affiliate.ParticipantID `db:"participant_id"`
	Currency      string                  `db:"currency"`
	Slot          int16                   `db:"slot"`
	BalanceCents  int64                   `db:"balance_cents"`
}

// Key identifies the balance of a participant in one currency.
type Key struct {
	Participant affiliate.ParticipantID
	Currency    string
}

// Queue queues the statements that insert entries and update the balances. They
// lock the balance rows in a fixed order.
func Queue(batch *pgx.Batch, slot int16, entries ...ledger.Entry) {
	type balance struct {
		workspace affiliate.WorkspaceID
		Key
	}
	sums := map[balance]int64{}
	rows := make([]newLedgerEntryRow, len(entries))
	for i, e := range entries {
		rows[i] = newLedgerEntryRow{
			WorkspaceID:   e.Scope.Workspace,
			ID:            e.ID,
			Mode:          e.Scope.Mode,
			ProgramID:     e.Program,
			ParticipantID: e.Participant,
			PartnerID:     e.Partner,
			Type:          e.Type,
			AmountCents:   e.AmountCents,
			Currency:      e.Currency,
			CommissionID:  e.Commission,
			PayoutID:      e.Payout,
			Reason:        e.Reason,
			CreatedBy:     e.CreatedBy,
			CreatedAt:     e.CreatedAt,
			OccurredAt:    e.OccurredAt,
		}
		sums[balance{e.Scope.Workspace, Key{e.Participant, e.Currency}}] += e.AmountCents
	}
	insertLedgerEntries.Queue(batch, rows...)
	balances := make([]balanceRow, 0, len(sums))
	for _, key := range slices.SortedFunc(maps.Keys(sums), func(a, b balance) int {
		return cmp.Or(
			bytes.Compare(a.workspace.UUID[:], b.workspace.UUID[:]), bytes.Compare(a.Participant.UUID[:], b.Participant.UUID[:]), cmp.Compare(a.Currency, b.Currency))
	}) {
		balances = append(balances, balanceRow{
			WorkspaceID: key.workspace, ParticipantID: key.Participant, Currency: key.Currency, Slot: slot, BalanceCents: sums[key],
		})
	}
	addBalances.Queue(batch, balances...)
}

// Add stores an entry that a member creates manually, and returns it. An erased
// participant can get only adjustments. If an earlier request with the same idempotency key
// has stored the entry, Add returns that entry, and replayed is true. Errors:
// IDEMPOTENCY_KEY_REUSED, NOT_FOUND, PARTICIPANT_ERASED, PERIOD_CLOSED.
func Add(ctx context.Context, db *postgres.DB, e ledger.ManualEntry) (entry ledger.Entry, replayed bool, err error) {
	err = db.InTx(ctx, func(tx *postgres.Tx) error {
		replayed = false
		if e.Key == nil {
			entry, err = addLedgerEntry(ctx, tx, e)
			return err
		}
		stored, err := postgres.ClaimKey(ctx, tx, e.Scope, *e.Key)
		switch {
		case err != nil:
			return err
		case stored != nil:
			replayed = true
			entry, err = ledgerEntry(ctx, tx, e.Scope, string(stored))
			return err
		}
		if entry, err = addLedgerEntry(ctx, tx, e); err != nil {
			return err
		}
		// An entry never changes, except that an erasure removes its reason. Its id is
		// therefore enough to repeat the response.
		return postgres.StoreResponse(ctx, tx, e.Scope, *e.Key, []byte(entry.ID.String()))
	})
	return entry, replayed, err
}

// ledgerEntry reads the entry with the given id.
func ledgerEntry(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id string) (ledger.Entry, error) {
	const read = `
		select ` + ledgerColumns + `, '' as program_name
		from ledger_entries l
		where l.workspace_id = $1 and l.mode = $2 and l.id = $3`
	rows, err := tx.Query(ctx, read, scope.Workspace, scope.Mode, id)
	if err != nil {
		return ledger.Entry{}, fmt.Errorf("read ledger entry: %w", err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[ledgerRow])
	if err != nil {
		return ledger.Entry{}, fmt.Errorf("read ledger entry: %w", err)
	}
	return row.entry().Entry, nil
}

func addLedgerEntry(ctx context.Context, tx *postgres.Tx, e ledger.ManualEntry) (ledger.Entry, error) {
	const lock = `
		select t.partner_id, t.erased_at is not null as erased, p.currency
		from participants t
		join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.id = $4
		for no key update of t`
	var entry ledger.Entry
	var partner affiliate.UserID
	var erased bool
	var currency string
	err := tx.QueryRow(ctx, lock, e.Scope.Workspace, e.Scope.Mode, e.Program, e.Participant).Scan(&partner, &erased, &currency)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return entry, affiliate.Refuse(affiliate.ReasonNotFound)
	case err != nil:
		return entry, fmt.Errorf("lock participant: %w", err)
	case erased && e.Type != ledger.EntryAdjustment:
		return entry, affiliate.Refuse(affiliate.ReasonParticipantErased)
	case e.Currency != "":
		currency = e.Currency
	}
	closed, err := postgres.HoldBooks(ctx, tx, e.Scope.Workspace)
	if err != nil {
		return entry, err
	}
	if closed != nil && e.At.Before(*closed) {
		return entry, affiliate.PeriodClosed(*closed)
	}
	entry = ledger.Entry{
		ID: affiliate.NewID[ledger.EntryID](e.At), Scope: e.Scope, Program: e.Program, Participant: e.Participant,
		Partner: partner, Type: e.Type, AmountCents: e.AmountCents, Currency: currency, Reason: &e.Reason,
		CreatedBy: e.By.String(), CreatedAt: e.At,
	}
	batch := &pgx.Batch{}
	Queue(batch, postgres.RandomSlot(), entry)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return entry, fmt.Errorf("write ledger entry: %w", err)
	}
	return entry, tx.Audit(ctx, affiliate.AuditLine{
		Workspace: e.Scope.Workspace, Mode: &e.Scope.Mode, Actor: e.By, At: e.At,
		Action: "ledger." + string(e.Type), ResourceType: "ledger_entry", ResourceID: entry.ID,
		After: map[string]any{
			"participant_id": e.Participant, "amount_cents": e.AmountCents, "currency": currency, "reason": e.Reason,
		},
	})
}
