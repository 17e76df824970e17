package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// An endpoint has one sender at a time, which holds a lease on its row. So a delivery
// is read without a claim, and costs one update: that of its outcome. What is due is
// read off the head of the index webhook_deliveries_due, so a delivery costs the same
// however many wait behind it, and those of an epoch that has ended cost nothing.

// serve waits for nobody: an endpoint that somebody changes at this moment is served
// the next time.
const serve = `
	with wanted as (
		select e.workspace_id, e.id
		from unnest($1::uuid[], $2::uuid[]) as w (workspace_id, id)
		join webhook_endpoints e on e.workspace_id = w.workspace_id and e.id = w.id
		where e.active and e.deleted_at is null and (e.sender is null or e.sender = $3 or e.sender_until <= $4)
		for no key update of e skip locked
	)
	update webhook_endpoints e set sender = $3, sender_until = $5
	from wanted w
	where e.workspace_id = w.workspace_id and e.id = w.id
	returning e.workspace_id as workspace, e.id`

// Claim makes a process the sender of endpoints, or keeps it so, until an instant.
// It returns those that it serves: neither those that another process serves, nor
// those that are off or deleted.
func (s *Store) Claim(
	ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey, now, until time.Time,
) ([]affiliate.EndpointKey, error) {
	workspaces, ids := columnsOf(endpoints)
	rows, _ := s.sending.Query(ctx, serve, workspaces, ids, sender, now, until)
	return pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.EndpointKey])
}

// Release gives endpoints back.
func (s *Store) Release(ctx context.Context, sender affiliate.SenderID, endpoints []affiliate.EndpointKey) error {
	const update = `
		update webhook_endpoints e set sender = null, sender_until = null
		from unnest($1::uuid[], $2::uuid[]) as w (workspace_id, id)
		where e.workspace_id = w.workspace_id and e.id = w.id and e.sender = $3`
	workspaces, ids := columnsOf(endpoints)
	_, err := s.sending.Exec(ctx, update, workspaces, ids, sender)
	return err
}

// neglected looks once into the queue of each endpoint that nobody serves.
const neglected = `
	select e.workspace_id as workspace, e.id
	from webhook_endpoints e
	where e.active and e.deleted_at is null and (e.sender is null or e.sender_until <= $1)
		and exists (
			select from webhook_deliveries d
			where d.workspace_id = e.workspace_id and d.endpoint_id = e.id and d.epoch = e.epoch and d.due_at <= $1)
	limit $2`

// Unclaimed finds endpoints, up to limit, that have something due and no sender.
func (s *Store) Unclaimed(ctx context.Context, now time.Time, limit int) ([]affiliate.EndpointKey, error) {
	rows, _ := s.sending.Query(ctx, neglected, now, limit)
	return pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.EndpointKey])
}

const (
	targets = `
		select e.workspace_id, e.id, e.url, e.secret, e.previous_secret, e.previous_until, e.consecutive_failures, e.last_delivery_at,
			(select d.due_at from webhook_deliveries d
			 where d.workspace_id = e.workspace_id and d.endpoint_id = e.id and d.epoch = e.epoch and d.due_at > $4
			 order by d.due_at limit 1) as next_due
		from unnest($1::uuid[], $2::uuid[]) as w (workspace_id, id)
		join webhook_endpoints e on e.workspace_id = w.workspace_id and e.id = w.id
		where e.active and e.deleted_at is null and e.sender = $3 and e.sender_until > $4`
	dueDeliveries = `
		select d.endpoint_id, d.id, d.event_id, v.body, d.status, d.tier, d.extra, d.attempt_count, d.due_at
		from unnest($1::uuid[], $2::uuid[], $5::timestamptz[], $6::int[]) as w (workspace_id, id, due_from, most)
		join webhook_endpoints e on e.workspace_id = w.workspace_id and e.id = w.id
		cross join lateral (
			select * from webhook_deliveries d
			where d.workspace_id = e.workspace_id and d.endpoint_id = e.id and d.epoch = e.epoch
				and d.due_at >= w.due_from and d.due_at <= $4
			order by d.due_at
			limit w.most
		) as d
		join events v on v.workspace_id = d.workspace_id and v.id = d.event_id and v.day = d.day
		where e.active and e.deleted_at is null and e.sender = $3 and e.sender_until > $4`
)

// Due reads deliveries that are due, the longest due first, and the endpoints that
// they are of: of those that are wanted, the ones that are on and served by the
// sender.
func (s *Store) Due(
	ctx context.Context, sender affiliate.SenderID, wanted []webhook.Read, now time.Time,
) (found []webhook.Target, due []webhook.DueDelivery, err error) {
	keys := make([]affiliate.EndpointKey, len(wanted))
	from, most := make([]time.Time, len(wanted)), make([]int, len(wanted))
	for i, w := range wanted {
		keys[i], from[i], most[i] = w.Key, w.From, w.Limit
	}
	workspaces, ids := columnsOf(keys)
	batch := &pgx.Batch{}
	batch.Queue(targets, workspaces, ids, sender, now).Query(func(rows pgx.Rows) error {
		found, err = pgx.CollectRows(rows, scanTarget)
		return err
	})
	batch.Queue(dueDeliveries, workspaces, ids, sender, now, from, most).Query(func(rows pgx.Rows) error {
		due, err = pgx.CollectRows(rows, scanDue)
		return err
	})
	if err := s.sending.SendBatch(ctx, batch).Close(); err != nil {
		return nil, nil, fmt.Errorf("due deliveries: %w", err)
	}
	return found, due, nil
}

func scanTarget(row pgx.CollectableRow) (t webhook.Target, err error) {
	err = row.Scan(&t.Key.Workspace, &t.Key.ID, &t.URL, &t.Secret, &t.Previous, &t.PreviousUntil,
		&t.ConsecutiveFailures, &t.LastDeliveryAt, &t.NextDue)
	return t, err
}

func scanDue(row pgx.CollectableRow) (d webhook.DueDelivery, err error) {
	err = row.Scan(&d.Endpoint, &d.ID, &d.Event, &d.Body, &d.State.Status, &d.State.Tier, &d.State.Extra, &d.Attempts, &d.DueAt)
	return d, err
}

func columnsOf(endpoints []affiliate.EndpointKey) ([]affiliate.WorkspaceID, []affiliate.EndpointID) {
	workspaces, ids := make([]affiliate.WorkspaceID, len(endpoints)), make([]affiliate.EndpointID, len(endpoints))
	for i, e := range endpoints {
		workspaces[i], ids[i] = e.Workspace, e.ID
	}
	return workspaces, ids
}

// keptAttempts bounds the attempts that a delivery tells of.
const keptAttempts = 50

const (
	// finish changes what is still as its attempt has found it.
	finish = `
		update webhook_deliveries w set
			status = d.status, due_at = d.due_at, tier = d.tier, extra = d.extra, attempt_count = w.attempt_count + 1,
			http_status_code = d.http_status_code, error_message = d.error_message,
			attempts = case when w.attempt_count >= $16 then w.attempts - 0 else w.attempts end || d.attempt,
			completed_at = case when d.due_at is null or d.status not in ('pending', 'failed') then coalesce(d.completed_at, w.completed_at) end
		from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::date[], $5::int[], $6::text[], $7::int[], $8::int[],
				$9::text[], $10::int[], $11::int[], $12::timestamptz[], $13::timestamptz[], $14::int[], $15::text[], $17::jsonb[])
			as d (workspace_id, endpoint_id, id, day, attempt_count, was, was_tier, was_extra,
				status, tier, extra, due_at, completed_at, http_status_code, error_message, attempt)
		where w.workspace_id = d.workspace_id and w.endpoint_id = d.endpoint_id and w.id = d.id and w.day = d.day
			and w.attempt_count = d.attempt_count and w.status = d.was and w.tier = d.was_tier and w.extra = d.was_extra
		returning w.id, w.status`
	// standing is for those that somebody has changed while they were attempted.
	standing = `
		select d.status, d.tier, d.extra, d.attempt_count
		from webhook_deliveries d
		where d.workspace_id = $1 and d.endpoint_id = $2 and d.id = $3 and d.day = $4
		for no key update`
	// health counts from the last success on. It turns off who answered 410, and who has
	// failed for too long with too much given up.
	health = `
		with seen as (
			select e.workspace_id, e.id, h.succeeded, h.failures, h.first_failure, h.dead_letters, h.ended,
				case
					when not e.active then null
					when h.gone then $9
					when not h.succeeded and coalesce(e.failing_since, h.first_failure) <= h.ended - $10::interval and e.dead_letters + h.dead_letters >= $11 then $12
				end as off
			from unnest($1::uuid[], $2::uuid[], $3::bool[], $4::int[], $5::timestamptz[], $6::int[], $7::bool[], $8::timestamptz[])
				as h (workspace_id, id, succeeded, failures, first_failure, dead_letters, gone, ended)
			join webhook_endpoints e on e.workspace_id = h.workspace_id and e.id = h.id
			order by e.workspace_id, e.id
			for no key update of e
		)
		update webhook_endpoints e set
			consecutive_failures = case when s.succeeded then 0 else e.consecutive_failures end + s.failures,
			failing_since = case when s.failures = 0 then null when s.succeeded then s.first_failure else coalesce(e.failing_since, s.first_failure) end,
			dead_letters = case when s.succeeded then 0 else e.dead_letters end + s.dead_letters,
			last_delivery_at = s.ended,
			active = e.active and s.off is null,
			disabled_reason = coalesce(s.off, e.disabled_reason),
			epoch = e.epoch + (s.off is not null)::int,
			updated_at = case when s.off is null then e.updated_at else s.ended end,
			version = e.version + (s.off is not null)::int
		from seen s
		where e.workspace_id = s.workspace_id and e.id = s.id
		returning e.workspace_id, e.id, e.mode, s.off`
)

// Record stores what came of attempts, in the order in which they ended, and tells
// which endpoints were turned off by it. An attempt that was stored before changes
// nothing. Who is turned off gets a job that cancels what waits, and a line in the
// audit log.
func (s *Store) Record(ctx context.Context, done []webhook.AttemptResult) (off []webhook.DisabledEndpoint, err error) {
	err = s.inTx(ctx, s.sending, func(tx *Tx) error {
		off = nil
		stored, err := finishAttempts(ctx, tx, done)
		if err != nil || len(stored) == 0 {
			return err
		}
		endpoints, err := countHealth(ctx, tx, stored)
		if err != nil {
			return err
		}
		for _, e := range endpoints {
			if e.off == nil {
				continue
			}
			off = append(off, webhook.DisabledEndpoint{Key: e.key, Reason: *e.off})
			if err := s.tellTurnedOff(ctx, tx, e, done[len(done)-1].Ended); err != nil {
				return err
			}
		}
		return nil
	})
	return off, err
}

// finished is an attempt that was stored.
type finished struct {
	webhook.AttemptResult
	givenUp bool // by it
}

// finishAttempts stores attempts and returns those that were not stored before.
func finishAttempts(ctx context.Context, tx *Tx, done []webhook.AttemptResult) ([]finished, error) {
	was := make([]webhook.State, len(done))
	for i, a := range done {
		was[i] = a.Due.State
	}
	args, err := finishRows(done, was)
	if err != nil {
		return nil, err
	}
	unchanged := make(map[affiliate.DeliveryID]affiliate.DeliveryStatus, len(done))
	rows, _ := tx.Query(ctx, finish, args...)
	var id affiliate.DeliveryID
	var status affiliate.DeliveryStatus
	if _, err := pgx.ForEachRow(rows, []any{&id, &status}, func() error { unchanged[id] = status; return nil }); err != nil {
		return nil, fmt.Errorf("outcomes of deliveries: %w", err)
	}
	stored := make([]finished, 0, len(done))
	for i, a := range done {
		before := was[i].Status
		status, ok := unchanged[a.Due.ID]
		if !ok {
			if before, status, ok, err = finishChanged(ctx, tx, a); err != nil {
				return nil, err
			}
		}
		if ok {
			stored = append(stored, finished{a, status == affiliate.DeliveryDeadLettered && before != status})
		}
	}
	return stored, nil
}

// judged is an endpoint in which attempts were counted.
type judged struct {
	key  affiliate.EndpointKey
	mode affiliate.Mode
	off  *affiliate.DisabledReason // why they turned it off
}

// countHealth counts attempts in their endpoints.
func countHealth(ctx context.Context, tx *Tx, stored []finished) ([]judged, error) {
	rows, _ := tx.Query(ctx, health, healthRows(stored)...)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c judged, err error) {
		err = row.Scan(&c.key.Workspace, &c.key.ID, &c.mode, &c.off)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("health of endpoints: %w", err)
	}
	return all, nil
}

// finishRows are the rows of finish for attempts of deliveries that stand as was
// says.
func finishRows(done []webhook.AttemptResult, was []webhook.State) ([]any, error) {
	n := len(done)
	var (
		workspaces, endpoints   = make([]affiliate.WorkspaceID, n), make([]affiliate.EndpointID, n)
		ids, days               = make([]affiliate.DeliveryID, n), make([]time.Time, n)
		attempts                = make([]int, n)
		before, statuses        = make([]affiliate.DeliveryStatus, n), make([]affiliate.DeliveryStatus, n)
		beforeTier, beforeExtra = make([]int, n), make([]int, n)
		tiers, extras           = make([]int, n), make([]int, n)
		due, completed          = make([]*time.Time, n), make([]*time.Time, n)
		codes, words, attempted = make([]*int, n), make([]*string, n), make([][]byte, n)
	)
	for i, a := range done {
		stands := was[i]
		if a.Due.State.Extra == 0 {
			stands.Extra++ // the attempt is none that was asked for: those are still to come
		}
		next, dueAt := stands.Next(a.Outcome, a.Ended, a.Random)
		record := a.Record()
		encoded, err := json.Marshal(record)
		if err != nil {
			return nil, err
		}
		workspaces[i], endpoints[i], ids[i], days[i] = a.Key.Workspace, a.Key.ID, a.Due.ID, dayOf(a.Due.ID)
		attempts[i], before[i], beforeTier[i], beforeExtra[i] = a.Due.Attempts, was[i].Status, was[i].Tier, was[i].Extra
		statuses[i], tiers[i], extras[i], due[i] = next.Status, next.Tier, next.Extra, dueAt
		codes[i], words[i], attempted[i] = record.HTTPStatusCode, record.ErrorMessage, encoded
		if next.Status != was[i].Status {
			completed[i] = &done[i].Ended
		}
	}
	return []any{
		workspaces, endpoints, ids, days, attempts, before, beforeTier, beforeExtra,
		statuses, tiers, extras, due, completed, codes, words, keptAttempts, attempted,
	}, nil
}

// finishChanged stores what came of the attempt of a delivery that was changed
// while it was made: by somebody who wants it again, or whose endpoint was turned
// off. It returns its state before and behind that. One that has counted this attempt
// is left alone, as is one that is not there any more: false.
func finishChanged(ctx context.Context, tx *Tx, a webhook.AttemptResult) (before, status affiliate.DeliveryStatus, ok bool, err error) {
	var stands webhook.State
	var attempts int
	err = tx.QueryRow(ctx, standing, a.Key.Workspace, a.Key.ID, a.Due.ID, dayOf(a.Due.ID)).
		Scan(&stands.Status, &stands.Tier, &stands.Extra, &attempts)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && attempts != a.Due.Attempts {
		return "", "", false, nil
	}
	if err != nil {
		return "", "", false, fmt.Errorf("changed delivery: %w", err)
	}
	args, err := finishRows([]webhook.AttemptResult{a}, []webhook.State{stands})
	if err != nil {
		return "", "", false, err
	}
	var id affiliate.DeliveryID
	err = tx.QueryRow(ctx, finish, args...).Scan(&id, &status)
	return stands.Status, status, err == nil, err
}

// healthRows sums attempts up by their endpoints.
func healthRows(stored []finished) []any {
	type sum struct {
		succeeded, gone     bool
		failures, dead      int
		firstFailure, ended time.Time
	}
	sums := map[affiliate.EndpointKey]*sum{}
	var keys []affiliate.EndpointKey
	for _, a := range stored {
		s := sums[a.Key]
		if s == nil {
			s = &sum{}
			sums[a.Key] = s
			keys = append(keys, a.Key)
		}
		s.ended = a.Ended
		if a.Outcome.Succeeded() {
			s.succeeded, s.failures, s.dead = true, 0, 0
			continue
		}
		if s.failures == 0 {
			s.firstFailure = a.Ended
		}
		s.failures++
		s.gone = s.gone || a.Outcome.Gone()
		if a.givenUp {
			s.dead++
		}
	}
	n := len(keys)
	var (
		succeeded, gone     = make([]bool, n), make([]bool, n)
		failures, dead      = make([]int, n), make([]int, n)
		firstFailure, ended = make([]*time.Time, n), make([]time.Time, n)
	)
	for i, key := range keys {
		s := sums[key]
		succeeded[i], gone[i], failures[i], dead[i], ended[i] = s.succeeded, s.gone, s.failures, s.dead, s.ended
		if s.failures > 0 {
			firstFailure[i] = &s.firstFailure
		}
	}
	workspaces, ids := columnsOf(keys)
	return []any{
		workspaces, ids, succeeded, failures, firstFailure, dead, gone, ended,
		affiliate.DisabledGone, webhook.DisableAfter, webhook.DisableDeadLetters, affiliate.DisabledFailing,
	}
}

func (s *Store) tellTurnedOff(ctx context.Context, tx *Tx, e judged, at time.Time) error {
	if err := tx.Enqueue(ctx, affiliate.CancelDeliveries{Workspace: e.key.Workspace, Mode: e.mode, Endpoint: e.key.ID}); err != nil {
		return err
	}
	after := struct {
		Active bool                      `json:"active"`
		Reason *affiliate.DisabledReason `json:"disabled_reason"`
	}{false, e.off}
	scope := affiliate.Scope{Workspace: e.key.Workspace, Mode: e.mode}
	return tx.Audit(ctx, endpointAudit(scope, e.key.ID, "webhook.disable", at, affiliate.System, nil, after))
}

// dayOf is the day in a delivery's id, which tells its partition.
func dayOf(id affiliate.DeliveryID) time.Time {
	at, _ := id.Time()
	return at.Truncate(24 * time.Hour)
}
