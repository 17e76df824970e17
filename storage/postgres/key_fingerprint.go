package postgres

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
)

// KeyFingerprints returns the stored fingerprints of the keys of all settings.
func KeyFingerprints(ctx context.Context, db *DB) ([]affiliate.KeyFingerprint, error) {
	return readKeyFingerprints(ctx, db)
}

// LockKeyFingerprints returns the same as KeyFingerprints. Other callers wait until the
// transaction ends, for example a core that starts at the same time.
func LockKeyFingerprints(ctx context.Context, tx *Tx) ([]affiliate.KeyFingerprint, error) {
	const lock = `lock table key_fingerprints in share row exclusive mode`
	if _, err := tx.Exec(ctx, lock); err != nil {
		return nil, err
	}
	return readKeyFingerprints(ctx, tx)
}

func readKeyFingerprints(ctx context.Context, db Queryer) ([]affiliate.KeyFingerprint, error) {
	const read = `select setting, key_id, fingerprint, is_first from key_fingerprints order by setting, key_id`
	return List[affiliate.KeyFingerprint](ctx, db, read)
}

// StoreKeyFingerprints stores the fingerprints of all keys of a setting. The fingerprints of
// earlier keys stay, but none of them is the first one any more.
func StoreKeyFingerprints(ctx context.Context, tx *Tx, setting string, keys []affiliate.KeyFingerprint) error {
	const clearFirst = `update key_fingerprints set is_first = false where setting = $1 and is_first`
	const store = `
		insert into key_fingerprints (setting, key_id, fingerprint, is_first) values ($1, $2, $3, $4)
		on conflict (setting, key_id) do update set is_first = excluded.is_first`
	if _, err := tx.Exec(ctx, clearFirst, setting); err != nil {
		return err
	}
	for _, key := range keys {
		if _, err := tx.Exec(ctx, store, setting, key.KeyID, key.Fingerprint, key.IsFirst); err != nil {
			return err
		}
	}
	return nil
}

// DeleteKeyFingerprints deletes the fingerprints of the keys of a setting and returns their
// number.
func DeleteKeyFingerprints(ctx context.Context, db *DB, setting string) (int64, error) {
	const remove = `delete from key_fingerprints where setting = $1`
	tag, err := db.Exec(ctx, remove, setting)
	return tag.RowsAffected(), err
}
