package webhook

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// Statements whose query plans the tests check, and planner settings.
const (
	UpdateDeliverySQL   = updateDelivery
	CountRecoverableSQL = countRecoverable
	RecoverBlockSQL     = recoverBlock
	CancelBlockSQL      = cancelBlock
	CancelRemainingSQL  = cancelRemaining
	BlockPlan           = blockPlan // planner settings for RecoverBlockSQL, CancelBlockSQL and CancelRemainingSQL
	TargetsSQL          = targets
	DueDeliveriesSQL    = dueDeliveries
	UnclaimedSQL        = unclaimed
	SelectLatenessSQL   = selectLateness
	ApplyOutcomesSQL    = applyOutcomes
)

// Statements that are built from the columns of deliveries.
var (
	SelectDeliverySQL = selectDelivery
	LockDeliverySQL   = lockDelivery
)

// DeliveryListSQL returns the statements for a page of deliveries and for the total,
// and the arguments of both.
func DeliveryListSQL(
	scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time, filter webhook.DeliveryFilter,
) (page, count string, args pgx.NamedArgs) {
	query := newListQuery(scope, endpoint, since, filter)
	return query.page(), query.count(), query.args
}

// DeliveryArgs returns the arguments of SelectDeliverySQL.
func DeliveryArgs(scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID) pgx.NamedArgs {
	return deliveryArgs(scope, endpoint, id)
}

// RecoverableArgs returns the arguments of CountRecoverableSQL.
func RecoverableArgs(job webhook.RecoverDeliveries, epoch int) pgx.NamedArgs {
	return recoverableArgs(job, epoch)
}

// OutcomeArgs returns the arguments of ApplyOutcomesSQL.
func OutcomeArgs(changes []webhook.DeliveryChange) (pgx.NamedArgs, error) {
	return outcomeArgs(changes)
}

// DueArgs returns the arguments of TargetsSQL and DueDeliveriesSQL.
func DueArgs(endpoints []webhook.EndpointKey, sender affiliate.SenderID, now time.Time) pgx.NamedArgs {
	reads := make([]webhook.DueQuery, len(endpoints))
	for i, key := range endpoints {
		reads[i] = webhook.DueQuery{Key: key, Limit: 64}
	}
	return dueArgs(sender, reads, now)
}
