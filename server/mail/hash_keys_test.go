package mail_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/mail/mailtest"
	servermail "github.com/tributary-hq/tributary/server/mail"
)

// A suppression of the key A stays after the rotation. The worker stores it under the key B, so
// that the key A can be removed.
func TestWork_KeepsSuppressionsOfEarlierHashKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t, mailtest.Options{})
	keyA, keyB := hashKeys.First(), []byte("the next key of the tests")
	f.suppress(recipient)
	f.suppress("other@example.com")
	send := func(want notification.MailStatus, reason notification.MailReason, keys ...[]byte) {
		t.Helper()
		f.config.HashKeys = keys
		f.worker = servermail.NewWorker(f.config)
		m := f.notification(affiliate.ModeLive)
		if err := f.send(m); err != nil {
			t.Fatal(err)
		}
		f.requireStatus(m, want, reason)
	}
	send(notification.MailSuppressed, notification.MailAddressSuppressed, keyA, keyB)
	send(notification.MailSuppressed, notification.MailAddressSuppressed, keyB, keyA)
	f.WantCount(1, "suppressions under the key B", `select count(*) from mail_suppressions where digest = $1 and reason = 'bounced'`,
		notification.MailDigest(affiliate.HashKeys{keyB}, recipient).First())
	f.WantCount(2, "suppressions", `select count(*) from mail_suppressions`)
	send(notification.MailSuppressed, notification.MailAddressSuppressed, keyB)
	send(notification.MailDelivered, "", keyA)
	if !f.suppressed("other@example.com") {
		t.Error("the suppression of an address to which no mail was sent is not stored under the key A any more")
	}
}
