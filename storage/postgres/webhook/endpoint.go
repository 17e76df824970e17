// Package webhook stores webhook endpoints and deliveries and reads the queue of due
// deliveries. Package postgres inserts events and their deliveries, in the transaction
// that causes the event.
package webhook

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var (
	endpointColumns = postgres.Columns[webhook.Endpoint]("e")
	selectEndpoint  = selectEndpointOrDeleted + ` and e.deleted_at is null`

	selectEndpointOrDeleted = `
		select ` + endpointColumns + `
		from webhook_endpoints e
		where e.workspace_id = @workspace and e.mode = @mode and e.id = @endpoint`
	insertEndpoint = postgres.RowsOf[newEndpoint](`insert into webhook_endpoints ({columns}) values {rows}`)
	updateEndpoint = postgres.RowsOf[webhook.Endpoint](`
		update webhook_endpoints e set {changes}
		from (values {typed rows}) as t ({columns})
		where e.workspace_id = t.workspace_id and e.mode = t.mode and e.id = t.id`)
)

type newEndpoint struct {
	webhook.Endpoint
	Secret []byte
}

func endpointArgs(scope affiliate.Scope, id affiliate.EndpointID) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "endpoint": id}
}

// Endpoints returns one page of the endpoints of a scope, newest first, and the number
// of endpoints on all pages.
func Endpoints(ctx context.Context, db *postgres.DB, scope affiliate.Scope, page affiliate.Page) ([]webhook.Endpoint, int64, error) {
	list := `
		select ` + endpointColumns + `
		from webhook_endpoints e
		where e.workspace_id = @workspace and e.mode = @mode and e.deleted_at is null
		order by e.created_at desc, e.id desc
		limit @limit offset @offset`
	total, err := CountEndpoints(ctx, db, scope)
	if err != nil {
		return nil, 0, err
	}
	endpoints, err := postgres.List[webhook.Endpoint](ctx, db, list, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "limit": page.Size, "offset": page.Offset(),
	})
	return endpoints, int64(total), err
}

type secretsRow struct {
	webhook.Endpoint
	Secret         []byte
	PreviousSecret []byte
	PreviousUntil  *time.Time
}

// EndpointSecrets returns an endpoint and the encrypted signing secrets that are valid
// at the given time, newest first. Errors: WEBHOOK_NOT_FOUND, also if the endpoint is deleted.
func EndpointSecrets(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.EndpointID, at time.Time,
) (webhook.Endpoint, [][]byte, error) {
	query := `
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
	return row.Endpoint, secrets, nil
}

// CountEndpoints returns the number of endpoints of a scope. If the number must not
// change until the commit, the caller must call LockWorkspace first.
func CountEndpoints(ctx context.Context, db postgres.Queryer, scope affiliate.Scope) (int, error) {
	const count = `select count(*) from webhook_endpoints where workspace_id = $1 and mode = $2 and deleted_at is null`
	return postgres.Value[int](ctx, db, count, scope.Workspace, scope.Mode)
}

// InsertEndpoint stores a new endpoint. encryptedSecret is the signing secret of the
// endpoint.
func InsertEndpoint(ctx context.Context, tx *postgres.Tx, e webhook.Endpoint, encryptedSecret []byte) error {
	_, err := insertEndpoint.Exec(ctx, tx, newEndpoint{e, encryptedSecret})
	return err
}

// Endpoint returns an endpoint without locking it. Errors: WEBHOOK_NOT_FOUND, also if the
// endpoint is deleted.
func Endpoint(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error) {
	return oneRow[webhook.Endpoint](db.Query(ctx, selectEndpoint, endpointArgs(scope, id)))
}

// EndpointOrDeleted returns an endpoint, even if it is deleted. Errors:
// WEBHOOK_NOT_FOUND.
func EndpointOrDeleted(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error) {
	return oneRow[webhook.Endpoint](tx.Query(ctx, selectEndpointOrDeleted, endpointArgs(scope, id)))
}

// LockEndpoint locks an endpoint and returns it. Errors: WEBHOOK_NOT_FOUND, also if the
// endpoint is deleted.
func LockEndpoint(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.EndpointID) (webhook.Endpoint, error) {
	return oneRow[webhook.Endpoint](tx.Query(ctx, selectEndpoint+` for no key update`, endpointArgs(scope, id)))
}

// UpdateEndpoint stores the changed fields of a locked endpoint.
func UpdateEndpoint(ctx context.Context, tx *postgres.Tx, e webhook.Endpoint) error {
	_, err := updateEndpoint.Exec(ctx, tx, e)
	return err
}

// DeleteEndpoint marks a locked endpoint as deleted at e.UpdatedAt and deletes its
// signing secrets. The row remains because its deliveries refer to it.
func DeleteEndpoint(ctx context.Context, tx *postgres.Tx, e webhook.Endpoint) error {
	const remove = `
		update webhook_endpoints
		set deleted_at = updated_at, secret = null, previous_secret = null, previous_until = null, sender = null, sender_until = null
		where workspace_id = @workspace and mode = @mode and id = @endpoint`
	if err := UpdateEndpoint(ctx, tx, e); err != nil {
		return err
	}
	return postgres.Exec(ctx, tx, remove, endpointArgs(e.Scope, e.ID))
}

// ReplaceSecret stores a changed endpoint, which is locked, with a new encrypted signing
// secret. The previous secret stays valid until keptUntil. If keptUntil is nil, the previous
// secret is deleted.
func ReplaceSecret(ctx context.Context, tx *postgres.Tx, e webhook.Endpoint, encryptedSecret []byte, keptUntil *time.Time) error {
	const replace = `
		update webhook_endpoints
		set previous_secret = case when @until::timestamptz is null then null else secret end, previous_until = @until, secret = @secret
		where workspace_id = @workspace and mode = @mode and id = @endpoint`
	if err := UpdateEndpoint(ctx, tx, e); err != nil {
		return err
	}
	args := endpointArgs(e.Scope, e.ID)
	args["until"], args["secret"] = keptUntil, encryptedSecret
	return postgres.Exec(ctx, tx, replace, args)
}

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

// Search returns the endpoint whose id is the text.
func Search(ctx context.Context, db *postgres.DB, scope affiliate.Scope, text string) ([]affiliate.Hit, error) {
	const search = `
		select e.id, e.url as title, e.description as subtitle, null::uuid as program_id
		from webhook_endpoints e
		where e.workspace_id = @workspace and e.mode = @mode and e.id = @id and e.deleted_at is null
		limit @limit`
	return postgres.Hits(ctx, db, scope, text, search)
}
