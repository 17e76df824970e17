package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const insertLedgerEntries = `
	insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency,
		commission_id, payout_id, reason, created_by, created_at)
	select $1, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency,
		commission_id, payout_id, reason, created_by, created_at
	from unnest($2::uuid[], $3::text[], $4::uuid[], $5::uuid[], $6::uuid[], $7::text[], $8::bigint[], $9::text[],
		$10::uuid[], $11::uuid[], $12::text[], $13::text[], $14::timestamptz[])
		as t (id, mode, program_id, participant_id, partner_id, type, amount_cents, currency,
			commission_id, payout_id, reason, created_by, created_at)`

// changeBalances takes the rows in the order of the arguments.
const changeBalances = `
	insert into ledger_balances as b (workspace_id, participant_id, currency, slot, balance_cents)
	select $1, participant_id, currency, $2, balance_cents
	from unnest($3::uuid[], $4::text[], $5::bigint[]) as t (participant_id, currency, balance_cents)
	on conflict (workspace_id, participant_id, currency, slot) do update set balance_cents = b.balance_cents + excluded.balance_cents`

// account is what has a balance: a participant in one currency.
type account struct {
	Participant affiliate.ParticipantID
	Currency    string
}

// queueLedger adds entries, and their sums to the balances, whose rows are taken
// in one order. The entries are of one workspace.
func queueLedger(batch *pgx.Batch, slot int16, entries ...affiliate.LedgerEntry) {
	if len(entries) == 0 {
		return
	}
	var (
		sums                = map[account]int64{}
		ids                 []affiliate.LedgerEntryID
		modes               []affiliate.Mode
		programs            []affiliate.ProgramID
		participants        []affiliate.ParticipantID
		partners            []affiliate.UserID
		types               []affiliate.LedgerEntryType
		amounts             []int64
		currencies, authors []string
		commissions         []*affiliate.CommissionID
		payouts             []*affiliate.PayoutID
		reasons             []*string
		times               []time.Time
		owners              []affiliate.ParticipantID
		ownCurrencies       []string
		ownSums             []int64
	)
	for _, e := range entries {
		ids, modes, programs = append(ids, e.ID), append(modes, e.Scope.Mode), append(programs, e.Program)
		participants, partners = append(participants, e.Participant), append(partners, e.Partner)
		types, amounts, currencies = append(types, e.Type), append(amounts, e.AmountCents), append(currencies, e.Currency)
		commissions, payouts, reasons = append(commissions, e.Commission), append(payouts, e.Payout), append(reasons, e.Reason)
		authors, times = append(authors, e.CreatedBy), append(times, e.CreatedAt)
		sums[account{e.Participant, e.Currency}] += e.AmountCents
	}
	for _, of := range slices.SortedFunc(maps.Keys(sums), func(a, b account) int {
		return cmp.Or(cmp.Compare(a.Participant.String(), b.Participant.String()), cmp.Compare(a.Currency, b.Currency))
	}) {
		owners, ownCurrencies, ownSums = append(owners, of.Participant), append(ownCurrencies, of.Currency), append(ownSums, sums[of])
	}
	workspace := entries[0].Scope.Workspace
	batch.Queue(insertLedgerEntries, workspace, ids, modes, programs, participants, partners, types, amounts, currencies,
		commissions, payouts, reasons, authors, times)
	batch.Queue(changeBalances, workspace, slot, owners, ownCurrencies, ownSums)
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
	err := s.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
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
		return record(ctx, tx, audit{
			Workspace: e.Scope.Workspace, Mode: &e.Scope.Mode, Actor: e.By, At: e.At,
			Action: "ledger." + string(e.Type), ResourceType: "ledger_entry", ResourceID: entry.ID,
			After: map[string]any{
				"participant_id": e.Participant, "amount_cents": e.AmountCents, "currency": currency, "reason": e.Reason,
			},
		})
	})
	return entry, err
}
