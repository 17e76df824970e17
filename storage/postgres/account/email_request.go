package account

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// InsertEmailRequest stores a request for a mail. The caller also enqueues the job that
// processes the request.
func InsertEmailRequest(ctx context.Context, tx *postgres.Tx, r account.EmailRequest) error {
	const insert = `
		insert into email_requests (id, purpose, account_kind, address, user_id, session_id, created_at)
		values (@id, @purpose, @kind, @address, @user, @session, @created_at)`
	_, err := tx.Exec(ctx, insert, pgx.NamedArgs{
		"id": r.ID, "purpose": r.Purpose, "kind": r.Account, "address": r.Address,
		"user": r.User, "session": r.Session, "created_at": r.CreatedAt,
	})
	return err
}

type emailRequestRow struct {
	ID          account.EmailRequestID
	Purpose     account.EmailTokenPurpose
	AccountKind affiliate.AccountKind
	Address     string
	UserID      *affiliate.UserID
	SessionID   *affiliate.SessionID
	CreatedAt   time.Time
}

func (r emailRequestRow) request() account.EmailRequest {
	return account.EmailRequest{
		ID: r.ID, Purpose: r.Purpose, Account: r.AccountKind, Address: r.Address,
		User: r.UserID, Session: r.SessionID, CreatedAt: r.CreatedAt,
	}
}

// EmailRequest returns a request for a mail. found is false if it was processed or
// deleted.
func EmailRequest(ctx context.Context, tx *postgres.Tx, id account.EmailRequestID) (request account.EmailRequest, found bool, err error) {
	const query = `
		select id, purpose, account_kind, address, user_id, session_id, created_at
		from email_requests where id = $1`
	rows, err := tx.Query(ctx, query, id)
	return optional(rows, err, emailRequestRow.request)
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
	tag, err := db.Exec(ctx, remove, before, limit)
	return tag.RowsAffected(), err
}
