package account

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// AddLoginTry stores an attempt to log in as failed. It commits before it returns, so
// that of two attempts at the same time at least one counts the other.
func (s *Store) AddLoginTry(ctx context.Context, try affiliate.LoginTry) error {
	const insert = `insert into login_failures (id, subject, failed_at) values ($1, $2, $3)`
	_, err := s.db.Pool().Exec(ctx, insert, try.ID, try.Subject, try.At)
	return err
}

// OtherLoginFailures counts the failed attempts of the subject of a try since an
// instant, without the try itself, and returns the time of the last.
func (s *Store) OtherLoginFailures(ctx context.Context, try affiliate.LoginTry, since time.Time) (count int, last time.Time, err error) {
	const query = `
		select count(*), coalesce(max(failed_at), to_timestamp(0))
		from login_failures where subject = $1 and failed_at > $2 and id <> $3`
	err = s.db.Pool().QueryRow(ctx, query, try.Subject, since, try.ID).Scan(&count, &last)
	return count, last, err
}

// DeleteLoginTry deletes an attempt that was refused before the password was
// compared.
func (s *Store) DeleteLoginTry(ctx context.Context, id affiliate.LoginTryID) error {
	const remove = `delete from login_failures where id = $1`
	_, err := s.db.Pool().Exec(ctx, remove, id)
	return err
}

// DeleteLoginFailures deletes all failed attempts of a subject.
func (tx *Tx) DeleteLoginFailures(ctx context.Context, subject []byte) error {
	const remove = `delete from login_failures where subject = $1`
	_, err := tx.Exec(ctx, remove, subject)
	return err
}
