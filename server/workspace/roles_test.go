package workspace_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// asOwnerRole returns the context of a call by the user. The call was authorised with the
// owner role, even if the user now has another role.
func (f *fixture) asOwnerRole(user affiliate.UserID) context.Context {
	return f.as(user, affiliate.RoleOwner)
}

// mustInvite invites an address as the member inviter and returns the id of the
// invitation.
func (f *fixture) mustInvite(inviter affiliate.UserID, email string, role affiliate.Role) string {
	f.Helper()
	invite, err := f.invite(f.asOwnerRole(inviter), email, server.EnumValue[affiliatev1.Role](role))
	if err != nil {
		f.Fatal(err)
	}
	return invite.Id
}

func (f *fixture) revokeInvite(ctx context.Context, id string) error {
	_, err := f.service.RevokeInvite(ctx, &affiliatev1.RevokeInviteRequest{InviteId: id})
	return err
}

// sortedOpenInvites returns the addresses with open invitations in alphabetical order.
func (f *fixture) sortedOpenInvites() []string {
	f.Helper()
	open := f.openInvites()
	slices.Sort(open)
	return open
}

// lastChange returns the values before and after in the newest audit record of an action.
func (f *fixture) lastChange(action string) string {
	f.Helper()
	var line string
	if err := f.SQL.QueryRow(f.Context(), `
		select coalesce(before::text, 'null') || ' → ' || coalesce(after::text, 'null') from audit_log
		where workspace_id = $1 and action = $2 order by at desc, id desc limit 1`, f.Scope.Workspace, action).Scan(&line); err != nil {
		f.Fatal(err)
	}
	return line
}

// changeWhileWaiting locks the workspace, starts a call that waits for the lock, executes
// changeSQL and releases the lock. It returns the call's error.
func (f *fixture) changeWhileWaiting(call func() error, changeSQL string, args ...any) error {
	f.Helper()
	tx := f.beginWithLock()
	done := make(chan error, 1)
	go func() { done <- call() }()
	pgtest.Eventually(f, "the call waits for the lock", func() bool { return f.CountLockWaits() == 1 })
	if _, err := tx.Exec(f.Context(), changeSQL, args...); err != nil {
		f.Fatal(err)
	}
	if err := tx.Commit(f.Context()); err != nil {
		f.Fatal(err)
	}
	return <-done
}

const (
	demoteMemberSQL = `update members set role = 'viewer' where user_id = $1`
	deleteMemberSQL = `delete from members where user_id = $1`
)

func TestUpdateMember_EndsInvitationsThatTheNewRoleCannotManage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		from, to  affiliate.Role
		remaining []string // roles of the invitations that stay open
	}{
		{affiliate.RoleOwner, affiliate.RoleAdmin, []string{"admin", "viewer"}},
		{affiliate.RoleOwner, affiliate.RoleDeveloper, nil},
		{affiliate.RoleAdmin, affiliate.RoleViewer, nil},
		{affiliate.RoleAdmin, affiliate.RoleOwner, []string{"admin", "owner", "viewer"}},
	} {
		t.Run(fmt.Sprintf("%s to %s", tc.from, tc.to), func(t *testing.T) {
			f := newFixture(t)
			member := f.newMember(affiliate.RoleOwner)
			f.mustInvite(member, "expired@example.com", affiliate.RoleOwner)
			f.clock.Advance(account.InviteLife)
			ended := map[string]string{}
			for _, role := range []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleViewer} {
				id := f.mustInvite(member, string(role)+"@example.com", role)
				if !slices.Contains(tc.remaining, string(role)) {
					ended[string(role)] = id
				}
			}
			f.mustInvite(f.Owner, "from-owner@example.com", affiliate.RoleOwner)
			f.Exec(`update members set role = $2 where user_id = $1`, member, tc.from)
			if err := f.setRole(f.asOwner(), member, tc.to); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, name := range tc.remaining {
				want = append(want, name+"@example.com")
			}
			want = append(want, "from-owner@example.com")
			slices.Sort(want)
			if got := f.sortedOpenInvites(); !slices.Equal(got, want) {
				t.Errorf("open invitations: %s, want %s", got, want)
			}
			line := f.lastChange("member.update")
			// Each id of an invitation is a UUID, which contains 4 hyphens.
			if n := strings.Count(line, "-") / 4; n != len(ended) || len(ended) == 0 && strings.Contains(line, "ended") {
				t.Errorf("the audit record names %d of %d invitations: %s", n, len(ended), line)
			}
			for name, id := range ended {
				if !strings.Contains(line, id) {
					t.Errorf("the audit record does not name the invitation to the role %s: %s", name, line)
				}
			}
		})
	}
}

func TestTransferOwnership_EndsInvitationsToTheOwnerRole(t *testing.T) {
	f := newFixture(t)
	newOwner := f.newMember(affiliate.RoleViewer)
	second, err := f.invite(f.asOwner(), "second@example.com", affiliatev1.Role_ROLE_OWNER)
	if err != nil {
		t.Fatal(err)
	}
	f.mustInvite(f.Owner, "admin@example.com", affiliate.RoleAdmin)
	if _, err := f.service.TransferOwnership(f.asOwner(), &affiliatev1.TransferOwnershipRequest{MemberId: newOwner.String()}); err != nil {
		t.Fatal(err)
	}
	if got := f.openInvites(); !slices.Equal(got, []string{"admin@example.com"}) {
		t.Errorf("open invitations: %s, want admin@example.com", got)
	}
	if invite, _, err := accounts.InviteByToken(t.Context(), f.DB, account.DigestInviteToken(second.Token)); err != nil || invite.Open(f.Now()) {
		t.Errorf("InviteByToken returned %v, %v, want an invitation that has ended", invite, err)
	}
	if line := f.lastChange("workspace.transfer_ownership"); strings.Count(line, "ended_invites") != 1 {
		t.Errorf("the audit record is %s, want one ended_invites", line)
	}
	if err := f.remove(f.asOwnerRole(newOwner), f.Owner); err != nil || len(f.openInvites()) != 0 {
		t.Errorf("after RemoveMember (%v) %s are open, want none", err, f.openInvites())
	}
	if line := f.lastChange("member.remove"); !strings.HasPrefix(line, `{"role": "admin"} → {"ended_invites": [`) {
		t.Errorf("the audit record is %s", line)
	}
}

func TestInvites_AdminsCannotChangeInvitationsToTheOwnerRole(t *testing.T) {
	f := newFixture(t)
	admin := f.newMember(affiliate.RoleAdmin)
	ownerInvite := f.mustInvite(f.Owner, "ada@example.com", affiliate.RoleOwner)
	records := f.Count(`select count(*) from audit_log`)
	pgtest.RequireRefusal(t, f.revokeInvite(f.asOwnerRole(admin), ownerInvite), affiliate.ReasonForbidden)
	_, err := f.invite(f.asOwnerRole(admin), "ada@example.com", affiliatev1.Role_ROLE_VIEWER)
	pgtest.RequireRefusal(t, err, affiliate.ReasonForbidden)
	if got := f.openInvites(); !slices.Equal(got, []string{"ada@example.com"}) || f.Count(`select count(*) from audit_log`) != records {
		t.Errorf("after the refusals %s are open, or there are new audit records", got)
	}

	// Owners can replace an invitation to the owner role. Admins can revoke and replace
	// all other invitations.
	f.clock.Advance(time.Millisecond)
	adminInvite := f.mustInvite(f.Owner, "ada@example.com", affiliate.RoleAdmin)
	if line := f.lastChange("member_invite.create"); line != `null → {"role": "admin", "email": "a***@example.com", "replaces": "`+ownerInvite+`"}` {
		t.Errorf("the audit record is %s", line)
	}
	if err := f.revokeInvite(f.asOwnerRole(admin), adminInvite); err != nil {
		t.Errorf("an admin cannot revoke an invitation to the role admin: %v", err)
	}
	f.clock.Advance(time.Millisecond)
	f.mustInvite(admin, "ada@example.com", affiliate.RoleViewer)
	if line := f.lastChange("member_invite.create"); strings.Contains(line, "replaces") {
		t.Errorf("the audit record says that a revoked invitation was replaced: %s", line)
	}

	// An expired invitation can be replaced by every member who can invite.
	f.mustInvite(f.Owner, "bob@example.com", affiliate.RoleOwner)
	f.clock.Advance(account.InviteLife)
	f.mustInvite(admin, "bob@example.com", affiliate.RoleViewer)
}

func TestRevokeInvite_IsRefusedIfTheRoleWasLostWhileWaiting(t *testing.T) {
	for _, change := range []string{demoteMemberSQL, deleteMemberSQL} {
		f := newFixture(t)
		admin := f.newMember(affiliate.RoleAdmin)
		invite := f.mustInvite(f.Owner, "ada@example.com", affiliate.RoleViewer)
		err := f.changeWhileWaiting(func() error { return f.revokeInvite(f.asOwnerRole(admin), invite) }, change, admin)
		pgtest.RequireRefusal(t, err, affiliate.ReasonForbidden)
		if len(f.openInvites()) != 1 {
			t.Errorf("%s: the invitation ended", change)
		}
	}
}

// keyCalls returns calls of a user that create, roll and revoke an API key. id is the id
// of the key that the calls roll and revoke.
func (f *fixture) keyCalls(id string, caller affiliate.UserID) map[string]func() error {
	ctx := f.asOwnerRole(caller)
	return map[string]func() error{
		"create": func() error {
			_, err := f.service.CreateApiKey(ctx, &affiliatev1.CreateApiKeyRequest{Name: "server"})
			return err
		},
		"roll": func() error {
			_, err := f.service.RollApiKey(ctx, &affiliatev1.RollApiKeyRequest{KeyId: id})
			return err
		},
		"revoke": func() error {
			_, err := f.service.RevokeApiKey(ctx, &affiliatev1.RevokeApiKeyRequest{KeyId: id})
			return err
		},
	}
}

func TestApiKeys_RolesThatCanManageThem(t *testing.T) {
	f := newFixture(t)
	allowed := map[affiliate.Role]bool{affiliate.RoleOwner: true, affiliate.RoleAdmin: true, affiliate.RoleDeveloper: true}
	calls := 0
	for _, role := range affiliate.Roles() {
		member := f.newMember(role)
		for _, method := range []string{"create", "roll", "revoke"} {
			err := f.keyCalls(f.createKey(nil).Id, member)[method]()
			if allowed[role] && err != nil {
				t.Errorf("%s, %s: got the error %v, want none", role, method, err)
			}
			if !allowed[role] {
				pgtest.RequireRefusal(t, err, affiliate.ReasonForbidden)
			}
			f.Exec(`delete from api_keys`)
			calls++
		}
	}
	if calls != 18 {
		t.Errorf("%d calls, want 18", calls)
	}
}

func TestApiKeys_ChangesAreRefusedIfTheRoleWasLostWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, change := range []string{demoteMemberSQL, deleteMemberSQL} {
		for _, method := range []string{"create", "roll", "revoke"} {
			f := newFixture(t)
			developer := f.newMember(affiliate.RoleDeveloper)
			key := f.createKey(nil)
			err := f.changeWhileWaiting(f.keyCalls(key.Id, developer)[method], change, developer)
			pgtest.RequireRefusal(t, err, affiliate.ReasonForbidden)
			if n := f.Count(`select count(*) from api_keys where revoked_at is null and rolled_at is null`); n != 1 {
				t.Errorf("%s, %s: %d keys, want 1", change, method, n)
			}
			if n := f.Count(`select count(*) from audit_log`); n != 1 {
				t.Errorf("%s, %s: %d audit records, want 1", change, method, n)
			}
		}
	}
}

func TestUpdateWorkspace_AuditLogMasksTheRedirect(t *testing.T) {
	f := newFixture(t)
	for _, tc := range []struct{ address, want string }{
		{"quality@shop.example", `{"test_mail_redirect": null} → {"test_mail_redirect": "q***@shop.example"}`},
		// A different address whose masked form is the same.
		{"quentin@shop.example", `{"test_mail_redirect": "q***@shop.example"} → {"test_mail_redirect": "q***@shop.example"}`},
		{"", `{"test_mail_redirect": "q***@shop.example"} → {"test_mail_redirect": null}`},
	} {
		f.clock.Advance(time.Millisecond)
		req := &affiliatev1.UpdateWorkspaceRequest{}
		if tc.address != "" {
			req.TestMailRedirect = &tc.address
			f.newTester(tc.address)
		}
		got, err := f.update(req, "test_mail_redirect")
		if err != nil || got.GetTestMailRedirect() != tc.address || (got.TestMailRedirect == nil) != (tc.address == "") {
			t.Fatalf("UpdateWorkspace returned the redirect %q, %v, want %q", got.GetTestMailRedirect(), err, tc.address)
		}
		if line := f.lastChange("workspace.update"); line != tc.want {
			t.Errorf("redirect %q: the audit record is %s, want %s", tc.address, line, tc.want)
		}
	}
	if n := f.Count(`select version from workspaces where id = $1`, f.Scope.Workspace); n != 4 {
		t.Errorf("after three changes the version is %d, want 4", n)
	}
}
