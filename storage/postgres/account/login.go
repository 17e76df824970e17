package account

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// AddLoginAttempt stores a login attempt as a failure before its password is checked.
// It commits before it returns. If two attempts run at the same time, at least one of
// them therefore counts the other.
func AddLoginAttempt(ctx context.Context, db *postgres.DB, attempt account.LoginAttempt) error {
	const insert = `insert into login_failures (id, subject, bucket, failed_at) values ($1, $2, $3, $4)`
	_, err := db.Exec(ctx, insert, attempt.ID, attempt.Subject.First(), attempt.Bucket.First(), attempt.At)
	return err
}

// OtherLoginFailures counts the failed login attempts after the given time that have the
// same bucket as the given attempt. It does not count this attempt itself. It also returns the
// time of the last failure.
func OtherLoginFailures(ctx context.Context, db *postgres.DB, attempt account.LoginAttempt, since time.Time) (count int, last time.Time, err error) {
	const query = `
		select count(*), coalesce(max(failed_at), to_timestamp(0))
		from login_failures where bucket = any($1) and failed_at > $2 and id <> $3`
	err = db.QueryRow(ctx, query, attempt.Bucket, since, attempt.ID).Scan(&count, &last)
	return count, last, err
}

// DeleteLoginAttempt deletes a login attempt that is not a failure: its password was not
// checked, or was right.
func DeleteLoginAttempt(ctx context.Context, db *postgres.DB, id affiliate.LoginAttemptID) error {
	const remove = `delete from login_failures where id = $1`
	_, err := db.Exec(ctx, remove, id)
	return err
}

// DeleteBucketFailures deletes all failed login attempts in a bucket.
func DeleteBucketFailures(ctx context.Context, tx *postgres.Tx, bucket affiliate.Digests) error {
	const remove = `delete from login_failures where bucket = any($1)`
	_, err := tx.Exec(ctx, remove, bucket)
	return err
}

// DeleteLoginFailures deletes all failed login attempts for a subject (a hash of the account's
// kind and email address).
func DeleteLoginFailures(ctx context.Context, tx *postgres.Tx, subject affiliate.Digests) error {
	const remove = `delete from login_failures where subject = any($1)`
	_, err := tx.Exec(ctx, remove, subject)
	return err
}
