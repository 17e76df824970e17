package account_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/server/workspace"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// team is a merchant's workspace with the service that manages its members.
type team struct {
	*fixture
	service *workspace.Service
	ctx     context.Context // has the owner as its principal
}

func (f *fixture) team(owner *affiliatev1.SessionResponse) *team {
	f.Helper()
	user, _ := affiliate.ParseID[affiliate.UserID](owner.User.Id)
	id, _ := affiliate.ParseID[affiliate.WorkspaceID](owner.Workspace.Id)
	return &team{
		fixture: f,
		service: workspace.New(f.DB, f.sealer, server.Invitations{Limiter: servertest.Unlimited{}}, f.Now),
		ctx: server.WithPrincipal(f.Context(), server.Principal{
			Kind: server.MerchantToken, User: user, Workspace: id, Role: affiliate.RoleOwner, Mode: affiliate.ModeTest,
		}),
	}
}

func (m *team) invite(email string, role affiliatev1.Role) *affiliatev1.CreatedInvite {
	m.Helper()
	invite, err := m.service.CreateInvite(m.ctx, &affiliatev1.CreateInviteRequest{Email: email, Role: role})
	if err != nil {
		m.Fatal(err)
	}
	return invite
}

func (m *team) remove(id string) {
	m.Helper()
	if _, err := m.service.RemoveMember(m.ctx, &affiliatev1.RemoveMemberRequest{MemberId: id}); err != nil {
		m.Fatal(err)
	}
}

func (f *fixture) accept(token, name, password string) (*affiliatev1.SessionResponse, error) {
	return f.AcceptInvite(context.Background(), &affiliatev1.AcceptInviteRequest{Token: token, Name: name, Password: password})
}

func TestAcceptInvite_CreatesMember(t *testing.T) {
	f := newFixture(t)
	owner := f.merchant("owner@shop.example")
	shop := f.team(owner)
	settings, err := shop.service.GetWorkspace(shop.ctx, nil)
	if err != nil || !proto.Equal(settings, owner.Workspace) {
		t.Errorf("the session shows %v, the settings are %v, %v", owner.Workspace, settings, err)
	}
	invite := shop.invite("Ada@Example.com", affiliatev1.Role_ROLE_FINANCE)
	got, err := f.accept(invite.Token, "Ada", password)
	if err != nil {
		t.Fatal(err)
	}
	if got.User.Email != "ada@example.com" || got.User.Name != "Ada" || got.User.Role != affiliatev1.Role_ROLE_FINANCE ||
		got.User.Kind != affiliatev1.AccountKind_ACCOUNT_KIND_MERCHANT || !proto.Equal(got.Workspace, owner.Workspace) ||
		got.TokenType != "Bearer" || got.AccessToken == "" {
		t.Errorf("AcceptInvite returned %v, want a session of Ada with the role finance", got)
	}
	if !f.sessionWorks(got.User.Id) {
		t.Error("the session does not work")
	}
	if next, err := f.refresh(got.RefreshToken); err != nil || next.User.Role != affiliatev1.Role_ROLE_FINANCE {
		t.Errorf("RefreshSession returned %v, %v, want the role finance", next, err)
	}
	if _, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password}); err != nil {
		t.Errorf("LoginMerchant returned the error %v", err)
	}
	if n := f.Count(`select count(*) from audit_log where action = 'member.join' and actor = $1 and resource_id = $1::text::uuid`, got.User.Id); n != 1 {
		t.Errorf("%d audit records of the new member, want 1", n)
	}
	if list, err := shop.service.ListInvites(shop.ctx, &affiliatev1.ListInvitesRequest{}); err != nil || list.Total != 0 {
		t.Errorf("ListInvites returned %v, %v, want no invitation", list, err)
	}
	_, err = f.accept(invite.Token, "Eve", password)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

func TestAcceptInvite_RejectsClosedInvites(t *testing.T) {
	f := newFixture(t)
	shop := f.team(f.merchant("owner@shop.example"))
	revoked := shop.invite("revoked@example.com", affiliatev1.Role_ROLE_VIEWER)
	if _, err := shop.service.RevokeInvite(shop.ctx, &affiliatev1.RevokeInviteRequest{InviteId: revoked.Id}); err != nil {
		t.Fatal(err)
	}
	replaced := shop.invite("replaced@example.com", affiliatev1.Role_ROLE_ADMIN)
	last := shop.invite("replaced@example.com", affiliatev1.Role_ROLE_VIEWER)
	expired := shop.invite("expired@example.com", affiliatev1.Role_ROLE_VIEWER)
	f.clock.Advance(account.InviteLife - time.Millisecond)
	for name, token := range map[string]string{
		"revoked": revoked.Token, "replaced": replaced.Token, "unknown": revoked.Token[:40] + "xyz", "nonsense": "x", "empty": "",
	} {
		if _, err := f.accept(token, "Ada", password); pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
			t.Errorf("%s token: got the error %v, want NOT_FOUND", name, err)
		}
	}
	if got, err := f.accept(last.Token, "Ada", password); err != nil || got.User.Role != affiliatev1.Role_ROLE_VIEWER {
		t.Errorf("AcceptInvite in the last millisecond returned %v, %v, want the role viewer", got, err)
	}
	f.clock.Advance(time.Millisecond)
	_, err := f.accept(expired.Token, "Ada", password)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if n := f.Count(`select count(*) from users`); n != 2 {
		t.Errorf("%d users exist, want 2", n)
	}
}

func TestAcceptInvite_ParallelCallsAcceptOnce(t *testing.T) {
	f := newFixture(t)
	shop := f.team(f.merchant("owner@shop.example"))
	invite := shop.invite("ada@example.com", affiliatev1.Role_ROLE_VIEWER)
	var wg sync.WaitGroup
	results := make(chan error, 20)
	for range cap(results) {
		wg.Go(func() {
			_, err := f.accept(invite.Token, "Ada", password)
			results <- err
		})
	}
	wg.Wait()
	close(results)
	succeeded := 0
	for err := range results {
		if err == nil {
			succeeded++
			continue
		}
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	if members, sessions := f.Count(`select count(*) from members`), f.Count(`select count(*) from sessions`); succeeded != 1 || members != 2 || sessions != 2 {
		t.Errorf("%d calls succeeded; %d members and %d sessions exist; want 1, 2 and 2", succeeded, members, sessions)
	}
}

func TestAcceptInvite_RejectsAddressWithWorkspace(t *testing.T) {
	f := newFixture(t)
	shop := f.team(f.merchant("owner@shop.example"))
	invite := shop.invite("ada@example.com", affiliatev1.Role_ROLE_VIEWER)
	ada := f.merchant("ada@example.com")
	_, err := f.accept(invite.Token, "Eve", "another good password")
	pgtest.RequireRefusal(t, err, affiliate.ReasonEmailTaken)
	if got, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password}); err != nil ||
		got.User.Name != "Mara" || got.Workspace.Id != ada.Workspace.Id || !f.sessionWorks(ada.User.Id) {
		t.Errorf("the account was changed: %v, %v", got, err)
	}
}

func TestAcceptInvite_ReusesAccountOfRemovedMember(t *testing.T) {
	f := newFixture(t)
	first := f.team(f.merchant("first@shop.example"))
	second := f.team(f.merchant("second@shop.example"))
	ada, err := f.accept(first.invite("ada@example.com", affiliatev1.Role_ROLE_ADMIN).Token, "Ada", password)
	if err != nil {
		t.Fatal(err)
	}
	first.remove(ada.User.Id)
	if f.sessionWorks(ada.User.Id) {
		t.Error("the session works after the member was removed")
	}
	_, err = f.refresh(ada.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	_, err = f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password})
	pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)

	// A login that runs in parallel with the removal can create a session that is not
	// revoked. This session cannot be refreshed either.
	f.Exec(`update sessions set revoked_at = null where user_id = $1`, ada.User.Id)
	_, err = f.refresh(ada.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	// If the removed user accepts another invitation, the session that was not revoked
	// must end.
	var stale affiliate.SessionID
	if err := f.SQL.QueryRow(t.Context(), `update sessions set revoked_at = null where user_id = $1 returning id`, ada.User.Id).Scan(&stale); err != nil {
		t.Fatal(err)
	}
	f.Exec(`update users set email_verified_at = $2 where id = $1`, ada.User.Id, f.Now())

	// Two workspaces invite the same email address. Only one of the parallel calls
	// succeeds.
	const newPassword = "another good password"
	invites := []*affiliatev1.CreatedInvite{
		first.invite("ada@example.com", affiliatev1.Role_ROLE_VIEWER), second.invite("ada@example.com", affiliatev1.Role_ROLE_VIEWER),
	}
	var wg sync.WaitGroup
	results := make(chan error, len(invites))
	for _, invite := range invites {
		wg.Go(func() {
			_, err := f.accept(invite.Token, "Ada L.", newPassword)
			results <- err
		})
	}
	wg.Wait()
	close(results)
	succeeded := 0
	for err := range results {
		if err == nil {
			succeeded++
			continue
		}
		pgtest.RequireRefusal(t, err, affiliate.ReasonEmailTaken)
	}
	if n := f.Count(`select count(*) from members where user_id = $1`, ada.User.Id); succeeded != 1 || n != 1 {
		t.Errorf("%d calls succeeded and %d memberships exist, want 1 and 1", succeeded, n)
	}
	if _, _, active, err := accounts.ActiveSession(t.Context(), f.DB, stale, f.Now()); err != nil || active {
		t.Errorf("the account's old session works: %v, %v, want false", active, err)
	}
	if n := f.Count(`select count(*) from users where id = $1 and name = 'Ada L.' and email_verified_at is null and version = 2`, ada.User.Id); n != 1 {
		t.Error("the account does not have the new name")
	}
	_, err = f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password})
	pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	if got, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: newPassword}); err != nil || got.User.Id != ada.User.Id {
		t.Errorf("LoginMerchant with the new password returned %v, %v, want the account of Ada", got, err)
	}
}

func TestAcceptInvite_RejectsCommonPassword(t *testing.T) {
	f := newFixture(t)
	if found := f.Check(&affiliatev1.AcceptInviteRequest{Token: "inv_x", Name: "A", Password: "password123"}); len(found) != 1 || found[0].Field != "password" {
		t.Errorf("a common password has the violations %v, want one of password", found)
	}
	if found := f.Check(&affiliatev1.AcceptInviteRequest{Token: "inv_x", Name: "A", Password: password}); len(found) != 0 {
		t.Errorf("a good password has the violations %v, want none", found)
	}
	invite := f.team(f.merchant("owner@shop.example")).invite("finn.weber@example.com", affiliatev1.Role_ROLE_VIEWER)
	_, err := f.accept(invite.Token, "A", "FinnWeber2026")
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "password")
	if _, err := f.accept(invite.Token, "A", password); err != nil {
		t.Errorf("after a refused password: %v, want success", err)
	}
}

// mailedToken returns the token in the mail of an invitation. It deletes all mails.
func (f *fixture) mailedToken(recipient string) string {
	f.Helper()
	for _, m := range f.takeMails() {
		if m.Kind == notification.MailMemberInvite && m.Recipient == recipient {
			return m.token
		}
	}
	f.Fatalf("no invitation was mailed to %s", recipient)
	return ""
}

func TestAcceptInvite_OnlyTheMailedTokenVerifiesTheAddress(t *testing.T) {
	f := newFixture(t)
	shop := f.team(f.merchant("owner@shop.example"))
	shown := shop.invite("ada@example.com", affiliatev1.Role_ROLE_VIEWER).Token
	if ada, err := f.accept(shown, "Ada", password); err != nil || ada.User.EmailVerified {
		t.Errorf("the token of the response: %v, %v, want an address that is not verified", ada, err)
	}
	f.takeMails()
	shop.invite("ben@example.com", affiliatev1.Role_ROLE_VIEWER)
	ben, err := f.accept(f.mailedToken("ben@example.com"), "Ben", password)
	if err != nil || !ben.User.EmailVerified {
		t.Fatalf("the token of the mail: %v, %v, want a verified address", ben, err)
	}
	if mails := f.takeMails(); len(mails) > 0 {
		t.Errorf("mails to a verified address: %v, want none", mails)
	}
	if got, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ben@example.com", Password: password}); err != nil || !got.User.EmailVerified {
		t.Errorf("LoginMerchant returned %v, %v, want a verified address", got, err)
	}
}

func TestAcceptInvite_MailedTokenTakesOverAnUnverifiedAccount(t *testing.T) {
	const email, newPassword = "ada@example.com", "another good password"
	for name, tc := range map[string]struct {
		prepare func(f *fixture, stranger *affiliatev1.SessionResponse)
		shown   bool
		refused bool
	}{
		"new workspace": {prepare: func(f *fixture, stranger *affiliatev1.SessionResponse) {
			f.enableFactor(stranger)
			workspace, _ := affiliate.ParseID[affiliate.WorkspaceID](stranger.Workspace.Id)
			scope := affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive}
			f.NewProgram(scope, pgtest.Row{"status": "draft"})
			_, key := account.GenerateAPIKey(account.SecretKey, scope, "Stranger", f.Now())
			if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error { return accounts.InsertKey(f.Context(), tx, key) }); err != nil {
				f.Fatal(err)
			}
		}},
		"member of a stranger's workspace": {prepare: func(f *fixture, stranger *affiliatev1.SessionResponse) {
			workspace, _ := affiliate.ParseID[affiliate.WorkspaceID](stranger.Workspace.Id)
			f.NewMember(workspace, affiliate.RoleOwner)
		}},
		"token of the response": {shown: true, refused: true},
		"verified address": {refused: true, prepare: func(f *fixture, stranger *affiliatev1.SessionResponse) {
			f.Exec(`update users set email_verified_at = $2 where id = $1`, stranger.User.Id, f.Now())
		}},
		"last owner of other members": {refused: true, prepare: func(f *fixture, stranger *affiliatev1.SessionResponse) {
			workspace, _ := affiliate.ParseID[affiliate.WorkspaceID](stranger.Workspace.Id)
			f.NewMember(workspace, affiliate.RoleAdmin)
		}},
		"workspace with a live programme": {refused: true, prepare: func(f *fixture, stranger *affiliatev1.SessionResponse) {
			workspace, _ := affiliate.ParseID[affiliate.WorkspaceID](stranger.Workspace.Id)
			f.NewProgram(affiliate.Scope{Workspace: workspace, Mode: affiliate.ModeLive}, pgtest.Row{"status": "paused"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			shop := f.team(f.merchant("owner@shop.example"))
			stranger := f.merchant(email)
			token := shop.invite(email, affiliatev1.Role_ROLE_FINANCE).Token
			if !tc.shown {
				token = f.mailedToken(email)
			}
			if tc.prepare != nil {
				tc.prepare(f, stranger)
			}
			got, err := f.accept(token, "Ada", newPassword)
			if tc.refused {
				pgtest.RequireRefusal(t, err, affiliate.ReasonEmailTaken)
				if again, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: email, Password: password}); err != nil ||
					again.Workspace.Id != stranger.Workspace.Id || !f.sessionWorks(stranger.User.Id) {
					t.Errorf("the account was changed: %v, %v", again, err)
				}
				return
			}
			if err != nil || got.User.Id != stranger.User.Id || got.User.Name != "Ada" || !got.User.EmailVerified || got.User.SecondFactor ||
				got.User.Role != affiliatev1.Role_ROLE_FINANCE || got.Workspace.Id == stranger.Workspace.Id {
				t.Fatalf("AcceptInvite returned %v, %v, want the account as a member of the inviting workspace", got, err)
			}
			_, err = f.refresh(stranger.RefreshToken)
			pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
			_, err = f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: email, Password: password})
			pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
			if _, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: email, Password: newPassword}); err != nil {
				t.Errorf("LoginMerchant with the new password returned the error %v", err)
			}
			f.WantCount(0, "valid secret keys", `select count(*) from api_keys where kind = 'secret' and revoked_at is null`)
			f.WantCount(1, "audit records of the former workspace", `select count(*) from audit_log where action = 'member.remove' and actor = 'system' and workspace_id = $1`, stranger.Workspace.Id)
		})
	}
}

func TestRegisterPartner_MailedTokenTakesOverAnUnverifiedAccount(t *testing.T) {
	f := newFixture(t)
	shop := f.NewShop(affiliate.ModeTest)
	const newPassword = "another good password"
	invite := func(email string) account.InviteTokens {
		tokens, digests := account.NewInviteTokens()
		err := shop.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
			_, err := participants.ReplaceInvite(t.Context(), tx, participant.Invite{
				Invite: account.NewInvite(email, shop.Owner, f.Now()), Scope: shop.Scope, Program: shop.Program,
			}, digests)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	register := func(email, token string) (*affiliatev1.SessionResponse, error) {
		return f.RegisterPartner(t.Context(), &affiliatev1.RegisterPartnerRequest{Email: email, Password: newPassword, Name: "Pia", InviteToken: &token})
	}
	const email = "pia@blog.example"
	stranger := f.partner(email)
	f.Insert("payout_methods", pgtest.Row{"user_id": stranger.User.Id, "method": "paypal", "account": []byte("x"), "account_hint": "e***", "updated_at": f.Now()})
	tokens, other := invite(email), invite("other@blog.example")
	for name, token := range map[string]string{"the token of the response": tokens.Shown, "the token of another address": other.Mailed, "an unknown token": "inv_unknown"} {
		if _, err := register(email, token); pgtest.ReasonOf(t, err) != affiliate.ReasonEmailTaken {
			t.Errorf("%s: got the error %v, want EMAIL_TAKEN", name, err)
		}
	}
	if !f.sessionWorks(stranger.User.Id) {
		t.Error("a refused registration has ended the session")
	}
	got, err := register(email, tokens.Mailed)
	if err != nil || got.User.Id != stranger.User.Id || got.User.Name != "Pia" || !got.User.EmailVerified {
		t.Fatalf("RegisterPartner returned %v, %v, want the account with a verified address", got, err)
	}
	_, err = f.refresh(stranger.RefreshToken)
	pgtest.RequireRefusal(t, err, affiliate.ReasonRefreshTokenInvalid)
	_, err = f.loginPartner(email, password)
	pgtest.RequireRefusal(t, err, affiliate.ReasonInvalidCredentials)
	if _, err := f.loginPartner(email, newPassword); err != nil {
		t.Errorf("the login with the new password: %v", err)
	}
	f.WantCount(0, "payout methods", `select count(*) from payout_methods`)
	f.WantCount(1, "audit records", `select count(*) from account_audit_log where action = 'account.take_over' and user_id = $1`, stranger.User.Id)
	_, err = register(email, tokens.Mailed)
	pgtest.RequireRefusal(t, err, affiliate.ReasonEmailTaken)
	// The token of the mail verifies the address of a new account too.
	if fresh, err := register("other@blog.example", other.Mailed); err != nil || !fresh.User.EmailVerified {
		t.Errorf("a new account: %v, %v, want a verified address", fresh, err)
	}
}
