package workspace_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/server/workspace"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) invite(ctx context.Context, email string, role affiliatev1.Role) (*affiliatev1.CreatedInvite, error) {
	return f.service.CreateInvite(ctx, &affiliatev1.CreateInviteRequest{Email: email, Role: role})
}

func (f *fixture) openInvites() []string {
	f.Helper()
	list, err := f.service.ListInvites(f.asOwner(), &affiliatev1.ListInvitesRequest{})
	if err != nil || int(list.Total) != len(list.Data) {
		f.Fatalf("ListInvites returned %v, %v", list, err)
	}
	var emails []string
	for _, invite := range list.Data {
		emails = append(emails, invite.Email)
	}
	return emails
}

func TestListInvites_NamesInviter(t *testing.T) {
	f := newFixture(t)
	if _, err := f.invite(f.asOwner(), "ada@example.com", affiliatev1.Role_ROLE_VIEWER); err != nil {
		t.Fatal(err)
	}
	name := func() *string {
		t.Helper()
		list, err := f.service.ListInvites(f.asOwner(), &affiliatev1.ListInvitesRequest{})
		if err != nil || len(list.GetData()) != 1 || list.GetData()[0].GetInvitedBy() != f.Owner.String() {
			t.Fatalf("ListInvites returned %v, %v, want an invitation by %s", list, err, f.Owner)
		}
		return list.GetData()[0].InvitedByName
	}
	if got := name(); got == nil || *got != "Mara" {
		t.Errorf("the invitation is by %v, want Mara", got)
	}
	f.Exec(`delete from members where user_id = $1`, f.Owner)
	if got := name(); got != nil {
		t.Errorf("the invitation is by %q, want no name of a user who has left", *got)
	}
}

func TestMemberInvites_AreMailed(t *testing.T) {
	f := newFixture(t)
	invite, err := f.invite(f.asOwner(), "Ada@Example.com", affiliatev1.Role_ROLE_ADMIN)
	if err != nil {
		t.Fatal(err)
	}
	var id notification.MailID
	var secret []byte
	err = f.SQL.QueryRow(t.Context(), `
		select m.id, m.secret
		from mails m
		join workspaces w on w.id = m.workspace_id
		where m.kind = 'member_invite' and m.recipient = 'ada@example.com' and m.account_kind = 'merchant' and m.mode is null
			and m.facts ->> 'workspaceName' = w.name and m.facts ->> 'inviterName' = 'Mara' and m.facts ->> 'role' = 'admin'
			and (m.facts ->> 'expiresAt')::timestamptz = $1`, invite.ExpiresAt.AsTime()).Scan(&id, &secret)
	if err != nil {
		t.Fatalf("the mail of the invitation: %v", err)
	}
	// The inviter sees the token of the response, so the mail has another one.
	token, err := servertest.Seal(t).OpenMailToken(id, secret)
	if err != nil || token == invite.Token {
		t.Fatalf("the mail has the token %q, %v, want another token than the response", token, err)
	}
	for text, mailed := range map[string]bool{token: true, invite.Token: false} {
		if found, byMail, err := accounts.InviteByToken(t.Context(), f.DB, account.DigestInviteToken(text)); err != nil || found.ID.String() != invite.Id || byMail != mailed {
			t.Errorf("a token finds the invitation %v, %v, of the mail: %t, want %t", found.ID, err, byMail, mailed)
		}
	}
}

func TestMemberInvites_CreateListAndRevoke(t *testing.T) {
	f := newFixture(t)
	first, err := f.invite(f.asOwner(), "Ada@Example.com", affiliatev1.Role_ROLE_ADMIN)
	if err != nil || first.Email != "ada@example.com" || first.Role != affiliatev1.Role_ROLE_ADMIN || first.InvitedBy != f.Owner.String() ||
		!strings.HasPrefix(first.Token, "inv_") || first.ExpiresAt.AsTime().Sub(first.CreatedAt.AsTime()) != account.InviteLife {
		t.Fatalf("CreateInvite returned %v, %v", first, err)
	}
	if n := f.Count(`select count(*) from member_invites i where i::text like '%' || $1 || '%'`, first.Token[4:]); n != 0 {
		t.Error("the token is in the table")
	}
	if n := f.Count(`select count(*) from audit_log where after::text like '%ada@%'`); n != 0 {
		t.Error("the audit log contains the email address")
	}
	f.clock.Advance(time.Millisecond)
	if _, err := f.invite(f.asOwner(), "bob@example.com", affiliatev1.Role_ROLE_VIEWER); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(f.openInvites(), " "), "bob@example.com ada@example.com"; got != want {
		t.Errorf("open invitations: %s, want %s", got, want)
	}

	// A new invitation of the same address replaces the earlier one.
	f.clock.Advance(time.Millisecond)
	again, err := f.invite(f.asOwner(), "ADA@example.com", affiliatev1.Role_ROLE_VIEWER)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(f.openInvites(), " "), "ada@example.com bob@example.com"; got != want {
		t.Errorf("open invitations: %s, want %s", got, want)
	}
	revoke := func(id string) error { return f.revokeInvite(f.asOwner(), id) }
	pgtest.RequireRefusal(t, revoke(first.Id), affiliate.ReasonNotFound)
	if err := revoke(again.Id); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, revoke(again.Id), affiliate.ReasonNotFound)
	pgtest.RequireRefusal(t, revoke("x"), affiliate.ReasonNotFound)
	f.clock.Advance(account.InviteLife)
	if got := f.openInvites(); len(got) != 0 {
		t.Errorf("after a week %s are open, want none", got)
	}
	if f.countAudit("member_invite.create") != 3 || f.countAudit("member_invite.revoke") != 1 {
		t.Errorf("%d invitations created and %d revoked in the audit log, want 3 and 1", f.countAudit("member_invite.create"), f.countAudit("member_invite.revoke"))
	}

	stillOpen, err := f.invite(f.asOwner(), "eve@example.com", affiliatev1.Role_ROLE_VIEWER)
	if err != nil {
		t.Fatal(err)
	}
	other := f.newShop()
	if got := other.openInvites(); len(got) != 0 {
		t.Errorf("another workspace lists the invitations %s, want none", got)
	}
	pgtest.RequireRefusal(t, other.revokeInvite(other.asOwner(), stillOpen.Id), affiliate.ReasonNotFound)
	if got := f.openInvites(); len(got) != 1 {
		t.Errorf("after another workspace tried to revoke an invitation, %s are open, want one", got)
	}
}

func TestCreateInvite_ChecksRolesAndAddresses(t *testing.T) {
	f := newFixture(t)
	admin := f.newMember(affiliate.RoleAdmin, pgtest.Row{"email": "admin@shop.example"})
	asAdmin := f.as(admin, affiliate.RoleAdmin)
	_, err := f.invite(asAdmin, "ada@example.com", affiliatev1.Role_ROLE_OWNER)
	pgtest.RequireRefusal(t, err, affiliate.ReasonForbidden)
	if _, err := f.invite(f.asOwner(), "ada@example.com", affiliatev1.Role_ROLE_OWNER); err != nil {
		t.Errorf("an owner cannot invite an owner: %v", err)
	}
	_, err = f.invite(f.asOwner(), "Admin@shop.example", affiliatev1.Role_ROLE_VIEWER)
	pgtest.RequireRefusal(t, err, affiliate.ReasonEmailTaken)

	f.newShop().newMember(affiliate.RoleViewer, pgtest.Row{"email": "elsewhere@shop.example", "email_verified_at": f.Now()})
	_, err = f.invite(f.asOwner(), "elsewhere@shop.example", affiliatev1.Role_ROLE_VIEWER)
	pgtest.RequireRefusal(t, err, affiliate.ReasonEmailTaken)

	if err := f.remove(f.asOwner(), admin); err != nil {
		t.Fatal(err)
	}
	_, err = f.invite(asAdmin, "bob@example.com", affiliatev1.Role_ROLE_VIEWER)
	pgtest.RequireRefusal(t, err, affiliate.ReasonForbidden)
	if _, err := f.invite(f.asOwner(), "admin@shop.example", affiliatev1.Role_ROLE_ADMIN); err != nil {
		t.Errorf("a removed member cannot be invited again: %v", err)
	}
	f.NewPartner("Pat", pgtest.Row{"email": "partner@example.com"})
	if _, err := f.invite(f.asOwner(), "partner@example.com", affiliatev1.Role_ROLE_ADMIN); err != nil {
		t.Errorf("a partner's address cannot be invited as a member: %v", err)
	}
}

func TestCreateInvite_SameAddressInParallelLeavesOneOpen(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if _, err := f.invite(f.asOwner(), "ada@example.com", affiliatev1.Role_ROLE_VIEWER); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := f.openInvites(); len(got) != 1 {
		t.Errorf("open invitations: %s, want one", got)
	}
}

func TestCreateInvite_OncePerIdempotencyKey(t *testing.T) {
	f := newFixture(t)
	create := func(ctx context.Context, key, email string) (*affiliatev1.CreatedInvite, bool, error) {
		f.clock.Advance(time.Second)
		ctx, transport := servertest.WithTransport(ctx, key)
		invite, err := f.invite(ctx, email, affiliatev1.Role_ROLE_VIEWER)
		return invite, transport.Replayed(), err
	}
	first, replayed, err := create(f.asOwner(), "k-1", "ada@example.com")
	if err != nil || replayed {
		t.Fatalf("the first request returned %v, replayed %t", err, replayed)
	}
	// An invitation has no mode, so the key is the same one in both modes.
	for _, ctx := range []context.Context{f.asOwner(), f.asOwnerInLiveMode()} {
		again, replayed, err := create(ctx, "k-1", "ada@example.com")
		if err != nil || !replayed || !proto.Equal(again, first) {
			t.Errorf("the repeated request returned %v, %v, replayed %t; want the first response %v", again, err, replayed, first)
		}
	}
	_, _, err = create(f.asOwner(), "k-1", "bob@example.com")
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
	_, _, err = create(f.asOwner(), "k 1", "bob@example.com")
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "Idempotency-Key")
	if got := strings.Join(f.openInvites(), " "); got != "ada@example.com" {
		t.Errorf("open invitations: %s, want one", got)
	}
	f.WantCount(1, "mails", `select count(*) from mails`)
	f.WantCount(0, "tokens in the table of keys", `select count(*) from idempotency_keys where position($1::bytea in response) > 0`, []byte(first.Token))
	other := f.newShop()
	if _, replayed, err := create(other.asOwner(), "k-1", "ada@example.com"); err != nil || replayed {
		t.Errorf("another workspace: the request returned %v, replayed %t", err, replayed)
	}
}

func TestCreateInvite_RequiresAVerifiedInviterInLiveMode(t *testing.T) {
	f := newFixture(t)
	f.service = workspace.New(f.DB, servertest.Seal(t), server.Invitations{Limiter: servertest.Unlimited{}, RequireVerified: true}, f.clock.Now)
	invite := func(ctx context.Context) error {
		_, err := f.invite(ctx, "ada@example.com", affiliatev1.Role_ROLE_VIEWER)
		return err
	}
	pgtest.RequireRefusal(t, invite(f.asOwnerInLiveMode()), affiliate.ReasonEmailNotVerified)
	f.WantCount(0, "invitations", `select count(*) from member_invites`)
	f.WantCount(0, "mails", `select count(*) from mails`)
	if err := invite(f.asOwner()); err != nil {
		t.Errorf("test mode: %v", err)
	}
	f.Exec(`update users set email_verified_at = $2 where id = $1`, f.Owner, f.Now())
	if err := invite(f.asOwnerInLiveMode()); err != nil {
		t.Errorf("a verified inviter: %v", err)
	}
}
