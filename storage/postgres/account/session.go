package account

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/fraud"
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
	return postgres.Exec(ctx, tx, insertToken, tokenDigest[:], session.ID, session.CreatedAt)
}

// LockRefreshToken locks a refresh token and its session and returns them. If two
// transactions use the same token at the same time, the second transaction waits and then
// reads the changes of the first transaction.
func LockRefreshToken(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte) (token account.RefreshToken, found bool, err error) {
	return postgres.Optional[account.RefreshToken](ctx, tx, lockRefreshToken, digest[:])
}

// RotateRefreshToken marks the refresh token with the digest usedDigest as used, stores a
// new token with the digest nextDigest and stores the session's last use and the end of its
// idle time.
func RotateRefreshToken(ctx context.Context, tx *postgres.Tx, session account.Session, usedDigest, nextDigest [sha256.Size]byte, at time.Time) error {
	const rotate = `
		with used as (update refresh_tokens set used_at = @at where digest = @used),
			extended as (
				update sessions set idle_expires_at = @idle_expires_at, network = @network, last_used_at = @at where id = @session)
		insert into refresh_tokens (digest, session_id, created_at) values (@next, @session, @at)`
	return postgres.Exec(ctx, tx, rotate, pgx.NamedArgs{
		"session": session.ID, "idle_expires_at": session.IdleExpiresAt, "network": session.Network,
		"used": usedDigest[:], "next": nextDigest[:], "at": at,
	})
}

// Sessions that can be refreshed at a time. ActiveSession does not check the idle time.
const liveSessions = ` from sessions s where s.user_id = @user and s.revoked_at is null and s.expires_at > @now and s.idle_expires_at > @now`

var (
	countSessions = postgres.CountUpTo(affiliate.MaxTotal, liveSessions)
	listSessions  = `select ` + postgres.Columns[account.Session]("s") + liveSessions + ` order by s.last_used_at desc, s.id desc limit @limit offset @offset`
)

// LiveSessions returns one page of the sessions of a user that have not ended, and their
// number. The session that was used last comes first.
func LiveSessions(
	ctx context.Context, db *postgres.DB, user affiliate.UserID, now time.Time, page affiliate.Page,
) ([]account.Session, int64, error) {
	args := pgx.NamedArgs{"user": user, "now": now, "limit": page.Size, "offset": page.Offset()}
	total, err := postgres.Value[int64](ctx, db, countSessions, args)
	if err != nil {
		return nil, 0, err
	}
	sessions, err := postgres.List[account.Session](ctx, db, listSessions, args)
	return sessions, total, err
}

// EndSession revokes a session of a user. found is false if the user has no such session or
// it has ended.
func EndSession(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, id affiliate.SessionID, at time.Time) (found bool, err error) {
	const end = `
		update sessions set revoked_at = $3
		where id = $1 and user_id = $2 and revoked_at is null and expires_at > $3 and idle_expires_at > $3`
	n, err := postgres.ExecCount(ctx, tx, end, id, user, at)
	return n == 1, err
}

// RevokeSession revokes a session. The session's access tokens become invalid too.
func RevokeSession(ctx context.Context, tx *postgres.Tx, id affiliate.SessionID, at time.Time) error {
	return postgres.Exec(ctx, tx, `update sessions set revoked_at = $2 where id = $1 and revoked_at is null`, id, at)
}

// RevokeSessions revokes all sessions of a user. The access tokens of these sessions
// become invalid too.
func RevokeSessions(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, at time.Time) error {
	return RevokeOtherSessions(ctx, tx, user, nil, at)
}

// RevokeOtherSessions revokes all sessions of a user, except the given session if it is not
// nil.
func RevokeOtherSessions(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, except *affiliate.SessionID, at time.Time) error {
	const revoke = `
		update sessions set revoked_at = $3
		where user_id = $1 and id is distinct from $2 and revoked_at is null`
	return postgres.Exec(ctx, tx, revoke, user, except, at)
}

// RevokeSessionOfToken revokes the session of a refresh token. The token may already
// have been used. An unknown token is not an error.
func RevokeSessionOfToken(ctx context.Context, db *postgres.DB, digest [sha256.Size]byte, at time.Time) error {
	const revoke = `
		update sessions s set revoked_at = $2
		from refresh_tokens t
		where t.digest = $1 and s.id = t.session_id and s.revoked_at is null`
	return postgres.Exec(ctx, db, revoke, digest[:], at)
}

// ActiveSession returns the user of a session and the user's membership in a workspace, which
// is nil if the user is not a member. It finds a session only if the session is neither expired
// nor revoked, and the user is not erased. It does not check the idle time; that is checked
// when a session is refreshed or renewed. Every request with an access token runs this query, so it finds
// the rows of all tables by their keys.
func ActiveSession(
	ctx context.Context, db *postgres.DB, id affiliate.SessionID, now time.Time,
) (user account.User, member *account.Member, found bool, err error) {
	const query = `
		select ` + accountColumns + accountFrom + `join sessions s on s.user_id = u.id
		where s.id = $1 and s.revoked_at is null and s.expires_at > $2 and u.erased_at is null`
	row, found, err := postgres.Optional[accountRow](ctx, db, query, id, now)
	return row.User, row.account().Member, found, err
}

// ErasedSession returns the user of a session if the user's account was erased. found is false
// if the account was not erased or the session has expired.
func ErasedSession(ctx context.Context, db *postgres.DB, id affiliate.SessionID, now time.Time) (user account.User, found bool, err error) {
	const query = `
		select ` + accountColumns + accountFrom + `join sessions s on s.user_id = u.id
		where s.id = $1 and s.expires_at > $2 and u.erased_at is not null`
	row, found, err := postgres.Optional[accountRow](ctx, db, query, id, now)
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
		return postgres.Exec(ctx, tx, deleteFailures, before)
	})
	return deleted, err
}

// AddLoginAttempt stores a login attempt as a failure before its password is checked.
// It commits before it returns. If two attempts run at the same time, at least one of
// them therefore counts the other.
func AddLoginAttempt(ctx context.Context, db *postgres.DB, attempt account.LoginAttempt) error {
	const insert = `insert into login_failures (id, subject, bucket, failed_at) values ($1, $2, $3, $4)`
	return postgres.Exec(ctx, db, insert, attempt.ID, attempt.Subject.First(), attempt.Bucket.First(), attempt.At)
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
	return postgres.Exec(ctx, db, `delete from login_failures where id = $1`, id)
}

// DeleteBucketFailures deletes all failed login attempts in a bucket.
func DeleteBucketFailures(ctx context.Context, tx *postgres.Tx, bucket affiliate.Digests) error {
	return postgres.Exec(ctx, tx, `delete from login_failures where bucket = any($1)`, bucket)
}

// DeleteLoginFailures deletes all failed login attempts for a subject (a hash of the account's
// kind and email address).
func DeleteLoginFailures(ctx context.Context, tx *postgres.Tx, subject affiliate.Digests) error {
	return postgres.Exec(ctx, tx, `delete from login_failures where subject = any($1)`, subject)
}

// SeeDevice stores that a user has used a device. It returns true if the user had already used
// the device since the given time. device is the result of account.DeviceHash.
func SeeDevice(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, device affiliate.Digests, at, since time.Time) (bool, error) {
	// The select does not see the row that the insert stores.
	const see = `
		with stored as (
			insert into user_devices as d (user_id, device, seen_at)
			values ($1, $2, $3)
			on conflict (user_id, device) do update set seen_at = greatest(d.seen_at, excluded.seen_at)
		)
		select exists (select from user_devices where user_id = $1 and device = any($5) and seen_at >= $4)`
	return postgres.Value[bool](ctx, tx, see, user, device.First(), at, since, device)
}

// KnowsDevice reports whether a user has used a device since the given time. device is the
// result of account.DeviceHash.
func KnowsDevice(ctx context.Context, db *postgres.DB, user affiliate.UserID, device affiliate.Digests, since time.Time) (bool, error) {
	const query = `select exists (select from user_devices where user_id = $1 and device = any($2) and seen_at >= $3)`
	return postgres.Value[bool](ctx, db, query, user, device, since)
}

const deleteOldDevices = `
	delete from user_devices
	where ctid = any (array(
		select ctid from user_devices where seen_at < $1 order by seen_at limit $2 for update skip locked))`

// DeleteOldDevices deletes at most limit devices that were last seen before the given
// time. It returns the number of deleted rows.
func DeleteOldDevices(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	return postgres.ExecCount(ctx, db, deleteOldDevices, before, limit)
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
	return postgres.Exec(ctx, db, store, o.User, o.IPPrefix, agent, o.SeenAt)
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
	return postgres.ExecCount(ctx, db, deleteOldOrigins, before, limit)
}

var (
	selectSecondFactor = `select ` + postgres.Columns[account.SecondFactor]("f") + ` from second_factors f where f.user_id = $1`
	selectChallenge    = `select ` + postgres.Columns[account.LoginChallenge]("c") + ` from login_challenges c where c.digest = $1`
)

// SecondFactor returns the second factor of a user, also if it was not confirmed. The caller
// must have locked the user.
func SecondFactor(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) (factor account.SecondFactor, found bool, err error) {
	return postgres.Optional[account.SecondFactor](ctx, tx, selectSecondFactor, user)
}

// InsertSecondFactor stores a second factor that is not confirmed. It replaces an earlier
// factor that is not confirmed.
func InsertSecondFactor(ctx context.Context, tx *postgres.Tx, f account.SecondFactor) error {
	const insert = `
		insert into second_factors (user_id, secret, created_at) values ($1, $2, $3)
		on conflict (user_id) do update
		set secret = excluded.secret, created_at = excluded.created_at
		where second_factors.confirmed_at is null`
	return postgres.Exec(ctx, tx, insert, f.User, f.Secret, f.CreatedAt)
}

// ConfirmSecondFactor stores that a user has confirmed the second factor with the code of a
// time step, and stores the digests of its recovery codes.
func ConfirmSecondFactor(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, step int64, recoveryCodes [][]byte, at time.Time) error {
	const (
		confirm = `update second_factors set confirmed_at = $2, last_step = $3 where user_id = $1`
		insert  = `insert into recovery_codes (user_id, digest) select $1, unnest($2::bytea[])`
	)
	batch := &pgx.Batch{}
	batch.Queue(confirm, user, at, step)
	batch.Queue(insert, user, recoveryCodes)
	return postgres.Send(ctx, tx, batch)
}

// UseTimeStep stores the time step of a code that was accepted.
func UseTimeStep(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, step int64) error {
	return postgres.Exec(ctx, tx, `update second_factors set last_step = $2 where user_id = $1`, user, step)
}

// CountCodeFailure adds 1 to the number of a user's wrong codes.
func CountCodeFailure(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	return postgres.Exec(ctx, tx, `update second_factors set failures = failures + 1 where user_id = $1`, user)
}

// ResetCodeFailures sets the number of a user's wrong codes to 0.
func ResetCodeFailures(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	return postgres.Exec(ctx, tx, `update second_factors set failures = 0 where user_id = $1 and failures > 0`, user)
}

// UseRecoveryCode marks a recovery code as used. found is false if the user has no such code
// or has used it. left is the number of codes that remain.
func UseRecoveryCode(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, digest []byte, at time.Time) (left int, found bool, err error) {
	const (
		use   = `update recovery_codes set used_at = $3 where user_id = $1 and digest = $2 and used_at is null`
		count = `select count(*) from recovery_codes where user_id = $1 and used_at is null`
	)
	tag, err := tx.Exec(ctx, use, user, digest, at)
	if err != nil || tag.RowsAffected() == 0 {
		return 0, false, err
	}
	err = tx.QueryRow(ctx, count, user).Scan(&left)
	return left, true, err
}

// DeleteSecondFactor deletes the second factor of a user with its recovery codes, and the
// user's challenges.
func DeleteSecondFactor(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) error {
	batch := &pgx.Batch{}
	batch.Queue(`delete from recovery_codes where user_id = $1`, user)
	batch.Queue(`delete from second_factors where user_id = $1`, user)
	batch.Queue(`delete from login_challenges where user_id = $1`, user)
	return postgres.Send(ctx, tx, batch)
}

// InsertLoginChallenge stores a challenge with its digest.
func InsertLoginChallenge(ctx context.Context, tx *postgres.Tx, c account.LoginChallenge, digest [sha256.Size]byte) error {
	const insert = `insert into login_challenges (digest, user_id, created_at, expires_at) values ($1, $2, $3, $4)`
	return postgres.Exec(ctx, tx, insert, digest[:], c.User, c.CreatedAt, c.ExpiresAt)
}

// LoginChallenge returns the challenge with a digest. Before a transaction changes the
// challenge, it must lock the user and read the challenge again.
func LoginChallenge(ctx context.Context, db postgres.Queryer, digest [sha256.Size]byte) (challenge account.LoginChallenge, found bool, err error) {
	return postgres.Optional[account.LoginChallenge](ctx, db, selectChallenge, digest[:])
}

// CountChallengeFailure adds 1 to the number of wrong codes for a challenge.
func CountChallengeFailure(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte) error {
	return postgres.Exec(ctx, tx, `update login_challenges set failures = failures + 1 where digest = $1`, digest[:])
}

// DeleteLoginChallenge deletes the challenge with a digest.
func DeleteLoginChallenge(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte) error {
	return postgres.Exec(ctx, tx, `delete from login_challenges where digest = $1`, digest[:])
}

// DeleteExpiredChallenges deletes at most limit challenges that expired before the given
// time. It returns the number of deleted challenges.
func DeleteExpiredChallenges(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	const remove = `
		delete from login_challenges
		where digest in (select digest from login_challenges where expires_at < $1 order by expires_at limit $2)`
	return postgres.ExecCount(ctx, db, remove, before, limit)
}
