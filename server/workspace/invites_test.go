package workspace_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func (w *world) invite(ctx context.Context, email string, role affiliatev1.Role) (*affiliatev1.CreatedInvite, error) {
	return w.service.CreateInvite(ctx, &affiliatev1.CreateInviteRequest{Email: email, Role: role})
}

func (w *world) openInvites() []string {
	w.t.Helper()
	list, err := w.service.ListInvites(w.asOwner(), &affiliatev1.ListInvitesRequest{})
	if err != nil || int(list.Total) != len(list.Data) {
		w.t.Fatalf("%v, %v", list, err)
	}
	var emails []string
	for _, invite := range list.Data {
		emails = append(emails, invite.Email)
	}
	return emails
}

func TestMemberInvites_CreateListAndRevoke(t *testing.T) {
	w := newWorld(t)
	first, err := w.invite(w.asOwner(), "Ada@Example.com", affiliatev1.Role_ROLE_ADMIN)
	if err != nil || first.Email != "ada@example.com" || first.Role != affiliatev1.Role_ROLE_ADMIN || first.InvitedBy != w.owner.String() ||
		!strings.HasPrefix(first.Token, "inv_") || first.ExpiresAt.AsTime().Sub(first.CreatedAt.AsTime()) != affiliate.InviteLife {
		t.Fatalf("%v, %v", first, err)
	}
	if n := w.count(`select count(*) from member_invites i where i::text like '%' || $1 || '%'`, first.Token[4:]); n != 0 {
		t.Error("the token is in the table")
	}
	if n := w.count(`select count(*) from audit_log where after::text like '%ada@%'`); n != 0 {
		t.Error("the audit log contains the address")
	}
	w.now = w.now.Add(time.Millisecond)
	if _, err := w.invite(w.asOwner(), "bob@example.com", affiliatev1.Role_ROLE_VIEWER); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.openInvites(), " "); got != "bob@example.com ada@example.com" {
		t.Errorf("open: %s", got)
	}

	// A new invitation of the same address replaces the earlier one.
	w.now = w.now.Add(time.Millisecond)
	again, err := w.invite(w.asOwner(), "ADA@example.com", affiliatev1.Role_ROLE_VIEWER)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.openInvites(), " "); got != "ada@example.com bob@example.com" {
		t.Errorf("open: %s", got)
	}
	revoke := func(id string) error {
		_, err := w.service.RevokeInvite(w.asOwner(), &affiliatev1.RevokeInviteRequest{InviteId: id})
		return err
	}
	w.requireReason(revoke(first.Id), affiliate.ReasonNotFound)
	if err := revoke(again.Id); err != nil {
		t.Fatal(err)
	}
	w.requireReason(revoke(again.Id), affiliate.ReasonNotFound)
	w.requireReason(revoke("x"), affiliate.ReasonNotFound)
	w.now = w.now.Add(affiliate.InviteLife)
	if got := w.openInvites(); len(got) != 0 {
		t.Errorf("open after a week: %s", got)
	}
	if w.countAudit("member_invite.create") != 3 || w.countAudit("member_invite.revoke") != 1 {
		t.Errorf("%d and %d audit records", w.countAudit("member_invite.create"), w.countAudit("member_invite.revoke"))
	}

	mine := w.id
	fresh, err := w.invite(w.asOwner(), "eve@example.com", affiliatev1.Role_ROLE_VIEWER)
	if err != nil {
		t.Fatal(err)
	}
	w.id = w.newWorkspace()
	if got := w.openInvites(); len(got) != 0 {
		t.Errorf("another workspace sees %s", got)
	}
	w.requireReason(revoke(fresh.Id), affiliate.ReasonNotFound)
	w.id = mine
	if got := w.openInvites(); len(got) != 1 {
		t.Errorf("another workspace revoked: %s", got)
	}
}

func TestCreateInvite_ChecksRolesAndAddresses(t *testing.T) {
	w := newWorld(t)
	admin := w.newMember(affiliate.RoleAdmin, "admin@shop.example")
	asAdmin := w.as(admin, affiliate.RoleAdmin, affiliate.ModeTest)
	_, err := w.invite(asAdmin, "ada@example.com", affiliatev1.Role_ROLE_OWNER)
	w.requireReason(err, affiliate.ReasonForbidden)
	if _, err := w.invite(w.asOwner(), "ada@example.com", affiliatev1.Role_ROLE_OWNER); err != nil {
		t.Errorf("an owner invites an owner: %v", err)
	}
	_, err = w.invite(w.asOwner(), "Admin@shop.example", affiliatev1.Role_ROLE_VIEWER)
	w.requireReason(err, affiliate.ReasonEmailTaken)

	mine := w.id
	w.id = w.newWorkspace()
	w.newMember(affiliate.RoleViewer, "elsewhere@shop.example")
	w.id = mine
	_, err = w.invite(w.asOwner(), "elsewhere@shop.example", affiliatev1.Role_ROLE_VIEWER)
	w.requireReason(err, affiliate.ReasonEmailTaken)

	if err := w.remove(w.asOwner(), admin); err != nil {
		t.Fatal(err)
	}
	_, err = w.invite(asAdmin, "bob@example.com", affiliatev1.Role_ROLE_VIEWER)
	w.requireReason(err, affiliate.ReasonForbidden)
	if _, err := w.invite(w.asOwner(), "admin@shop.example", affiliatev1.Role_ROLE_ADMIN); err != nil {
		t.Errorf("a removed member cannot be invited again: %v", err)
	}
	w.exec(`insert into users (id, kind, email, password_hash, name, created_at) values (gen_random_uuid(), 'partner', 'partner@example.com', '', 'P', $1)`, w.now)
	if _, err := w.invite(w.asOwner(), "partner@example.com", affiliatev1.Role_ROLE_ADMIN); err != nil {
		t.Errorf("a partner's address is not a merchant's: %v", err)
	}
}

func TestCreateInvite_SameAddressInParallelLeavesOneOpen(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := w.invite(w.asOwner(), "ada@example.com", affiliatev1.Role_ROLE_VIEWER); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := w.openInvites(); len(got) != 1 {
		t.Errorf("open: %s", got)
	}
}
