// Package commission has the SQL of commissions: lists with exact totals, stats, exports, and the
// changes of locked commissions with everything that follows from them in the same transaction
// (history, ledger, balances, counts).
package commission

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// columns is the select list of commissions with the alias c.
var columns = postgres.Columns[commission.Commission]("c")

// reviewerName returns an expression for the current name of a reviewer of commissions c: a
// member or a service token of the workspace. actor is an expression for the id of the
// reviewer, which can be null or the word "system". The names are read by subqueries for
// each row. With a join, Postgres could read the users of all workspaces.
func reviewerName(actor string) string {
	return `case when ` + actor + ` ~ '^[0-9a-f-]{36}$' then coalesce(
		(
			select u.name from users u join members m on m.user_id = u.id
			where u.id = (` + actor + `)::uuid and u.erased_at is null and m.workspace_id = c.workspace_id
		),
		(select 'service:' || s.name from service_tokens s where s.workspace_id = c.workspace_id and s.id = (` + actor + `)::uuid)
	) end`
}

var insertCommissions = postgres.RowsOf[commission.Commission](`insert into commissions ({columns}) values {rows}`)

// Queue adds the inserts of new commissions to a batch of the transaction that
// stores their conversions. New commissions are pending or approved. The caller also
// calls QueueChanges for them, which adds their histories, ledger entries and
// counts, and queues their events.
func Queue(batch *pgx.Batch, commissions ...commission.Commission) {
	insertCommissions.Queue(batch, commissions...)
}

// Get returns one commission of a programme with everything that its detail page
// shows. Errors: NOT_FOUND if this scope and programme have no such commission.
// It reads the commission and its history in a single statement, so that both come from the
// same snapshot.
func Get(
	ctx context.Context, q postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID,
) (commission.Detail, error) {
	read := `
		select ` + columns + `,
			p.name as program_name, t.partner_name, t.partner_email, ` + CustomerLabel + `,
			` + reviewerName("c.approved_by") + ` as approved_by_name, ` + reviewerName("c.override_by::text") + ` as override_by_name,
			d.method, d.reason_code, d.explanation, d.clicked_at, d.expires_at,
			(select json_agg(json_build_object('at', h.at, 'actor', h.actor, 'from', h.from_status, 'to', h.to_status, 'reason', h.reason,
				'name', ` + reviewerName("h.actor") + `) order by h.seq)
			from commission_history h
			where h.workspace_id = c.workspace_id and h.commission_id = c.id) as history
		from commissions c
		join programs p on p.workspace_id = c.workspace_id and p.id = c.program_id
		join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id
		join attribution_decisions d on d.workspace_id = c.workspace_id and d.id = c.decision_id
		where c.workspace_id = $1 and c.mode = $2 and c.program_id = $3 and c.id = $4`
	return postgres.OneRow[commission.Detail](q.Query(ctx, read, scope.Workspace, scope.Mode, program, id))
}

// ProgramOfCommission returns the programme of a commission. Errors: NOT_FOUND.
func ProgramOfCommission(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.CommissionID) (affiliate.ProgramID, error) {
	const read = `select program_id from commissions where workspace_id = $1 and mode = $2 and id = $3`
	row, err := postgres.OneRow[struct{ ProgramID affiliate.ProgramID }](db.Query(ctx, read, scope.Workspace, scope.Mode, id))
	return row.ProgramID, err
}

// ProgramScope returns the workspace and mode of any programme. The statement does not
// filter by workspace, because the callers must distinguish a programme of another
// workspace from an unknown id. Errors: NOT_FOUND.
func ProgramScope(ctx context.Context, db *postgres.DB, id affiliate.ProgramID) (affiliate.Scope, error) {
	return postgres.OneRow[affiliate.Scope](db.Query(ctx, `select workspace_id, mode from programs where id = $1`, id))
}

// CustomerLabel is an expression for the label of the customer of c, a conversion or a
// commission. A join would let Postgres read the customers of all workspaces.
const CustomerLabel = `(
	select u.label from customers u
	where u.workspace_id = c.workspace_id and u.mode = c.mode and u.ref = c.customer_ref
) as customer_label`
