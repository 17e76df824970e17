package participant_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

type inviteRequest = affiliatev1.InviteParticipantRequest

func (f *fixture) invite(req *inviteRequest) (*affiliatev1.CreatedParticipantInvite, error) {
	f.Helper()
	if req.ProgramId == "" {
		req.ProgramId = f.Program.String()
	}
	if wrong := f.service.Check(req); len(wrong) > 0 {
		return nil, wrong.Err()
	}
	return f.service.InviteParticipant(f.asMerchant(affiliate.RoleManager), req)
}

func (f *fixture) mustInvite(req *inviteRequest) *affiliatev1.CreatedParticipantInvite {
	f.Helper()
	invite, err := f.invite(req)
	if err != nil {
		f.Fatal(err)
	}
	return invite
}

func (f *fixture) accept(partner affiliate.UserID, token string) (*affiliatev1.Participant, error) {
	return f.service.AcceptParticipantInvite(f.asPartner(partner), &affiliatev1.AcceptParticipantInviteRequest{Token: token})
}

// openInvites returns the e-mail addresses of the open invitations, as a member with the
// role sees them.
func (f *fixture) openInvites(role affiliate.Role) []string {
	f.Helper()
	list, err := f.service.ListParticipantInvites(f.asMerchant(role), &affiliatev1.ListParticipantInvitesRequest{ProgramId: f.Program.String()})
	if err != nil {
		f.Fatal(err)
	}
	if list.Total != int64(len(list.Data)) {
		f.Errorf("total %d of %d", list.Total, len(list.Data))
	}
	emails := []string{}
	for _, invite := range list.Data {
		emails = append(emails, invite.Email)
	}
	return emails
}

func (f *fixture) revoke(ctx context.Context, program, id string) error {
	_, err := f.service.RevokeParticipantInvite(ctx, &affiliatev1.RevokeParticipantInviteRequest{ProgramId: program, InviteId: id})
	return err
}

func TestParticipantInvite_CreateListAndRevoke(t *testing.T) {
	f := newFixture(t)
	group := f.newGroup(f.Program).String()
	invite := f.mustInvite(&inviteRequest{Email: "Jane@Example.com", GroupId: &group, ReferralCode: proto.String("Jane-D")})
	at := f.Now().Truncate(time.Millisecond)
	want := &affiliatev1.CreatedParticipantInvite{
		Id: invite.Id, ProgramId: f.Program.String(), Email: "jane@example.com", GroupId: &group, ReferralCode: proto.String("jane-d"),
		InvitedBy: f.Owner.String(), CreatedAt: server.Timestamp(at), ExpiresAt: server.Timestamp(at.AddDate(0, 0, 7)), Token: invite.Token,
	}
	if !proto.Equal(invite, want) || invite.Token == "" {
		t.Errorf("got  %v\nwant %v", invite, want)
	}
	if f.Count(`select count(*) from participant_invites where digest = sha256($1::bytea)`, []byte(invite.Token)) != 1 ||
		f.Count(`select count(*) from participant_invites i where i::text like '%' || $1 || '%'`, invite.Token) != 0 {
		t.Error("the row must contain the token's digest and not the token")
	}
	f.clock.Advance(time.Second)
	other := f.mustInvite(&inviteRequest{Email: "john@example.com"})
	if other.GroupId != nil || other.ReferralCode != nil {
		t.Errorf("invited %v", other)
	}
	if got := f.openInvites(affiliate.RoleManager); !slices.Equal(got, []string{"john@example.com", "jane@example.com"}) {
		t.Errorf("open: %v", got)
	}
	if got := f.openInvites(affiliate.RoleViewer); !slices.Equal(got, []string{"j***@example.com", "j***@example.com"}) {
		t.Errorf("open to a viewer: %v", got)
	}
	page, err := f.service.ListParticipantInvites(f.asMerchant(affiliate.RoleOwner), &affiliatev1.ListParticipantInvitesRequest{
		ProgramId: f.Program.String(), Page: proto.Int32(2), PageSize: proto.Int32(1),
	})
	if err != nil || page.Total != 2 || len(page.Data) != 1 || page.Data[0].Id != invite.Id || page.Data[0].GetReferralCode() != "jane-d" || page.Data[0].GetGroupId() != group {
		t.Errorf("second page %v, %v", page, err)
	}

	// A new invitation of the same address replaces the earlier one.
	again := f.mustInvite(&inviteRequest{Email: "JANE@example.com"})
	jane := f.NewPartner("Jane")
	_, err = f.accept(jane, invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if got := f.openInvites(affiliate.RoleManager); len(got) != 2 {
		t.Errorf("open: %v", got)
	}

	owner := f.asMerchant(affiliate.RoleOwner)
	if err := f.revoke(owner, f.Program.String(), again.Id); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, f.revoke(owner, f.Program.String(), again.Id), affiliate.ReasonNotFound)
	pgtest.RequireRefusal(t, f.revoke(owner, f.Program.String(), "42"), affiliate.ReasonNotFound)
	_, err = f.accept(jane, again.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)

	f.clock.Set(at.AddDate(0, 0, 7).Add(time.Second))
	if got := f.openInvites(affiliate.RoleManager); len(got) != 0 {
		t.Errorf("open after a week: %v", got)
	}
	_, err = f.accept(jane, other.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	pgtest.RequireRefusal(t, f.revoke(owner, f.Program.String(), other.Id), affiliate.ReasonNotFound)

	if f.Count(`select count(*) from audit_log where action = 'participant_invite.create' and actor = $1`, f.Owner.String()) != 3 ||
		f.Count(`select count(*) from audit_log where action = 'participant_invite.revoke' and resource_id = $1`, again.Id) != 1 ||
		f.Count(`select count(*) from audit_log where before::text like '%@%' or after::text like '%@%'`) != 0 {
		t.Error("the audit log has wrong records or contains an address")
	}
}

func TestInviteParticipant_Refusals(t *testing.T) {
	f := newFixture(t)
	partner := f.NewPartner("Jane")
	jane, err := f.apply(partner, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.update(jane.Id, &update{ReferralCode: "summer"}, "referral_code"); err != nil {
		t.Fatal(err)
	}
	foreign := f.newGroup(f.NewProgram(f.Scope)).String()
	_, err = f.invite(&inviteRequest{Email: "a@example.com", GroupId: &foreign})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "group_id")
	_, err = f.invite(&inviteRequest{Email: "a@example.com", ReferralCode: proto.String("Google")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "referral_code")
	_, err = f.invite(&inviteRequest{Email: "Jane <a@example.com>"})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "email")
	for _, code := range []string{"Summer", "jane"} {
		_, err = f.invite(&inviteRequest{Email: "a@example.com", ReferralCode: &code})
		pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	}
	_, err = f.invite(&inviteRequest{Email: strings.ToUpper(jane.PartnerEmail)})
	pgtest.RequireRefusal(t, err, affiliate.ReasonApplicationDuplicate)
	for _, id := range []string{"42", affiliate.NewID[affiliate.Program](f.Now()).String()} {
		_, err = f.invite(&inviteRequest{Email: "a@example.com", ProgramId: id})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	for status, reason := range map[string]affiliate.Reason{"draft": "", "paused": "", "archived": affiliate.ReasonProgramStateInvalid} {
		f.Exec(`update programs set status = $1, is_public = false`, status)
		_, err := f.invite(&inviteRequest{Email: status + "@example.com"})
		if reason == "" && err != nil {
			t.Errorf("%s: %v", status, err)
		} else if reason != "" {
			pgtest.RequireRefusal(t, err, reason)
		}
	}
	if n := f.Count(`select count(*) from participant_invites`); n != 2 {
		t.Errorf("%d invitations", n)
	}
}

func TestAcceptParticipantInvite_CreatesAnApprovedParticipant(t *testing.T) {
	f := newFixture(t)
	f.Exec(`update programs set is_public = false`)
	group := f.newGroup(f.Program).String()
	invite := f.mustInvite(&inviteRequest{Email: "someone@example.com", GroupId: &group, ReferralCode: proto.String("star")})
	partner := f.NewPartner("Jane") // has another address than the invitation, which is allowed
	p, err := f.accept(partner, invite.Token)
	if err != nil {
		t.Fatal(err)
	}
	if p.Status != affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED || p.ApprovedAt == nil || p.ReferralCode != "star" || p.PartnerId != partner.String() {
		t.Errorf("joined %v", p)
	}
	if p.GroupId != nil || p.Note != nil || len(p.Tags) != 0 {
		t.Errorf("the partner sees %v", p)
	}
	if got := f.get(p.Id); got.GetGroupId() != group || got.PartnerEmail != "jane-"+partner.String()+"@example.com" {
		t.Errorf("the merchant sees %v", got)
	}
	if got := f.eventTypes(); !slices.Equal(got, []string{"link.created", "participant.applied", "participant.approved"}) {
		t.Errorf("events %v", got)
	}
	if f.Count(`select count(*) from audit_log where action = 'participant.accept_invite' and resource_id = $1 and actor = $2`, p.Id, partner.String()) != 1 ||
		f.Count(`select count(*) from links where participant_id = $1 and is_default and code = 'star'`, p.Id) != 1 ||
		f.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'participant' = $1`, p.Id) != 1 {
		t.Error("audit log, link or job is missing")
	}
	f.checkCounts()
	_, err = f.accept(f.NewPartner("John"), invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if got := f.openInvites(affiliate.RoleOwner); len(got) != 0 {
		t.Errorf("open: %v", got)
	}
	pgtest.RequireRefusal(t, f.revoke(f.asMerchant(affiliate.RoleOwner), f.Program.String(), invite.Id), affiliate.ReasonNotFound)
}

// After a refused acceptance the invitation stays open, so that the partner can try again.
func TestAcceptParticipantInvite_RefusalKeepsTheInvitation(t *testing.T) {
	f := newFixture(t)
	invite := f.mustInvite(&inviteRequest{Email: "jane@example.com", ReferralCode: proto.String("star")})
	applied := f.NewPartner("Ada")
	if _, err := f.apply(applied, nil); err != nil {
		t.Fatal(err)
	}
	jane := f.NewPartner("Jane")

	_, err := f.accept(applied, invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonApplicationDuplicate)
	_, err = f.accept(jane, "inv_wrong")
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	test := server.WithPrincipal(t.Context(), server.Principal{Kind: server.PartnerToken, User: jane, Mode: affiliate.ModeTest})
	_, err = f.service.AcceptParticipantInvite(test, &affiliatev1.AcceptParticipantInviteRequest{Token: invite.Token})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	for _, status := range []string{"draft", "paused", "archived"} {
		f.Exec(`update programs set status = $1`, status)
		_, err = f.accept(jane, invite.Token)
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	f.Exec(`update programs set status = 'active', terms_url = 'https://a.example/terms'`)
	_, err = f.accept(jane, invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "accept_terms")
	f.Exec(`update programs set terms_url = null`)
	eve, err := f.apply(f.NewPartner("Eve"), func(r *affiliatev1.ApplyRequest) { r.ReferralCode = proto.String("star") })
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.accept(jane, invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	f.Exec(`update participants set erased_at = $1 where id = $2`, f.Now(), eve.Id)

	if got := f.openInvites(affiliate.RoleOwner); !slices.Equal(got, []string{"jane@example.com"}) {
		t.Fatalf("open: %v", got)
	}
	f.Exec(`update participant_invites set referral_code = null`)
	f.Exec(`update programs set terms_url = 'https://a.example/terms'`)
	p, err := f.service.AcceptParticipantInvite(f.asPartner(jane), &affiliatev1.AcceptParticipantInviteRequest{Token: invite.Token, AcceptTerms: true})
	if err != nil || p.TermsAcceptedAt == nil || p.ReferralCode != "jane" {
		t.Errorf("%v, %v", p, err)
	}
	if f.Count(`select count(*) from participants`) != 3 {
		t.Error("a refused acceptance created a participant")
	}
	f.checkCounts()
}

func TestAcceptParticipantInvite_TokenWorksOnce(t *testing.T) {
	f := newFixture(t)
	partners := make([]affiliate.UserID, 20)
	for i := range partners {
		partners[i] = f.NewPartner("Jane")
	}
	for _, samePartner := range []bool{false, true} {
		invite := f.mustInvite(&inviteRequest{Email: "jane@example.com"})
		before := f.Count(`select count(*) from participants`)
		late := f.NewPartner("Late")
		f.expectOneSuccess(20, func(i int) error {
			partner := partners[i]
			if samePartner {
				partner = late
			}
			_, err := f.accept(partner, invite.Token)
			return err
		}, affiliate.ReasonNotFound)
		if f.Count(`select count(*) from participants`) != before+1 {
			t.Error("the token did not create exactly one participant")
		}
	}
	f.checkCounts()
}

func TestInviteParticipant_SameAddressInParallelLeavesOneOpen(t *testing.T) {
	f := newFixture(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := f.invite(&inviteRequest{Email: "jane@example.com"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := f.openInvites(affiliate.RoleOwner); len(got) != 1 || f.Count(`select count(*) from participant_invites`) != 20 {
		t.Errorf("open: %v", got)
	}
}

func TestApply_ToPrivateProgramNeedsAnInvitation(t *testing.T) {
	f := newFixture(t)
	f.Exec(`update programs set is_public = false`)
	partner := f.NewPartner("Jane")
	email := "jane-" + partner.String() + "@example.com"
	expectRefusal := func(reason string) {
		t.Helper()
		if _, err := f.apply(partner, nil); err == nil {
			t.Fatalf("the application was accepted although %s", reason)
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		}
	}
	expectRefusal("there is no invitation")
	f.mustInvite(&inviteRequest{Email: "john@example.com"})
	expectRefusal("another partner was invited")
	private := f.Program
	f.Program = f.NewProgram(f.Scope)
	f.mustInvite(&inviteRequest{Email: email})
	f.Program = private
	expectRefusal("another programme invited the partner")
	invite := f.mustInvite(&inviteRequest{Email: email})
	if err := f.revoke(f.asMerchant(affiliate.RoleOwner), f.Program.String(), invite.Id); err != nil {
		t.Fatal(err)
	}
	expectRefusal("the invitation was revoked")
	f.mustInvite(&inviteRequest{Email: email})
	now := f.Now()
	f.clock.Set(now.AddDate(0, 0, 7))
	expectRefusal("the invitation has expired")
	f.clock.Set(now)
	f.Exec(`update programs set status = 'paused' where id = $1`, f.Program)
	expectRefusal("the programme is paused")
	f.Exec(`update programs set status = 'active' where id = $1`, f.Program)
	if p, err := f.apply(partner, nil); err != nil || p.Status != affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_PENDING {
		t.Errorf("%v, %v", p, err)
	}
}

func TestParticipantInvite_OfOtherScopesIsNotFound(t *testing.T) {
	f := newFixture(t)
	invite := f.mustInvite(&inviteRequest{Email: "jane@example.com"})
	as := func(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
		return server.WithPrincipal(t.Context(), server.Principal{Kind: server.MerchantToken, User: f.Owner, Workspace: workspace, Role: affiliate.RoleOwner, Mode: mode})
	}
	for name, ctx := range map[string]context.Context{
		"another mode":      as(f.Scope.Workspace, affiliate.ModeTest),
		"another workspace": as(affiliate.NewID[affiliate.Workspace](f.Now()), affiliate.ModeLive),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.InviteParticipant(ctx, &inviteRequest{ProgramId: invite.ProgramId, Email: "jane@example.com"})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.ListParticipantInvites(ctx, &affiliatev1.ListParticipantInvitesRequest{ProgramId: invite.ProgramId})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			pgtest.RequireRefusal(t, f.revoke(ctx, invite.ProgramId, invite.Id), affiliate.ReasonNotFound)
		})
	}
	pgtest.RequireRefusal(t, f.revoke(f.asMerchant(affiliate.RoleOwner), f.NewProgram(f.Scope).String(), invite.Id), affiliate.ReasonNotFound)
	if got := f.openInvites(affiliate.RoleOwner); len(got) != 1 {
		t.Errorf("open: %v", got)
	}
}
