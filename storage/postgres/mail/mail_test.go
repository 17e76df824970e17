package mail_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	mails "github.com/tributary-hq/tributary/storage/postgres/mail"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestSendMail_StoresMailsWithTheirJobs(t *testing.T) {
	f := newFixture(t)
	expires := f.Now().Add(time.Hour)
	reset := f.newMail(func(m *notification.Mail) {
		m.Kind, m.Type, m.Category, m.Mode, m.Facts = notification.MailPasswordReset, "password_reset", "", nil, notification.MailFacts{ExpiresAt: &expires}
	})
	invite := f.newMail(func(m *notification.Mail) {
		m.Kind, m.User, m.Workspace = notification.MailMemberInvite, nil, nil
	})
	f.store(f.newMail(), reset, invite)
	f.WantCount(3, "jobs", `select count(*) from river.river_job where kind = 'send_mail' and queue = 'mail' and max_attempts = $1`, notification.MailAttempts)
	for _, want := range []notification.Mail{reset, invite} {
		got, err := mails.Mail(t.Context(), f.DB, want.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got.Facts.ExpiresAt != nil {
			utc := got.Facts.ExpiresAt.UTC()
			got.Facts.ExpiresAt = &utc
		}
		if !reflect.DeepEqual(got, notification.StoredMail{Mail: want, Status: notification.MailPending}) {
			t.Errorf("Mail = %+v, want %+v", got, want)
		}
	}
	_, err := mails.Mail(t.Context(), f.DB, affiliate.NewID[notification.MailID](f.Now()))
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestMail_KnowsRedirectAndRemovedRecipients(t *testing.T) {
	f := newFixture(t)
	partner, former, erased := f.NewPartner("Pia"), f.NewMerchant("Former"), f.NewMember(f.Scope.Workspace, affiliate.RoleViewer)
	f.Exec(`update users set erased_at = created_at where id = $1`, erased)
	f.RedirectTestMail("qa@example.com")
	to := func(user affiliate.UserID, account affiliate.AccountKind, kind notification.MailKind) notification.Mail {
		return f.newMail(func(m *notification.Mail) { m.User, m.Recipient.Account, m.Kind = &user, account, kind })
	}
	// inLive changes a mail to live mode, in which mails do not name their workspace.
	inLive := func(m notification.Mail) notification.Mail {
		live := affiliate.ModeLive
		m.Mode, m.Workspace = &live, nil
		return m
	}
	for name, tc := range map[string]struct {
		mail     notification.Mail
		removed  bool
		redirect string
	}{
		"member":                   {f.newMail(), false, "qa@example.com"},
		"partner":                  {to(partner, affiliate.Partner, notification.MailNotifications), false, "qa@example.com"},
		"former member":            {to(former, affiliate.Merchant, notification.MailNotifications), true, "qa@example.com"},
		"former member, password":  {to(former, affiliate.Merchant, notification.MailPasswordReset), false, "qa@example.com"},
		"erased member":            {to(erased, affiliate.Merchant, notification.MailPasswordReset), true, "qa@example.com"},
		"no account":               {f.newMail(func(m *notification.Mail) { m.User = nil }), false, "qa@example.com"},
		"member in live mode":      {inLive(f.newMail()), false, ""},
		"partner in live mode":     {inLive(to(partner, affiliate.Partner, notification.MailNotifications)), false, ""},
		"former member, live mode": {inLive(to(former, affiliate.Merchant, notification.MailNotifications)), true, ""},
		"erased member, live mode": {inLive(to(erased, affiliate.Merchant, notification.MailNotifications)), true, ""},
	} {
		f.store(tc.mail)
		got, err := mails.Mail(t.Context(), f.DB, tc.mail.ID)
		if err != nil || got.RecipientRemoved != tc.removed || got.TestRedirect != tc.redirect {
			t.Errorf("%s: removed %t, redirect %q, %v; want removed %t and redirect %q", name, got.RecipientRemoved, got.TestRedirect, err, tc.removed, tc.redirect)
		}
	}
	redirected := f.newMail()
	f.store(redirected)
	for _, change := range []string{
		`update users set email_verified_at = null where email = 'qa@example.com'`,
		`delete from members where user_id in (select id from users where email = 'qa@example.com')`,
	} {
		f.Exec(change)
		if got, err := mails.Mail(t.Context(), f.DB, redirected.ID); err != nil || got.TestRedirect != "" {
			t.Errorf("after %s: the redirect is %q, %v, want none", change, got.TestRedirect, err)
		}
		f.Exec(`update users set email_verified_at = created_at where email = 'qa@example.com'`)
	}
}

func TestMail_KnowsUnverifiedRecipients(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Pia")
	for name, tc := range map[string]struct {
		user *affiliate.UserID
		want bool
	}{"verified": {&f.Owner, false}, "not verified": {&partner, true}, "no account": {nil, false}} {
		m := f.newMail(func(m *notification.Mail) { m.User = tc.user })
		f.store(m)
		if got, err := mails.Mail(t.Context(), f.DB, m.ID); err != nil || got.Unverified != tc.want {
			t.Errorf("%s: Unverified = %t, %v; want %t", name, got.Unverified, err, tc.want)
		}
	}
}

func TestCompleteMail_DeletesTheTokenAndHappensOnce(t *testing.T) {
	f := newFixture(t)
	m := f.newMail()
	f.store(m)
	outcome := notification.MailOutcome{
		Mail: m.ID, Recipient: m.Address, Status: notification.MailRedirected, RedirectedTo: "qa@example.com", At: f.Now(),
		Content: &notification.MailContent{Sender: "s", Subject: "subject", HTML: "<p>", Text: "text"},
	}
	f.complete(outcome)
	f.complete(notification.MailOutcome{Mail: m.ID, Recipient: m.Address, Status: notification.MailSuppressed, Reason: notification.MailUndeliverable, At: f.Now()})
	got, err := mails.Mail(t.Context(), f.DB, m.ID)
	if err != nil || got.Status != notification.MailRedirected || got.Secret != nil {
		t.Errorf("the mail has the status %s and the token %q, %v; want redirected and no token", got.Status, got.Secret, err)
	}
	entry, err := mails.LogEntry(t.Context(), f.DB, f.Scope.Workspace, m.ID)
	want := notification.MailLogEntry{
		ID: m.ID, Type: m.Type, Category: m.Category, Recipient: m.Address, Status: notification.MailRedirected,
		RedirectedTo: "qa@example.com", CreatedAt: f.Now(), Sender: "s", Subject: "subject", HTML: "<p>", Text: "text",
	}
	if err != nil || entry != want {
		t.Errorf("LogEntry = %+v, %v; want %+v", entry, err, want)
	}
}

func TestMaintenance_EndsLostMailsAndDeletesOldRows(t *testing.T) {
	f := newFixture(t)
	aged := func(age time.Duration) notification.Mail {
		return f.newMail(func(m *notification.Mail) { m.CreatedAt = f.Now().Add(-age) })
	}
	recent, lost, old, older := aged(time.Hour), aged(4*24*time.Hour), aged(31*24*time.Hour), aged(32*24*time.Hour)
	f.store(recent, lost, old, older)
	f.complete(notification.MailOutcome{Mail: old.ID, Recipient: old.Address, Status: notification.MailDelivered, At: f.Now()})
	for _, want := range []int64{1, 1, 0} {
		if n, err := mails.EndLostMails(t.Context(), f.DB, f.Now().Add(-notification.MailPendingLimit), 1); err != nil || n != want {
			t.Errorf("EndLostMails = %d, %v; want %d", n, err, want)
		}
	}
	f.WantCount(1, "pending mails", `select count(*) from mails where status = 'pending' and secret is not null`)
	f.WantCount(2, "lost mails", `select count(*) from mails where reason = 'undeliverable' and secret is null`)
	for _, want := range []int64{1, 1, 0} {
		if n, err := mails.DeleteOldMails(t.Context(), f.DB, f.Now().Add(-notification.MailLogRetention), 1); err != nil || n != want {
			t.Errorf("DeleteOldMails = %d, %v; want %d", n, err, want)
		}
	}
	f.WantCount(2, "mails", `select count(*) from mails`)
}

func TestSuppression_IsKeptOnceAndCanBeLifted(t *testing.T) {
	f := newFixture(t)
	keys := affiliate.HashKeys{[]byte("key")}
	first, second := notification.MailDigest(keys, "first@example.com"), notification.MailDigest(keys, "second@example.com")
	suppressed := func(address affiliate.Digests) bool {
		t.Helper()
		found, err := mails.Suppressed(t.Context(), f.DB, address)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	suppress := func(reason notification.SuppressionReason, digests ...[]byte) {
		t.Helper()
		f.inTx(func(tx *postgres.Tx) error { return mails.Suppress(t.Context(), tx, reason, f.Now(), digests...) })
	}
	suppress(notification.SuppressionBounced, first.First(), bytes.Clone(first.First()))
	suppress(notification.SuppressionComplained, first.First())
	suppress(notification.SuppressionComplained)
	if !suppressed(first) || suppressed(second) {
		t.Errorf("suppressed: first %t, second %t; want only the first", suppressed(first), suppressed(second))
	}
	if reasons := f.Texts(`select reason from mail_suppressions`); len(reasons) != 1 || reasons[0] != "bounced" {
		t.Errorf("the reasons are %q, want only bounced", reasons)
	}
	for range 2 {
		f.inTx(func(tx *postgres.Tx) error { return postgres.LiftSuppression(t.Context(), tx, first) })
	}
	if suppressed(first) {
		t.Error("the address is still suppressed")
	}
}

func TestRecordProviderMessage_RemembersIdsForAWeek(t *testing.T) {
	f := newFixture(t)
	record := func(id string, at time.Time) (isNew bool) {
		t.Helper()
		f.inTx(func(tx *postgres.Tx) (err error) {
			isNew, err = mails.RecordProviderMessage(t.Context(), tx, id, at)
			return err
		})
		return isNew
	}
	if !record("a", f.Now().AddDate(0, 0, -8)) || !record("b", f.Now().AddDate(0, 0, -6)) || record("a", f.Now()) {
		t.Error("a message must be new exactly once")
	}
	for _, want := range []int64{1, 0} {
		if n, err := mails.DeleteProviderMessages(t.Context(), f.DB, f.Now().Add(-notification.ProviderMessageRetention), 1); err != nil || n != want {
			t.Errorf("DeleteProviderMessages = %d, %v; want %d", n, err, want)
		}
	}
	if !record("a", f.Now()) || record("b", f.Now()) {
		t.Error("only the message of 8 days ago must be new again")
	}
}

// Notifications that wait while the recipient changes the address are sent to the new
// address. Mail about the security of the account is not.
func TestMail_FollowsTheAddressOfTheRecipient(t *testing.T) {
	f := newFixture(t)
	f.Exec(`update users set email = 'new@example.com' where id = $1`, f.Owner)
	for name, tc := range map[string]struct {
		change func(*notification.Mail)
		want   string
	}{
		"notification":   {func(*notification.Mail) {}, "new@example.com"},
		"security":       {func(m *notification.Mail) { m.Category = notification.CategorySecurity }, "mara@example.com"},
		"password reset": {func(m *notification.Mail) { m.Kind, m.Category = notification.MailPasswordReset, "" }, "mara@example.com"},
		"no account":     {func(m *notification.Mail) { m.User = nil }, "mara@example.com"},
	} {
		m := f.newMail(tc.change)
		f.store(m)
		got, err := mails.Mail(t.Context(), f.DB, m.ID)
		if err != nil || got.Address != tc.want {
			t.Errorf("%s: the recipient is %q, %v; want %s", name, got.Address, err, tc.want)
		}
	}
}
