package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// Recovering and canceling go through an endpoint's deliveries in blocks, each a
// transaction that any other run may repeat: what a block has done is not found
// again. Both read the endpoint without a lock: what they write for an epoch that
// ends meanwhile is not sent.

// recoverable are the deliveries that a job is about. Their state is the one that is
// shown (deliveryRow.delivery), and they have it since before the job was asked for:
// what waits was due by then or had its last attempt before, the rest had ended. One
// that the job has started over is later than that, whatever becomes of it. The
// states among which they are looked for let the index by status be used.
const recoverable = `
	d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint
	and d.id >= @first and d.id < @until and d.day >= @first_day and d.day <= @until_day
	and d.status = any(@stored)
	and case when d.epoch < @epoch and d.status in ('pending', 'failed') then 'canceled' else d.status end = any(@shown)
	and case d.status
		when 'pending' then d.due_at
		when 'failed' then (d.attempts -> -1 ->> 'startedAt')::timestamptz
		else d.completed_at
	end <= @asked`

// blockPlan makes a block be written by key. What rows are expected in it differs
// much from what there are, and any other join goes through all of the endpoint's.
const blockPlan = `set local enable_hashjoin = off; set local enable_mergejoin = off`

const (
	countRecoverable = `select count(*) from webhook_deliveries d where ` + recoverable
	// recoverSome begins new schedules.
	recoverSome = `
		with block as (
			select d.id, d.day
			from webhook_deliveries d
			where ` + recoverable + `
			limit @limit
			for no key update of d skip locked
		)
		update webhook_deliveries d
		set status = 'pending', tier = 0, extra = 0, due_at = @at, completed_at = null, epoch = @epoch
		from block
		where d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint and d.id = block.id and d.day = block.day
			and d.day >= @first_day and d.day <= @until_day`
)

func recoverableArgs(job affiliate.RecoverDeliveries, epoch int) pgx.NamedArgs {
	first, until := firstDelivery(job.Since), firstDelivery(job.Until)
	stored := job.Statuses
	if slices.Contains(stored, affiliate.DeliveryCanceled) {
		stored = slices.Concat(stored, []affiliate.DeliveryStatus{affiliate.DeliveryPending, affiliate.DeliveryFailed})
	}
	args := endpointArgs(affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}, job.Endpoint)
	args["first"], args["first_day"], args["until"], args["until_day"] = first, dayOf(first), until, dayOf(until)
	args["stored"], args["shown"], args["asked"], args["epoch"] = texts(stored), texts(job.Statuses), job.AskedAt, epoch
	return args
}

func texts(statuses []affiliate.DeliveryStatus) []string {
	texts := make([]string, len(statuses))
	for i, status := range statuses {
		texts[i] = string(status)
	}
	return texts
}

// RecoverDeliveries counts the deliveries that the job is about, and inserts it.
// Errors: WEBHOOK_NOT_FOUND, WEBHOOK_DISABLED.
func (s *Store) RecoverDeliveries(ctx context.Context, job affiliate.RecoverDeliveries, by affiliate.Actor) (queued int64, err error) {
	scope := affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}
	err = s.InTx(ctx, func(tx *Tx) error {
		of, err := activeEndpoint(ctx, tx, scope, job.Endpoint)
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, countRecoverable, planned, recoverableArgs(job, of.Epoch)).Scan(&queued); err != nil {
			return fmt.Errorf("count deliveries to recover: %w", err)
		}
		if err := tx.Enqueue(ctx, job); err != nil {
			return err
		}
		is := map[string]any{
			"since": affiliate.FormatTime(job.Since), "until": affiliate.FormatTime(job.Until), "statuses": job.Statuses, "queued": queued,
		}
		return tx.Audit(ctx, endpointAudit(scope, job.Endpoint, "webhook.recover", job.AskedAt, by, nil, is))
	})
	return queued, err
}

// RecoverSome starts up to limit of a job's deliveries over, and tells how many
// those were; fewer than limit: none is left. Of an endpoint that has been turned
// off since, or deleted, there is none.
func (s *Store) RecoverSome(ctx context.Context, job affiliate.RecoverDeliveries, now time.Time, limit int) (int, error) {
	var recovered int64
	err := s.InTx(ctx, func(tx *Tx) error {
		recovered = 0
		of, err := activeEndpoint(ctx, tx, affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}, job.Endpoint)
		var refusal *affiliate.Error
		if errors.As(err, &refusal) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, blockPlan); err != nil {
			return err
		}
		args := recoverableArgs(job, of.Epoch)
		args["at"], args["limit"] = now, limit
		tag, err := tx.Exec(ctx, recoverSome, planned, args)
		if err != nil {
			return fmt.Errorf("recover deliveries: %w", err)
		}
		if recovered = tag.RowsAffected(); recovered > 0 {
			tx.DeliveriesAdded(affiliate.EndpointKey{Workspace: job.Workspace, ID: job.Endpoint})
		}
		return nil
	})
	return int(recovered), err
}

const (
	// endedEpochs is the epoch before which everything has ended, and when the last one
	// did, deleted endpoints included.
	endedEpochs = `
		select e.epoch, e.updated_at from webhook_endpoints e
		where e.workspace_id = @workspace and e.mode = @mode and e.id = @endpoint`
	// setCanceled lets what had ended before keep its state: it only loses the attempts
	// that were asked for.
	setCanceled = `
		set due_at = null, extra = 0,
			status = case when d.status in ('pending', 'failed') then 'canceled' else d.status end,
			completed_at = case when d.status in ('pending', 'failed') then block.ended else d.completed_at end
		from block`
	cancelSome = `
		with block as (
			select d.id, d.day, @ended::timestamptz as ended
			from webhook_deliveries d
			where d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint
				and d.epoch < @epoch and d.due_at is not null
			limit @limit
			for no key update of d skip locked
		)
		update webhook_deliveries d` + setCanceled + `
		where d.workspace_id = @workspace and d.mode = @mode and d.endpoint_id = @endpoint and d.id = block.id and d.day = block.day`
	// cancelLeft is for what was made, or attempted, while its endpoint was turned off,
	// behind the job: nobody comes to it any more.
	cancelLeft = `
		with block as (
			select d.workspace_id, d.endpoint_id, d.id, d.day, least(e.updated_at, $2) as ended
			from webhook_endpoints e
			cross join lateral (
				select d.workspace_id, d.endpoint_id, d.id, d.day from webhook_deliveries d
				where d.workspace_id = e.workspace_id and d.endpoint_id = e.id and d.epoch < e.epoch and d.due_at is not null
				limit $1
				for no key update skip locked
			) as d
			limit $1
		)
		update webhook_deliveries d` + setCanceled + `
		where d.workspace_id = block.workspace_id and d.endpoint_id = block.endpoint_id and d.id = block.id and d.day = block.day`
)

// CancelSome cancels up to limit of the deliveries that wait in an epoch of the
// endpoint that has ended, and tells how many those were; fewer than limit: none is
// left. They ended when the endpoint was turned off, which is its last change unless
// somebody was quicker than the job; so they had ended for whoever wants them
// recovered before this has come to them.
func (s *Store) CancelSome(ctx context.Context, job affiliate.CancelDeliveries, now time.Time, limit int) (int, error) {
	type ended struct {
		Epoch     int       `db:"epoch"`
		UpdatedAt time.Time `db:"updated_at"`
	}
	var canceled int64
	err := s.InTx(ctx, func(tx *Tx) error {
		args := endpointArgs(affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}, job.Endpoint)
		of, err := oneWebhookRow[ended](tx.Query(ctx, endedEpochs, args))
		if errors.Is(err, affiliate.Refuse(affiliate.ReasonWebhookNotFound)) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, blockPlan); err != nil {
			return err
		}
		args["epoch"], args["limit"], args["ended"] = of.Epoch, limit, of.UpdatedAt
		if now.Before(of.UpdatedAt) {
			args["ended"] = now // another process's clock is ahead
		}
		tag, err := tx.Exec(ctx, cancelSome, planned, args)
		canceled = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cancel deliveries: %w", err)
	}
	return int(canceled), nil
}

// CancelLeft cancels up to limit deliveries that wait in epochs of their endpoints
// which have ended, and that no job has met. It looks once into the queue of each
// endpoint.
func (s *Store) CancelLeft(ctx context.Context, now time.Time, limit int) (canceled int64, err error) {
	err = s.InTx(ctx, func(tx *Tx) error {
		if _, err := tx.Exec(ctx, blockPlan); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, cancelLeft, limit, now)
		canceled = tag.RowsAffected()
		return err
	})
	return canceled, err
}
