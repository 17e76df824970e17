package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// keptAttempts is the maximum number of attempts that are stored with a delivery. If a
// delivery already has this number, a new attempt replaces the oldest attempt.
const keptAttempts = 50

// applyOutcomes stores the outcomes of attempts. It updates a delivery only if its
// stored state is still the state from which the change was computed. The columns tier and
// extra are the fields ScheduledAttempts and RequestedAttempts of webhook.State.
const applyOutcomes = `
	update webhook_deliveries w set
		status = d.status, due_at = d.due_at, tier = d.tier, extra = d.extra, attempt_count = w.attempt_count + 1,
		http_status_code = d.http_status_code, error_message = d.error_message,
		attempts = case when w.attempt_count >= @kept then w.attempts - 0 else w.attempts end || d.attempt,
		completed_at = case when d.due_at is null or d.status not in ('pending', 'failed') then coalesce(d.completed_at, w.completed_at) end
	from unnest(
			@workspaces::uuid[], @endpoints::uuid[], @ids::uuid[], @days::date[],
			@attempts::int[], @statuses_before::text[], @tiers_before::int[], @extras_before::int[],
			@statuses::text[], @tiers::int[], @extras::int[], @due_at::timestamptz[], @completed_at::timestamptz[],
			@status_codes::int[], @error_codes::text[], @records::jsonb[])
		as d (workspace_id, endpoint_id, id, day, attempt_count, status_before, tier_before, extra_before,
			status, tier, extra, due_at, completed_at, http_status_code, error_message, attempt)
	where w.workspace_id = d.workspace_id and w.endpoint_id = d.endpoint_id and w.id = d.id and w.day = d.day
		and w.attempt_count = d.attempt_count and w.status = d.status_before and w.tier = d.tier_before and w.extra = d.extra_before
	returning w.id`

// ApplyOutcomes stores the changes of deliveries after their attempts. It skips a
// delivery if the stored state is no longer the state before the change. It returns the
// ids of the deliveries that it has updated.
func ApplyOutcomes(ctx context.Context, tx *postgres.Tx, changes []webhook.DeliveryChange) ([]affiliate.DeliveryID, error) {
	args, err := outcomeArgs(changes)
	if err != nil {
		return nil, err
	}
	rows, _ := tx.Query(ctx, applyOutcomes, args)
	applied, err := pgx.CollectRows(rows, pgx.RowTo[affiliate.DeliveryID])
	if err != nil {
		return nil, fmt.Errorf("outcomes of deliveries: %w", err)
	}
	return applied, nil
}

// column returns the values of one column of rows, as an array for unnest.
func column[From, To any](rows []From, value func(From) To) []To {
	values := make([]To, len(rows))
	for i, row := range rows {
		values[i] = value(row)
	}
	return values
}

func outcomeArgs(changes []webhook.DeliveryChange) (pgx.NamedArgs, error) {
	type change = webhook.DeliveryChange
	records := make([]webhook.Attempt, len(changes))
	encoded := make([][]byte, len(changes))
	for i, c := range changes {
		var err error
		records[i] = c.Result.Record()
		if encoded[i], err = json.Marshal(records[i]); err != nil {
			return nil, err
		}
	}
	return pgx.NamedArgs{
		"workspaces":      column(changes, func(c change) affiliate.WorkspaceID { return c.Result.Key.Workspace }),
		"endpoints":       column(changes, func(c change) affiliate.EndpointID { return c.Result.Key.ID }),
		"ids":             column(changes, func(c change) affiliate.DeliveryID { return c.Result.Delivery.ID }),
		"days":            column(changes, func(c change) time.Time { return dayOf(c.Result.Delivery.ID) }),
		"attempts":        column(changes, func(c change) int { return c.Result.Delivery.Attempts }),
		"statuses_before": column(changes, func(c change) webhook.DeliveryStatus { return c.Before.Status }),
		"tiers_before":    column(changes, func(c change) int { return c.Before.ScheduledAttempts }),
		"extras_before":   column(changes, func(c change) int { return c.Before.RequestedAttempts }),
		"statuses":        column(changes, func(c change) webhook.DeliveryStatus { return c.After.Status }),
		"tiers":           column(changes, func(c change) int { return c.After.ScheduledAttempts }),
		"extras":          column(changes, func(c change) int { return c.After.RequestedAttempts }),
		"due_at":          column(changes, func(c change) *time.Time { return c.DueAt }),
		"completed_at":    column(changes, func(c change) *time.Time { return c.CompletedAt }),
		"status_codes":    column(records, func(a webhook.Attempt) *int { return a.HTTPStatusCode }),
		"error_codes":     column(records, func(a webhook.Attempt) *string { return a.ErrorMessage }),
		"records":         encoded,
		"kept":            keptAttempts,
	}, nil
}

var (
	lockDeliveryOfKey = `
		select ` + lockedColumns + `
		from webhook_deliveries d
		where d.workspace_id = $1 and d.endpoint_id = $2 and d.id = $3 and d.day = $4
		for no key update`
	lockEndpoints = `
		select ` + endpointColumns + `
		from unnest($1::uuid[], $2::uuid[]) as w (workspace_id, id)
		join webhook_endpoints e on e.workspace_id = w.workspace_id and e.id = w.id
		order by e.workspace_id, e.id
		for no key update of e`
)

// LockDeliveryOf locks a delivery of the given endpoint and returns it. The endpoint
// may belong to any workspace. Errors: WEBHOOK_NOT_FOUND.
func LockDeliveryOf(ctx context.Context, tx *postgres.Tx, key webhook.EndpointKey, id affiliate.DeliveryID) (webhook.LockedDelivery, error) {
	return oneRow[webhook.LockedDelivery](tx.Query(ctx, lockDeliveryOfKey, key.Workspace, key.ID, id, dayOf(id)))
}

// LockEndpoints locks endpoints of any workspaces and returns them. Deleted endpoints
// are included.
func LockEndpoints(ctx context.Context, tx *postgres.Tx, keys []webhook.EndpointKey) ([]webhook.Endpoint, error) {
	workspaces, ids := keyColumns(keys)
	rows, _ := tx.Query(ctx, lockEndpoints, workspaces, ids)
	endpoints, err := pgx.CollectRows(rows, pgx.RowToStructByName[webhook.Endpoint])
	if err != nil {
		return nil, fmt.Errorf("lock endpoints: %w", err)
	}
	return endpoints, nil
}

// UpdateEndpoints stores the changed fields of locked endpoints.
func UpdateEndpoints(ctx context.Context, tx *postgres.Tx, endpoints []webhook.Endpoint) error {
	batch := &pgx.Batch{}
	updateEndpoint.Queue(batch, endpoints...)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("update endpoints: %w", err)
	}
	return nil
}
