// Package webhook stores webhook endpoints and deliveries and reads the queue of due
// deliveries. Package postgres inserts events and their deliveries, in the transaction
// that causes the event.
//
// The package contains SQL, row mapping and locking. Its callers decide the next state of
// a delivery, the time of the next attempt and whether an endpoint is disabled. The
// statements for API calls have conditions on workspace and mode, unless the endpoint was
// already found in its mode. The statements of the sender and of periodic jobs have no
// such conditions, because they serve the endpoints of all workspaces.
package webhook

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// oneRow reads the result of a query that returns at most one row. Errors:
// WEBHOOK_NOT_FOUND if there is no row.
func oneRow[T any](rows pgx.Rows, err error) (T, error) {
	row, err := postgres.OneRow[T](rows, err)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		err = affiliate.Refuse(affiliate.ReasonWebhookNotFound)
	}
	return row, err
}

// dayOf returns the day in the id of an event or a delivery. The day determines the
// partition of the row. For an id that contains no time, dayOf returns a day that no
// row has.
func dayOf[T any](id affiliate.ID[T]) time.Time {
	at, _ := id.Time()
	return at.Truncate(24 * time.Hour)
}

// keyColumns returns the workspace ids and the endpoint ids of keys, as two arrays for
// unnest.
func keyColumns(keys []webhook.EndpointKey) ([]affiliate.WorkspaceID, []affiliate.EndpointID) {
	workspaces, ids := make([]affiliate.WorkspaceID, len(keys)), make([]affiliate.EndpointID, len(keys))
	for i, key := range keys {
		workspaces[i], ids[i] = key.Workspace, key.ID
	}
	return workspaces, ids
}
