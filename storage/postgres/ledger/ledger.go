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

// Queue queues the inserts of entries and the updates of balances, in a fixed order.
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
	return postgres.Send(ctx, tx, batch)
}

// Get returns the entry with the given id.
func Get(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id string) (ledger.Item, error) {
	read := `
		select ` + itemColumns + `
		from ledger_entries l
		join programs p on p.workspace_id = l.workspace_id and p.id = l.program_id
		where l.workspace_id = $1 and l.mode = $2 and l.id = $3`
	return postgres.OneRow[ledger.Item](tx.Query(ctx, read, scope.Workspace, scope.Mode, id))
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

// A page of the ledger is read from the index of the participant or of the partner.
// This index has the order of the list. Postgres skips the entries that do not match
// the filter's type and currency. The total is counted in the same index and stops at
// affiliate.MaxTotal. Balances are not computed but read from ledger_balances.

var (
	ledgerColumns = postgres.Columns[ledger.Entry]("l")
	itemColumns   = ledgerColumns + `, p.name as program_name, ` + postgres.ActorName("l.created_by", "l.workspace_id") + ` as created_by_name`
)

// ledgerConditions adds the conditions of a filter on ledger_entries l.
func ledgerConditions(where *postgres.Conditions, filter ledger.Filter) {
	if filter.Type != "" {
		where.Add("l.type = ?", filter.Type)
	}
	if filter.Currency != "" {
		where.Add("l.currency = ?", filter.Currency)
	}
}

// ledgerListSQL returns the statements for a page and for the total. Both take the arguments of
// the conditions. The statement for a page also takes the size and the offset of the page.
func ledgerListSQL(where postgres.Conditions) (page, count string) {
	const newest = ` order by l.created_at desc, l.id desc`
	page = `
		select ` + itemColumns + `
		from (select l.* from ledger_entries l where ` + where.SQL() + newest +
		` limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2) + `) l
		join programs p on p.workspace_id = l.workspace_id and p.id = l.program_id` + newest
	return page, postgres.CountUpTo(affiliate.MaxTotal, `from ledger_entries l where `+where.SQL())
}

// listEntries returns a page of the matching entries, their number, and the balances that the
// statement balancesSQL returns.
func listEntries(
	ctx context.Context, db *postgres.DB, where postgres.Conditions, filter ledger.Filter, page affiliate.Page, balancesSQL string, balanceArgs ...any,
) ([]ledger.Item, int64, []ledger.Balance, error) {
	ledgerConditions(&where, filter)
	pageSQL, countSQL := ledgerListSQL(where)
	entries, total, err := postgres.Page[ledger.Item](ctx, db, where, page, pageSQL, countSQL)
	if err != nil {
		return nil, 0, nil, err
	}
	sums, err := postgres.List[ledger.Balance](ctx, db, balancesSQL, balanceArgs...)
	return entries, total, sums, err
}

// List returns one page of a participant's entries, newest first, and the number of
// entries on all pages, up to affiliate.MaxTotal. It also returns the participant's
// balance in each currency, regardless of the filter. Errors: NOT_FOUND.
func List(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID,
	filter ledger.Filter, page affiliate.Page,
) ([]ledger.Item, int64, []ledger.Balance, error) {
	const known = `
		select from participants where workspace_id = $1 and mode = $2 and program_id = $3 and id = $4`
	const balances = `
		select b.currency, sum(b.balance_cents)::bigint as balance_cents
		from ledger_balances b
		join participants t on t.workspace_id = b.workspace_id and t.id = b.participant_id
		where b.workspace_id = $1 and t.mode = $2 and b.participant_id = $3
		group by b.currency
		order by b.currency`
	if _, err := postgres.OneRow[struct{}](db.Query(ctx, known, scope.Workspace, scope.Mode, program, participant)); err != nil {
		return nil, 0, nil, err
	}
	var where postgres.Conditions
	where.Add("l.workspace_id = ?", scope.Workspace)
	where.Add("l.mode = ?", scope.Mode)
	where.Add("l.participant_id = ?", participant)
	return listEntries(ctx, db, where, filter, page, balances, scope.Workspace, scope.Mode, participant)
}

// partnerLedgerBalances returns a partner's balances in a mode. They are the balances
// in the programme $3, or in all programmes if $3 is null.
const partnerLedgerBalances = `
	select b.currency, sum(b.balance_cents)::bigint as balance_cents
	from participants t
	join ledger_balances b on b.workspace_id = t.workspace_id and b.participant_id = t.id
	where t.partner_id = $1 and t.mode = $2 and ($3::uuid is null or t.program_id = $3)
	group by b.currency
	order by b.currency`

// ListOfPartner returns one page of a partner's entries in a mode, newest first, and
// the number of entries on all pages, up to affiliate.MaxTotal. It also returns the
// partner's balances. The filter's programme applies to the balances too.
func ListOfPartner(
	ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode, filter ledger.Filter, page affiliate.Page,
) ([]ledger.Item, int64, []ledger.Balance, error) {
	if err := postgres.CheckParticipation(ctx, db, partner, mode, filter.Program); err != nil {
		return nil, 0, nil, err
	}
	var where postgres.Conditions
	where.Add("l.partner_id = ?", partner)
	where.Add("l.mode = ?", mode)
	if filter.Program != nil {
		where.Add("l.program_id = ?", *filter.Program)
	}
	return listEntries(ctx, db, where, filter, page, partnerLedgerBalances, postgres.PlanForArgs, partner, mode, filter.Program)
}
