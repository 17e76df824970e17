package mail_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	mails "github.com/tributary-hq/tributary/storage/postgres/mail"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Main{M: m}) }

// fixture is a shop. Its owner has verified the address. Its time
// is always noon.
type fixture struct{ *pgtest.Shop }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	noon := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	shop := pgtest.Open(t, func() time.Time { return noon }).NewShop(affiliate.ModeTest)
	shop.Exec(`update users set email_verified_at = created_at where id = $1`, shop.Owner)
	return &fixture{shop}
}

// newMail returns a notification of test mode to the owner.
func (f *fixture) newMail(changes ...func(*notification.Mail)) notification.Mail {
	mode := f.Scope.Mode
	m := notification.Mail{
		ID: affiliate.NewID[notification.MailID](f.Now()), Kind: notification.MailNotifications, Type: "payout.paid", Category: notification.CategoryPayouts,
		Workspace: &f.Scope.Workspace, Mode: &mode, CreatedAt: f.Now(),
		Recipient: notification.Recipient{User: &f.Owner, Account: affiliate.Merchant, Name: "Mara", Address: "mara@example.com"},
		Facts:     notification.MailFacts{More: 2}, Secret: []byte("sealed"),
	}
	for _, change := range changes {
		change(&m)
	}
	return m
}

// store stores mails with their jobs.
func (f *fixture) store(mails ...notification.Mail) {
	f.Helper()
	if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return tx.SendMail(f.Context(), mails...) }); err != nil {
		f.Fatal(err)
	}
}

// complete stores the outcome of a mail.
func (f *fixture) complete(outcome notification.MailOutcome) {
	f.Helper()
	f.inTx(func(tx *postgres.Tx) error { return mails.CompleteMail(f.Context(), tx, outcome) })
}

func (f *fixture) inTx(fn func(tx *postgres.Tx) error) {
	f.Helper()
	if err := f.DB.InTx(f.Context(), fn); err != nil {
		f.Fatal(err)
	}
}
