package postgres

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// The sender's statements, as they run.
const (
	TargetsSQL       = targets
	DueDeliveriesSQL = dueDeliveries
	NeglectedSQL     = neglected
	FinishSQL        = finish
	CancelLeftSQL    = cancelLeft
)

// FinishArgs are those of FinishSQL.
func FinishArgs(done ...webhook.AttemptResult) ([]any, error) {
	was := make([]webhook.State, len(done))
	for i, a := range done {
		was[i] = a.Due.State
	}
	return finishRows(done, was)
}

// DueDeliveriesArgs are those of DueDeliveriesSQL; of TargetsSQL the first four.
func DueDeliveriesArgs(endpoints []affiliate.EndpointKey, sender affiliate.SenderID, now time.Time) []any {
	workspaces, ids := columnsOf(endpoints)
	from, most := make([]time.Time, len(endpoints)), make([]int, len(endpoints))
	for i := range most {
		most[i] = 64
	}
	return []any{workspaces, ids, sender, now, from, most}
}
