package workspace_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) setRole(ctx context.Context, user affiliate.UserID, role affiliate.Role) error {
	_, err := f.service.UpdateMember(ctx, &affiliatev1.UpdateMemberRequest{MemberId: user.String(), Role: server.EnumValue[affiliatev1.Role](role)})
	return err
}

func (f *fixture) remove(ctx context.Context, user affiliate.UserID) error {
	_, err := f.service.RemoveMember(ctx, &affiliatev1.RemoveMemberRequest{MemberId: user.String()})
	return err
}

func TestListMembers_PagesOldestFirst(t *testing.T) {
	f := newFixture(t)
	second := f.newMember(affiliate.RoleViewer, pgtest.Row{"email": "viewer@shop.example"})
	third := f.newMember(affiliate.RoleManager, pgtest.Row{"email": "manager@shop.example"})
	page, size := int32(2), int32(2)
	got, err := f.service.ListMembers(f.asOwner(), &affiliatev1.ListMembersRequest{Page: &page, PageSize: &size})
	if err != nil || got.Total != 3 || got.Page != 2 || got.Limit != 2 || len(got.Data) != 1 || got.Data[0].Id != third.String() {
		t.Fatalf("the second page is %v, %v, want the third member of three", got, err)
	}
	all, err := f.service.ListMembers(f.as(second, affiliate.RoleViewer), &affiliatev1.ListMembersRequest{})
	if err != nil || len(all.Data) != 3 || all.Data[0].Id != f.Owner.String() || all.Data[0].Email != "j***@example.com" ||
		all.Data[0].Role != affiliatev1.Role_ROLE_OWNER || all.Data[1].Id != second.String() {
		t.Errorf("a viewer gets %v, %v, want three members with masked addresses", all, err)
	}
	plain, err := f.service.ListMembers(f.as(third, affiliate.RoleManager), &affiliatev1.ListMembersRequest{})
	if err != nil || !strings.HasPrefix(plain.Data[0].Email, "jane-") || plain.Data[0].Name != "Mara" || plain.Data[0].CreatedAt == nil {
		t.Errorf("a manager gets %v, %v, want plain addresses", plain, err)
	}
}

func TestMembers_ChangesNeedTheRightRole(t *testing.T) {
	f := newFixture(t)
	second := f.newMember(affiliate.RoleOwner, pgtest.Row{"email": "second@shop.example"})
	admin := f.newMember(affiliate.RoleAdmin, pgtest.Row{"email": "admin@shop.example"})
	viewer := f.newMember(affiliate.RoleViewer, pgtest.Row{"email": "viewer@shop.example"})
	asAdmin := f.as(admin, affiliate.RoleAdmin)

	for name, err := range map[string]error{
		"an admin demotes an owner":                      f.setRole(asAdmin, second, affiliate.RoleViewer),
		"an admin sets an owner as owner again":          f.setRole(asAdmin, second, affiliate.RoleOwner),
		"an admin makes an owner":                        f.setRole(asAdmin, viewer, affiliate.RoleOwner),
		"an admin makes itself an owner":                 f.setRole(asAdmin, admin, affiliate.RoleOwner),
		"an admin removes an owner":                      f.remove(asAdmin, second),
		"a viewer who was an owner at the authorisation": f.setRole(f.as(viewer, affiliate.RoleOwner), second, affiliate.RoleViewer),
		"a viewer who was an admin at the authorisation": f.remove(f.as(viewer, affiliate.RoleAdmin), admin),
		"a user who is not a member":                     f.setRole(f.as(affiliate.NewID[affiliate.UserID](f.Now()), affiliate.RoleOwner), viewer, affiliate.RoleAdmin),
	} {
		if !errors.Is(err, affiliate.Refuse(affiliate.ReasonForbidden)) {
			t.Errorf("%s: got the error %v, want FORBIDDEN", name, err)
		}
	}
	if n := f.countAudit("member.update") + f.countAudit("member.remove"); n != 0 {
		t.Errorf("refused calls left %d audit records", n)
	}

	if err := f.setRole(asAdmin, viewer, affiliate.RoleFinance); err != nil || f.roleOf(viewer) != affiliate.RoleFinance {
		t.Errorf("an admin cannot change a viewer: %v", err)
	}
	if err := f.setRole(asAdmin, viewer, affiliate.RoleFinance); err != nil || f.countAudit("member.update") != 1 {
		t.Errorf("setting the same role again: error %v, %d audit records, want none and 1", err, f.countAudit("member.update"))
	}
	if err := f.setRole(f.asOwner(), second, affiliate.RoleAdmin); err != nil || f.roleOf(second) != affiliate.RoleAdmin {
		t.Errorf("an owner cannot demote another owner: %v", err)
	}
	if err := f.setRole(f.asOwner(), second, affiliate.RoleOwner); err != nil || f.roleOf(second) != affiliate.RoleOwner {
		t.Errorf("an owner cannot make another member an owner: %v", err)
	}
	unknown := affiliate.NewID[affiliate.UserID](f.Now())
	pgtest.RequireRefusal(t, f.setRole(f.asOwner(), unknown, affiliate.RoleAdmin), affiliate.ReasonNotFound)
	pgtest.RequireRefusal(t, f.remove(f.asOwner(), unknown), affiliate.ReasonNotFound)
	_, err := f.service.UpdateMember(f.asOwner(), &affiliatev1.UpdateMemberRequest{MemberId: "x", Role: affiliatev1.Role_ROLE_ADMIN})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	_, err = f.service.RemoveMember(f.asOwner(), &affiliatev1.RemoveMemberRequest{MemberId: "x"})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)

	var actor, before, after string
	if err := f.SQL.QueryRow(t.Context(), `
		select actor, before::text, after::text from audit_log where action = 'member.update' and resource_id = $1`, viewer).Scan(&actor, &before, &after); err != nil {
		t.Fatal(err)
	}
	if actor != admin.String() || before != `{"role": "viewer"}` || after != `{"role": "finance"}` {
		t.Errorf("the audit record has actor %s, before %s, after %s, want the admin, viewer and finance", actor, before, after)
	}
}

func TestRemoveMember_EndsTheSessions(t *testing.T) {
	f := newFixture(t)
	admin := f.newMember(affiliate.RoleAdmin, pgtest.Row{"email": "admin@shop.example"})
	ownerSession, adminSession, adminSession2 := f.newSession(f.Owner), f.newSession(admin), f.newSession(admin)
	if err := f.remove(f.asOwner(), admin); err != nil {
		t.Fatal(err)
	}
	if !f.sessionWorks(ownerSession) || f.sessionWorks(adminSession) || f.sessionWorks(adminSession2) {
		t.Errorf("sessions work: %v, %v, %v, want only the first", f.sessionWorks(ownerSession), f.sessionWorks(adminSession), f.sessionWorks(adminSession2))
	}
	if n := f.Count(`select count(*) from users where id = $1`, admin); n != 1 {
		t.Error("the user was deleted")
	}
	if f.countAudit("member.remove") != 1 {
		t.Error("the audit record is missing")
	}
	pgtest.RequireRefusal(t, f.remove(f.asOwner(), admin), affiliate.ReasonNotFound)

	// A member can remove itself.
	other := f.newMember(affiliate.RoleAdmin, pgtest.Row{"email": "other@shop.example"})
	if err := f.remove(f.as(other, affiliate.RoleAdmin), other); err != nil || f.roleOf(other) != "" {
		t.Errorf("a member cannot remove itself: %v", err)
	}
}

func TestRemoveMember_EveryRoleCanLeave(t *testing.T) {
	f := newFixture(t)
	for i, role := range affiliate.Roles() {
		member := f.newMember(role, pgtest.Row{"email": string(role) + "@shop.example"})
		other := f.newMember(affiliate.RoleViewer, pgtest.Row{"email": "other" + string(role) + "@shop.example"})
		session := f.newSession(member)
		ctx := f.as(member, role)
		if !role.MayManage(affiliate.RoleViewer) {
			pgtest.RequireRefusal(t, f.remove(ctx, other), affiliate.ReasonForbidden)
			pgtest.RequireRefusal(t, f.remove(ctx, f.Owner), affiliate.ReasonForbidden)
		}
		id := "me"
		if i%2 == 0 {
			id = member.String()
		}
		if _, err := f.service.RemoveMember(ctx, &affiliatev1.RemoveMemberRequest{MemberId: id}); err != nil || f.roleOf(member) != "" || f.sessionWorks(session) {
			t.Errorf("%s: RemoveMember returned %v; the role is %q, the session works: %t", role, err, f.roleOf(member), f.sessionWorks(session))
		}
		if f.roleOf(other) == "" {
			t.Errorf("%s: another member was removed", role)
		}
	}
	if n := f.countAudit("member.remove"); n != len(affiliate.Roles()) {
		t.Errorf("%d audit records, want %d", n, len(affiliate.Roles()))
	}
	_, err := f.service.RemoveMember(f.asOwner(), &affiliatev1.RemoveMemberRequest{MemberId: "me"})
	pgtest.RequireRefusal(t, err, affiliate.ReasonLastOwner)
}

func TestMembers_LastOwnerCannotLeave(t *testing.T) {
	f := newFixture(t)
	pgtest.RequireRefusal(t, f.setRole(f.asOwner(), f.Owner, affiliate.RoleAdmin), affiliate.ReasonLastOwner)
	pgtest.RequireRefusal(t, f.remove(f.asOwner(), f.Owner), affiliate.ReasonLastOwner)
	session := f.newSession(f.Owner)
	pgtest.RequireRefusal(t, f.remove(f.asOwner(), f.Owner), affiliate.ReasonLastOwner)
	if !f.sessionWorks(session) {
		t.Error("a refused removal ended a session")
	}

	// Four owners leave or step down at the same time.
	owners := []affiliate.UserID{f.Owner}
	for range 3 {
		owners = append(owners, f.newMember(affiliate.RoleOwner))
	}
	lock := f.beginWithLock()
	var wg sync.WaitGroup
	results := make(chan error, len(owners))
	for i, owner := range owners {
		wg.Go(func() {
			ctx := f.as(owner, affiliate.RoleOwner)
			if i%2 == 0 {
				results <- f.setRole(ctx, owner, affiliate.RoleManager)
			} else {
				results <- f.remove(ctx, owner)
			}
		})
	}
	// Wait until all calls have begun. No call has counted the owners yet, because all
	// wait for the lock.
	pgtest.Eventually(t, "all calls wait for the lock", func() bool { return f.CountLockWaits() == len(owners) })
	if err := lock.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	close(results)
	refused := 0
	for err := range results {
		if err != nil {
			pgtest.RequireRefusal(t, err, affiliate.ReasonLastOwner)
			refused++
		}
	}
	if n := f.Count(`select count(*) from members where workspace_id = $1 and role = 'owner'`, f.Scope.Workspace); n != 1 || refused != 1 {
		t.Errorf("%d owners remain after %d refusals, want 1 and 1", n, refused)
	}
}

// notifications returns the notifications of the workspace as text, without their names.
func (f *fixture) notifications() []string {
	f.Helper()
	return f.Texts(`
		select concat_ws(' ', type, case user_id when $2 then 'owner' else 'other' end, facts->>'before', facts->>'after', facts->>'mode')
		from notifications where feed_id = $1 and mode = 'both' order by id`, f.Scope.Workspace, f.Owner)
}

// Every change of a member or a secret key notifies the user whom it concerns.
func TestSecurityNotifications_FollowEachChange(t *testing.T) {
	f := newFixture(t)
	member := f.newMember(affiliate.RoleViewer)
	leaver := f.newMember(affiliate.RoleViewer)
	ctx := f.asOwner()
	step := func(name string, err error, want ...string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := f.notifications(); !slices.Equal(got, want) {
			t.Errorf("%s: the notifications are %q, want %q", name, got, want)
		}
		f.Exec(`delete from notifications`)
		f.clock.Advance(time.Second)
	}
	key, err := f.service.CreateApiKey(ctx, &affiliatev1.CreateApiKeyRequest{Name: "Shop"})
	step("create a key", err, "security.api_key_created owner test")
	_, err = f.service.RollApiKey(ctx, &affiliatev1.RollApiKeyRequest{KeyId: key.Id})
	step("roll a key", err, "security.api_key_rolled owner test")
	other, err := f.service.CreateApiKey(ctx, &affiliatev1.CreateApiKeyRequest{Name: "Other"})
	step("create another key", err, "security.api_key_created owner test")
	_, err = f.service.RevokeApiKey(ctx, &affiliatev1.RevokeApiKeyRequest{KeyId: other.Id})
	step("revoke a key", err, "security.api_key_revoked owner test")
	_, err = f.service.UpdateMember(ctx, &affiliatev1.UpdateMemberRequest{MemberId: member.String(), Role: affiliatev1.Role_ROLE_ADMIN})
	step("change a role", err, "security.role_changed other viewer admin")
	_, err = f.service.RemoveMember(ctx, &affiliatev1.RemoveMemberRequest{MemberId: leaver.String()})
	step("remove a member", err, "account.member_left other")
	_, err = f.service.TransferOwnership(ctx, &affiliatev1.TransferOwnershipRequest{MemberId: member.String()})
	if err != nil {
		t.Fatal(err)
	}
	got := f.notifications()
	slices.Sort(got)
	if want := []string{"security.ownership_moved other", "security.role_changed owner owner admin"}; !slices.Equal(got, want) {
		t.Errorf("transfer the ownership: the notifications are %q, want %q", got, want)
	}
}

func TestTransferOwnership(t *testing.T) {
	f := newFixture(t)
	manager := f.newMember(affiliate.RoleManager, pgtest.Row{"email": "manager@shop.example"})
	transfer := func(ctx context.Context, newOwner string) (*affiliatev1.Member, error) {
		return f.service.TransferOwnership(ctx, &affiliatev1.TransferOwnershipRequest{MemberId: newOwner})
	}
	_, err := transfer(f.asOwner(), f.Owner.String())
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation)
	_, err = transfer(f.asOwner(), affiliate.NewID[affiliate.UserID](f.Now()).String())
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	got, err := transfer(f.asOwner(), manager.String())
	if err != nil || got.Id != manager.String() || got.Role != affiliatev1.Role_ROLE_OWNER {
		t.Fatalf("TransferOwnership returned %v, %v, want the new owner", got, err)
	}
	if f.roleOf(f.Owner) != affiliate.RoleAdmin || f.roleOf(manager) != affiliate.RoleOwner || f.countAudit("workspace.transfer_ownership") != 1 {
		t.Errorf("roles %s and %s and %d audit records, want admin, owner and 1", f.roleOf(f.Owner), f.roleOf(manager), f.countAudit("workspace.transfer_ownership"))
	}
	// The same call again. Its context has the role owner, like a call that was
	// authorised before the first call ended.
	_, err = transfer(f.asOwner(), manager.String())
	pgtest.RequireRefusal(t, err, affiliate.ReasonForbidden)
}
