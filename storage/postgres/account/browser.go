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

// BindBrowser stores the browser of a session, and marks the session's refresh token as used.
func BindBrowser(ctx context.Context, tx *postgres.Tx, session account.Session, usedDigest [sha256.Size]byte, at time.Time) error {
	const bind = `
		with used as (update refresh_tokens set used_at = @at where digest = @used)
		update sessions
		set browser_digest = @browser_digest, keep_logged_in = @keep_logged_in, idle_expires_at = @idle_expires_at, last_used_at = @at
		where id = @session`
	return postgres.Exec(ctx, tx, bind, pgx.NamedArgs{
		"session": session.ID, "browser_digest": session.BrowserDigest, "keep_logged_in": session.KeepLoggedIn,
		"idle_expires_at": session.IdleExpiresAt, "used": usedDigest[:], "at": at,
	})
}

// browserRow is the session of a browser, with its account.
type browserRow struct {
	accountRow
	SessionID                                  affiliate.SessionID
	SessionCreatedAt, IdleExpiresAt, ExpiresAt time.Time
	RevokedAt                                  *time.Time
	BrowserDigest                              []byte
	KeepLoggedIn                               bool
}

// BrowserSession returns the session of the browser whose secret has the given digest, and its
// account. found is false if there is no such session or the user is erased. The session may
// have ended. Each open page of a user runs this query every few minutes, so it finds the rows of
// all tables by their keys.
func BrowserSession(
	ctx context.Context, db *postgres.DB, digest [sha256.Size]byte,
) (session account.Session, holder account.Account, found bool, err error) {
	const query = `
		select ` + accountColumns + `, s.id as session_id, s.created_at as session_created_at,
			s.idle_expires_at, s.expires_at, s.revoked_at, s.browser_digest, s.keep_logged_in
		` + accountFrom + `join sessions s on s.user_id = u.id
		where s.browser_digest = $1 and u.erased_at is null`
	row, found, err := postgres.Optional[browserRow](ctx, db, query, digest[:])
	return account.Session{
		ID: row.SessionID, User: row.ID, CreatedAt: row.SessionCreatedAt, IdleExpiresAt: row.IdleExpiresAt, ExpiresAt: row.ExpiresAt,
		RevokedAt: row.RevokedAt, BrowserDigest: row.BrowserDigest, KeepLoggedIn: row.KeepLoggedIn,
	}, row.account(), found, err
}

// ExtendSession moves the end of a session's idle time from the given time to
// session.IdleExpiresAt, and stores the network and the time of the use. extended is false if
// another transaction has moved the end since then.
func ExtendSession(ctx context.Context, db *postgres.DB, session account.Session, from time.Time) (extended bool, err error) {
	const extend = `
		update sessions set idle_expires_at = $3, network = $4, last_used_at = $5
		where id = $1 and idle_expires_at = $2`
	n, err := postgres.ExecCount(ctx, db, extend, session.ID, from, session.IdleExpiresAt, session.Network, session.LastUsedAt)
	return n == 1, err
}

// EndBrowserSession revokes the session of a browser. An unknown digest is not an error.
func EndBrowserSession(ctx context.Context, db *postgres.DB, digest [sha256.Size]byte, at time.Time) error {
	return postgres.Exec(ctx, db, `update sessions set revoked_at = $2 where browser_digest = $1 and revoked_at is null`, digest[:], at)
}
