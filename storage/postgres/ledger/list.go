package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// A page of the ledger is read from the index of the participant or of the partner.
// This index has the order of the list. Postgres skips the entries that do not match
// the filter's type and currency. The total is counted in the same index and stops at
// affiliate.MaxTotal. Balances are not computed but read from ledger_balances.

var ledgerColumns = postgres.Columns[ledger.Entry]("l")

// ledgerConditions adds the conditions of a filter on ledger_entries l.
func ledgerConditions(where *postgres.Conditions, filter ledger.Filter) {
	if filter.Type != "" {
		where.Add("l.type = ?", filter.Type)
	}
	if filter.Currency != "" {
		where.Add("l.currency = ?", filter.Currency)
	}
}

// ledgerListSQL returns the statements for a page and for the total. The statement for a
// page takes the arguments of where, and then the size and the offset of the page. The
// statement for the total takes only the arguments of where.
func ledgerListSQL(where postgres.Conditions) (page, count string) {
	const newest = ` order by l.created_at desc, l.id desc`
	page = `
		select ` + ledgerColumns + `, p.name as program_name
		from (select l.* from ledger_entries l where ` + where.SQL() + newest +
		` limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2) + `) l
		join programs p on p.workspace_id = l.workspace_id and p.id = l.program_id` + newest
	return page, postgres.CountUpTo(affiliate.MaxTotal, `from ledger_entries l where `+where.SQL())
}

func ledgerPage(
	ctx context.Context, db *postgres.DB, where postgres.Conditions, page affiliate.Page,
) ([]ledger.Item, int64, error) {
	pageSQL, countSQL := ledgerListSQL(where)
	args := append([]any{postgres.PlanForArgs}, where.Args...)
	rows, err := db.Query(ctx, pageSQL, append(args, page.Size, page.Offset())...)
	if err != nil {
		return nil, 0, fmt.Errorf("read ledger: %w", err)
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByName[ledger.Item])
	if err != nil {
		return nil, 0, fmt.Errorf("read ledger: %w", err)
	}
	if n := int64(len(entries)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// This is the last page, so the position of its last row is the total.
		return entries, page.Offset() + n, nil
	}
	var total int64
	if err := db.QueryRow(ctx, countSQL, args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count ledger: %w", err)
	}
	return entries, total, nil
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
	err := db.QueryRow(ctx, known, scope.Workspace, scope.Mode, program, participant).Scan()
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, 0, nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return nil, 0, nil, fmt.Errorf("read participant: %w", err)
	}
	var where postgres.Conditions
	where.Add("l.workspace_id = ?", scope.Workspace)
	where.Add("l.mode = ?", scope.Mode)
	where.Add("l.participant_id = ?", participant)
	ledgerConditions(&where, filter)
	entries, total, err := ledgerPage(ctx, db, where, page)
	if err != nil {
		return nil, 0, nil, err
	}
	rows, _ := db.Query(ctx, balances, scope.Workspace, scope.Mode, participant)
	sums, err := pgx.CollectRows(rows, pgx.RowToStructByName[ledger.Balance])
	if err != nil {
		return nil, 0, nil, fmt.Errorf("read balances: %w", err)
	}
	return entries, total, sums, nil
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
	ledgerConditions(&where, filter)
	entries, total, err := ledgerPage(ctx, db, where, page)
	if err != nil {
		return nil, 0, nil, err
	}
	rows, _ := db.Query(ctx, partnerLedgerBalances, postgres.PlanForArgs, partner, mode, filter.Program)
	sums, err := pgx.CollectRows(rows, pgx.RowToStructByName[ledger.Balance])
	if err != nil {
		return nil, 0, nil, fmt.Errorf("read balances: %w", err)
	}
	return entries, total, sums, nil
}
