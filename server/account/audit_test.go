package account_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/server/workspace"
)

// Every change of a workspace, its members and its keys writes a record to the audit log.
// The record contains the actor, the client's network and the request id.
func TestWorkspaceChanges_AreAudited(t *testing.T) {
	f := newFixture(t)
	core, err := server.New(
		server.Config{DB: f.DB, Tokens: f.keys, Limiter: servertest.Unlimited{}, Log: slog.New(slog.DiscardHandler), Now: f.Now},
		server.Service{Desc: &affiliatev1.AccountService_ServiceDesc, Impl: f.Service},
		server.Service{Desc: &affiliatev1.WorkspaceService_ServiceDesc, Impl: workspace.New(f.DB, f.sealer, server.Invitations{Limiter: servertest.Unlimited{}}, f.Now)},
	)
	if err != nil {
		t.Fatal(err)
	}
	accounts := affiliatev1.NewAccountServiceClient(core.Channel())
	workspaces := affiliatev1.NewWorkspaceServiceClient(core.Channel())
	const request = "request-of-the-test"
	anonymous := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("x-client-ip", "192.0.2.7", "x-request-id", request))
	as := func(session *affiliatev1.SessionResponse) context.Context {
		return metadata.AppendToOutgoingContext(anonymous, "authorization", "Bearer "+session.GetAccessToken(), "x-mode", "test")
	}
	must := func(call string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
	}

	owner, err := accounts.RegisterMerchant(anonymous, &affiliatev1.RegisterMerchantRequest{
		Email: "owner@example.com", Password: password, Name: "Mara", WorkspaceName: "Shop",
	})
	must("register", err)
	_, err = workspaces.UpdateWorkspace(as(owner), &affiliatev1.UpdateWorkspaceRequest{Name: "X", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}})
	must("update the workspace", err)
	invite := func(email string) *affiliatev1.CreatedInvite {
		invite, err := workspaces.CreateInvite(as(owner), &affiliatev1.CreateInviteRequest{Email: email, Role: affiliatev1.Role_ROLE_VIEWER})
		must("invite", err)
		return invite
	}
	_, err = workspaces.RevokeInvite(as(owner), &affiliatev1.RevokeInviteRequest{InviteId: invite("revoked@example.com").Id})
	must("revoke the invitation", err)
	ada, err := accounts.AcceptInvite(anonymous, &affiliatev1.AcceptInviteRequest{Token: invite("ada@example.com").Token, Name: "Ada", Password: password})
	must("accept the invitation", err)
	_, err = workspaces.UpdateMember(as(owner), &affiliatev1.UpdateMemberRequest{MemberId: ada.User.Id, Role: affiliatev1.Role_ROLE_MANAGER})
	must("update the member", err)
	_, err = workspaces.TransferOwnership(as(owner), &affiliatev1.TransferOwnershipRequest{MemberId: ada.User.Id})
	must("transfer the ownership", err)
	_, err = workspaces.RemoveMember(as(ada), &affiliatev1.RemoveMemberRequest{MemberId: owner.User.Id})
	must("remove the member", err)
	first, err := workspaces.CreateApiKey(as(ada), &affiliatev1.CreateApiKeyRequest{Name: "K"})
	must("create the key", err)
	second, err := workspaces.RollApiKey(as(ada), &affiliatev1.RollApiKeyRequest{KeyId: first.Id})
	must("roll the key", err)
	_, err = workspaces.RevokeApiKey(as(ada), &affiliatev1.RevokeApiKeyRequest{KeyId: second.Id})
	must("revoke the key", err)

	got := f.Texts(`
		select action || ' by ' || case actor when $2 then 'owner' when $3 then 'ada' else actor end
			|| case mode when 'test' then ' in test' else '' end
		from audit_log
		where workspace_id = $1 and ip_prefix = '192.0.2.0/24' and request_id = $4
			and (before is not null or after is not null)`, owner.Workspace.Id, owner.User.Id, ada.User.Id, request)
	want := []string{
		"workspace.create by owner", "workspace.update by owner", "member_invite.create by owner", "member_invite.create by owner",
		"member_invite.revoke by owner", "member.join by ada", "member.update by owner", "workspace.transfer_ownership by owner",
		"member.remove by ada", "api_key.create by ada in test", "api_key.roll by ada in test", "api_key.revoke by ada in test",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("audit log:\n%q, want\n%q", got, want)
	}

	partner, err := accounts.RegisterPartner(anonymous, &affiliatev1.RegisterPartnerRequest{Email: "partner@example.com", Password: password, Name: "Pat"})
	must("register a partner", err)
	if n := f.Count(`
		select count(*) from account_audit_log
		where user_id = $1 and action = 'account.create' and ip_prefix = '192.0.2.0/24' and request_id = $2
			and before is null and after is null`, partner.User.Id, request); n != 1 {
		t.Errorf("%d audit records of the partner, want 1", n)
	}
}

// The redirect is the email address that receives all e-mail of test mode.
func TestSession_MasksMailRedirectForViewers(t *testing.T) {
	f := newFixture(t)
	shop := f.team(f.merchant("owner@shop.example"))
	f.Exec(`update workspaces set test_mail_redirect = 'quality@shop.example'`)
	for _, role := range affiliate.Roles() {
		want := "quality@shop.example"
		if role == affiliate.RoleViewer {
			want = "q***@shop.example"
		}
		email := string(role) + "@shop.example"
		if role == affiliate.RoleOwner {
			email = "second-owner@shop.example"
		}
		accepted, err := f.accept(shop.invite(email, server.EnumValue[affiliatev1.Role](role)).Token, "Member", password)
		if err != nil {
			t.Fatal(err)
		}
		loggedIn, err := f.LoginMerchant(t.Context(), &affiliatev1.LoginRequest{Email: email, Password: password})
		if err != nil {
			t.Fatal(err)
		}
		refreshed, err := f.refresh(loggedIn.RefreshToken)
		if err != nil {
			t.Fatal(err)
		}
		for source, session := range map[string]*affiliatev1.SessionResponse{"accepted": accepted, "logged in": loggedIn, "refreshed": refreshed} {
			if got := session.GetWorkspace().GetTestMailRedirect(); got != want {
				t.Errorf("%s, %s: the redirect is %s, want %s", role, source, got, want)
			}
		}
	}
}
