package workspace_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// newMemberWithRole adds a member with a generated address.
func (w *world) newMemberWithRole(role affiliate.Role) affiliate.UserID {
	w.t.Helper()
	return w.newMember(role, affiliate.NewID[affiliate.User](w.now).String()+"@shop.example")
}

// asOwnerRole returns the context of a call by the user that was authorised with the owner
// role, even if the user has another role.
func (w *world) asOwnerRole(user affiliate.UserID) context.Context {
	return w.as(user, affiliate.RoleOwner, affiliate.ModeTest)
}

// mustInvite returns the id of a new invitation.
func (w *world) mustInvite(from affiliate.UserID, email string, role affiliate.Role) string {
	w.t.Helper()
	invite, err := w.invite(w.asOwnerRole(from), email, server.EnumValue[affiliatev1.Role](role))
	if err != nil {
		w.t.Fatal(err)
	}
	return invite.Id
}

func (w *world) revokeInvite(ctx context.Context, id string) error {
	_, err := w.service.RevokeInvite(ctx, &affiliatev1.RevokeInviteRequest{InviteId: id})
	return err
}

// sortedOpenInvites returns the addresses with open invitations in alphabetical order.
func (w *world) sortedOpenInvites() []string {
	w.t.Helper()
	open := w.openInvites()
	slices.Sort(open)
	return open
}

// lastChange returns the values before and after in the newest audit record of an action.
func (w *world) lastChange(action string) string {
	w.t.Helper()
	var line string
	if err := w.conn.QueryRow(w.t.Context(), `
		select coalesce(before::text, 'null') || ' → ' || coalesce(after::text, 'null') from audit_log
		where workspace_id = $1 and action = $2 order by at desc, id desc limit 1`, w.id, action).Scan(&line); err != nil {
		w.t.Fatal(err)
	}
	return line
}

// changeWhileWaiting locks the workspace, starts a call that waits for the lock, executes
// the SQL in change and releases the lock. It returns the call's error.
func (w *world) changeWhileWaiting(call func() error, change string, args ...any) error {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(w.t.Context())) }()
	tx, err := conn.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := tx.Exec(w.t.Context(), `select from workspaces where id = $1 for no key update`, w.id); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- call() }()
	for w.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 0 {
		if len(done) > 0 {
			w.t.Fatalf("the call did not wait for the lock: %v", <-done)
		}
	}
	if _, err := tx.Exec(w.t.Context(), change, args...); err != nil {
		w.t.Fatal(err)
	}
	if err := tx.Commit(w.t.Context()); err != nil {
		w.t.Fatal(err)
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
		from, to affiliate.Role
		left     []string
	}{
		{affiliate.RoleOwner, affiliate.RoleAdmin, []string{"admin", "viewer"}},
		{affiliate.RoleOwner, affiliate.RoleDeveloper, nil},
		{affiliate.RoleAdmin, affiliate.RoleViewer, nil},
		{affiliate.RoleAdmin, affiliate.RoleOwner, []string{"admin", "owner", "viewer"}},
	} {
		t.Run(fmt.Sprintf("%s to %s", tc.from, tc.to), func(t *testing.T) {
			w := newWorld(t)
			member := w.newMemberWithRole(affiliate.RoleOwner)
			w.mustInvite(member, "expired@example.com", affiliate.RoleOwner)
			w.now = w.now.Add(affiliate.InviteLife)
			ended := map[string]string{}
			for _, role := range []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleViewer} {
				id := w.mustInvite(member, string(role)+"@example.com", role)
				if !slices.Contains(tc.left, string(role)) {
					ended[string(role)] = id
				}
			}
			w.mustInvite(w.owner, "theirs@example.com", affiliate.RoleOwner)
			w.exec(`update members set role = $2 where user_id = $1`, member, tc.from)
			if err := w.setRole(w.asOwner(), member, tc.to); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, name := range tc.left {
				want = append(want, name+"@example.com")
			}
			want = append(want, "theirs@example.com")
			slices.Sort(want)
			if got := w.sortedOpenInvites(); !slices.Equal(got, want) {
				t.Errorf("open: %s", got)
			}
			line := w.lastChange("member.update")
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
	w := newWorld(t)
	heir := w.newMemberWithRole(affiliate.RoleViewer)
	second, err := w.invite(w.asOwner(), "second@example.com", affiliatev1.Role_ROLE_OWNER)
	if err != nil {
		t.Fatal(err)
	}
	w.mustInvite(w.owner, "admin@example.com", affiliate.RoleAdmin)
	if _, err := w.service.TransferOwnership(w.asOwner(), &affiliatev1.TransferOwnershipRequest{MemberId: heir.String()}); err != nil {
		t.Fatal(err)
	}
	if got := w.openInvites(); !slices.Equal(got, []string{"admin@example.com"}) {
		t.Errorf("open: %s", got)
	}
	if invite, err := w.accounts.InviteByToken(t.Context(), affiliate.DigestInviteToken(second.Token)); err != nil || invite.Open(w.now) {
		t.Errorf("the token works: %v, %v", invite, err)
	}
	if line := w.lastChange("workspace.transfer_ownership"); strings.Count(line, "ended_invites") != 1 {
		t.Errorf("audit record %s", line)
	}
	if err := w.remove(w.asOwnerRole(heir), w.owner); err != nil || len(w.openInvites()) != 0 {
		t.Errorf("removed: %v, open %s", err, w.openInvites())
	}
	if line := w.lastChange("member.remove"); !strings.HasPrefix(line, `{"role": "admin"} → {"ended_invites": [`) {
		t.Errorf("audit record %s", line)
	}
}

func TestInvites_AdminsCannotChangeInvitationsToTheOwnerRole(t *testing.T) {
	w := newWorld(t)
	admin := w.newMemberWithRole(affiliate.RoleAdmin)
	owners := w.mustInvite(w.owner, "ada@example.com", affiliate.RoleOwner)
	records := w.count(`select count(*) from audit_log`)
	w.requireReason(w.revokeInvite(w.asOwnerRole(admin), owners), affiliate.ReasonForbidden)
	_, err := w.invite(w.asOwnerRole(admin), "ada@example.com", affiliatev1.Role_ROLE_VIEWER)
	w.requireReason(err, affiliate.ReasonForbidden)
	if got := w.openInvites(); !slices.Equal(got, []string{"ada@example.com"}) || w.count(`select count(*) from audit_log`) != records {
		t.Errorf("after the refusals %s are open, or there are new audit records", got)
	}

	// Owners can replace such an invitation. Admins can revoke and replace all others.
	w.now = w.now.Add(time.Millisecond)
	second := w.mustInvite(w.owner, "ada@example.com", affiliate.RoleAdmin)
	if line := w.lastChange("member_invite.create"); line != `null → {"role": "admin", "email": "a***@example.com", "replaces": "`+owners+`"}` {
		t.Errorf("audit record %s", line)
	}
	if err := w.revokeInvite(w.asOwnerRole(admin), second); err != nil {
		t.Errorf("an admin revokes an invitation of an admin: %v", err)
	}
	w.now = w.now.Add(time.Millisecond)
	w.mustInvite(admin, "ada@example.com", affiliate.RoleViewer)
	if line := w.lastChange("member_invite.create"); strings.Contains(line, "replaces") {
		t.Errorf("a revoked invitation is replaced: %s", line)
	}

	// An expired invitation can be replaced by every member who can invite.
	w.mustInvite(w.owner, "bob@example.com", affiliate.RoleOwner)
	w.now = w.now.Add(affiliate.InviteLife)
	w.mustInvite(admin, "bob@example.com", affiliate.RoleViewer)
}

func TestRevokeInvite_IsRefusedIfTheRoleWasLostWhileWaiting(t *testing.T) {
	for _, change := range []string{demoteMemberSQL, deleteMemberSQL} {
		w := newWorld(t)
		admin := w.newMemberWithRole(affiliate.RoleAdmin)
		invite := w.mustInvite(w.owner, "ada@example.com", affiliate.RoleViewer)
		err := w.changeWhileWaiting(func() error { return w.revokeInvite(w.asOwnerRole(admin), invite) }, change, admin)
		w.requireReason(err, affiliate.ReasonForbidden)
		if len(w.openInvites()) != 1 {
			t.Errorf("%s: the invitation ended", change)
		}
	}
}

// keyCalls returns the calls that change keys, made by a user. roll and revoke use the
// key with the id.
func (w *world) keyCalls(id string, from affiliate.UserID) map[string]func() error {
	ctx := w.asOwnerRole(from)
	return map[string]func() error{
		"create": func() error {
			_, err := w.service.CreateApiKey(ctx, &affiliatev1.CreateApiKeyRequest{Name: "server"})
			return err
		},
		"roll": func() error {
			_, err := w.service.RollApiKey(ctx, &affiliatev1.RollApiKeyRequest{KeyId: id})
			return err
		},
		"revoke": func() error {
			_, err := w.service.RevokeApiKey(ctx, &affiliatev1.RevokeApiKeyRequest{KeyId: id})
			return err
		},
	}
}

func TestApiKeys_RolesThatCanManageThem(t *testing.T) {
	w := newWorld(t)
	allowed := map[affiliate.Role]bool{affiliate.RoleOwner: true, affiliate.RoleAdmin: true, affiliate.RoleDeveloper: true}
	calls := 0
	for _, role := range affiliate.Roles() {
		member := w.newMemberWithRole(role)
		for _, method := range []string{"create", "roll", "revoke"} {
			err := w.keyCalls(w.createKey(nil).Id, member)[method]()
			if allowed[role] && err != nil {
				t.Errorf("%s, %s: %v", role, method, err)
			}
			if !allowed[role] {
				w.requireReason(err, affiliate.ReasonForbidden)
			}
			w.exec(`delete from api_keys`)
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
			w := newWorld(t)
			developer := w.newMemberWithRole(affiliate.RoleDeveloper)
			key := w.createKey(nil)
			err := w.changeWhileWaiting(w.keyCalls(key.Id, developer)[method], change, developer)
			w.requireReason(err, affiliate.ReasonForbidden)
			if n := w.count(`select count(*) from api_keys where revoked_at is null and rolled_at is null`); n != 1 {
				t.Errorf("%s, %s: %d keys", change, method, n)
			}
			if n := w.count(`select count(*) from audit_log`); n != 1 {
				t.Errorf("%s, %s: %d audit records", change, method, n)
			}
		}
	}
}

func TestUpdateWorkspace_AuditLogMasksTheRedirect(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct{ address, want string }{
		{"quality@shop.example", `{"test_mail_redirect": null} → {"test_mail_redirect": "q***@shop.example"}`},
		// A different address whose masked form is the same.
		{"quentin@shop.example", `{"test_mail_redirect": "q***@shop.example"} → {"test_mail_redirect": "q***@shop.example"}`},
		{"", `{"test_mail_redirect": "q***@shop.example"} → {"test_mail_redirect": null}`},
	} {
		w.now = w.now.Add(time.Millisecond)
		req := &affiliatev1.UpdateWorkspaceRequest{}
		if tc.address != "" {
			req.TestMailRedirect = &tc.address
		}
		got, err := w.update(req, "test_mail_redirect")
		if err != nil || got.GetTestMailRedirect() != tc.address || (got.TestMailRedirect == nil) != (tc.address == "") {
			t.Fatalf("%q: %v, %v", tc.address, got.GetTestMailRedirect(), err)
		}
		if line := w.lastChange("workspace.update"); line != tc.want {
			t.Errorf("%q: %s", tc.address, line)
		}
	}
	if n := w.count(`select version from workspaces where id = $1`, w.id); n != 4 {
		t.Errorf("version %d after three changes", n)
	}
}
