package commission

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// LockSQL locks the commissions $3 of the workspace $1 in the mode $2 and reads them.
var LockSQL = `
	select ` + columns + `, t.status as participant_status, t.erased_at is not null as participant_erased
	from commissions c
	join participants t on t.workspace_id = c.workspace_id and t.id = c.participant_id
	where c.workspace_id = $1 and c.mode = $2 and c.id = any($3)
	order by c.id
	for update of c`

// TryLock locks a pending commission without waiting. There is no payout to
// lock, because a pending commission is never in a payout. Errors: NOT_FOUND if there is
// no such commission, or if another transaction has locked it.
func TryLock(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.CommissionID,
) (commission.Locked, error) {
	found, err := postgres.List[commission.Locked](
		ctx, tx, "lock commissions", LockSQL+` skip locked`, scope.Workspace, scope.Mode, []affiliate.CommissionID{id})
	return FirstLocked(found, err, program)
}

// FirstLocked returns the only commission of found. Errors: NOT_FOUND if it does not exist or
// belongs to another programme, and err.
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
func Lock(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.CommissionID,
) ([]commission.Locked, error) {
	return postgres.List[commission.Locked](ctx, tx, "lock commissions", LockSQL, scope.Workspace, scope.Mode, ids)
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

// Due returns at most limit commissions of all workspaces that are due for
// automatic approval at the given time. They are ordered by AutoApproveAt and start after
// the commission in after, or with the first commission if after is zero. Due
// locks nothing, so the caller must lock each commission and check it again.
func Due(
	ctx context.Context, db *postgres.DB, now time.Time, after commission.DueCommission, limit int,
) ([]commission.DueCommission, error) {
	return postgres.List[commission.DueCommission](ctx, db, "due commissions", selectDue, postgres.PlanForArgs, now, after.AutoApproveAt, after.ID, limit)
}
