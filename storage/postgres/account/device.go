package account

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// SeeDevice stores that a user has used a device. known reports whether the user has also
// used it since the given time. device is the result of account.DeviceHash.
func SeeDevice(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, device affiliate.Digests, at, since time.Time) (known bool, err error) {
	// The query reads the state before the statement.
	const see = `
		with stored as (
			insert into user_devices as d (user_id, device, seen_at)
			values ($1, $2, $3)
			on conflict (user_id, device) do update set seen_at = greatest(d.seen_at, excluded.seen_at)
		)
		select exists (select from user_devices where user_id = $1 and device = any($5) and seen_at >= $4)`
	err = tx.QueryRow(ctx, see, user, device.First(), at, since, device).Scan(&known)
	return known, err
}

// KnowsDevice reports whether a user has used a device since the given time. device is the
// result of account.DeviceHash.
func KnowsDevice(ctx context.Context, db *postgres.DB, user affiliate.UserID, device affiliate.Digests, since time.Time) (known bool, err error) {
	const query = `select exists (select from user_devices where user_id = $1 and device = any($2) and seen_at >= $3)`
	err = db.QueryRow(ctx, query, user, device, since).Scan(&known)
	return known, err
}

const deleteOldDevices = `
	delete from user_devices
	where ctid = any (array(
		select ctid from user_devices where seen_at < $1 order by seen_at limit $2 for update skip locked))`

// DeleteOldDevices deletes at most limit devices that were last seen before the given
// time. It returns the number of deleted rows.
func DeleteOldDevices(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, deleteOldDevices, before, limit)
	return tag.RowsAffected(), err
}

// StoreOrigin stores the network and the browser from which a user has used the
// account, and the time of the last use. It stores nothing about an erased account.
func StoreOrigin(ctx context.Context, db *postgres.DB, o fraud.Origin) error {
	const store = `
		insert into user_origins as o (user_id, ip_prefix, ua_hash, seen_at)
		select u.id, $2, $3, $4 from users u where u.id = $1 and u.erased_at is null for share
		on conflict (user_id, ip_prefix, ua_hash) do update set seen_at = greatest(o.seen_at, excluded.seen_at)`
	agent := o.AgentHash
	if agent == nil {
		agent = []byte{}
	}
	_, err := db.Exec(ctx, store, o.User, o.IPPrefix, agent, o.SeenAt)
	return err
}

const deleteOldOrigins = `
	delete from user_origins o
	using (
		select user_id, ip_prefix, ua_hash from user_origins
		where seen_at < $1
		order by seen_at
		limit $2
		for update skip locked) as old
	where o.user_id = old.user_id and o.ip_prefix = old.ip_prefix and o.ua_hash = old.ua_hash`

// DeleteOldOrigins deletes at most limit origins that were last seen before the given
// time. It returns the number of deleted rows.
func DeleteOldOrigins(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, deleteOldOrigins, before, limit)
	return tag.RowsAffected(), err
}
