package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Deliveries lie in partitions of a week, by the day in their ids. Every statement
// names the days that it is about, so that the other weeks are not looked at.

const deliveryColumns = `
	d.id, d.endpoint_id, d.event_id, d.event_type, d.epoch, d.status, d.due_at, d.attempt_count, d.http_status_code,
	d.error_message, d.created_at, d.completed_at`

type deliveryRow struct {
	ID             affiliate.DeliveryID     `db:"id"`
	EndpointID     affiliate.EndpointID     `db:"endpoint_id"`
	EventID        affiliate.EventID        `db:"event_id"`
	EventType      affiliate.EventName      `db:"event_type"`
	Epoch          int                      `db:"epoch"`
	Status         affiliate.DeliveryStatus `db:"status"`
	DueAt          *time.Time               `db:"due_at"`
	AttemptCount   int                      `db:"attempt_count"`
	HTTPStatusCode *int                     `db:"http_status_code"`
	ErrorMessage   *string                  `db:"error_message"`
	CreatedAt      time.Time                `db:"created_at"`
	CompletedAt    *time.Time               `db:"completed_at"`
}

// delivery is the delivery as it stands with an endpoint of this epoch. Nothing of
// an epoch before is sent any more: what waits in the table is canceled already,
// though the job that writes it down may not have come to it.
func (r deliveryRow) delivery(epoch int) affiliate.Delivery {
	d := affiliate.Delivery{
		ID: r.ID, Endpoint: r.EndpointID, Event: r.EventID, Type: r.EventType, Status: r.Status,
		AttemptCount: r.AttemptCount, HTTPStatusCode: r.HTTPStatusCode, ErrorMessage: r.ErrorMessage,
		NextAttemptAt: UTC(r.DueAt), CreatedAt: r.CreatedAt.UTC(), CompletedAt: UTC(r.CompletedAt),
	}
	if r.Epoch < epoch {
		d.NextAttemptAt = nil
		if d.Status == affiliate.DeliveryPending || d.Status == affiliate.DeliveryFailed {
			d.Status = affiliate.DeliveryCanceled
		}
	}
	return d
}

// detailRow is a delivery with its attempts.
type detailRow struct {
	deliveryRow
	Attempts []affiliate.Attempt `db:"attempts"`
}

func (r detailRow) detail(epoch int) affiliate.Delivery {
	d := r.delivery(epoch)
	d.Attempts = r.Attempts
	for i := range d.Attempts {
		d.Attempts[i].StartedAt = d.Attempts[i].StartedAt.UTC()
	}
	return d
}

// firstDelivery is the lowest id that a delivery of an event of that millisecond, or
// of a later one, can have.
func firstDelivery(at time.Time) (id affiliate.DeliveryID) {
	// The time, the version and the variant of a UUIDv7; what is random is zero.
	binary.BigEndian.PutUint64(id.UUID[:8], uint64(max(0, at.UnixMilli()))<<16|0x7000) //nolint:gosec // not negative
	id.UUID[8] = 0x80
	return id
}

// deliveryConditions are those of a list. A status is compared as it is stored: what
// has been canceled a moment ago is still found as what it was before, and shown as
// canceled. False: there can be none.
func deliveryConditions(
	scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time, filter affiliate.DeliveryFilter,
) (conditions, bool) {
	first := firstDelivery(since)
	var where conditions
	where.add("d.workspace_id = ?", scope.Workspace)
	where.add("d.mode = ?", scope.Mode)
	where.add("d.endpoint_id = ?", endpoint)
	where.add("d.id >= ?", first)
	where.add("d.day >= ?", dayOf(first))
	if filter.Status != nil {
		where.add("d.status = ?", *filter.Status)
	}
	if filter.Event != nil {
		day, ok := filter.Event.Time()
		if !ok {
			return where, false
		}
		where.add("d.id = delivery_id(?, ?)", *filter.Event, endpoint)
		where.add("d.day = ?", day.Truncate(24*time.Hour))
	}
	return where, true
}

// deliveryListSQL are the statements for a page, whose last two arguments are its
// size and offset, and for the total.
func deliveryListSQL(where conditions) (page, count string) {
	page = `
		select ` + deliveryColumns + `
		from webhook_deliveries d
		where ` + where.sql() + `
		order by d.id desc
		limit ` + where.placeholder(1) + ` offset ` + where.placeholder(2)
	count = fmt.Sprintf(`select count(*) from (select from webhook_deliveries d where %s limit %d) d`, where.sql(), affiliate.MaxSearchTotal)
	return page, count
}

// ListDeliveries reads one page of an endpoint's deliveries of events since an
// instant, newest first, and counts all pages up to affiliate.MaxSearchTotal
// deliveries. Errors: WEBHOOK_NOT_FOUND.
func (s *Store) ListDeliveries(
	ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, since time.Time,
	filter affiliate.DeliveryFilter, page affiliate.Page,
) ([]affiliate.Delivery, int64, error) {
	of, err := endpointOf(ctx, s.pool, scope, endpoint)
	if err != nil {
		return nil, 0, err
	}
	where, ok := deliveryConditions(scope, endpoint, since, filter)
	if !ok {
		return nil, 0, nil
	}
	pageSQL, countSQL := deliveryListSQL(where)
	args := append([]any{planned}, where.args...)
	rows, err := s.pool.Query(ctx, pageSQL, append(args, page.Size, page.Offset())...)
	deliveries, err := AllRows(rows, err, func(r deliveryRow) affiliate.Delivery { return r.delivery(of.Epoch) })
	if err != nil {
		return nil, 0, fmt.Errorf("deliveries: %w", err)
	}
	if n := int64(len(deliveries)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// The list ends on this page.
		return deliveries, min(page.Offset()+n, affiliate.MaxSearchTotal), nil
	}
	var total int64
	if err := s.pool.QueryRow(ctx, countSQL, args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count deliveries: %w", err)
	}
	return deliveries, total, nil
}

// selectDelivery reads one delivery from the one partition that can have it.
const selectDelivery = `
	select ` + deliveryColumns + `, d.attempts
	from webhook_deliveries d
	where d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint and d.id = @id and d.day = @day`

// deliveryArgs is false for an id that no delivery since that instant has.
func deliveryArgs(
	scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID, since time.Time,
) (pgx.NamedArgs, bool) {
	at, ok := id.Time()
	args := endpointArgs(scope, endpoint)
	args["id"], args["day"] = id, dayOf(id)
	return args, ok && !at.Before(since.Truncate(time.Millisecond))
}

// Delivery reads one with its attempts, and the URL of its endpoint. Errors:
// WEBHOOK_NOT_FOUND.
func (s *Store) Delivery(
	ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID, since time.Time,
) (affiliate.Delivery, string, error) {
	args, ok := deliveryArgs(scope, endpoint, id, since)
	if !ok {
		return affiliate.Delivery{}, "", affiliate.Refuse(affiliate.ReasonWebhookNotFound)
	}
	of, err := endpointOf(ctx, s.pool, scope, endpoint)
	if err != nil {
		return affiliate.Delivery{}, "", err
	}
	row, err := oneWebhookRow[detailRow](s.pool.Query(ctx, selectDelivery, args))
	if err != nil {
		return affiliate.Delivery{}, "", err
	}
	return row.detail(of.Epoch), of.URL, nil
}

// maxExtra bounds the attempts that people ask for and that are still to be made.
const maxExtra = 100

// retryDelivery asks for one attempt more. What an ended epoch has left waiting is
// canceled: it gets this attempt and no schedule.
const retryDelivery = `
	update webhook_deliveries d
	set due_at = @at, epoch = @epoch,
		extra = case when d.epoch < @epoch then 1 else least(d.extra + 1, @most) end,
		status = case when d.epoch < @epoch and d.status in ('pending', 'failed') then 'canceled' else d.status end,
		completed_at = case when d.epoch < @epoch and d.status in ('pending', 'failed') then @ended else d.completed_at end
	where d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint and d.id = @id and d.day = @day
	returning ` + deliveryColumns + `, d.attempts`

// RetryDelivery asks for one more attempt now, which takes the place of the next of
// a schedule. Errors: WEBHOOK_NOT_FOUND, WEBHOOK_DISABLED.
func (s *Store) RetryDelivery(
	ctx context.Context, scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID, since time.Time,
	by affiliate.Actor, now time.Time,
) (affiliate.Delivery, string, error) {
	args, ok := deliveryArgs(scope, endpoint, id, since)
	if !ok {
		return affiliate.Delivery{}, "", affiliate.Refuse(affiliate.ReasonWebhookNotFound)
	}
	var (
		retried affiliate.Delivery
		url     string
	)
	err := s.InTx(ctx, func(tx *Tx) error {
		// Without a lock: whoever turns the endpoint off meanwhile ends the epoch that is
		// written here.
		of, err := activeEndpoint(ctx, tx, scope, endpoint)
		if err != nil {
			return err
		}
		args["epoch"], args["most"], args["at"], args["ended"] = of.Epoch, maxExtra, now, of.UpdatedAt
		row, err := oneWebhookRow[detailRow](tx.Query(ctx, retryDelivery, args))
		if err != nil {
			return err
		}
		retried, url = row.detail(of.Epoch), of.URL
		tx.DeliveriesAdded(affiliate.EndpointKey{Workspace: scope.Workspace, ID: endpoint})
		is := map[string]any{"delivery_id": id, "event_type": retried.Type}
		return tx.Audit(ctx, endpointAudit(scope, endpoint, "webhook.retry_delivery", now, by, nil, is))
	})
	return retried, url, err
}

// activeEndpoint reads an endpoint that is on. Errors: WEBHOOK_NOT_FOUND,
// WEBHOOK_DISABLED.
func activeEndpoint(ctx context.Context, db Queryer, scope affiliate.Scope, id affiliate.EndpointID) (endpointRow, error) {
	row, err := endpointOf(ctx, db, scope, id)
	if err == nil && !row.Active {
		err = affiliate.Refuse(affiliate.ReasonWebhookDisabled)
	}
	return row, err
}
