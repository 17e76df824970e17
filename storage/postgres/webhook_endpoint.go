package postgres

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const endpointColumns = `
	e.id, e.workspace_id, e.mode, e.url, e.description, e.subscriptions, e.active, e.disabled_reason, e.epoch,
	e.consecutive_failures, e.last_delivery_at, e.created_at, e.updated_at, e.version`

type endpointRow struct {
	ID                  affiliate.EndpointID      `db:"id"`
	WorkspaceID         affiliate.WorkspaceID     `db:"workspace_id"`
	Mode                affiliate.Mode            `db:"mode"`
	URL                 string                    `db:"url"`
	Description         *string                   `db:"description"`
	Subscriptions       []string                  `db:"subscriptions"`
	Active              bool                      `db:"active"`
	DisabledReason      *affiliate.DisabledReason `db:"disabled_reason"`
	Epoch               int                       `db:"epoch"`
	ConsecutiveFailures int                       `db:"consecutive_failures"`
	LastDeliveryAt      *time.Time                `db:"last_delivery_at"`
	CreatedAt           time.Time                 `db:"created_at"`
	UpdatedAt           time.Time                 `db:"updated_at"`
	Version             int                       `db:"version"`
}

func (r endpointRow) endpoint() affiliate.Endpoint {
	return affiliate.Endpoint{
		ID: r.ID, Scope: affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode}, URL: r.URL, Description: r.Description,
		Subscriptions: r.Subscriptions, Active: r.Active, DisabledReason: r.DisabledReason,
		ConsecutiveFailures: r.ConsecutiveFailures, LastDeliveryAt: UTC(r.LastDeliveryAt),
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(), Version: r.Version,
	}
}

const selectEndpoint = `
	select ` + endpointColumns + `
	from webhook_endpoints e
	where e.workspace_id = @workspace and e.mode = @mode and e.id = @endpoint and e.deleted_at is null`

func endpointArgs(scope affiliate.Scope, id affiliate.EndpointID) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "endpoint": id}
}

func endpointOf(ctx context.Context, db Queryer, scope affiliate.Scope, id affiliate.EndpointID) (endpointRow, error) {
	return oneWebhookRow[endpointRow](db.Query(ctx, selectEndpoint, endpointArgs(scope, id)))
}

// oneWebhookRow reads the only row of a query, as OneRow. None is WEBHOOK_NOT_FOUND.
func oneWebhookRow[T any](rows pgx.Rows, err error) (T, error) {
	row, err := OneRow[T](rows, err)
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		err = affiliate.Refuse(affiliate.ReasonWebhookNotFound)
	}
	return row, err
}

// endpointObject is an endpoint as the audit log shows it. Of the URL it has the
// host: in what follows merchants hide tokens.
type endpointObject struct {
	Host           string                    `json:"host"`
	Description    *string                   `json:"description"`
	Subscriptions  []string                  `json:"subscriptions"`
	Active         bool                      `json:"active"`
	DisabledReason *affiliate.DisabledReason `json:"disabled_reason"`
}

func objectOf(e affiliate.Endpoint) endpointObject {
	object := endpointObject{
		Description: e.Description, Subscriptions: e.Subscriptions, Active: e.Active, DisabledReason: e.DisabledReason,
	}
	if u, err := url.Parse(e.URL); err == nil {
		object.Host = u.Host
	}
	return object
}

func endpointAudit(
	scope affiliate.Scope, id affiliate.EndpointID, action string, at time.Time, by affiliate.Actor, before, after any,
) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: scope.Workspace, Mode: &scope.Mode, Actor: by, At: at,
		Action: action, ResourceType: "webhook", ResourceID: id, Before: before, After: after,
	}
}

// reasonWhile is the reason of an endpoint that a person turns off, or leaves on.
func reasonWhile(active bool) *affiliate.DisabledReason {
	if active {
		return nil
	}
	reason := affiliate.DisabledByMerchant
	return &reason
}

// CreateEndpoint stores an endpoint with its sealed secret. The workspace is
// locked, so that parallel creations take turns at counting. Errors:
// WEBHOOK_ENDPOINT_LIMIT_EXCEEDED.
func (s *Store) CreateEndpoint(ctx context.Context, e affiliate.Endpoint, sealed []byte, by affiliate.Actor) error {
	const count = `
		select count(*) from webhook_endpoints where workspace_id = $1 and mode = $2 and deleted_at is null`
	const insert = `
		insert into webhook_endpoints (workspace_id, id, mode, url, description, subscriptions, active, disabled_reason,
			secret, created_at, updated_at, version)
		values (@workspace, @endpoint, @mode, @url, @description, @subscriptions, @active, @disabled_reason,
			@secret, @at, @at, 1)`
	return s.InTx(ctx, func(tx *Tx) error {
		if err := tx.LockWorkspace(ctx, e.Scope.Workspace); err != nil {
			return err
		}
		var has int
		if err := tx.QueryRow(ctx, count, e.Scope.Workspace, e.Scope.Mode).Scan(&has); err != nil {
			return err
		}
		if has >= affiliate.MaxEndpoints {
			return affiliate.Refuse(affiliate.ReasonWebhookLimitExceeded)
		}
		created := e
		created.DisabledReason = reasonWhile(e.Active)
		args := endpointArgs(e.Scope, e.ID)
		args["url"], args["description"], args["subscriptions"] = e.URL, e.Description, e.Subscriptions
		args["active"], args["disabled_reason"] = e.Active, created.DisabledReason
		args["secret"], args["at"] = sealed, e.CreatedAt
		if _, err := tx.Exec(ctx, insert, args); err != nil {
			return err
		}
		return tx.Audit(ctx, endpointAudit(e.Scope, e.ID, "webhook.create", e.CreatedAt, by, nil, objectOf(created)))
	})
}

// ListEndpoints reads one page of a mode's endpoints, newest first, and counts all
// pages.
func (s *Store) ListEndpoints(ctx context.Context, scope affiliate.Scope, page affiliate.Page) ([]affiliate.Endpoint, int64, error) {
	const where = `
		from webhook_endpoints e
		where e.workspace_id = $1 and e.mode = $2 and e.deleted_at is null`
	const count = `select count(*)` + where
	const list = `
		select ` + endpointColumns + where + `
		order by e.created_at desc, e.id desc
		limit $3 offset $4`
	var total int64
	if err := s.pool.QueryRow(ctx, count, scope.Workspace, scope.Mode).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := s.pool.Query(ctx, list, scope.Workspace, scope.Mode, page.Size, page.Offset())
	endpoints, err := AllRows(rows, err, endpointRow.endpoint)
	return endpoints, total, err
}

// Endpoint reads one endpoint. Errors: WEBHOOK_NOT_FOUND.
func (s *Store) Endpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID) (affiliate.Endpoint, error) {
	row, err := endpointOf(ctx, s.pool, scope, id)
	return row.endpoint(), err
}

// UpdateEndpoint changes what the change names; one that changes nothing leaves no
// trace. Turning it off ends its epoch, so that what waits is not sent from this
// moment on; a job writes that down. Errors: WEBHOOK_NOT_FOUND.
func (s *Store) UpdateEndpoint(
	ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, change affiliate.EndpointChange, by affiliate.Actor, now time.Time,
) (affiliate.Endpoint, error) {
	const update = `
		update webhook_endpoints
		set description = @description, subscriptions = @subscriptions, active = @active, disabled_reason = @disabled_reason,
			epoch = epoch + case when @off then 1 else 0 end,
			consecutive_failures = case when @on then 0 else consecutive_failures end,
			failing_since = case when @on then null else failing_since end,
			dead_letters = case when @on then 0 else dead_letters end,
			version = @version, updated_at = @at
		where workspace_id = @workspace and mode = @mode and id = @endpoint`
	var after affiliate.Endpoint
	err := s.InTx(ctx, func(tx *Tx) error {
		args := endpointArgs(scope, id)
		row, err := oneWebhookRow[endpointRow](tx.Query(ctx, selectEndpoint+` for no key update`, args))
		if err != nil {
			return err
		}
		before := row.endpoint()
		after = changedEndpoint(before, change)
		was, is, err := affiliate.Changed(objectOf(before), objectOf(after))
		if err != nil || was == nil {
			return err
		}
		off, on := before.Active && !after.Active, !before.Active && after.Active
		after.Version, after.UpdatedAt = before.Version+1, now.UTC()
		args["description"], args["subscriptions"] = after.Description, after.Subscriptions
		args["active"], args["disabled_reason"] = after.Active, after.DisabledReason
		args["off"], args["on"], args["version"], args["at"] = off, on, after.Version, now
		if _, err := tx.Exec(ctx, update, args); err != nil {
			return err
		}
		if off {
			job := affiliate.CancelDeliveries{Workspace: scope.Workspace, Mode: scope.Mode, Endpoint: id}
			if err := tx.Enqueue(ctx, job); err != nil {
				return err
			}
		}
		return tx.Audit(ctx, endpointAudit(scope, id, "webhook.update", now, by, was, is))
	})
	return after, err
}

// changedEndpoint is e as a person changes it. One that is off stays so for the
// reason it has; of one that is turned on the failures are forgotten.
func changedEndpoint(e affiliate.Endpoint, change affiliate.EndpointChange) affiliate.Endpoint {
	if change.Subscriptions.Given && change.Subscriptions.Value != nil {
		e.Subscriptions = *change.Subscriptions.Value
	}
	if change.Description.Given {
		e.Description = change.Description.Value
	}
	if change.Active.Given && change.Active.Value != nil && *change.Active.Value != e.Active {
		e.Active = *change.Active.Value
		e.DisabledReason = reasonWhile(e.Active)
		if e.Active {
			e.ConsecutiveFailures = 0
		}
	}
	return e
}

// DeleteEndpoint forgets the secrets at once and ends the epoch, as turning it off
// does. The row stays for its deliveries' sake. Errors: WEBHOOK_NOT_FOUND.
func (s *Store) DeleteEndpoint(ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, by affiliate.Actor, now time.Time) error {
	const remove = `
		update webhook_endpoints
		set deleted_at = @at, updated_at = @at, version = version + 1, active = false, disabled_reason = coalesce(disabled_reason, 'manual'),
			secret = null, previous_secret = null, previous_until = null, epoch = epoch + 1, sender = null, sender_until = null
		where workspace_id = @workspace and mode = @mode and id = @endpoint`
	return s.InTx(ctx, func(tx *Tx) error {
		args := endpointArgs(scope, id)
		row, err := oneWebhookRow[endpointRow](tx.Query(ctx, selectEndpoint+` for no key update`, args))
		if err != nil {
			return err
		}
		args["at"] = now
		if _, err := tx.Exec(ctx, remove, args); err != nil {
			return err
		}
		job := affiliate.CancelDeliveries{Workspace: scope.Workspace, Mode: scope.Mode, Endpoint: id}
		if err := tx.Enqueue(ctx, job); err != nil {
			return err
		}
		return tx.Audit(ctx, endpointAudit(scope, id, "webhook.delete", now, by, objectOf(row.endpoint()), nil))
	})
}

// RotateSecret puts a sealed secret in the place of the one in use, which signs too
// until an instant; nil: it does not. No more than two sign. Errors:
// WEBHOOK_NOT_FOUND.
func (s *Store) RotateSecret(
	ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, sealed []byte, keptUntil *time.Time, by affiliate.Actor, now time.Time,
) (affiliate.Endpoint, error) {
	const rotate = `
		update webhook_endpoints e
		set previous_secret = case when @until::timestamptz is null then null else e.secret end, previous_until = @until,
			secret = @secret, version = e.version + 1, updated_at = @at
		where e.workspace_id = @workspace and e.mode = @mode and e.id = @endpoint and e.deleted_at is null
		returning ` + endpointColumns
	var rotated affiliate.Endpoint
	err := s.InTx(ctx, func(tx *Tx) error {
		args := endpointArgs(scope, id)
		args["until"], args["secret"], args["at"] = keptUntil, sealed, now
		row, err := oneWebhookRow[endpointRow](tx.Query(ctx, rotate, args))
		if err != nil {
			return err
		}
		rotated = row.endpoint()
		is := map[string]any{"previous_until": nil}
		if keptUntil != nil {
			is["previous_until"] = affiliate.FormatTime(*keptUntil)
		}
		return tx.Audit(ctx, endpointAudit(scope, id, "webhook.rotate_secret", now, by, nil, is))
	})
	return rotated, err
}

// endpointSecretsRow is an endpoint with its sealed secrets.
type endpointSecretsRow struct {
	endpointRow
	Secret         []byte     `db:"secret"`
	PreviousSecret []byte     `db:"previous_secret"`
	PreviousUntil  *time.Time `db:"previous_until"`
}

// EndpointSecrets reads an endpoint with the sealed secrets that sign now, the
// newest first. Errors: WEBHOOK_NOT_FOUND.
func (s *Store) EndpointSecrets(
	ctx context.Context, scope affiliate.Scope, id affiliate.EndpointID, now time.Time,
) (affiliate.Endpoint, [][]byte, error) {
	const query = `
		select ` + endpointColumns + `, e.secret, e.previous_secret, e.previous_until
		from webhook_endpoints e
		where e.workspace_id = @workspace and e.mode = @mode and e.id = @endpoint and e.deleted_at is null`
	row, err := oneWebhookRow[endpointSecretsRow](s.pool.Query(ctx, query, endpointArgs(scope, id)))
	if err != nil {
		return affiliate.Endpoint{}, nil, err
	}
	secrets := [][]byte{row.Secret}
	if row.PreviousSecret != nil && row.PreviousUntil != nil && row.PreviousUntil.After(now) {
		secrets = append(secrets, row.PreviousSecret)
	}
	return row.endpoint(), secrets, nil
}
