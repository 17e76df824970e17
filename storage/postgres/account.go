package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// CreateMerchant makes a merchant with a workspace, its public keys and a
// session. The merchant is who did it, from where by says.
func (s *Store) CreateMerchant(ctx context.Context, user affiliate.User, passwordHash string, member affiliate.Member,
	keys []affiliate.NewAPIKey, session affiliate.Session, refresh [sha256.Size]byte, by affiliate.Actor,
) error {
	by.User = &user.ID
	return s.InTx(ctx, func(tx *Tx) error {
		if err := insertUser(ctx, tx, user, passwordHash); err != nil {
			return err
		}
		w := member.Workspace
		if err := insertWorkspace(ctx, tx, w); err != nil {
			return err
		}
		if err := insertMember(ctx, tx, w.ID, user.ID, member.Role, user.CreatedAt); err != nil {
			return err
		}
		for _, key := range keys {
			if err := insertKey(ctx, tx, key); err != nil {
				return err
			}
		}
		if err := insertSession(ctx, tx, session, refresh); err != nil {
			return err
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: w.ID, Actor: by, At: user.CreatedAt,
			Action: "workspace.create", ResourceType: "workspace", ResourceID: w.ID,
			After: map[string]string{"name": w.Name},
		}); err != nil {
			return err
		}
		return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: w.ID})
	})
}

// CreatePartner makes a partner with a session. The partner is who did it, from
// where by says.
func (s *Store) CreatePartner(ctx context.Context, user affiliate.User, passwordHash string,
	session affiliate.Session, refresh [sha256.Size]byte, by affiliate.Actor,
) error {
	return s.InTx(ctx, func(tx *Tx) error {
		if err := insertUser(ctx, tx, user, passwordHash); err != nil {
			return err
		}
		if err := insertSession(ctx, tx, session, refresh); err != nil {
			return err
		}
		return recordAccount(ctx, tx, user.ID, "account.create", user.CreatedAt, by, nil, nil)
	})
}

func insertUser(ctx context.Context, tx *Tx, user affiliate.User, passwordHash string) error {
	const insert = `
		insert into users (id, kind, email, password_hash, name, country, created_at)
		values ($1, $2, $3, $4, $5, $6, $7)`
	_, err := tx.Exec(ctx, insert, user.ID, user.Kind, user.Email, passwordHash, user.Name, user.Country, user.CreatedAt)
	return Refusal(err)
}

func insertSession(ctx context.Context, tx *Tx, session affiliate.Session, refresh [sha256.Size]byte) error {
	const insert = `
		insert into sessions (id, user_id, created_at, idle_expires_at, expires_at)
		values ($1, $2, $3, $4, $5)`
	if _, err := tx.Exec(ctx, insert, session.ID, session.User, session.CreatedAt, session.IdleExpiresAt, session.ExpiresAt); err != nil {
		return err
	}
	return insertRefreshToken(ctx, tx, refresh, session.ID, session.CreatedAt)
}

func insertRefreshToken(ctx context.Context, tx *Tx, digest [sha256.Size]byte, session affiliate.SessionID, now time.Time) error {
	const insert = `insert into refresh_tokens (digest, session_id, created_at) values ($1, $2, $3)`
	_, err := tx.Exec(ctx, insert, digest[:], session, now)
	return err
}

// accountColumns and accountJoins read a user with its place in a workspace,
// which partners and removed merchants do not have.
const (
	accountColumns = `
		u.id, u.kind, u.email, u.password_hash, u.name, u.country, u.created_at,
		m.role, w.id, w.name, w.currency, w.timezone, w.allowed_origins, w.origin_policy, w.test_mail_redirect,
		w.version, w.created_at, w.updated_at`
	accountJoins = `
		left join members m on m.user_id = u.id
		left join workspaces w on w.id = m.workspace_id`
)

func scanAccount(row pgx.Row) (affiliate.Account, error) {
	var (
		a         affiliate.Account
		role      *affiliate.Role
		workspace struct {
			ID               *affiliate.WorkspaceID
			Name             *string
			Currency         *string
			Timezone         *string
			AllowedOrigins   []string
			OriginPolicy     *affiliate.OriginPolicy
			TestMailRedirect *string
			Version          *int
			CreatedAt        *time.Time
			UpdatedAt        *time.Time
		}
	)
	w := &workspace
	err := row.Scan(
		&a.User.ID, &a.User.Kind, &a.User.Email, &a.PasswordHash, &a.User.Name, &a.User.Country, &a.User.CreatedAt,
		&role, &w.ID, &w.Name, &w.Currency, &w.Timezone, &w.AllowedOrigins, &w.OriginPolicy, &w.TestMailRedirect,
		&w.Version, &w.CreatedAt, &w.UpdatedAt)
	if err == nil && w.ID != nil {
		a.Member = &affiliate.Member{
			Role: *role,
			Workspace: affiliate.Workspace{
				ID: *w.ID, Name: *w.Name, Currency: *w.Currency, Timezone: *w.Timezone,
				AllowedOrigins: w.AllowedOrigins, OriginPolicy: *w.OriginPolicy, TestMailRedirect: w.TestMailRedirect,
				Version: *w.Version, CreatedAt: w.CreatedAt.UTC(), UpdatedAt: w.UpdatedAt.UTC(),
			}.SeenBy(*role),
		}
	}
	return a, err
}

// Account finds an account by kind and lower-case address.
func (s *Store) Account(ctx context.Context, kind affiliate.AccountKind, email string) (affiliate.Account, bool, error) {
	const query = `select ` + accountColumns + ` from users u ` + accountJoins + `
		where u.kind = $1 and u.email = $2 and u.erased_at is null`
	account, err := scanAccount(s.pool.QueryRow(ctx, query, kind, email))
	if errors.Is(err, pgx.ErrNoRows) {
		return affiliate.Account{}, false, nil
	}
	return account, err == nil, err
}

// NoteLogin notes a try as failed and then counts the subject's other failures
// since an instant. Two statements, each its own transaction: of tries at the
// same time, the one that commits later sees the earlier.
func (s *Store) NoteLogin(ctx context.Context, try affiliate.LoginTryID, subject []byte, now, since time.Time) (int, time.Time, error) {
	const insert = `insert into login_failures (id, subject, failed_at) values ($1, $2, $3)`
	const others = `
		select count(*), coalesce(max(failed_at), to_timestamp(0))
		from login_failures where subject = $1 and failed_at > $2 and id <> $3`
	var count int
	var last time.Time
	if _, err := s.pool.Exec(ctx, insert, try, subject, now); err != nil {
		return 0, last, err
	}
	err := s.pool.QueryRow(ctx, others, subject, since, try).Scan(&count, &last)
	return count, last, err
}

// WithdrawLogin forgets a try that was not made.
func (s *Store) WithdrawLogin(ctx context.Context, try affiliate.LoginTryID) error {
	const forget = `delete from login_failures where id = $1`
	_, err := s.pool.Exec(ctx, forget, try)
	return err
}

// OpenSession stores a new session, forgets the subject's failures and renews
// the password hash when one is given.
func (s *Store) OpenSession(ctx context.Context, session affiliate.Session, refresh [sha256.Size]byte, subject []byte, renewedHash string) error {
	const forget = `delete from login_failures where subject = $1`
	const renew = `update users set password_hash = $2 where id = $1`
	return s.InTx(ctx, func(tx *Tx) error {
		if err := insertSession(ctx, tx, session, refresh); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, forget, subject); err != nil {
			return err
		}
		if renewedHash == "" {
			return nil
		}
		_, err := tx.Exec(ctx, renew, session.User, renewedHash)
		return err
	})
}

// RotateRefreshToken spends one token and stores the next. Two calls with one
// token meet at its row: the second finds it spent and ends the session.
func (s *Store) RotateRefreshToken(ctx context.Context, spent, fresh [sha256.Size]byte, kind *affiliate.AccountKind, now time.Time) (affiliate.Account, affiliate.SessionID, error) {
	const spend = `
		update refresh_tokens t set used_at = $2
		from sessions s join users u on u.id = s.user_id
		where t.digest = $1 and t.used_at is null and s.id = t.session_id
		  and s.revoked_at is null and s.idle_expires_at > $2 and s.expires_at > $2
		  and u.erased_at is null and ($3::text is null or u.kind = $3)
		  and (u.kind = 'partner' or exists (select from members m where m.user_id = u.id))
		returning s.id`
	const revokeFamily = `
		update sessions s set revoked_at = $2
		from refresh_tokens t
		where t.digest = $1 and t.used_at is not null and s.id = t.session_id and s.revoked_at is null`
	const extend = `
		update sessions set idle_expires_at = least($2, expires_at)
		where id = $1`
	const read = `select ` + accountColumns + ` from sessions s join users u on u.id = s.user_id ` + accountJoins + `
		where s.id = $1`
	var (
		account affiliate.Account
		session affiliate.SessionID
		refused error
	)
	err := s.InTx(ctx, func(tx *Tx) error {
		refused = nil
		err := tx.QueryRow(ctx, spend, spent[:], now, kind).Scan(&session)
		if errors.Is(err, pgx.ErrNoRows) {
			// The revocation has to commit, so the refusal goes around the transaction.
			refused = affiliate.Refuse(affiliate.ReasonRefreshTokenInvalid)
			_, err = tx.Exec(ctx, revokeFamily, spent[:], now)
			return err
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, extend, session, now.Add(affiliate.RefreshTokenIdle)); err != nil {
			return err
		}
		if err := insertRefreshToken(ctx, tx, fresh, session, now); err != nil {
			return err
		}
		account, err = scanAccount(tx.QueryRow(ctx, read, session))
		return err
	})
	if err == nil {
		err = refused
	}
	return account, session, err
}

// EndSession revokes the session of a token, spent or not.
func (s *Store) EndSession(ctx context.Context, refresh [sha256.Size]byte, now time.Time) error {
	const revoke = `
		update sessions s set revoked_at = $2
		from refresh_tokens t
		where t.digest = $1 and s.id = t.session_id and s.revoked_at is null`
	_, err := s.pool.Exec(ctx, revoke, refresh[:], now)
	return err
}

// LiveSession is the user of a session that has neither ended nor been revoked.
// Every request with a token runs it: three reads by key.
func (s *Store) LiveSession(ctx context.Context, id affiliate.SessionID, now time.Time) (affiliate.User, *affiliate.Member, bool, error) {
	const query = `select ` + accountColumns + ` from sessions s join users u on u.id = s.user_id ` + accountJoins + `
		where s.id = $1 and s.revoked_at is null and s.expires_at > $2 and u.erased_at is null`
	account, err := scanAccount(s.pool.QueryRow(ctx, query, id, now))
	if errors.Is(err, pgx.ErrNoRows) {
		return affiliate.User{}, nil, false, nil
	}
	return account.User, account.Member, err == nil, err
}

// ForgetEnded deletes sessions that ended before an instant, with their tokens,
// and login failures as old; at most limit sessions at a time. It reports how
// many sessions went.
func (s *Store) ForgetEnded(ctx context.Context, before time.Time, limit int) (int64, error) {
	const forgetTokens = `
		delete from refresh_tokens where session_id in (select id from sessions where expires_at < $1 order by expires_at limit $2)`
	const forgetSessions = `
		delete from sessions s where id in (select id from sessions where expires_at < $1 order by expires_at limit $2)
		and not exists (select from refresh_tokens t where t.session_id = s.id)`
	const forgetFailures = `delete from login_failures where failed_at < $1`
	var gone int64
	err := s.InTx(ctx, func(tx *Tx) error {
		if _, err := tx.Exec(ctx, forgetTokens, before, limit); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, forgetSessions, before, limit)
		if err != nil {
			return err
		}
		gone = tag.RowsAffected()
		_, err = tx.Exec(ctx, forgetFailures, before)
		return err
	})
	return gone, err
}
