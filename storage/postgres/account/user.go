// Package account has the SQL for users, sessions, failed logins, e-mail tokens,
// workspaces, members, invitations, API keys and the audit log.
//
// The package reads, locks and stores rows. Its callers decide which values it stores.
// Functions with a *postgres.Tx run in the caller's transaction. Functions with a
// *postgres.DB run on their own.
package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// accountColumns and accountFrom select a user and the user's membership in a workspace. A
// partner has no membership. A merchant has none after being removed from the workspace. Each
// query must add a condition on u.erased_at.
const (
	accountColumns = `u.id, u.kind, u.email, u.password_hash, u.name, u.country, coalesce(u.locale, '') as locale, u.created_at,
		u.email_verified_at is not null as email_verified, u.unclaimed,
		exists (select from second_factors f where f.user_id = u.id and f.confirmed_at is not null) as second_factor,
		m.workspace_id, m.role, coalesce(w.require_second_factor, false) as second_factor_required`
	accountFrom = ` from users u left join members m on m.user_id = u.id left join workspaces w on w.id = m.workspace_id `
)

type accountRow struct {
	account.Account
	WorkspaceID          *affiliate.WorkspaceID
	Role                 *affiliate.Role
	SecondFactorRequired bool
}

func (r accountRow) account() account.Account {
	if r.WorkspaceID != nil {
		r.Member = &account.Member{Workspace: *r.WorkspaceID, Role: *r.Role, SecondFactorRequired: r.SecondFactorRequired}
	}
	return r.Account
}

// AccountByEmail returns the account with the given kind and email address. The
// address must be in lower case.
func AccountByEmail(ctx context.Context, db postgres.Queryer, kind affiliate.AccountKind, email string) (account account.Account, found bool, err error) {
	const query = `select ` + accountColumns + accountFrom + `where u.kind = $1 and u.email = $2 and u.erased_at is null`
	row, found, err := postgres.Optional[accountRow](ctx, db, query, kind, email)
	return row.account(), found, err
}

const accountByID = `select ` + accountColumns + accountFrom + `where u.id = $1 and u.erased_at is null`

// Account returns an account. Errors: NOT_FOUND.
func Account(ctx context.Context, db postgres.Queryer, id affiliate.UserID) (account.Account, error) {
	row, err := postgres.OneRow[accountRow](db.Query(ctx, accountByID, id))
	return row.account(), err
}

// LockUser locks the user with the given kind and email address. The address must be
// in lower case.
func LockUser(ctx context.Context, tx *postgres.Tx, kind affiliate.AccountKind, email string) (id affiliate.UserID, found bool, err error) {
	const lock = `
		select id from users
		where kind = $1 and email = $2 and erased_at is null
		for no key update`
	err = tx.QueryRow(ctx, lock, kind, email).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return id, false, nil
	}
	return id, err == nil, err
}

// LockUserByID locks a user. Errors: NOT_FOUND.
func LockUserByID(ctx context.Context, tx *postgres.Tx, id affiliate.UserID) error {
	const lock = `select from users where id = $1 and erased_at is null for no key update`
	tag, err := tx.Exec(ctx, lock, id)
	if err == nil && tag.RowsAffected() == 0 {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return err
}

// SharePartner returns the account of a partner. The account does not change before the
// transaction ends. Errors: NOT_FOUND.
func SharePartner(ctx context.Context, tx *postgres.Tx, id affiliate.UserID) (account.User, error) {
	const share = `
		select id, kind, email, name, country, created_at, unclaimed from users
		where id = $1 and kind = 'partner' and erased_at is null
		for share`
	rows, _ := tx.Query(ctx, share, id)
	user, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[account.User])
	if errors.Is(err, pgx.ErrNoRows) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return user, err
}

// InsertUser stores a user. Errors: EMAIL_TAKEN.
func InsertUser(ctx context.Context, tx *postgres.Tx, user account.User, passwordHash string) error {
	const insert = `
		insert into users (id, kind, email, password_hash, name, country, created_at, unclaimed)
		values (@id, @kind, @email, @password_hash, @name, @country, @created_at, @unclaimed)
		on conflict (kind, email) do nothing`
	if err := lockEmail(ctx, tx, user.Kind, user.Email); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"id": user.ID, "kind": user.Kind, "email": user.Email, "password_hash": passwordHash,
		"name": user.Name, "country": user.Country, "created_at": user.CreatedAt, "unclaimed": user.Unclaimed,
	})
	if err == nil && tag.RowsAffected() == 0 {
		return affiliate.Refuse(affiliate.ReasonEmailTaken)
	}
	return err
}

// lockEmail locks an address until the end of the transaction. Transactions that give a
// user an address lock it first and then check whether it is taken. Without the lock,
// concurrent transactions could violate the unique index, and Postgres would log the
// address.
func lockEmail(ctx context.Context, tx *postgres.Tx, kind affiliate.AccountKind, email string) error {
	return postgres.Exec(ctx, tx, `select pg_advisory_xact_lock(hashtextextended($1, 0))`, "email:"+string(kind)+":"+email)
}

// ResetUser replaces the name and the password of a user and marks the email address as not verified.
// For a partner, it also replaces the copies of the name and deletes the payout method. It is used when
// a person accepts an invitation and the account of the address may belong to another person.
func ResetUser(ctx context.Context, tx *postgres.Tx, user account.User, passwordHash string) error {
	const (
		update = `
			update users set name = $2, password_hash = $3, email_verified_at = null, unclaimed = false, version = version + 1
			where id = $1`
		rename       = `update participants set partner_name = $2 where partner_id = $1 and erased_at is null and partner_consent is null`
		removePayout = `delete from payout_methods where user_id = $1`
	)
	if _, err := tx.Exec(ctx, update, user.ID, user.Name, passwordHash); err != nil {
		return err
	}
	if user.Kind == affiliate.Merchant {
		return nil
	}
	if _, err := tx.Exec(ctx, rename, user.ID, user.Name); err != nil {
		return err
	}
	return postgres.Exec(ctx, tx, removePayout, user.ID)
}

// UpdatePasswordHash stores a new hash of the user's password. The password itself does
// not change.
func UpdatePasswordHash(ctx context.Context, tx *postgres.Tx, id affiliate.UserID, hash string) error {
	return postgres.Exec(ctx, tx, `update users set password_hash = $2 where id = $1`, id, hash)
}

// SetPassword stores the hash of a new password, marks the account as claimed, and sets the
// number of wrong codes to 0. It deletes the challenges of the user and a second factor that is
// not confirmed, because a person who knew the old password may have them.
func SetPassword(ctx context.Context, tx *postgres.Tx, id affiliate.UserID, hash string) error {
	batch := &pgx.Batch{}
	batch.Queue(`update users set password_hash = $2, unclaimed = false, version = version + 1 where id = $1`, id, hash)
	batch.Queue(`delete from login_challenges where user_id = $1`, id)
	batch.Queue(`delete from second_factors where user_id = $1 and confirmed_at is null`, id)
	batch.Queue(`update second_factors set failures = 0 where user_id = $1 and failures > 0`, id)
	return postgres.Send(ctx, tx, batch)
}

// UpdateUser stores the name and the locale of a user of a workspace, whom the transaction has locked.
func UpdateUser(ctx context.Context, tx *postgres.Tx, user account.User) error {
	const update = `update users set name = $2, locale = nullif($3, ''), version = version + 1 where id = $1 and kind = 'merchant'`
	return postgres.Exec(ctx, tx, update, user.ID, user.Name, user.Locale)
}

// VerifyEmail marks a user's address as verified. If it is verified already, the time of
// the verification does not change.
func VerifyEmail(ctx context.Context, tx *postgres.Tx, id affiliate.UserID, at time.Time) error {
	return postgres.Exec(ctx, tx, `update users set email_verified_at = coalesce(email_verified_at, $2) where id = $1`, id, at)
}

// ChangeEmail replaces the address of a user by a verified address, which must be in lower
// case. The copies of the address in the participants of a partner change too. The former
// address is kept until DeletePreviousEmails deletes it. After several changes, only the oldest
// address is kept, so that a second change does not hide it. It is not kept if the user changes
// back to it. Errors: EMAIL_TAKEN.
func ChangeEmail(ctx context.Context, tx *postgres.Tx, id affiliate.UserID, email string, at time.Time) error {
	const (
		update = `
			update users set previous_email = nullif(coalesce(previous_email, email), $2), email_changed_at = $3, email = $2,
				email_verified_at = $3, version = version + 1
			where id = $1`
		// copyEmail updates the copies of the address in all workspaces and both modes. A
		// merchant whose participation the partner has not accepted does not see the address.
		copyEmail = `update participants set partner_email = $2 where partner_id = $1 and erased_at is null and partner_consent is null`
	)
	var kind affiliate.AccountKind
	if err := tx.QueryRow(ctx, `select kind from users where id = $1`, id).Scan(&kind); err != nil {
		return err
	}
	if err := lockEmail(ctx, tx, kind, email); err != nil {
		return err
	}
	taken := false
	if err := tx.QueryRow(ctx, `select exists (select from users where kind = $1 and email = $2 and id <> $3)`, kind, email, id).Scan(&taken); err != nil {
		return err
	}
	if taken {
		return affiliate.Refuse(affiliate.ReasonEmailTaken)
	}
	if _, err := tx.Exec(ctx, update, id, email, at); err != nil {
		return err
	}
	return postgres.Exec(ctx, tx, copyEmail, id, email)
}

// InsertFormerEmail stores the digest of an address that a partner's account had before.
func InsertFormerEmail(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, digest []byte, at time.Time) error {
	const insert = `insert into former_emails (user_id, digest, created_at) values ($1, $2, $3) on conflict (user_id, digest) do nothing`
	return postgres.Exec(ctx, tx, insert, user, digest, at)
}

// DeletePreviousEmails deletes the former addresses of at most limit users whose last
// change of the address was before the given time. It returns the number of users.
func DeletePreviousEmails(ctx context.Context, db *postgres.DB, changedBefore time.Time, limit int) (int64, error) {
	const update = `
		update users set previous_email = null
		where id in (
			select u.id from users u
			where u.previous_email is not null and u.email_changed_at < $1
			order by u.email_changed_at
			limit $2)`
	return postgres.ExecCount(ctx, db, update, changedBefore, limit)
}

type newEmailTokenRow struct {
	account.EmailToken
	Digest []byte
}

var (
	emailTokenColumns = postgres.Columns[account.EmailToken]("t")
	findEmailToken    = `select ` + emailTokenColumns + ` from email_tokens t where t.digest = $1`
	emailTokenOfUser  = findEmailToken + ` and t.user_id = $2`
	insertEmailToken  = postgres.RowsOf[newEmailTokenRow](`insert into email_tokens ({columns}) values {rows}`)
)

// EmailToken returns the e-mail token with the given digest. The caller must lock the
// user before it uses the token (LockEmailToken).
func EmailToken(ctx context.Context, db *postgres.DB, digest [sha256.Size]byte) (token account.EmailToken, found bool, err error) {
	return postgres.Optional[account.EmailToken](ctx, db, findEmailToken, digest[:])
}

// LockEmailToken locks the user of an e-mail token and then reads the token. All transactions
// that use tokens lock the user first, so two transactions of one user cannot deadlock. Errors:
// NOT_FOUND if the user does not exist.
func LockEmailToken(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, digest [sha256.Size]byte) (token account.EmailToken, found bool, err error) {
	if err := LockUserByID(ctx, tx, user); err != nil {
		return account.EmailToken{}, false, err
	}
	return postgres.Optional[account.EmailToken](ctx, tx, emailTokenOfUser, digest[:], user)
}

// InsertEmailToken stores an e-mail token with its digest.
func InsertEmailToken(ctx context.Context, tx *postgres.Tx, token account.EmailToken, digest [sha256.Size]byte) error {
	_, err := insertEmailToken.Exec(ctx, tx, newEmailTokenRow{token, digest[:]})
	return err
}

// UseEmailToken marks an e-mail token as used.
func UseEmailToken(ctx context.Context, tx *postgres.Tx, digest [sha256.Size]byte, at time.Time) error {
	return postgres.Exec(ctx, tx, `update email_tokens set used_at = $2 where digest = $1`, digest[:], at)
}

// RevokeEmailTokens makes all e-mail tokens of a user unusable. It also deletes the user's
// requests for mails that were not processed yet. The caller must have locked the user.
func RevokeEmailTokens(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, at time.Time) error {
	return revokeTokens(ctx, tx, `update email_tokens set used_at = $2 where user_id = $1 and used_at is null`, user, at)
}

// RevokeEmailChanges makes all tokens for a change of a user's address unusable. It also
// deletes the user's requests for mails that were not processed yet. A request with a user is
// always a request for a change. The caller must have locked the user.
func RevokeEmailChanges(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, at time.Time) error {
	const changes = `update email_tokens set used_at = $2 where user_id = $1 and purpose = 'change' and used_at is null`
	return revokeTokens(ctx, tx, changes, user, at)
}

func revokeTokens(ctx context.Context, tx *postgres.Tx, revoke string, user affiliate.UserID, at time.Time) error {
	if err := postgres.Exec(ctx, tx, revoke, user, at); err != nil {
		return err
	}
	return postgres.Exec(ctx, tx, `delete from email_requests where user_id = $1`, user)
}

// CountEmailTokens counts the e-mail tokens for an address and a purpose that were
// created after the given time. It locks the address until the transaction ends, so that
// two transactions do not count at the same time.
func CountEmailTokens(ctx context.Context, tx *postgres.Tx, purpose account.EmailTokenPurpose, address string, since time.Time) (int, error) {
	const (
		// The lock needs no row of the address. Two addresses with the same hash only wait
		// for each other.
		lock = `select pg_advisory_xact_lock(hashtextextended('email_tokens:' || $1, 0))`
		// Tokens that an operator or a merchant has requested for a new account live for days.
		// They are not counted.
		query = `
			select count(*) from email_tokens
			where address = $1 and purpose = $2 and created_at > $3 and expires_at <= created_at + interval '24 hours'`
	)
	if _, err := tx.Exec(ctx, lock, address); err != nil {
		return 0, err
	}
	return postgres.Value[int](ctx, tx, query, address, purpose, since)
}

// DeleteExpiredEmailTokens deletes at most limit e-mail tokens that expired before the
// given time. It returns the number of deleted tokens.
func DeleteExpiredEmailTokens(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	const remove = `
		delete from email_tokens
		where digest in (select digest from email_tokens where expires_at < $1 order by expires_at limit $2)`
	return postgres.ExecCount(ctx, db, remove, before, limit)
}

var (
	insertEmailRequest = postgres.RowsOf[account.EmailRequest](`insert into email_requests ({columns}) values {rows}`)
	selectEmailRequest = `select ` + postgres.Columns[account.EmailRequest]("r") + ` from email_requests r where r.id = $1`
)

// InsertEmailRequest stores a request for a mail. The caller also enqueues the job that
// processes the request.
func InsertEmailRequest(ctx context.Context, tx *postgres.Tx, r account.EmailRequest) error {
	_, err := insertEmailRequest.Exec(ctx, tx, r)
	return err
}

// EmailRequest returns a request for a mail. found is false if it was processed or
// deleted.
func EmailRequest(ctx context.Context, tx *postgres.Tx, id account.EmailRequestID) (request account.EmailRequest, found bool, err error) {
	return postgres.Optional[account.EmailRequest](ctx, tx, selectEmailRequest, id)
}

// DeleteEmailRequest deletes a request for a mail. found is false if another transaction
// has deleted it.
func DeleteEmailRequest(ctx context.Context, tx *postgres.Tx, id account.EmailRequestID) (found bool, err error) {
	const remove = `delete from email_requests where id = $1`
	tag, err := tx.Exec(ctx, remove, id)
	return tag.RowsAffected() == 1, err
}

// DeleteOldEmailRequests deletes at most limit requests for mails that were stored before
// the given time. It returns the number of deleted requests. Normally, a job has deleted
// these requests.
func DeleteOldEmailRequests(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	const remove = `
		delete from email_requests
		where id in (select id from email_requests where created_at < $1 order by created_at limit $2)`
	return postgres.ExecCount(ctx, db, remove, before, limit)
}
