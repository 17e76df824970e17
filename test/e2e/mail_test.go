package e2e_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server/seal"
)

// recordMails makes the database keep a copy of each mail. Without the copy, the token of
// a mail is deleted when the mail has been sent.
func (sys *system) recordMails(t *testing.T) {
	t.Helper()
	sys.exec(t, `create table mail_copies (like mails)`)
	sys.exec(t, `
		create function copy_mail() returns trigger language plpgsql security definer as $$
		begin
			insert into public.mail_copies values (new.*);
			return new;
		end $$`)
	sys.exec(t, `create trigger copy_mail after insert on mails for each row execute function copy_mail()`)
}

// takeToken waits for a mail of the kind to the address. It returns the token in the
// newest of these mails and deletes their copies.
func (sys *system) takeToken(t *testing.T, kind notification.MailKind, recipient string) (token string) {
	t.Helper()
	keys, err := seal.New("e2e:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, waitTimeout, fmt.Sprintf("a mail of the kind %s is stored", kind), func() error {
		var id notification.MailID
		var secret []byte
		var found bool
		sys.withDatabase(t, func(conn *pgx.Conn) error {
			err := conn.QueryRow(t.Context(), `
				select id, secret from mail_copies where kind = $1 and recipient = $2 order by created_at desc limit 1`, kind, recipient).Scan(&id, &secret)
			found = !errors.Is(err, pgx.ErrNoRows)
			if !found {
				return nil
			}
			return err
		})
		if !found {
			return errors.New("there is no mail")
		}
		token, err = keys.OpenMailToken(id, secret)
		return err
	})
	sys.exec(t, `delete from mail_copies where kind = $1 and recipient = $2`, kind, recipient)
	return token
}

// countMails waits until all requests for mails are processed. It returns the number of
// mails of the kind to the address.
func (sys *system) countMails(t *testing.T, kind notification.MailKind, recipient string) int {
	t.Helper()
	eventually(t, waitTimeout, "all requests for mails are processed", func() error {
		if n := sys.count(t, `select count(*) from email_requests`); n > 0 {
			return fmt.Errorf("%d requests wait", n)
		}
		return nil
	})
	return sys.count(t, `select count(*) from mail_copies where kind = $1 and recipient = $2`, kind, recipient)
}
