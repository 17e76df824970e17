package postgres

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// The statements that walk what payouts are made of, as they run.
const (
	SelectPayoutsDueSQL      = selectPayoutsDue
	LockFreeSQL              = lockFree
	LockHeldSQL              = lockHeld
	LockLostSQL              = lockLost
	SumBatchesSQL            = sumBatches
	StandingsSQL             = standings
	SelectBatchesSQL         = selectBatches
	PartnerLedgerBalancesSQL = partnerLedgerBalances
)

// PayoutStatuses are all that there are.
func PayoutStatuses() []affiliate.PayoutStatus { return payoutStatuses }

// CountBatchesSQL is the statement for the total of the batches.
var CountBatchesSQL = countBatches

// PayBlock is how many commissions of a payout are paid at a time.
const PayBlock = payBlock

// DueArgs are the arguments of SelectPayoutsDueSQL.
func DueArgs(of affiliate.PayoutSelection, participants []affiliate.ParticipantID) pgx.NamedArgs {
	return dueArgs(of, participants)
}

// FreeArgs are the arguments of LockFreeSQL.
func FreeArgs(scope affiliate.Scope, participants []affiliate.ParticipantID, cutoff time.Time) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "participants": participants, "cutoff": cutoff}
}

// HeldArgs are the arguments of LockHeldSQL and LockLostSQL.
func HeldArgs(scope affiliate.Scope, payouts []affiliate.PayoutID, cutoff time.Time) pgx.NamedArgs {
	return heldArgs(scope, payouts, cutoff)
}

// PayoutListSQL are the statements of a list of the mode, or of a partner.
func PayoutListSQL(scope affiliate.Scope, partner affiliate.UserID, filter affiliate.PayoutFilter) (page, count string, args []any) {
	var where conditions
	if partner.IsZero() {
		where.add("p.workspace_id = ?", scope.Workspace)
		where.add("p.mode = ?", scope.Mode)
	} else {
		where.add("p.partner_id = ?", partner)
		where.add("p.mode = ?", scope.Mode)
		where.add("p.initiated_at is not null")
	}
	payoutConditions(&where, filter)
	page, count = payoutListSQL(where)
	return page, count, where.args
}

// LedgerListSQL are the statements of a list of a participant, or of a partner.
func LedgerListSQL(scope affiliate.Scope, participant affiliate.ParticipantID, partner affiliate.UserID) (page, count string, args []any) {
	var where conditions
	if partner.IsZero() {
		where.add("l.workspace_id = ?", scope.Workspace)
		where.add("l.mode = ?", scope.Mode)
		where.add("l.participant_id = ?", participant)
	} else {
		where.add("l.partner_id = ?", partner)
		where.add("l.mode = ?", scope.Mode)
	}
	page, count = ledgerListSQL(where)
	return page, count, where.args
}
