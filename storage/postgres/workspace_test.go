package postgres_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// Every change of a workspace, its team and its keys has its line in the audit
// log, which says who, from where and in which request.
func TestEveryChangeOfAWorkspaceIsAudited(t *testing.T) {
	url := pgtest.New(t)
	store, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	from := affiliate.Actor{AddressPrefix: "192.0.2.0/24", RequestID: "request"}
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	user := func(kind affiliate.AccountKind, email string) affiliate.User {
		return affiliate.User{ID: affiliate.NewID[affiliate.User](at), Kind: kind, Email: email, Name: email, CreatedAt: at}
	}
	session := func(of affiliate.User) affiliate.Session {
		return affiliate.Session{
			ID: affiliate.NewID[affiliate.Session](at), User: of.ID, CreatedAt: at,
			IdleExpiresAt: at.Add(time.Hour), ExpiresAt: at.Add(time.Hour),
		}
	}
	digest := func() [32]byte {
		_, digest := affiliate.NewInviteToken()
		return digest
	}
	scope := affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](at), Mode: affiliate.ModeTest}
	newKey := func() affiliate.NewAPIKey {
		key := affiliate.NewKey(affiliate.SecretKey, scope.Mode)
		return affiliate.NewAPIKey{Digest: key.Digest(), APIKey: affiliate.APIKey{
			ID: affiliate.NewID[affiliate.APIKey](at), Scope: scope, Kind: affiliate.SecretKey, Name: "K",
			Prefix: key.Prefix(), Last4: key.Last4(), CreatedAt: at,
		}}
	}

	owner := user(affiliate.Merchant, "owner@example.com")
	by := from
	by.User = &owner.ID
	must("register", store.CreateMerchant(t.Context(), owner, "", affiliate.Member{
		Role: affiliate.RoleOwner,
		Workspace: affiliate.Workspace{
			ID: scope.Workspace, Name: "W", Currency: "EUR", Timezone: "UTC", AllowedOrigins: []string{},
			OriginPolicy: affiliate.ObserveOrigins, Version: 1, CreatedAt: at, UpdatedAt: at,
		},
	}, nil, session(owner), digest(), from))
	_, err = store.UpdateWorkspace(t.Context(), scope.Workspace, affiliate.WorkspacePatch{Name: affiliate.Set("X")}, at, by)
	must("update", err)

	invite := func(email string) (affiliate.InviteID, [32]byte) {
		token := digest()
		invite := affiliate.MemberInvite{
			Workspace: scope.Workspace, Role: affiliate.RoleViewer,
			Invite: affiliate.Invite{
				ID: affiliate.NewID[affiliate.Invite](at), Email: email, InvitedBy: owner.ID,
				CreatedAt: at, ExpiresAt: at.Add(affiliate.InviteLife),
			},
		}
		must("invite", store.CreateMemberInvite(t.Context(), invite, token, by))
		return invite.ID, token
	}
	revoked, _ := invite("revoked@example.com")
	must("revoke the invite", store.RevokeMemberInvite(t.Context(), scope.Workspace, revoked, at, by))
	_, token := invite("ada@example.com")
	ada := user(affiliate.Merchant, "")
	_, err = store.AcceptMemberInvite(t.Context(), token, ada, "", session(ada), digest(), from)
	must("accept", err)
	_, err = store.UpdateMember(t.Context(), scope.Workspace, ada.ID, affiliate.RoleManager, at, by)
	must("update the member", err)
	_, err = store.TransferOwnership(t.Context(), scope.Workspace, ada.ID, at, by)
	must("transfer", err)
	byAda := from
	byAda.User = &ada.ID
	must("remove", store.RemoveMember(t.Context(), scope.Workspace, owner.ID, at, byAda))

	first, second := newKey(), newKey()
	must("create the key", store.CreateSecretKey(t.Context(), first, byAda))
	_, err = store.RollKey(t.Context(), first.ID, second, time.Hour, byAda)
	must("roll", err)
	must("revoke the key", store.RevokeSecretKey(t.Context(), scope, second.ID, at, byAda))

	rows, err := conn.Query(t.Context(), `
		select action || ' by ' || case actor when $2 then 'owner' when $3 then 'ada' else actor end
			|| case mode when 'test' then ' in test' else '' end
		from audit_log
		where workspace_id = $1 and ip_prefix = '192.0.2.0/24' and request_id = 'request'
			and (before is not null or after is not null)`, scope.Workspace, owner.ID.String(), ada.ID.String())
	must("read", err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must("read", err)
	want := []string{
		"workspace.create by owner", "workspace.update by owner", "member_invite.create by owner", "member_invite.create by owner",
		"member_invite.revoke by owner", "member.join by ada", "member.update by owner", "workspace.transfer_ownership by owner",
		"member.remove by ada", "api_key.create by ada in test", "api_key.roll by ada in test", "api_key.revoke by ada in test",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}

	partner := user(affiliate.Partner, "partner@example.com")
	must("register a partner", store.CreatePartner(t.Context(), partner, "", session(partner), digest(), from))
	var lines int
	must("read", conn.QueryRow(t.Context(), `
		select count(*) from account_audit_log
		where user_id = $1 and action = 'account.create' and ip_prefix = '192.0.2.0/24' and request_id = 'request'`, partner.ID).Scan(&lines))
	if lines != 1 {
		t.Errorf("%d lines about the partner", lines)
	}
}
