package workspace_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func (w *world) setRole(ctx context.Context, user affiliate.UserID, role affiliate.Role) error {
	_, err := w.service.UpdateMember(ctx, &affiliatev1.UpdateMemberRequest{MemberId: user.String(), Role: server.EnumValue[affiliatev1.Role](role)})
	return err
}

func (w *world) remove(ctx context.Context, user affiliate.UserID) error {
	_, err := w.service.RemoveMember(ctx, &affiliatev1.RemoveMemberRequest{MemberId: user.String()})
	return err
}

func TestListMembers_PagesOldestFirst(t *testing.T) {
	w := newWorld(t)
	second := w.newMember(affiliate.RoleViewer, "viewer@shop.example")
	third := w.newMember(affiliate.RoleManager, "manager@shop.example")
	page, size := int32(2), int32(2)
	got, err := w.service.ListMembers(w.asOwner(), &affiliatev1.ListMembersRequest{Page: &page, PageSize: &size})
	if err != nil || got.Total != 3 || got.Page != 2 || got.Limit != 2 || len(got.Data) != 1 || got.Data[0].Id != third.String() {
		t.Fatalf("second page: %v, %v", got, err)
	}
	all, err := w.service.ListMembers(w.as(second, affiliate.RoleViewer, affiliate.ModeLive), &affiliatev1.ListMembersRequest{})
	if err != nil || len(all.Data) != 3 || all.Data[0].Id != w.owner.String() || all.Data[0].Email != "o***@shop.example" ||
		all.Data[0].Role != affiliatev1.Role_ROLE_OWNER || all.Data[1].Id != second.String() {
		t.Errorf("to a viewer: %v, %v", all, err)
	}
	plain, err := w.service.ListMembers(w.as(third, affiliate.RoleManager, affiliate.ModeLive), &affiliatev1.ListMembersRequest{})
	if err != nil || plain.Data[0].Email != "owner@shop.example" || plain.Data[0].Name != "Member" || plain.Data[0].CreatedAt == nil {
		t.Errorf("to a manager: %v, %v", plain, err)
	}
}

func TestMembers_ChangesNeedTheRightRole(t *testing.T) {
	w := newWorld(t)
	second := w.newMember(affiliate.RoleOwner, "second@shop.example")
	admin := w.newMember(affiliate.RoleAdmin, "admin@shop.example")
	viewer := w.newMember(affiliate.RoleViewer, "viewer@shop.example")
	asAdmin := w.as(admin, affiliate.RoleAdmin, affiliate.ModeTest)

	for name, err := range map[string]error{
		"an admin demotes an owner":       w.setRole(asAdmin, second, affiliate.RoleViewer),
		"an admin confirms an owner":      w.setRole(asAdmin, second, affiliate.RoleOwner),
		"an admin makes an owner":         w.setRole(asAdmin, viewer, affiliate.RoleOwner),
		"an admin makes itself an owner":  w.setRole(asAdmin, admin, affiliate.RoleOwner),
		"an admin removes an owner":       w.remove(asAdmin, second),
		"a viewer authorised as an owner": w.setRole(w.as(viewer, affiliate.RoleOwner, affiliate.ModeTest), second, affiliate.RoleViewer),
		"a viewer authorised as an admin": w.remove(w.as(viewer, affiliate.RoleAdmin, affiliate.ModeTest), admin),
		"a user who is not a member":      w.setRole(w.as(affiliate.NewID[affiliate.User](w.now), affiliate.RoleOwner, affiliate.ModeTest), viewer, affiliate.RoleAdmin),
	} {
		if !errors.Is(err, affiliate.Refuse(affiliate.ReasonForbidden)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := w.countAudit("member.update") + w.countAudit("member.remove"); n != 0 {
		t.Errorf("%d audit records of refused calls", n)
	}

	if err := w.setRole(asAdmin, viewer, affiliate.RoleFinance); err != nil || w.roleOf(viewer) != affiliate.RoleFinance {
		t.Errorf("an admin changes a viewer: %v", err)
	}
	if err := w.setRole(asAdmin, viewer, affiliate.RoleFinance); err != nil || w.countAudit("member.update") != 1 {
		t.Errorf("the same role again: %v, %d audit records", err, w.countAudit("member.update"))
	}
	if err := w.setRole(w.asOwner(), second, affiliate.RoleAdmin); err != nil || w.roleOf(second) != affiliate.RoleAdmin {
		t.Errorf("an owner demotes another: %v", err)
	}
	if err := w.setRole(w.asOwner(), second, affiliate.RoleOwner); err != nil || w.roleOf(second) != affiliate.RoleOwner {
		t.Errorf("an owner makes another: %v", err)
	}
	unknown := affiliate.NewID[affiliate.User](w.now)
	w.requireReason(w.setRole(w.asOwner(), unknown, affiliate.RoleAdmin), affiliate.ReasonNotFound)
	w.requireReason(w.remove(w.asOwner(), unknown), affiliate.ReasonNotFound)
	_, err := w.service.UpdateMember(w.asOwner(), &affiliatev1.UpdateMemberRequest{MemberId: "x", Role: affiliatev1.Role_ROLE_ADMIN})
	w.requireReason(err, affiliate.ReasonNotFound)
	_, err = w.service.RemoveMember(w.asOwner(), &affiliatev1.RemoveMemberRequest{MemberId: "x"})
	w.requireReason(err, affiliate.ReasonNotFound)

	var actor, before, after string
	if err := w.conn.QueryRow(t.Context(), `
		select actor, before::text, after::text from audit_log where action = 'member.update' and resource_id = $1`, viewer).Scan(&actor, &before, &after); err != nil {
		t.Fatal(err)
	}
	if actor != admin.String() || before != `{"role": "viewer"}` || after != `{"role": "finance"}` {
		t.Errorf("audited %s, %s, %s", actor, before, after)
	}
}

func TestRemoveMember_EndsTheSessions(t *testing.T) {
	w := newWorld(t)
	admin := w.newMember(affiliate.RoleAdmin, "admin@shop.example")
	ownerSession, adminSession, adminSession2 := w.newSession(w.owner), w.newSession(admin), w.newSession(admin)
	if err := w.remove(w.asOwner(), admin); err != nil {
		t.Fatal(err)
	}
	if !w.sessionLive(ownerSession) || w.sessionLive(adminSession) || w.sessionLive(adminSession2) {
		t.Errorf("sessions live: %v, %v, %v", w.sessionLive(ownerSession), w.sessionLive(adminSession), w.sessionLive(adminSession2))
	}
	if n := w.count(`select count(*) from users where id = $1`, admin); n != 1 {
		t.Error("the user was deleted")
	}
	if w.countAudit("member.remove") != 1 {
		t.Error("the audit record is missing")
	}
	w.requireReason(w.remove(w.asOwner(), admin), affiliate.ReasonNotFound)

	// A member can remove itself.
	other := w.newMember(affiliate.RoleAdmin, "other@shop.example")
	if err := w.remove(w.as(other, affiliate.RoleAdmin, affiliate.ModeTest), other); err != nil || w.roleOf(other) != "" {
		t.Errorf("a member removes itself: %v", err)
	}
}

func TestMembers_LastOwnerCannotLeave(t *testing.T) {
	w := newWorld(t)
	w.requireReason(w.setRole(w.asOwner(), w.owner, affiliate.RoleAdmin), affiliate.ReasonLastOwner)
	w.requireReason(w.remove(w.asOwner(), w.owner), affiliate.ReasonLastOwner)
	session := w.newSession(w.owner)
	w.requireReason(w.remove(w.asOwner(), w.owner), affiliate.ReasonLastOwner)
	if !w.sessionLive(session) {
		t.Error("a refused removal ended a session")
	}

	// Four owners leave or step down at the same time.
	owners := []affiliate.UserID{w.owner}
	for _, email := range []string{"b@shop.example", "c@shop.example", "d@shop.example"} {
		owners = append(owners, w.newMember(affiliate.RoleOwner, email))
	}
	release := w.lockWorkspace()
	var wg sync.WaitGroup
	results := make(chan error, len(owners))
	for i, owner := range owners {
		wg.Go(func() {
			ctx := w.as(owner, affiliate.RoleOwner, affiliate.ModeTest)
			if i%2 == 0 {
				results <- w.setRole(ctx, owner, affiliate.RoleManager)
			} else {
				results <- w.remove(ctx, owner)
			}
		})
	}
	// Wait until all calls have begun. None of them has counted the owners, because they
	// wait for the lock.
	for w.count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) < len(owners) {
		if len(results) > 0 {
			t.Fatal("a member changed while the workspace was locked")
		}
	}
	release()
	wg.Wait()
	close(results)
	refused := 0
	for err := range results {
		if err != nil {
			w.requireReason(err, affiliate.ReasonLastOwner)
			refused++
		}
	}
	if n := w.count(`select count(*) from members where workspace_id = $1 and role = 'owner'`, w.id); n != 1 || refused != 1 {
		t.Errorf("%d owners remain, %d refusals", n, refused)
	}
}

func TestTransferOwnership(t *testing.T) {
	w := newWorld(t)
	manager := w.newMember(affiliate.RoleManager, "manager@shop.example")
	transfer := func(ctx context.Context, to string) (*affiliatev1.Member, error) {
		return w.service.TransferOwnership(ctx, &affiliatev1.TransferOwnershipRequest{MemberId: to})
	}
	_, err := transfer(w.asOwner(), w.owner.String())
	w.requireReason(err, affiliate.ReasonValidation)
	_, err = transfer(w.asOwner(), affiliate.NewID[affiliate.User](w.now).String())
	w.requireReason(err, affiliate.ReasonNotFound)
	got, err := transfer(w.asOwner(), manager.String())
	if err != nil || got.Id != manager.String() || got.Role != affiliatev1.Role_ROLE_OWNER {
		t.Fatalf("%v, %v", got, err)
	}
	if w.roleOf(w.owner) != affiliate.RoleAdmin || w.roleOf(manager) != affiliate.RoleOwner || w.countAudit("workspace.transfer_ownership") != 1 {
		t.Errorf("roles %s and %s, %d audit records", w.roleOf(w.owner), w.roleOf(manager), w.countAudit("workspace.transfer_ownership"))
	}
	// The same call again. It was authorised before the first call ended.
	_, err = transfer(w.asOwner(), manager.String())
	w.requireReason(err, affiliate.ReasonForbidden)
}
