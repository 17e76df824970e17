package account

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var (
	insertSession    = postgres.RowsOf[account.Session](`insert into sessions ({columns}) values {rows}`)
	lockRefreshToken = `
		select ` + postgres.Columns[account.Session]("s") + `, t.used_at
		from refresh_tokens t
		join sessions s on s.id = t.session_id
		where t.digest = $1
		for no key update of t, s`
)

// InsertSession stores a session with the digest of its first refresh token.
func InsertSession(ctx context.Context, tx *postgres.Tx, session account.Session, tokenDigest [sha256.Size]byte) error {
	const insertToken = `insert into refresh_tokens (digest, session_id, created_at) values ($1, $2, $3)`
	if _, err := insertSession.Exec(ctx, tx, session); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, insertToken, tokenDigest[:], session.ID, session.CreatedAt)
	return err
}

// LockRefreshToken locks a refresh token and its session and returns them. If two
// transactions use the same token at the same time, the second transaction waits and then
// reads the changes of the first transaction.
func LockRefreshToken(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte) (token account.RefreshToken, found bool, err error) {
	rows, err := tx.Query(ctx, lockRefreshToken, digest[:])
	return optional[account.RefreshToken](rows, err)
}

// RotateRefreshToken marks the refresh token with the digest usedDigest as used, stores a
// new token with the digest nextDigest and moves the end of the session's idle time to
// session.IdleExpiresAt.
func RotateRefreshToken(ctx context.Context, tx *postgres.Tx, session account.Session, usedDigest, nextDigest [sha256.Size]byte, at time.Time) error {
	const rotate = `
		with used as (update refresh_tokens set used_at = @at where digest = @used),
			extended as (update sessions set idle_expires_at = @idle_expires_at where id = @session)
		insert into refresh_tokens (digest, session_id, created_at) values (@next, @session, @at)`
	_, err := tx.Exec(ctx, rotate, pgx.NamedArgs{
		"session": session.ID, "idle_expires_at": session.IdleExpiresAt, "used": usedDigest[:], "next": nextDigest[:], "at": at,
	})
	return err
}

// RevokeSession revokes a session. The session's access tokens become invalid too.
func RevokeSession(ctx context.Context, tx *postgres.Tx, id affiliate.SessionID, at time.Time) error {
	const revoke = `update sessions set revoked_at = $2 where id = $1 and revoked_at is null`
	_, err := tx.Exec(ctx, revoke, id, at)
	return err
}

// RevokeSessions revokes all sessions of a user. The access tokens of these sessions
// become invalid too.
func RevokeSessions(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, at time.Time) error {
	const revoke = `update sessions set revoked_at = $2 where user_id = $1 and revoked_at is null`
	_, err := tx.Exec(ctx, revoke, user, at)
	return err
}

// RevokeOtherSessions revokes all sessions of a user except one. If except is nil, it
// revokes all of them.
func RevokeOtherSessions(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, except *affiliate.SessionID, at time.Time) error {
	const revoke = `
		update sessions set revoked_at = $3
		where user_id = $1 and id is distinct from $2 and revoked_at is null`
	_, err := tx.Exec(ctx, revoke, user, except, at)
	return err
}

// RevokeSessionOfToken revokes the session of a refresh token. The token may already
// have been used. An unknown token is not an error.
func RevokeSessionOfToken(ctx context.Context, db *postgres.DB, digest [sha256.Size]byte, at time.Time) error {
	const revoke = `
		update sessions s set revoked_at = $2
		from refresh_tokens t
		where t.digest = $1 and s.id = t.session_id and s.revoked_at is null`
	_, err := db.Exec(ctx, revoke, digest[:], at)
	return err
}

// ActiveSession returns the user of a session and the user's membership in a workspace,
// which is nil if the user is not a member.
// It finds a session only if the session has neither reached its expiry time nor been
// revoked. It does not check the idle time; that is checked when a refresh token is used.
// Every request with an access token runs this query, so it finds the rows of all
// tables by their keys.
func ActiveSession(
	ctx context.Context, db *postgres.DB, id affiliate.SessionID, now time.Time,
) (user account.User, member *account.Member, found bool, err error) {
	const query = `
		select ` + accountColumns + accountFrom + `join sessions s on s.user_id = u.id
		where s.id = $1 and s.revoked_at is null and s.expires_at > $2 and u.erased_at is null`
	rows, err := db.Query(ctx, query, id, now)
	row, found, err := optional[accountRow](rows, err)
	return row.User, row.account().Member, found, err
}

// ErasedSession returns the user of a session whose account was erased. found is false
// if the account was not erased, and after the session has expired.
func ErasedSession(ctx context.Context, db *postgres.DB, id affiliate.SessionID, now time.Time) (user account.User, found bool, err error) {
	const query = `
		select ` + accountColumns + accountFrom + `join sessions s on s.user_id = u.id
		where s.id = $1 and s.expires_at > $2 and u.erased_at is not null`
	rows, err := db.Query(ctx, query, id, now)
	row, found, err := optional[accountRow](rows, err)
	return row.User, found, err
}

// DeleteEndedSessions deletes at most limit sessions that expired before the given time,
// together with their refresh tokens. It also deletes all login failures before this
// time. It returns the number of deleted sessions.
func DeleteEndedSessions(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	const deleteTokens = `
		delete from refresh_tokens where session_id in (select id from sessions where expires_at < $1 order by expires_at limit $2)`
	const deleteSessions = `
		delete from sessions s where id in (select id from sessions where expires_at < $1 order by expires_at limit $2)
		and not exists (select from refresh_tokens t where t.session_id = s.id)`
	const deleteFailures = `delete from login_failures where failed_at < $1`
	var deleted int64
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		if _, err := tx.Exec(ctx, deleteTokens, before, limit); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, deleteSessions, before, limit)
		if err != nil {
			return err
		}
		deleted = tag.RowsAffected()
		_, err = tx.Exec(ctx, deleteFailures, before)
		return err
	})
	return deleted, err
}

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
