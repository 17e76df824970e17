package postgres_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// team is a workspace with an owner.
type team struct {
	*pgtest.Fixture
	t     *testing.T
	now   time.Time
	scope affiliate.Scope
	owner affiliate.UserID
}

func newTeam(t *testing.T) *team {
	t.Helper()
	w := &team{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeTest}
	w.owner = w.member(affiliate.RoleOwner)
	return w
}

func (w *team) member(role affiliate.Role) affiliate.UserID {
	w.t.Helper()
	id := w.merchant("Member")
	w.join(w.scope.Workspace, id, role)
	return id
}

func (w *team) merchant(name string) affiliate.UserID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.User](w.now)
	w.Insert("users", pgtest.Row{
		"id": id, "kind": affiliate.Merchant, "email": id.String() + "@shop.example", "password_hash": "", "name": name, "created_at": w.now,
	})
	return id
}

func (w *team) join(workspace affiliate.WorkspaceID, user affiliate.UserID, role affiliate.Role) {
	w.t.Helper()
	w.Insert("members", pgtest.Row{"workspace_id": workspace, "user_id": user, "role": role, "created_at": w.now})
}

func by(user affiliate.UserID) affiliate.Actor { return affiliate.Actor{User: &user} }

func (w *team) tryInvite(from affiliate.UserID, email string, role affiliate.Role) (affiliate.InviteID, [sha256.Size]byte, error) {
	_, digest := affiliate.NewInviteToken()
	invite := affiliate.MemberInvite{
		Workspace: w.scope.Workspace, Role: role,
		Invite: affiliate.Invite{
			ID: affiliate.NewID[affiliate.Invite](w.now), Email: email, InvitedBy: from, CreatedAt: w.now, ExpiresAt: w.now.Add(affiliate.InviteLife),
		},
	}
	return invite.ID, digest, w.Store.CreateMemberInvite(w.t.Context(), invite, digest, by(from))
}

func (w *team) invite(from affiliate.UserID, email string, role affiliate.Role) affiliate.InviteID {
	w.t.Helper()
	id, _, err := w.tryInvite(from, email, role)
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// open are the addresses whose invitation can be accepted, in alphabetical order.
func (w *team) open() []string {
	w.t.Helper()
	return w.Texts(`select email from member_invites where workspace_id = $1 and ended_at is null and expires_at > $2 order by email`,
		w.scope.Workspace, w.now)
}

// lastLine is the newest line of an action, before and after.
func (w *team) lastLine(action string) string {
	w.t.Helper()
	lines := w.Texts(`
		select coalesce(before::text, 'null') || ' → ' || coalesce(after::text, 'null') from audit_log
		where workspace_id = $1 and action = $2 order by at desc, id desc limit 1`, w.scope.Workspace, action)
	return strings.Join(lines, "")
}

// whileWaiting begins a call that takes the workspace's lock, makes a change
// before it gets it, and returns how the call ends.
func (w *team) whileWaiting(call func(ctx context.Context) error, change string, args ...any) error {
	w.t.Helper()
	tx, err := w.SQL.Begin(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(w.t.Context())) }()
	if _, err := tx.Exec(w.t.Context(), `select from workspaces where id = $1 for no key update`, w.scope.Workspace); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- call(w.t.Context()) }()
	for w.Count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 0 {
		if len(done) > 0 {
			w.t.Fatalf("the call did not wait for its turn: %v", <-done)
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
	demote = `update members set role = 'viewer' where user_id = $1`
	remove = `delete from members where user_id = $1`
)

func TestWhoLosesARoleLosesTheInvitationsOfIt(t *testing.T) {
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
			w := newTeam(t)
			member := w.member(affiliate.RoleOwner)
			w.invite(member, "expired@example.com", affiliate.RoleOwner)
			w.now = w.now.Add(affiliate.InviteLife)
			ended := map[string]string{}
			for _, role := range []affiliate.Role{affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleViewer} {
				id := w.invite(member, string(role)+"@example.com", role)
				if !slices.Contains(tc.left, string(role)) {
					ended[string(role)] = id.String()
				}
			}
			w.invite(w.owner, "theirs@example.com", affiliate.RoleOwner)
			w.Exec(`update members set role = $2 where user_id = $1`, member, tc.from)
			if _, err := w.Store.UpdateMember(t.Context(), w.scope.Workspace, member, tc.to, w.now, by(w.owner)); err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, name := range tc.left {
				want = append(want, name+"@example.com")
			}
			want = append(want, "theirs@example.com")
			slices.Sort(want)
			if got := w.open(); !slices.Equal(got, want) {
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

func TestWhoHandsTheWorkspaceOverInvitesNoOwners(t *testing.T) {
	w := newTeam(t)
	heir := w.member(affiliate.RoleViewer)
	_, token, err := w.tryInvite(w.owner, "second@example.com", affiliate.RoleOwner)
	if err != nil {
		t.Fatal(err)
	}
	w.invite(w.owner, "admin@example.com", affiliate.RoleAdmin)
	if _, err := w.Store.TransferOwnership(t.Context(), w.scope.Workspace, heir, w.now, by(w.owner)); err != nil {
		t.Fatal(err)
	}
	if got := w.open(); !slices.Equal(got, []string{"admin@example.com"}) {
		t.Errorf("open: %s", got)
	}
	if open, err := w.Store.MemberInviteOpen(t.Context(), token, w.now); err != nil || open {
		t.Errorf("the token opens: %v, %v", open, err)
	}
	if line := w.lastLine("workspace.transfer_ownership"); strings.Count(line, "ended_invites") != 1 {
		t.Errorf("audited %s", line)
	}
	if err := w.Store.RemoveMember(t.Context(), w.scope.Workspace, w.owner, w.now, by(heir)); err != nil || len(w.open()) != 0 {
		t.Errorf("removed: %v, open %s", err, w.open())
	}
	if line := w.lastLine("member.remove"); !strings.HasPrefix(line, `{"role": "admin"} → {"ended_invites": [`) {
		t.Errorf("audited %s", line)
	}
}

func TestAnAdminLeavesTheInvitationsOfOwnersAlone(t *testing.T) {
	w := newTeam(t)
	admin := w.member(affiliate.RoleAdmin)
	owners := w.invite(w.owner, "ada@example.com", affiliate.RoleOwner)
	lines := w.Count(`select count(*) from audit_log`)
	revoke := func(id affiliate.InviteID, from affiliate.UserID) error {
		return w.Store.RevokeMemberInvite(t.Context(), w.scope.Workspace, id, w.now, by(from))
	}
	pgtest.Refused(t, revoke(owners, admin), affiliate.ReasonForbidden)
	_, _, err := w.tryInvite(admin, "ada@example.com", affiliate.RoleViewer)
	pgtest.Refused(t, err, affiliate.ReasonForbidden)
	if got := w.open(); !slices.Equal(got, []string{"ada@example.com"}) || w.Count(`select count(*) from audit_log`) != lines {
		t.Errorf("refusals left %s open and lines", got)
	}

	// What an owner may do, and what an admin may with the rest.
	w.now = w.now.Add(time.Millisecond)
	fresh := w.invite(w.owner, "ada@example.com", affiliate.RoleAdmin)
	if line := w.lastLine("member_invite.create"); line != `null → {"role": "admin", "email": "a***@example.com", "replaces": "`+owners.String()+`"}` {
		t.Errorf("audited %s", line)
	}
	if err := revoke(fresh, admin); err != nil {
		t.Errorf("an admin revokes an admin's: %v", err)
	}
	w.now = w.now.Add(time.Millisecond)
	w.invite(admin, "ada@example.com", affiliate.RoleViewer)
	if line := w.lastLine("member_invite.create"); strings.Contains(line, "replaces") {
		t.Errorf("what was revoked is replaced: %s", line)
	}

	// One that has expired is in nobody's way.
	w.invite(w.owner, "bob@example.com", affiliate.RoleOwner)
	w.now = w.now.Add(affiliate.InviteLife)
	w.invite(admin, "bob@example.com", affiliate.RoleViewer)
}

func TestARoleLostWhileWaitingEndsNoInvitation(t *testing.T) {
	for _, change := range []string{demote, remove} {
		w := newTeam(t)
		admin := w.member(affiliate.RoleAdmin)
		invite := w.invite(w.owner, "ada@example.com", affiliate.RoleViewer)
		err := w.whileWaiting(func(ctx context.Context) error {
			return w.Store.RevokeMemberInvite(ctx, w.scope.Workspace, invite, w.now, by(admin))
		}, change, admin)
		pgtest.Refused(t, err, affiliate.ReasonForbidden)
		if len(w.open()) != 1 {
			t.Errorf("%s: the invitation ended", change)
		}
	}
}

func (w *team) newKey() affiliate.NewAPIKey {
	key := affiliate.NewKey(affiliate.SecretKey, w.scope.Mode)
	return affiliate.NewAPIKey{Digest: key.Digest(), APIKey: affiliate.APIKey{
		ID: affiliate.NewID[affiliate.APIKey](w.now), Scope: w.scope, Kind: affiliate.SecretKey, Name: "server",
		Prefix: key.Prefix(), Last4: key.Last4(), CreatedAt: w.now,
	}}
}

// keyCalls are what people do with keys, to the one given.
func (w *team) keyCalls(id affiliate.APIKeyID, from affiliate.UserID) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { return w.Store.CreateSecretKey(ctx, w.newKey(), by(from)) },
		"roll": func(ctx context.Context) error {
			_, err := w.Store.RollKey(ctx, id, w.newKey(), time.Hour, by(from))
			return err
		},
		"revoke": func(ctx context.Context) error { return w.Store.RevokeSecretKey(ctx, w.scope, id, w.now, by(from)) },
	}
}

func TestWhichRolesManageKeys(t *testing.T) {
	w := newTeam(t)
	may := map[affiliate.Role]bool{affiliate.RoleOwner: true, affiliate.RoleAdmin: true, affiliate.RoleDeveloper: true}
	tried := 0
	for _, role := range affiliate.Roles() {
		member := w.member(role)
		for _, what := range []string{"create", "roll", "revoke"} {
			key := w.newKey()
			if err := w.Store.CreateSecretKey(t.Context(), key, by(w.owner)); err != nil {
				t.Fatal(err)
			}
			want := affiliate.Reason("")
			if !may[role] {
				want = affiliate.ReasonForbidden
			}
			if got := pgtest.ReasonOf(t, w.keyCalls(key.ID, member)[what](t.Context())); got != want {
				t.Errorf("%s, %s: %q, want %q", role, what, got, want)
			}
			w.Exec(`delete from api_keys`)
			tried++
		}
	}
	if tried != 18 {
		t.Errorf("%d of 18 tried", tried)
	}
}

func TestARoleLostWhileWaitingGivesNoKey(t *testing.T) {
	t.Parallel()
	for _, change := range []string{demote, remove} {
		for _, what := range []string{"create", "roll", "revoke"} {
			w := newTeam(t)
			developer := w.member(affiliate.RoleDeveloper)
			key := w.newKey()
			if err := w.Store.CreateSecretKey(t.Context(), key, by(developer)); err != nil {
				t.Fatal(err)
			}
			err := w.whileWaiting(w.keyCalls(key.ID, developer)[what], change, developer)
			pgtest.Refused(t, err, affiliate.ReasonForbidden)
			if n := w.Count(`select count(*) from api_keys where revoked_at is null and rolled_at is null`); n != 1 {
				t.Errorf("%s, %s: %d keys", change, what, n)
			}
			if n := w.Count(`select count(*) from audit_log`); n != 1 {
				t.Errorf("%s, %s: %d lines", change, what, n)
			}
		}
	}
}

func TestAViewersSessionShowsNoAddress(t *testing.T) {
	w := newTeam(t)
	w.Exec(`update workspaces set test_mail_redirect = 'quality@shop.example'`)
	for _, role := range affiliate.Roles() {
		member, want := w.member(role), "quality@shop.example"
		if role == affiliate.RoleViewer {
			want = "q***@shop.example"
		}
		account, ok, err := w.Store.Account(t.Context(), affiliate.Merchant, member.String()+"@shop.example")
		if err != nil || !ok || account.Member == nil || account.Member.Workspace.TestMailRedirect == nil ||
			*account.Member.Workspace.TestMailRedirect != want {
			t.Errorf("%s: %+v, %v", role, account.Member, err)
		}
	}
}
