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

// join adds a member with an address of its own.
func (w *world) join(role affiliate.Role) affiliate.UserID {
	w.t.Helper()
	return w.member(role, affiliate.NewID[affiliate.User](w.now).String()+"@shop.example")
}

// by returns the context of a call that was authorised for an owner.
func (w *world) by(user affiliate.UserID) context.Context {
	return w.as(user, affiliate.RoleOwner, affiliate.ModeTest)
}

// mustInvite returns the id of a new invitation.
func (w *world) mustInvite(from affiliate.UserID, email string, role affiliate.Role) string {
	w.t.Helper()
	invite, err := w.invite(w.by(from), email, server.FromWord[affiliatev1.Role](role))
	if err != nil {
		w.t.Fatal(err)
	}
	return invite.Id
}

func (w *world) revokeInvite(ctx context.Context, id string) error {
	_, err := w.service.RevokeInvite(ctx, &affiliatev1.RevokeInviteRequest{InviteId: id})
	return err
}

// openInAlphabeticalOrder returns the addresses with open invitations.
func (w *world) openInAlphabeticalOrder() []string {
	w.t.Helper()
	open := w.open()
	slices.Sort(open)
	return open
}

// lastLine returns what the newest line of an action says, before and after.
func (w *world) lastLine(action string) string {
	w.t.Helper()
	var line string
	if err := w.conn.QueryRow(w.t.Context(), `
		select coalesce(before::text, 'null') || ' → ' || coalesce(after::text, 'null') from audit_log
		where workspace_id = $1 and action = $2 order by at desc, id desc limit 1`, w.id, action).Scan(&line); err != nil {
		w.t.Fatal(err)
	}
	return line
}

// whileWaiting begins a call that waits for the lock of the workspace, makes a change
// before it gets the lock, and returns how the call ends.
func (w *world) whileWaiting(call func() error, change string, args ...any) error {
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
	demoteMember = `update members set role = 'viewer' where user_id = $1`
	deleteMember = `delete from members where user_id = $1`
)

func TestALostRoleEndsTheInvitationsOfIt(t *testing.T) {
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
			member := w.join(affiliate.RoleOwner)
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
			if got := w.openInAlphabeticalOrder(); !slices.Equal(got, want) {
				t.Errorf("open: %s", got)
			}
			line := w.lastLine("member.update")
			if n := strings.Count(line, "-") / 4; n != len(ended) || len(ended) == 0 && strings.Contains(line, "ended") {
				t.Errorf("the line names %d of %d invitations: %s", n, len(ended), line)
			}
			for name, id := range ended {
				if !strings.Contains(line, id) {
					t.Errorf("the line does not name that of the %s: %s", name, line)
				}
			}
		})
	}
}

func TestAFormerOwnerInvitesNoOwners(t *testing.T) {
	w := newWorld(t)
	heir := w.join(affiliate.RoleViewer)
	second, err := w.invite(w.asOwner(), "second@example.com", affiliatev1.Role_ROLE_OWNER)
	if err != nil {
		t.Fatal(err)
	}
	w.mustInvite(w.owner, "admin@example.com", affiliate.RoleAdmin)
	if _, err := w.service.TransferOwnership(w.asOwner(), &affiliatev1.TransferOwnershipRequest{MemberId: heir.String()}); err != nil {
		t.Fatal(err)
	}
	if got := w.open(); !slices.Equal(got, []string{"admin@example.com"}) {
		t.Errorf("open: %s", got)
	}
	if invite, err := w.accounts.InviteByToken(t.Context(), affiliate.DigestInviteToken(second.Token)); err != nil || invite.Open(w.now) {
		t.Errorf("the token works: %v, %v", invite, err)
	}
	if line := w.lastLine("workspace.transfer_ownership"); strings.Count(line, "ended_invites") != 1 {
		t.Errorf("audited %s", line)
	}
	if err := w.remove(w.by(heir), w.owner); err != nil || len(w.open()) != 0 {
		t.Errorf("removed: %v, open %s", err, w.open())
	}
	if line := w.lastLine("member.remove"); !strings.HasPrefix(line, `{"role": "admin"} → {"ended_invites": [`) {
		t.Errorf("audited %s", line)
	}
}

func TestAnAdminMayNotTouchTheInvitationsOfOwners(t *testing.T) {
	w := newWorld(t)
	admin := w.join(affiliate.RoleAdmin)
	owners := w.mustInvite(w.owner, "ada@example.com", affiliate.RoleOwner)
	lines := w.count(`select count(*) from audit_log`)
	w.wantReason(w.revokeInvite(w.by(admin), owners), affiliate.ReasonForbidden)
	_, err := w.invite(w.by(admin), "ada@example.com", affiliatev1.Role_ROLE_VIEWER)
	w.wantReason(err, affiliate.ReasonForbidden)
	if got := w.open(); !slices.Equal(got, []string{"ada@example.com"}) || w.count(`select count(*) from audit_log`) != lines {
		t.Errorf("refusals left %s open and lines", got)
	}

	// Owners may replace them, and admins may revoke and replace the others.
	w.now = w.now.Add(time.Millisecond)
	second := w.mustInvite(w.owner, "ada@example.com", affiliate.RoleAdmin)
	if line := w.lastLine("member_invite.create"); line != `null → {"role": "admin", "email": "a***@example.com", "replaces": "`+owners+`"}` {
		t.Errorf("audited %s", line)
	}
	if err := w.revokeInvite(w.by(admin), second); err != nil {
		t.Errorf("an admin revokes an invitation of an admin: %v", err)
	}
	w.now = w.now.Add(time.Millisecond)
	w.mustInvite(admin, "ada@example.com", affiliate.RoleViewer)
	if line := w.lastLine("member_invite.create"); strings.Contains(line, "replaces") {
		t.Errorf("a revoked invitation is replaced: %s", line)
	}

	// An expired invitation may be replaced by anyone who may invite.
	w.mustInvite(w.owner, "bob@example.com", affiliate.RoleOwner)
	w.now = w.now.Add(affiliate.InviteLife)
	w.mustInvite(admin, "bob@example.com", affiliate.RoleViewer)
}

func TestARoleLostWhileWaitingEndsNoInvitation(t *testing.T) {
	for _, change := range []string{demoteMember, deleteMember} {
		w := newWorld(t)
		admin := w.join(affiliate.RoleAdmin)
		invite := w.mustInvite(w.owner, "ada@example.com", affiliate.RoleViewer)
		err := w.whileWaiting(func() error { return w.revokeInvite(w.by(admin), invite) }, change, admin)
		w.wantReason(err, affiliate.ReasonForbidden)
		if len(w.open()) != 1 {
			t.Errorf("%s: the invitation ended", change)
		}
	}
}

// keyCalls are the calls that change keys, by a user.
func (w *world) keyCalls(id string, from affiliate.UserID) map[string]func() error {
	ctx := w.by(from)
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

func TestWhichRolesManageKeys(t *testing.T) {
	w := newWorld(t)
	may := map[affiliate.Role]bool{affiliate.RoleOwner: true, affiliate.RoleAdmin: true, affiliate.RoleDeveloper: true}
	tried := 0
	for _, role := range affiliate.Roles() {
		member := w.join(role)
		for _, what := range []string{"create", "roll", "revoke"} {
			err := w.keyCalls(w.createKey(nil).Id, member)[what]()
			if may[role] && err != nil {
				t.Errorf("%s, %s: %v", role, what, err)
			}
			if !may[role] {
				w.wantReason(err, affiliate.ReasonForbidden)
			}
			w.exec(`delete from api_keys`)
			tried++
		}
	}
	if tried != 18 {
		t.Errorf("%d of 18 tried", tried)
	}
}

func TestARoleLostWhileWaitingGivesNoKey(t *testing.T) {
	t.Parallel()
	for _, change := range []string{demoteMember, deleteMember} {
		for _, what := range []string{"create", "roll", "revoke"} {
			w := newWorld(t)
			developer := w.join(affiliate.RoleDeveloper)
			key := w.createKey(nil)
			err := w.whileWaiting(w.keyCalls(key.Id, developer)[what], change, developer)
			w.wantReason(err, affiliate.ReasonForbidden)
			if n := w.count(`select count(*) from api_keys where revoked_at is null and rolled_at is null`); n != 1 {
				t.Errorf("%s, %s: %d keys", change, what, n)
			}
			if n := w.count(`select count(*) from audit_log`); n != 1 {
				t.Errorf("%s, %s: %d lines", change, what, n)
			}
		}
	}
}

func TestTheAuditLogMasksTheRedirect(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct{ address, want string }{
		{"quality@shop.example", `{"test_mail_redirect": null} → {"test_mail_redirect": "q***@shop.example"}`},
		// Another address, though both look the same.
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
		if line := w.lastLine("workspace.update"); line != tc.want {
			t.Errorf("%q: %s", tc.address, line)
		}
	}
	if n := w.count(`select version from workspaces where id = $1`, w.id); n != 4 {
		t.Errorf("version %d after three changes", n)
	}
}
