package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// A past balance is computed backwards: the current balance minus the later entries. The
// entries since last month or last year are few compared with all entries, and are read
// from the index ledger_entries_by_time alone. Both parts come from one snapshot, in
// which a balance is the sum of the entries, because every transaction that adds entries
// also updates the balances.

// laterSums has the parts of the balances at the time $4: the current balances, and the entries
// since $4 with the opposite sign. $1 and $2 are workspace and mode, $3 is the programme or null.
const laterSums = `
	select b.participant_id, b.currency, b.balance_cents as cents
	from participants t
	join ledger_balances b on b.workspace_id = t.workspace_id and b.participant_id = t.id
	where t.workspace_id = $1 and t.mode = $2 and ($3::uuid is null or t.program_id = $3)
	union all
	select l.participant_id, l.currency, -l.amount_cents
	from ledger_entries l
	where l.workspace_id = $1 and l.mode = $2 and ($3::uuid is null or l.program_id = $3) and l.created_at >= $4`

// ledgerStatement returns the totals, and a page of the balances with size $5 and offset $6.
const ledgerStatement = `
	with sums as materialized (
		select participant_id, currency, sum(cents)::bigint as cents
		from (` + laterSums + `) as parts
		group by participant_id, currency
		having sum(cents) <> 0
	), totals as (
		select currency as "Currency", coalesce(sum(cents) filter (where cents > 0), 0)::bigint as "OwedToPartners",
			coalesce(-sum(cents) filter (where cents < 0), 0)::bigint as "OwedByPartners", count(*) as "ParticipantCount"
		from sums
		group by currency
	), page as (
		select * from sums order by currency, cents desc, participant_id limit $5 offset $6
	), named as (
		select t.program_id as "Program", p.name as "ProgramName", t.id as "Participant", t.partner_name as "PartnerName",
			s.currency as "Currency", s.cents as "BalanceCents"
		from page s
		join participants t on t.workspace_id = $1 and t.mode = $2 and t.id = s.participant_id
		join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
	)
	select (select coalesce(json_agg(o order by o."Currency"), '[]') from totals o),
		(select coalesce(json_agg(n order by n."Currency", n."BalanceCents" desc, n."Participant"), '[]') from named n)`

// Statement returns the totals and one page of the balances at the end of the
// filter's period. Errors: NOT_FOUND for the programme.
func Statement(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter ledger.BalanceFilter, page affiliate.Page,
) (ledger.Statement, error) {
	var statement ledger.Statement
	if err := postgres.CheckFilter(ctx, db, scope, filter.Program, nil, nil); err != nil {
		return statement, err
	}
	var totals, balances []byte
	err := db.QueryRow(ctx, ledgerStatement, postgres.PlanForArgs,
		scope.Workspace, scope.Mode, filter.Program, filter.Before, page.Size, page.Offset()).Scan(&totals, &balances)
	if err == nil {
		err = errors.Join(json.Unmarshal(totals, &statement.Totals), json.Unmarshal(balances, &statement.Balances))
	}
	if err != nil {
		return statement, fmt.Errorf("state the balances: %w", err)
	}
	for _, total := range statement.Totals {
		statement.Count += total.ParticipantCount
	}
	return statement, nil
}

// ledgerOpening returns the total of each currency at the time $4, for the currencies whose
// total is not 0 or that have an entry from $4 until before $5.
const ledgerOpening = `
	select currency, sum(cents)::bigint as balance_cents
	from (
		select currency, cents, false as entered from (` + laterSums + `) as parts
		union all
		select l.currency, 0, true
		from ledger_entries l
		where l.workspace_id = $1 and l.mode = $2 and ($3::uuid is null or l.program_id = $3) and l.created_at >= $4 and l.created_at < $5
	) as parts
	group by currency
	having sum(cents) <> 0 or bool_or(entered)
	order by currency`

// ledgerExport returns the entries from the time $4 until before the time $5.
var ledgerExport = `
	select ` + ledgerColumns + `, p.name as program_name, t.partner_name
	from ledger_entries l
	left join programs p on p.workspace_id = l.workspace_id and p.id = l.program_id
	left join participants t on t.workspace_id = l.workspace_id and t.id = l.participant_id
	where l.workspace_id = $1 and l.mode = $2 and ($3::uuid is null or l.program_id = $3) and l.created_at >= $4 and l.created_at < $5
	order by l.created_at, l.id`

// Export returns the opening balances and the entries of a period, oldest first. The period has
// both bounds. All lines come from one snapshot. It uses a connection and an export slot as
// postgres.Export does. Errors: SERVICE_UNAVAILABLE if too many exports are running.
func Export(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program *affiliate.ProgramID, period affiliate.Period,
) iter.Seq2[ledger.Line, error] {
	return func(yield func(ledger.Line, error) bool) {
		tx, end, err := db.BeginExport(ctx, scope.Workspace)
		if err != nil {
			yield(ledger.Line{}, err)
			return
		}
		defer end()
		args := []any{postgres.PlanForArgs, scope.Workspace, scope.Mode, program, period.From, period.Before}
		opening, err := postgres.List[ledger.Balance](ctx, tx, ledgerOpening, args...)
		if err == nil {
			_, err = tx.Exec(ctx, postgres.ExportPlan)
		}
		if err != nil {
			yield(ledger.Line{}, fmt.Errorf("read the opening balances: %w", err))
			return
		}
		for _, b := range opening {
			line := ledger.Line{Entry: ledger.Entry{
				Type: ledger.OpeningBalance, AmountCents: b.BalanceCents, Currency: b.Currency, CreatedAt: *period.From,
			}}
			if !yield(line, nil) {
				return
			}
		}
		postgres.ExportRows(ctx, tx, pgx.RowToStructByName[ledger.Line], ledgerExport, args...)(yield)
	}
}
