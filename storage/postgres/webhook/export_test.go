package webhook

import (
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// The statements, as they run.
const (
	SelectDeliverySQL   = selectDelivery
	LockDeliverySQL     = lockDelivery
	UpdateDeliverySQL   = updateDelivery
	CountRecoverableSQL = countRecoverable
	RecoverBlockSQL     = recoverBlock
	CancelBlockSQL      = cancelBlock
	CancelLeftSQL       = cancelLeft
	BlockPlan           = blockPlan // the settings of the last three
	TargetsSQL          = targets
	DueDeliveriesSQL    = dueDeliveries
	UnclaimedSQL        = unclaimed
	ApplyOutcomesSQL    = applyOutcomes
)

// DeliveryListSQL returns the statements of a list with the arguments of both.
func DeliveryListSQL(
	scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time, filter affiliate.DeliveryFilter,
) (page, count string, args pgx.NamedArgs) {
	query := newListQuery(scope, endpoint, since, filter)
	return query.page(), query.count(), query.args
}

// DeliveryArgs are the arguments of SelectDeliverySQL.
func DeliveryArgs(scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID) pgx.NamedArgs {
	return deliveryArgs(scope, endpoint, id)
}

// RecoverableArgs are the arguments of CountRecoverableSQL.
func RecoverableArgs(job affiliate.RecoverDeliveries, epoch int) pgx.NamedArgs {
	return recoverableArgs(job, epoch)
}

// OutcomeArgs are the arguments of ApplyOutcomesSQL.
func OutcomeArgs(changes []webhook.DeliveryChange) (pgx.NamedArgs, error) {
	return outcomeArgs(changes)
}

// DueArgs are the arguments of TargetsSQL and DueDeliveriesSQL.
func DueArgs(endpoints []affiliate.EndpointKey, sender affiliate.SenderID, now time.Time) pgx.NamedArgs {
	reads := make([]webhook.Read, len(endpoints))
	for i, key := range endpoints {
		reads[i] = webhook.Read{Key: key, Limit: 64}
	}
	return dueArgs(sender, reads, now)
}
