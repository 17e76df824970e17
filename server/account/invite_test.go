package account_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/workspace"
)

// team is a merchant's workspace with the service that manages its members.
type team struct {
	*fixture
	t       *testing.T
	service *workspace.Service
	ctx     context.Context // has the owner as its principal
}

func (f *fixture) team(t *testing.T, owner *affiliatev1.SessionResponse) *team {
	t.Helper()
	user, _ := affiliate.ParseID[affiliate.User](owner.User.Id)
	id, _ := affiliate.ParseID[affiliate.Workspace](owner.Workspace.Id)
	return &team{
		fixture: f, t: t,
		service: workspace.New(stores.Workspace(f.db), func() time.Time { return f.now }),
		ctx: server.WithPrincipal(t.Context(), server.Principal{
			Kind: server.MerchantToken, User: user, Workspace: id, Role: affiliate.RoleOwner, Mode: affiliate.ModeTest,
		}),
	}
}

func (w *team) invite(email string, role affiliatev1.Role) *affiliatev1.CreatedInvite {
	w.t.Helper()
	invite, err := w.service.CreateInvite(w.ctx, &affiliatev1.CreateInviteRequest{Email: email, Role: role})
	if err != nil {
		w.t.Fatal(err)
	}
	return invite
}

func (w *team) remove(id string) {
	w.t.Helper()
	if _, err := w.service.RemoveMember(w.ctx, &affiliatev1.RemoveMemberRequest{MemberId: id}); err != nil {
		w.t.Fatal(err)
	}
}

func (f *fixture) accept(token, name, password string) (*affiliatev1.SessionResponse, error) {
	return f.AcceptInvite(context.Background(), &affiliatev1.AcceptInviteRequest{Token: token, Name: name, Password: password})
}

func TestAcceptInvite_CreatesMember(t *testing.T) {
	f := newFixture(t)
	owner := f.merchant(t, "owner@shop.example")
	w := f.team(t, owner)
	settings, err := w.service.GetWorkspace(w.ctx, nil)
	if err != nil || !proto.Equal(settings, owner.Workspace) {
		t.Errorf("the session shows %v, the settings are %v, %v", owner.Workspace, settings, err)
	}
	invite := w.invite("Ada@Example.com", affiliatev1.Role_ROLE_FINANCE)
	got, err := f.accept(invite.Token, "Ada", password)
	if err != nil {
		t.Fatal(err)
	}
	if got.User.Email != "ada@example.com" || got.User.Name != "Ada" || got.User.Role != affiliatev1.Role_ROLE_FINANCE ||
		got.User.Kind != affiliatev1.AccountKind_ACCOUNT_KIND_MERCHANT || !proto.Equal(got.Workspace, owner.Workspace) ||
		got.TokenType != "Bearer" || got.AccessToken == "" {
		t.Errorf("got %v", got)
	}
	if !f.sessionActive(t, got.User.Id) {
		t.Error("the session is not active")
	}
	if next, err := refresh(f, got.RefreshToken); err != nil || next.User.Role != affiliatev1.Role_ROLE_FINANCE {
		t.Errorf("refresh: %v, %v", next, err)
	}
	if _, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password}); err != nil {
		t.Errorf("login: %v", err)
	}
	if n := f.count(t, `select count(*) from audit_log where action = 'member.join' and actor = $1 and resource_id = $1::text::uuid`, got.User.Id); n != 1 {
		t.Errorf("%d audit lines", n)
	}
	if list, err := w.service.ListInvites(w.ctx, &affiliatev1.ListInvitesRequest{}); err != nil || list.Total != 0 {
		t.Errorf("open invitations: %v, %v", list, err)
	}
	_, err = f.accept(invite.Token, "Eve", password)
	wantReason(t, err, affiliate.ReasonNotFound)
}

func TestAcceptInvite_RejectsClosedInvites(t *testing.T) {
	f := newFixture(t)
	w := f.team(t, f.merchant(t, "owner@shop.example"))
	revoked := w.invite("revoked@example.com", affiliatev1.Role_ROLE_VIEWER)
	if _, err := w.service.RevokeInvite(w.ctx, &affiliatev1.RevokeInviteRequest{InviteId: revoked.Id}); err != nil {
		t.Fatal(err)
	}
	replaced := w.invite("replaced@example.com", affiliatev1.Role_ROLE_ADMIN)
	last := w.invite("replaced@example.com", affiliatev1.Role_ROLE_VIEWER)
	expired := w.invite("expired@example.com", affiliatev1.Role_ROLE_VIEWER)
	f.now = f.now.Add(affiliate.InviteLife - time.Millisecond)
	for name, token := range map[string]string{
		"revoked": revoked.Token, "replaced": replaced.Token, "unknown": revoked.Token[:40] + "xyz", "nonsense": "x", "empty": "",
	} {
		if _, err := f.accept(token, "Ada", password); err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			wantReason(t, err, affiliate.ReasonNotFound)
		}
	}
	if got, err := f.accept(last.Token, "Ada", password); err != nil || got.User.Role != affiliatev1.Role_ROLE_VIEWER {
		t.Errorf("in the last millisecond: %v, %v", got, err)
	}
	f.now = f.now.Add(time.Millisecond)
	_, err := f.accept(expired.Token, "Ada", password)
	wantReason(t, err, affiliate.ReasonNotFound)
	if n := f.count(t, `select count(*) from users`); n != 2 {
		t.Errorf("%d users", n)
	}
}

func TestAcceptInvite_ParallelCallsAcceptOnce(t *testing.T) {
	f := newFixture(t)
	w := f.team(t, f.merchant(t, "owner@shop.example"))
	invite := w.invite("ada@example.com", affiliatev1.Role_ROLE_VIEWER)
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
		wantReason(t, err, affiliate.ReasonNotFound)
	}
	if members, sessions := f.count(t, `select count(*) from members`), f.count(t, `select count(*) from sessions`); succeeded != 1 || members != 2 || sessions != 2 {
		t.Errorf("%d calls succeeded, %d members, %d sessions", succeeded, members, sessions)
	}
}

func TestAcceptInvite_RejectsAddressWithWorkspace(t *testing.T) {
	f := newFixture(t)
	w := f.team(t, f.merchant(t, "owner@shop.example"))
	invite := w.invite("ada@example.com", affiliatev1.Role_ROLE_VIEWER)
	ada := f.merchant(t, "ada@example.com")
	_, err := f.accept(invite.Token, "Eve", "another good password")
	wantReason(t, err, affiliate.ReasonEmailTaken)
	if got, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password}); err != nil ||
		got.User.Name != "Mara" || got.Workspace.Id != ada.Workspace.Id || !f.sessionActive(t, ada.User.Id) {
		t.Errorf("the account was changed: %v, %v", got, err)
	}
}

func TestAcceptInvite_ReusesAccountOfRemovedMember(t *testing.T) {
	f := newFixture(t)
	first := f.team(t, f.merchant(t, "first@shop.example"))
	second := f.team(t, f.merchant(t, "second@shop.example"))
	ada, err := f.accept(first.invite("ada@example.com", affiliatev1.Role_ROLE_ADMIN).Token, "Ada", password)
	if err != nil {
		t.Fatal(err)
	}
	first.remove(ada.User.Id)
	if f.sessionActive(t, ada.User.Id) {
		t.Error("the session is active after the member was removed")
	}
	_, err = refresh(f, ada.RefreshToken)
	wantReason(t, err, affiliate.ReasonRefreshTokenInvalid)
	_, err = f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password})
	wantReason(t, err, affiliate.ReasonInvalidCredentials)

	// A login that ran in parallel with the removal may have left a session that is not
	// revoked. It cannot be refreshed either.
	if _, err := f.conn.Exec(t.Context(), `update sessions set revoked_at = null where user_id = $1`, ada.User.Id); err != nil {
		t.Fatal(err)
	}
	_, err = refresh(f, ada.RefreshToken)
	wantReason(t, err, affiliate.ReasonRefreshTokenInvalid)
	var stale affiliate.SessionID
	if err := f.conn.QueryRow(t.Context(), `update sessions set revoked_at = null where user_id = $1 returning id`, ada.User.Id).Scan(&stale); err != nil {
		t.Fatal(err)
	}
	if _, err := f.conn.Exec(t.Context(), `update users set email_verified_at = $2 where id = $1`, ada.User.Id, f.now); err != nil {
		t.Fatal(err)
	}

	// Two workspaces invite the same address. Only one of the parallel calls succeeds.
	const fresh = "another good password"
	invites := []*affiliatev1.CreatedInvite{
		first.invite("ada@example.com", affiliatev1.Role_ROLE_VIEWER), second.invite("ada@example.com", affiliatev1.Role_ROLE_VIEWER),
	}
	var wg sync.WaitGroup
	results := make(chan error, len(invites))
	for _, invite := range invites {
		wg.Go(func() {
			_, err := f.accept(invite.Token, "Ada L.", fresh)
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
		wantReason(t, err, affiliate.ReasonEmailTaken)
	}
	if n := f.count(t, `select count(*) from members where user_id = $1`, ada.User.Id); succeeded != 1 || n != 1 {
		t.Errorf("%d calls succeeded, %d memberships", succeeded, n)
	}
	if _, _, live, err := f.store.LiveSession(t.Context(), stale, f.now); err != nil || live {
		t.Errorf("the account's old session: %v, %v", live, err)
	}
	if n := f.count(t, `select count(*) from users where id = $1 and name = 'Ada L.' and email_verified_at is null and version = 2`, ada.User.Id); n != 1 {
		t.Error("the account does not have the new name")
	}
	_, err = f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: password})
	wantReason(t, err, affiliate.ReasonInvalidCredentials)
	if got, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: "ada@example.com", Password: fresh}); err != nil || got.User.Id != ada.User.Id {
		t.Errorf("login: %v, %v", got, err)
	}
}

func TestAcceptInvite_RejectsCommonPassword(t *testing.T) {
	f := newFixture(t)
	if found := f.Check(&affiliatev1.AcceptInviteRequest{Token: "inv_x", Name: "A", Password: "password123"}); len(found) != 1 || found[0].Field != "password" {
		t.Errorf("found %v", found)
	}
	if found := f.Check(&affiliatev1.AcceptInviteRequest{Token: "inv_x", Name: "A", Password: password}); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}
