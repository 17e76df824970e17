package processor

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// connectionColumns are the fields of processor.LockedProcessorConnection, selected from
// processor_connections c.
var connectionColumns = postgres.Columns[processor.Connection]("c") + `, ` + postgres.Columns[processor.Keys]("c") + `,
	c.deleted_at is not null as deleted`

var activeConnection = `
	select ` + connectionColumns + `
	from processor_connections c
	where c.workspace_id = $1 and c.mode = $2 and c.processor = $3 and c.deleted_at is null`

// Connection returns the connection of a scope to a processor, or nil if there is none.
func Connection(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, processor conversion.ProcessorName,
) (*processor.LockedProcessorConnection, error) {
	return oneConnection(ctx, db, activeConnection, scope, processor)
}

// LockConnection locks the connection of a scope to a processor and returns it, or nil if there is none.
func LockConnection(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, processor conversion.ProcessorName,
) (*processor.LockedProcessorConnection, error) {
	return oneConnection(ctx, tx, activeConnection+` for no key update`, scope, processor)
}

func oneConnection(
	ctx context.Context, db postgres.Queryer, sql string, scope affiliate.Scope, name conversion.ProcessorName,
) (*processor.LockedProcessorConnection, error) {
	connection, found, err := postgres.Optional[processor.LockedProcessorConnection](ctx, db, sql, scope.Workspace, scope.Mode, name)
	if !found {
		return nil, err
	}
	return &connection, nil
}

// ConnectionByID returns a connection that is not deleted, from any workspace. The id is part
// of the URL to which the processor sends events. Errors: NOT_FOUND.
func ConnectionByID(ctx context.Context, db *postgres.DB, id processor.ConnectionID) (processor.LockedProcessorConnection, error) {
	read := `
		select ` + connectionColumns + `
		from processor_connections c
		where c.id = $1 and c.deleted_at is null`
	return postgres.OneRow[processor.LockedProcessorConnection](db.Query(ctx, read, id))
}

// ConnectionOrDeleted returns a connection, also if it is deleted. Errors: NOT_FOUND.
func ConnectionOrDeleted(
	ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, id processor.ConnectionID,
) (processor.LockedProcessorConnection, error) {
	read := `
		select ` + connectionColumns + `
		from processor_connections c
		where c.workspace_id = $1 and c.mode in ('test', 'live') and c.id = $2`
	return postgres.OneRow[processor.LockedProcessorConnection](db.Query(ctx, read, workspace, id))
}

// ConnectionsAfter returns jobs that check the endpoints of at most limit connections, in the order of the ids of
// the connections. It starts after the given id.
func ConnectionsAfter(ctx context.Context, db *postgres.DB, after processor.ConnectionID, limit int) ([]processor.CheckProcessorEndpoint, error) {
	const read = `
		select c.workspace_id as workspace, c.id as connection
		from processor_connections c
		where c.deleted_at is null and c.id > $1
		order by c.id
		limit $2`
	return postgres.List[processor.CheckProcessorEndpoint](ctx, db, read, after, limit)
}

type storedConnection struct {
	processor.Connection
	processor.Keys
}

var putConnection = postgres.RowsOf[storedConnection](`
	insert into processor_connections ({columns})
	values {rows}
	on conflict (workspace_id, id) do update set
		account_id = excluded.account_id, connected_at = excluded.connected_at, deleted_at = null,
		key = excluded.key, endpoint_id = excluded.endpoint_id, secret = excluded.secret,
		previous_secret = excluded.previous_secret, previous_secret_until = excluded.previous_secret_until,
		create_conversions = excluded.create_conversions, include_out_of_band = excluded.include_out_of_band,
		updated_at = excluded.updated_at, endpoint_failing = false,
		resync_since = excluded.resync_since, resync_from = excluded.resync_from,
		resync_number = greatest(excluded.resync_number, processor_connections.resync_number + 1)`)

// PutConnection inserts a connection, or replaces the row with its id, even if it is deleted.
func PutConnection(ctx context.Context, tx *postgres.Tx, c processor.LockedProcessorConnection) error {
	_, err := putConnection.Exec(ctx, tx, storedConnection{c.Connection, c.Keys})
	return err
}

// SetOptions stores the options of a locked connection.
func SetOptions(ctx context.Context, tx *postgres.Tx, c processor.Connection) error {
	const set = `update processor_connections set create_conversions = $4, include_out_of_band = $5, updated_at = $6 where workspace_id = $1 and mode = $2 and id = $3`
	return postgres.Exec(ctx, tx, set, c.Workspace, c.Mode, c.ID, c.CreateConversions, c.IncludeOutOfBand, c.UpdatedAt)
}

// SetResync stores which resync of a locked connection is running.
func SetResync(ctx context.Context, tx *postgres.Tx, c processor.Connection) error {
	const set = `update processor_connections set resync_number = $4, resync_since = $5, resync_from = $6 where workspace_id = $1 and mode = $2 and id = $3`
	return postgres.Exec(ctx, tx, set, c.Workspace, c.Mode, c.ID, c.Number, c.Since, c.From)
}

// SetEndpointFailing stores whether the endpoint of a connection fails. changed is false if this
// is already stored, or if the connection was deleted or has another endpoint now.
func SetEndpointFailing(ctx context.Context, tx *postgres.Tx, c processor.Connection, failing bool) (changed bool, err error) {
	const set = `
		update processor_connections set endpoint_failing = $5
		where workspace_id = $1 and mode = $2 and id = $3 and endpoint_id = $4 and deleted_at is null and endpoint_failing <> $5`
	tag, err := tx.Exec(ctx, set, c.Workspace, c.Mode, c.ID, c.Endpoint, failing)
	return tag.RowsAffected() == 1, err
}

// DisconnectConnection marks a locked connection as deleted.
func DisconnectConnection(ctx context.Context, tx *postgres.Tx, c processor.Connection, at time.Time) error {
	const mark = `update processor_connections set deleted_at = $4 where workspace_id = $1 and mode = $2 and id = $3`
	return postgres.Exec(ctx, tx, mark, c.Workspace, c.Mode, c.ID, at)
}

// ClaimFailureNotice reports whether a failed event is the first failed event of the connection
// on a UTC day, and stores the day. Only the first one causes a notification.
func ClaimFailureNotice(ctx context.Context, tx *postgres.Tx, c processor.Connection, day time.Time) (first bool, err error) {
	const claim = `
		update processor_connections set failure_notified_on = $4
		where workspace_id = $1 and mode = $2 and id = $3 and failure_notified_on is distinct from $4`
	tag, err := tx.Exec(ctx, claim, c.Workspace, c.Mode, c.ID, day.UTC().Truncate(24*time.Hour))
	return tag.RowsAffected() == 1, err
}

// DropConnection removes a deleted connection with its key, unless it has another endpoint
// now.
func DropConnection(ctx context.Context, db *postgres.DB, c processor.Connection) error {
	const drop = `delete from processor_connections where workspace_id = $1 and mode = $2 and id = $3 and endpoint_id = $4 and deleted_at is not null`
	return postgres.Exec(ctx, db, drop, c.Workspace, c.Mode, c.ID, c.Endpoint)
}

// SyncsPromoCodes reports whether a scope has active promo codes that shall exist at the processor.
func SyncsPromoCodes(ctx context.Context, db *postgres.DB, scope affiliate.Scope) (bool, error) {
	const read = `
		select exists (
			select from promo_codes c
			where c.workspace_id = $1 and c.mode = $2 and c.active and c.sync_to_processor
		)`
	return postgres.Value[bool](ctx, db, read, scope.Workspace, scope.Mode)
}

// SubtractsFees reports whether a programme of a scope subtracts the processor's fees.
func SubtractsFees(ctx context.Context, db *postgres.DB, scope affiliate.Scope) (bool, error) {
	const read = `
		select exists (
			select from programs p
			where p.workspace_id = $1 and p.mode = $2 and p.status <> 'archived' and p.rules ->> 'net_basis' = $3
		)`
	return postgres.Value[bool](ctx, db, read, scope.Workspace, scope.Mode, program.NetOfTaxShippingAndFee)
}

// AddSignatureFailures adds to the stored number of messages with an invalid signature in the hour of the given time.
func AddSignatureFailures(ctx context.Context, db *postgres.DB, c processor.Connection, failures int64, at time.Time) error {
	const count = `
		insert into processor_signature_failures as f (workspace_id, connection_id, hour, failures)
		values ($1, $2, $3, $4)
		on conflict (workspace_id, connection_id, hour) do update set failures = f.failures + excluded.failures`
	return postgres.Exec(ctx, db, count, c.Workspace, c.ID, at.Truncate(time.Hour), failures)
}

const readHealth = `
	select (
			select e.received_at from processor_events e
			where e.workspace_id = $1 and e.mode = $2 and e.connection_id = $3
			order by e.received_at desc limit 1
		), (
			select e.received_at from processor_events e
			where e.workspace_id = $1 and e.connection_id = $3 and e.status = 'received'
			order by e.received_at limit 1
		), (
			select coalesce(sum(f.failures), 0)::bigint from processor_signature_failures f
			where f.workspace_id = $1 and f.connection_id = $3 and f.hour > $4
		)`

// Health describes the events of a connection, and its invalid signatures in the 24 hours before the given time.
func Health(ctx context.Context, db *postgres.DB, c processor.Connection, now time.Time) (processor.Health, error) {
	var h processor.Health
	err := db.QueryRow(ctx, readHealth, c.Workspace, c.Mode, c.ID, now.Add(-24*time.Hour)).
		Scan(&h.LastEventAt, &h.OldestWaitingAt, &h.SignatureFailures)
	return h, err
}

// DeleteSignatureFailures deletes the counts of at most limit hours that began before the given
// time. It returns the number of deleted rows.
func DeleteSignatureFailures(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	const drop = `
		delete from processor_signature_failures f
		using (select workspace_id, connection_id, hour from processor_signature_failures where hour < $1 limit $2) as old
		where f.workspace_id = old.workspace_id and f.connection_id = old.connection_id and f.hour = old.hour`
	return postgres.ExecCount(ctx, db, drop, before, limit)
}

// PromoCodes returns the texts of our promo codes by the ids of their promotion codes, which are
// their copies at the processor. An unknown id is missing in the result.
func PromoCodes(ctx context.Context, db *postgres.DB, scope affiliate.Scope, promotionCodes []string) (map[string]string, error) {
	const read = `
		select c.promotion_code_id, c.code
		from processor_promo_codes c
		where c.workspace_id = $1 and c.mode = $2 and c.promotion_code_id = any($3)`
	rows, _ := db.Query(ctx, read, scope.Workspace, scope.Mode, promotionCodes)
	texts := map[string]string{}
	var id, text string
	_, err := pgx.ForEachRow(rows, []any{&id, &text}, func() error {
		texts[id] = text
		return nil
	})
	return texts, err
}

var selectPromoCode = `
	select ` + postgres.Columns[promocode.PromoCode]("c") + `
	from promo_codes c
	where c.workspace_id = $1 and c.mode = $2 and c.id = $3`

// PromoCode returns a promo code. Errors: NOT_FOUND.
func PromoCode(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.PromoCodeID) (promocode.PromoCode, error) {
	return postgres.OneRow[promocode.PromoCode](db.Query(ctx, selectPromoCode, scope.Workspace, scope.Mode, id))
}

// ActivePromotionCodes returns the promotion codes of an account that were created from a
// promo code and not deactivated.
func ActivePromotionCodes(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, account string, id affiliate.PromoCodeID,
) ([]processor.PromoCode, error) {
	const read = `
		select c.coupon_id as coupon, c.promotion_code_id as promotion_code, c.terms
		from processor_promo_codes c
		where c.workspace_id = $1 and c.mode = $2 and c.promo_code_id = $3 and c.account_id = $4 and c.active
		order by c.created_at`
	return postgres.List[processor.PromoCode](ctx, db, read, scope.Workspace, scope.Mode, id, account)
}

// PutPromotionCode stores a promotion code that was created from a promo code.
func PutPromotionCode(ctx context.Context, tx *postgres.Tx, account string, code promocode.PromoCode, created processor.PromoCode, at time.Time) error {
	const insert = `
		insert into processor_promo_codes (workspace_id, mode, promotion_code_id, coupon_id, account_id, promo_code_id, code, terms, active, created_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, true, $9)
		on conflict (workspace_id, mode, promotion_code_id) do update set active = true`
	return postgres.Exec(ctx, tx, insert,
		code.Workspace, code.Mode, created.PromotionCode, created.Coupon, account, code.ID, code.Code, created.Terms, at)
}

// EndPromotionCode marks a promotion code as deactivated.
func EndPromotionCode(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, promotionCode string) error {
	const update = `update processor_promo_codes set active = false where workspace_id = $1 and mode = $2 and promotion_code_id = $3`
	return postgres.Exec(ctx, tx, update, scope.Workspace, scope.Mode, promotionCode)
}

// SetSyncStatus stores whether a promo code exists at the processor. current is false if
// the promo code has changed since it was read: nothing is stored then.
func SetSyncStatus(ctx context.Context, tx *postgres.Tx, code promocode.PromoCode, status promocode.SyncStatus) (current bool, err error) {
	const update = `
		update promo_codes set sync_status = $5
		where workspace_id = $1 and mode = $2 and id = $3 and version = $4 and sync_to_processor`
	tag, err := tx.Exec(ctx, update, code.Workspace, code.Mode, code.ID, code.Version, status)
	return tag.RowsAffected() == 1, err
}

// SyncedPromoCodes returns at most limit ids of promo codes that shall exist at the
// processor, in ascending order. It starts after the given id.
func SyncedPromoCodes(ctx context.Context, db *postgres.DB, scope affiliate.Scope, after affiliate.PromoCodeID, limit int) ([]affiliate.PromoCodeID, error) {
	const read = `
		select c.id from promo_codes c
		where c.workspace_id = $1 and c.mode = $2 and c.sync_to_processor and c.id > $3
		order by c.id
		limit $4`
	return postgres.Values[affiliate.PromoCodeID](ctx, db, read, scope.Workspace, scope.Mode, after, limit)
}
