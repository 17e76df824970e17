package payout

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Statements about payouts whose query plans the tests check.
const (
	SelectPayoutsDueSQL     = selectPayoutsDue
	LockUnassignedSQL       = lockUnassigned
	LockAssignedSQL         = lockAssigned
	LockReleasedSQL         = lockReleased
	SumBatchesSQL           = sumBatches
	SumConfirmedSQL         = sumConfirmed
	IsOwedSQL               = isOwed
	SelectPayoutStatusesSQL = selectPayoutStatuses
	CountExportSQL          = countExport
	DeletePayoutAccountsSQL = deletePayoutAccounts
	DeletePayeeNamesSQL     = deletePayeeNames
)

// PayoutStatuses returns all payout statuses.
func PayoutStatuses() []payout.Status { return payoutStatuses }

// Statements that are built from the columns of payouts and batches, or by functions.
var (
	SelectBatchesSQL = selectBatches
	CountBatchesSQL  = countBatches
	SelectExportSQL  = selectExport
)

// DueArgs returns the arguments of SelectPayoutsDueSQL.
func DueArgs(selection payout.Selection, participants []affiliate.ParticipantID) pgx.NamedArgs {
	return dueArgs(selection, participants)
}

// UnassignedArgs returns the arguments of LockUnassignedSQL.
func UnassignedArgs(scope affiliate.Scope, participants []affiliate.ParticipantID, cutoff time.Time) pgx.NamedArgs {
	return candidateArgs(scope, participants, nil, cutoff)
}

// HeldArgs returns the arguments of LockAssignedSQL and LockReleasedSQL.
func HeldArgs(scope affiliate.Scope, payouts []affiliate.PayoutID, cutoff time.Time) pgx.NamedArgs {
	return candidateArgs(scope, nil, payouts, cutoff)
}

// PayoutOfPartnerSQL is a statement whose query plan a test checks.
const PayoutOfPartnerSQL = payoutOfPartner

// PayoutListSQL returns the statements for a page of payouts and for the total. If
// partner is zero, the list has the payouts of a scope. Otherwise it has the payouts of a
// partner.
func PayoutListSQL(scope affiliate.Scope, partner affiliate.UserID, filter payout.Filter) (page, count string, args []any) {
	var where postgres.Conditions
	if partner.IsZero() {
		where.Add("p.workspace_id = ?", scope.Workspace)
		where.Add("p.mode = ?", scope.Mode)
	} else {
		where.Add("p.partner_id = ?", partner)
		where.Add("p.mode = ?", scope.Mode)
		where.Add("p.initiated_at is not null")
	}
	payoutConditions(&where, filter)
	page, count = payoutListSQL(where)
	return page, count, where.Args
}
