package webhook

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const endpointColumns = `
	e.id, e.workspace_id, e.mode, e.url, e.description, e.subscriptions, e.active, e.disabled_reason, e.epoch,
	e.consecutive_failures, e.failing_since, e.dead_letters, e.last_delivery_at, e.last_dead_letter_day, e.created_at, e.updated_at, e.version`

type endpointRow struct {
	ID             affiliate.EndpointID    `db:"id"`
	WorkspaceID    affiliate.WorkspaceID   `db:"workspace_id"`
	Mode           affiliate.Mode          `db:"mode"`
	URL            string                  `db:"url"`
	Description    *string                 `db:"description"`
	Subscriptions  []string                `db:"subscriptions"`
	Active         bool                    `db:"active"`
	DisabledReason *webhook.DisabledReason `db:"disabled_reason"`
	Epoch          int                     `db:"epoch"`
	CreatedAt      time.Time               `db:"created_at"`
	UpdatedAt      time.Time               `db:"updated_at"`
	Version        int                     `db:"version"`
	healthRow
}

type healthRow struct {
	ConsecutiveFailures int        `db:"consecutive_failures"`
	FailingSince        *time.Time `db:"failing_since"`
	DeadLetters         int        `db:"dead_letters"`
	LastDeliveryAt      *time.Time `db:"last_delivery_at"`
	LastDeadLetterDay   *time.Time `db:"last_dead_letter_day"`
}

func (r endpointRow) endpoint() webhook.Endpoint {
	health := webhook.EndpointHealth(r.healthRow)
	return webhook.Endpoint{
		ID: r.ID, Scope: affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode}, URL: r.URL, Description: r.Description,
		Subscriptions: r.Subscriptions, Active: r.Active, DisabledReason: r.DisabledReason, Epoch: r.Epoch,
		Health: health, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Version: r.Version,
	}
}

const (
	selectEndpoint = `
		select ` + endpointColumns + `
		from webhook_endpoints e
		where e.workspace_id = @workspace and e.mode = @mode and e.id = @endpoint and e.deleted_at is null`
	selectEndpointOrDeleted = `
		select ` + endpointColumns + `
		from webhook_endpoints e
		where e.workspace_id = @workspace and e.mode = @mode and e.id = @endpoint`
)

func endpointArgs(scope affiliate.Scope, id affiliate.EndpointID) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "endpoint": id}
}

func readEndpoint(ctx context.Context, db postgres.Queryer, sql string, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error) {
	row, err := oneRow[endpointRow](db.Query(ctx, sql, endpointArgs(scope, id)))
	return row.endpoint(), err
}

// Endpoints returns one page of the endpoints of a scope, newest first, and the number
// of endpoints on all pages.
func Endpoints(ctx context.Context, db *postgres.DB, scope affiliate.Scope, page affiliate.Page) ([]webhook.Endpoint, int64, error) {
	const list = `
		select ` + endpointColumns + `
		from webhook_endpoints e
		where e.workspace_id = @workspace and e.mode = @mode and e.deleted_at is null
		order by e.created_at desc, e.id desc
		limit @limit offset @offset`
	total, err := countEndpoints(ctx, db, scope)
	if err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, list, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "limit": page.Size, "offset": page.Offset(),
	})
	endpoints, err := postgres.AllRows(rows, err, endpointRow.endpoint)
	return endpoints, int64(total), err
}

func countEndpoints(ctx context.Context, db postgres.Queryer, scope affiliate.Scope) (int, error) {
	const count = `select count(*) from webhook_endpoints where workspace_id = $1 and mode = $2 and deleted_at is null`
	rows, err := db.Query(ctx, count, scope.Workspace, scope.Mode)
	if err != nil {
		return 0, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
}

// secretsRow is the row of an endpoint with its encrypted signing secrets.
type secretsRow struct {
	endpointRow
	Secret         []byte     `db:"secret"`
	PreviousSecret []byte     `db:"previous_secret"`
	PreviousUntil  *time.Time `db:"previous_until"`
}

// EndpointSecrets returns an endpoint and the encrypted signing secrets that are valid
// at the given time, newest first. Errors: WEBHOOK_NOT_FOUND, also if the endpoint is deleted.
func EndpointSecrets(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.EndpointID, at time.Time,
) (webhook.Endpoint, [][]byte, error) {
	const query = `
		select ` + endpointColumns + `, e.secret, e.previous_secret, e.previous_until
		from webhook_endpoints e
		where e.workspace_id = @workspace and e.mode = @mode and e.id = @endpoint and e.deleted_at is null`
	row, err := oneRow[secretsRow](db.Query(ctx, query, endpointArgs(scope, id)))
	if err != nil {
		return webhook.Endpoint{}, nil, err
	}
	secrets := [][]byte{row.Secret}
	if row.PreviousSecret != nil && row.PreviousUntil != nil && row.PreviousUntil.After(at) {
		secrets = append(secrets, row.PreviousSecret)
	}
	return row.endpoint(), secrets, nil
}

// CountEndpoints returns the number of endpoints of a scope. If the number must not
// change until the commit, the caller must call LockWorkspace first.
func CountEndpoints(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope) (int, error) {
	return countEndpoints(ctx, tx, scope)
}

// InsertEndpoint stores a new endpoint. encryptedSecret is the signing secret of the
// endpoint.
func InsertEndpoint(ctx context.Context, tx *postgres.Tx, e webhook.Endpoint, encryptedSecret []byte) error {
	const insert = `
		insert into webhook_endpoints (workspace_id, id, mode, url, description, subscriptions, active, disabled_reason,
			epoch, secret, created_at, updated_at, version)
		values (@workspace, @endpoint, @mode, @url, @description, @subscriptions, @active, @disabled_reason,
			@epoch, @secret, @created_at, @updated_at, @version)`
	args := changeArgs(e)
	args["url"], args["secret"], args["created_at"] = e.URL, encryptedSecret, e.CreatedAt
	_, err := tx.Exec(ctx, insert, args)
	return err
}

// changeArgs returns the values of the columns that an update of an endpoint writes.
func changeArgs(e webhook.Endpoint) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": e.Scope.Workspace, "mode": e.Scope.Mode, "endpoint": e.ID,
		"description": e.Description, "subscriptions": e.Subscriptions, "active": e.Active, "disabled_reason": e.DisabledReason,
		"epoch": e.Epoch, "updated_at": e.UpdatedAt, "version": e.Version,
		"consecutive_failures": e.Health.ConsecutiveFailures, "failing_since": e.Health.FailingSince,
		"dead_letters": e.Health.DeadLetters, "last_delivery_at": e.Health.LastDeliveryAt,
	}
}

// Endpoint returns an endpoint without locking it. Errors: WEBHOOK_NOT_FOUND, also if the
// endpoint is deleted.
func Endpoint(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error) {
	return readEndpoint(ctx, db, selectEndpoint, scope, id)
}

// EndpointOrDeleted returns an endpoint, even if it is deleted. Errors:
// WEBHOOK_NOT_FOUND.
func EndpointOrDeleted(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error) {
	return readEndpoint(ctx, tx, selectEndpointOrDeleted, scope, id)
}

// LockEndpoint locks an endpoint and returns it. Errors: WEBHOOK_NOT_FOUND, also if the
// endpoint is deleted.
func LockEndpoint(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error) {
	return readEndpoint(ctx, tx, selectEndpoint+` for no key update`, scope, id)
}

// UpdateEndpoint stores the changed fields of a locked endpoint.
func UpdateEndpoint(ctx context.Context, tx *postgres.Tx, e webhook.Endpoint) error {
	const update = `
		update webhook_endpoints
		set description = @description, subscriptions = @subscriptions, active = @active, disabled_reason = @disabled_reason,
			epoch = @epoch, version = @version, updated_at = @updated_at, consecutive_failures = @consecutive_failures,
			failing_since = @failing_since, dead_letters = @dead_letters, last_delivery_at = @last_delivery_at
		where workspace_id = @workspace and mode = @mode and id = @endpoint`
	_, err := tx.Exec(ctx, update, changeArgs(e))
	return err
}

// DeleteEndpoint marks a locked endpoint as deleted at e.UpdatedAt and deletes its
// signing secrets. The row remains because its deliveries refer to it.
func DeleteEndpoint(ctx context.Context, tx *postgres.Tx, e webhook.Endpoint) error {
	const remove = `
		update webhook_endpoints
		set deleted_at = @updated_at, updated_at = @updated_at, version = @version, active = @active,
			disabled_reason = @disabled_reason, epoch = @epoch,
			secret = null, previous_secret = null, previous_until = null, sender = null, sender_until = null
		where workspace_id = @workspace and mode = @mode and id = @endpoint`
	_, err := tx.Exec(ctx, remove, changeArgs(e))
	return err
}

// ReplaceSecret stores a new encrypted signing secret of a locked endpoint. The
// previous secret stays valid until keptUntil. If keptUntil is nil, the previous secret
// is deleted.
func ReplaceSecret(ctx context.Context, tx *postgres.Tx, e webhook.Endpoint, encryptedSecret []byte, keptUntil *time.Time) error {
	const replace = `
		update webhook_endpoints
		set previous_secret = case when @until::timestamptz is null then null else secret end, previous_until = @until,
			secret = @secret, version = @version, updated_at = @updated_at
		where workspace_id = @workspace and mode = @mode and id = @endpoint`
	args := changeArgs(e)
	args["until"], args["secret"] = keptUntil, encryptedSecret
	_, err := tx.Exec(ctx, replace, args)
	return err
}
