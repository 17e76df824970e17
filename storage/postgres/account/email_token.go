package account

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

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

// LockEmailToken locks the user of an e-mail token and then reads the token. All
// transactions that use tokens lock the user first, so two transactions of one user
// never wait for each other's tokens. Errors: NOT_FOUND if the user does not exist.
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
	return postgres.Exec(ctx, tx, "use email token", `update email_tokens set used_at = $2 where digest = $1`, digest[:], at)
}

// RevokeEmailTokens makes all e-mail tokens of a user unusable. It also deletes the user's
// requests that were not processed yet. The caller must have locked the user.
func RevokeEmailTokens(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, at time.Time) error {
	return revokeTokens(ctx, tx, `update email_tokens set used_at = $2 where user_id = $1 and used_at is null`, user, at)
}

// RevokeEmailChanges makes the tokens unusable with which the address of a user changes. It
// also deletes the user's requests that were not processed yet: requests with a user are
// requests for a change. The caller must have locked the user.
func RevokeEmailChanges(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, at time.Time) error {
	const changes = `update email_tokens set used_at = $2 where user_id = $1 and purpose = 'change' and used_at is null`
	return revokeTokens(ctx, tx, changes, user, at)
}

func revokeTokens(ctx context.Context, tx *postgres.Tx, revoke string, user affiliate.UserID, at time.Time) error {
	if err := postgres.Exec(ctx, tx, "revoke e-mail tokens", revoke, user, at); err != nil {
		return err
	}
	return postgres.Exec(ctx, tx, "delete requests for mails", `delete from email_requests where user_id = $1`, user)
}

// CountEmailTokens counts the e-mail tokens for an address and a purpose that were
// created after the given time. It locks the address until the transaction ends, so that
// two transactions do not count at the same time.
func CountEmailTokens(ctx context.Context, tx *postgres.Tx, purpose account.EmailTokenPurpose, address string, since time.Time) (int, error) {
	const (
		// The lock needs no row of the address. Two addresses with the same hash only wait
		// for each other.
		lock = `select pg_advisory_xact_lock(hashtextextended('email_tokens:' || $1, 0))`
		// Tokens that an operator or a merchant has requested for a new account live for
		// days. They do not count.
		query = `
			select count(*) from email_tokens
			where address = $1 and purpose = $2 and created_at > $3 and expires_at <= created_at + interval '24 hours'`
	)
	if _, err := tx.Exec(ctx, lock, address); err != nil {
		return 0, err
	}
	return postgres.Value[int](ctx, tx, "count e-mail tokens", query, address, purpose, since)
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
