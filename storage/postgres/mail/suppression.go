package mail

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// moveSuppression stores the suppression of an address under its first digest, and reports
// whether the address is suppressed.
const moveSuppression = `
	with found as (
		select from mail_suppressions where digest = any($1)
	), removed as (
		delete from mail_suppressions where digest = any($1) and digest <> $2
		returning reason, created_at
	), added as (
		insert into mail_suppressions (digest, reason, created_at)
		select $2, r.reason, r.created_at from removed r order by r.created_at limit 1
		on conflict (digest) do nothing
	)
	select exists (select from found)`

// Suppressed reports whether an address is suppressed. address is the result of
// notification.MailDigest. If there are several hash keys, the suppression is stored under the
// first of them, so that it stays when the others are removed.
func Suppressed(ctx context.Context, db *postgres.DB, address affiliate.Digests) (suppressed bool, err error) {
	if len(address) == 1 {
		return postgres.Suppressed(ctx, db, address)
	}
	err = db.QueryRow(ctx, moveSuppression, address, address.First()).Scan(&suppressed)
	return suppressed, err
}

// Suppress suppresses addresses. An address that is already suppressed keeps its earlier
// reason. digests are the first results of notification.MailDigest.
func Suppress(ctx context.Context, tx *postgres.Tx, reason notification.SuppressionReason, at time.Time, digests ...[]byte) error {
	// The order prevents deadlocks between two transactions with the same addresses.
	const insert = `
		insert into mail_suppressions (digest, reason, created_at)
		select distinct d, $2, $3::timestamptz from unnest($1::bytea[]) d order by d
		on conflict (digest) do nothing`
	_, err := tx.Exec(ctx, insert, digests, reason, at)
	return err
}

// RecordProviderMessage stores the id of a message of the mail provider. isNew is false if
// the id is already stored. If another transaction is storing the same id,
// RecordProviderMessage waits for the end of that transaction.
func RecordProviderMessage(ctx context.Context, tx *postgres.Tx, id string, at time.Time) (isNew bool, err error) {
	const insert = `insert into mail_provider_messages (id, received_at) values ($1, $2) on conflict (id) do nothing`
	tag, err := tx.Exec(ctx, insert, id, at)
	return tag.RowsAffected() == 1, err
}

// DeleteProviderMessages deletes at most limit ids of messages that arrived before the
// given time. It returns the number of deleted rows.
func DeleteProviderMessages(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	const drop = `
		delete from mail_provider_messages
		where id = any (array(select id from mail_provider_messages where received_at < $1 order by received_at limit $2))`
	tag, err := db.Exec(ctx, drop, before, limit)
	return tag.RowsAffected(), err
}
