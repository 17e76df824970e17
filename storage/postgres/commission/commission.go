// Package commission has the SQL of commissions: lists with exact totals, stats, exports, and the
// changes of locked commissions with everything that follows from them in the same transaction
// (history, ledger, balances, counts).
package commission

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// columns is the select list of commissions with the alias c.
var columns = postgres.Columns[commission.Commission]("c")

// reviewerName returns an expression for the current name of a reviewer of commissions c: a
// member or a service token of the workspace.
func reviewerName(actor string) string {
	return postgres.ActorName(actor, "c.workspace_id")
}

var insertCommissions = postgres.RowsOf[commission.Commission](`insert into commissions ({columns}) values {rows}`)

// Queue queues the inserts of new commissions, which are pending or approved. The caller
// also calls QueueChanges for them, and queues their events.
func Queue(batch *pgx.Batch, commissions ...commission.Commission) {
	insertCommissions.Queue(batch, commissions...)
}

// Get returns one commission of a programme with everything that its detail page shows.
// Errors: NOT_FOUND if this scope and programme have no such commission. The commission
// and its history come from one snapshot.
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

// LockSQL locks the commissions $3 of the workspace $1 in the mode $2 and reads them.
var LockSQL = `
	select ` + columns + `, t.status as participant_status, t.erased_at is not null as participant_erased
	from commissions c
	join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id
	where c.workspace_id = $1 and c.mode = $2 and c.id = any($3)
	order by c.id
	for update of c`

// TryLock locks a commission without waiting. It is for pending commissions: they are never in
// a payout, so there is no payout to lock. Errors: NOT_FOUND if there is no such commission, or
// if another transaction has locked it.
func TryLock(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID,
) (commission.Locked, error) {
	found, err := postgres.List[commission.Locked](
		ctx, tx, LockSQL+` skip locked`, scope.Workspace, scope.Mode, []affiliate.CommissionID{id})
	return FirstLocked(found, err, program)
}

// FirstLocked returns the first of the found commissions. Errors: the given error, and
// NOT_FOUND if there is no commission or it belongs to another programme.
func FirstLocked(found []commission.Locked, err error, program affiliate.ProgramID) (commission.Locked, error) {
	if err == nil && (len(found) == 0 || found[0].Program != program) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	if err != nil {
		return commission.Locked{}, err
	}
	return found[0], nil
}

// Lock locks commissions in the order of their ids. A transaction locks all
// its commissions in one call, or in several calls with ascending ids, so that two
// transactions cannot deadlock. The result leaves out ids that do not exist.
func Lock(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.CommissionID) ([]commission.Locked, error) {
	return postgres.List[commission.Locked](ctx, tx, LockSQL, scope.Workspace, scope.Mode, ids)
}

// selectDue reads one page of the commissions of all workspaces that are due for
// automatic approval. A page starts after the last row of the previous page. If each page
// started with the first due commission instead, commissions that cannot be approved
// would fill every page, and later rows would never be read.
const selectDue = `
	select c.workspace_id, c.mode, c.program_id, c.id, c.auto_approve_at
	from commissions c
	where c.status = 'pending' and not c.needs_review
		and c.auto_approve_at <= $1 and (c.auto_approve_at, c.id) > ($2, $3)
		and (c.hold_until is null or c.hold_until <= $1) and c.dispute_status <> 'open'
		and exists (
			select from participants p
			where p.workspace_id = c.workspace_id and p.mode = c.mode and p.id = c.participant_id
				and p.status = 'approved' and p.erased_at is null)
	order by c.auto_approve_at, c.id
	limit $4`

// Due returns at most limit commissions of all workspaces that are due for automatic approval
// at the given time. They are ordered by AutoApproveAt and start after the given commission, or
// with the first one if the given commission is zero. Due locks nothing, so the caller must
// lock each commission and check it again.
func Due(ctx context.Context, db *postgres.DB, now time.Time, after commission.DueCommission, limit int) ([]commission.DueCommission, error) {
	return postgres.List[commission.DueCommission](ctx, db, selectDue, postgres.PlanForArgs, now, after.AutoApproveAt, after.ID, limit)
}
