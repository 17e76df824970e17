package account_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// mail is a stored mail with the decrypted token.
type mail struct {
	ID        notification.MailID
	Kind      notification.MailKind
	Recipient string
	Facts     notification.MailFacts
	Secret    []byte
	token     string
}

// takeMails returns the stored mails in the order in which they were stored, and deletes
// them.
func (f *fixture) takeMails() []mail {
	f.Helper()
	rows, err := f.SQL.Query(f.Context(), `select id, kind, recipient, facts, secret from mails order by id`)
	if err != nil {
		f.Fatal(err)
	}
	mails, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[mail])
	if err != nil {
		f.Fatal(err)
	}
	for i := range mails {
		if mails[i].Secret == nil {
			continue
		}
		if mails[i].token, err = f.sealer.OpenMailToken(mails[i].ID, mails[i].Secret); err != nil {
			f.Fatal(err)
		}
	}
	f.Exec(`delete from mails`)
	return mails
}

// takeMail returns the only stored mail and deletes it. It fails if the mail does not have
// the kind and the recipient.
func (f *fixture) takeMail(kind notification.MailKind, recipient string) mail {
	f.Helper()
	mails := f.takeMails()
	if len(mails) != 1 || mails[0].Kind != kind || mails[0].Recipient != recipient {
		f.Fatalf("got the mails %v, want one of the kind %s to %s", mails, kind, recipient)
	}
	return mails[0]
}

// runRequests processes all requests for mails at the same time, as their jobs would. Each
// request is processed twice, because a job may run more than once.
func (f *fixture) runRequests() {
	f.Helper()
	rows, err := f.SQL.Query(f.Context(), `select id from email_requests`)
	if err != nil {
		f.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[account.EmailRequestID])
	if err != nil {
		f.Fatal(err)
	}
	var jobs sync.WaitGroup
	for _, id := range append(ids, ids...) {
		jobs.Go(func() {
			if err := f.ProcessRequest(f.Context(), id); err != nil {
				f.Errorf("process a request: %v", err)
			}
		})
	}
	jobs.Wait()
	f.WantCount(0, "requests", `select count(*) from email_requests`)
}

// partner registers a partner, and deletes the mail of the registration.
func (f *fixture) partner(email string) *affiliatev1.SessionResponse {
	f.Helper()
	session, err := f.RegisterPartner(f.Context(), &affiliatev1.RegisterPartnerRequest{Email: email, Password: password, Name: "Ada Lindqvist"})
	if err != nil {
		f.Fatal(err)
	}
	f.takeMails()
	return session
}

// as returns the context of a call with the access token of a session.
func (f *fixture) as(session *affiliatev1.SessionResponse) context.Context {
	f.Helper()
	p := server.Principal{Kind: server.PartnerToken, Mode: affiliate.ModeLive}
	p.User, _ = affiliate.ParseID[affiliate.UserID](session.User.Id)
	if session.Workspace != nil {
		p.Kind, p.Role = server.MerchantToken, affiliate.RoleOwner
		p.Workspace, _ = affiliate.ParseID[affiliate.WorkspaceID](session.Workspace.Id)
	}
	if err := f.SQL.QueryRow(f.Context(), `select id from sessions where user_id = $1 order by created_at desc, id desc limit 1`, p.User).Scan(&p.Session); err != nil {
		f.Fatal(err)
	}
	return server.WithPrincipal(f.Context(), p)
}

func (f *fixture) loginPartner(email, password string) (*affiliatev1.SessionResponse, error) {
	f.clock.Advance(time.Second)
	return f.LoginPartner(f.Context(), &affiliatev1.LoginRequest{Email: email, Password: password})
}

func (f *fixture) verify(token string) error {
	_, err := f.VerifyEmail(f.Context(), &affiliatev1.VerifyEmailRequest{Token: token})
	return err
}

func TestMails_OfMerchantsBelongToTheWorkspace(t *testing.T) {
	f := newFixture(t)
	session := f.merchant("mara@shop.example")
	if n := f.Count(`
		select count(*) from mails
		where workspace_id = $1 and user_id = $2 and mode is null and type = 'email_verification' and recipient_name = 'Mara'`,
		session.Workspace.Id, session.User.Id); n != 1 {
		t.Errorf("%d mails of the workspace, want 1", n)
	}
	if n := f.CountJobs("send_mail"); n != 1 {
		t.Errorf("%d jobs that send mails, want 1", n)
	}
}
