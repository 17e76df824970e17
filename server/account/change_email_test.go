package account_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) changePartner(session *affiliatev1.SessionResponse, email, password string) error {
	f.Helper()
	_, err := f.ChangePartnerEmail(f.as(session), &affiliatev1.ChangeEmailRequest{NewEmail: email, Password: password})
	return err
}

// requestChange requests a change of a partner's address. It returns the token of the mail
// to the new address, or "" if there is no such mail. It checks that the old address gets
// a notice.
func (f *fixture) requestChange(session *affiliatev1.SessionResponse, email string) (token string) {
	f.Helper()
	if err := f.changePartner(session, email, password); err != nil {
		f.Fatal(err)
	}
	f.runRequests()
	notices := 0
	for _, m := range f.takeMails() {
		switch m.Kind {
		case notification.MailEmailChange:
			if m.Recipient != email || m.Facts.ExpiresAt == nil {
				f.Errorf("got the mail %v, want one to %s with an expiry", m, email)
			}
			token = m.token
		case notification.MailEmailChangeNotice:
			notices++
			if m.Recipient != session.User.Email || m.Facts.NewAddress != affiliate.MaskEmail(email) || m.token != "" {
				f.Errorf("got the notice %v, want one to %s that names %s", m, session.User.Email, affiliate.MaskEmail(email))
			}
		default:
			f.Errorf("got a mail of the kind %s", m.Kind)
		}
	}
	if notices != 1 {
		f.Errorf("%d notices, want 1", notices)
	}
	return token
}

func TestChangeEmail_ChangesAddressWhenTokenIsUsed(t *testing.T) {
	f := newFixture(t)
	first := f.partner("ada@blog.example")
	shop := f.NewShop(affiliate.ModeLive)
	other := shop.Join("Other")
	ada, _ := affiliate.ParseID[affiliate.UserID](first.User.Id)
	own := f.NewParticipant(shop.Scope, shop.Program, ada, pgtest.Row{"partner_email": "ada@blog.example"})
	session, err := f.loginPartner("ada@blog.example", password)
	if err != nil {
		t.Fatal(err)
	}
	reset := f.resetToken("ada@blog.example")
	token := f.requestChange(session, "ada@new.example")
	if _, err := f.loginPartner("ada@blog.example", password); err != nil {
		t.Errorf("a login with the old address before the token is used: %v", err)
	}
	if err := f.verify(token); err != nil {
		t.Fatal(err)
	}

	_, err = f.refresh(first.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	session, err = f.refresh(session.RefreshToken)
	if err != nil || session.User.Email != "ada@new.example" || !session.User.EmailVerified {
		t.Errorf("the session that requested the change returned %v, %v, want the new, verified address", session, err)
	}
	pgtest.RequireRefusal(t, f.verify(token), affiliate.ReasonVerificationToken)
	pgtest.RequireRefusal(t, f.resetPartner(reset, newPassword), affiliate.ReasonResetToken)
	_, err = f.loginPartner("ada@blog.example", password)
	pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	if _, err := f.loginPartner("ada@new.example", password); err != nil {
		t.Errorf("a login with the new address: %v", err)
	}
	if got := f.Texts(`select partner_email from participants where id = $1`, own.ID)[0]; got != "ada@new.example" {
		t.Errorf("the merchant sees the address %s, want ada@new.example", got)
	}
	if got := f.Texts(`select partner_email from participants where id = $1`, other.ID)[0]; got == "ada@new.example" {
		t.Error("the address of another partner has changed")
	}
	f.WantCount(1, "former addresses", `select count(*) from former_emails where user_id = $1 and digest = $2`, ada,
		fraud.FormerEmailDigests(hashKeys, "ada@blog.example").First())
	f.WantCount(1, "audit records with masked addresses", `
		select count(*) from account_audit_log
		where action = 'account.change_email' and before ->> 'email' = 'a***@blog.example' and after ->> 'email' = 'a***@new.example'`)
}

func TestChangeEmail_SendsNoTokenToTakenAddress(t *testing.T) {
	f := newFixture(t)
	session := f.partner("ada@blog.example")
	f.partner("eve@blog.example")
	f.merchant("mara@shop.example")
	f.takeMails()
	if token := f.requestChange(session, "eve@blog.example"); token != "" {
		t.Error("a token is sent to the address of another partner")
	}
	if token := f.requestChange(session, "mara@shop.example"); token == "" {
		t.Error("no token is sent to the address of a merchant")
	}
}

func TestChangeEmail_RejectsAddressThatWasTakenMeanwhile(t *testing.T) {
	f := newFixture(t)
	session := f.partner("ada@blog.example")
	token := f.requestChange(session, "eve@blog.example")
	f.partner("eve@blog.example")
	pgtest.RequireRefusal(t, f.verify(token), affiliate.ReasonVerificationToken)
	if _, err := f.loginPartner("ada@blog.example", password); err != nil {
		t.Errorf("a login with the old address: %v", err)
	}
}

func TestChangeEmail_SendsThreeTokensInAnHour(t *testing.T) {
	f := newFixture(t)
	session := f.partner("ada@blog.example")
	for i := range 5 {
		if token := f.requestChange(session, "ada@new.example"); (token != "") != (i < 3) {
			t.Errorf("request %d: got the token %q, want tokens for the first 3 requests", i+1, token)
		}
	}
	f.clock.Advance(time.Hour)
	if f.requestChange(session, "ada@new.example") == "" {
		t.Error("no token after an hour")
	}
}

func TestChangeEmail_ChecksPassword(t *testing.T) {
	f := newFixture(t)
	session := f.partner("ada@blog.example")
	pgtest.RequireRefusal(t, f.changePartner(session, "ADA@blog.example", password), affiliate.ReasonValidation, "new_email")
	for range 10 {
		pgtest.RequireRefusal(t, f.changePartner(session, "ada@new.example", "a wrong password"), affiliate.ReasonInvalidCredentials)
	}
	pgtest.RequireRefusal(t, f.changePartner(session, "ada@new.example", password), affiliate.ReasonRateLimitExceeded)
	f.clock.Advance(time.Second)
	if err := f.changePartner(session, "ada@new.example", password); err != nil {
		t.Errorf("after the wait: %v, want success", err)
	}
	if err := f.changePartner(session, "ada@new.example", password); err != nil {
		t.Errorf("after a correct password: %v, want no wait", err)
	}
	if found := f.Check(&affiliatev1.ChangeEmailRequest{NewEmail: "Ada <ada@new.example>", Password: password}); len(found) != 1 || found[0].Field != "new_email" {
		t.Errorf("an address with a name has the violations %v, want one", found)
	}
}
