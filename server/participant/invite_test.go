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

func (w *world) invite(req *inviteRequest) (*affiliatev1.CreatedParticipantInvite, error) {
	w.t.Helper()
	if req.ProgramId == "" {
		req.ProgramId = w.program.String()
	}
	if wrong := w.service.Check(req); len(wrong) > 0 {
		return nil, wrong.Err()
	}
	return w.service.InviteParticipant(w.asMerchant(affiliate.RoleManager), req)
}

func (w *world) mustInvite(req *inviteRequest) *affiliatev1.CreatedParticipantInvite {
	w.t.Helper()
	invite, err := w.invite(req)
	if err != nil {
		w.t.Fatal(err)
	}
	return invite
}

func (w *world) accept(partner affiliate.UserID, token string) (*affiliatev1.Participant, error) {
	return w.service.AcceptParticipantInvite(w.asPartner(partner), &affiliatev1.AcceptParticipantInviteRequest{Token: token})
}

// openInvites returns the e-mail addresses of the open invitations, as a member with the
// role sees them.
func (w *world) openInvites(role affiliate.Role) []string {
	w.t.Helper()
	list, err := w.service.ListParticipantInvites(w.asMerchant(role), &affiliatev1.ListParticipantInvitesRequest{ProgramId: w.program.String()})
	if err != nil {
		w.t.Fatal(err)
	}
	if list.Total != int64(len(list.Data)) {
		w.t.Errorf("total %d of %d", list.Total, len(list.Data))
	}
	emails := []string{}
	for _, invite := range list.Data {
		emails = append(emails, invite.Email)
	}
	return emails
}

func (w *world) revoke(ctx context.Context, program, id string) error {
	_, err := w.service.RevokeParticipantInvite(ctx, &affiliatev1.RevokeParticipantInviteRequest{ProgramId: program, InviteId: id})
	return err
}

func TestParticipantInvite_CreateListAndRevoke(t *testing.T) {
	w := newWorld(t)
	group := w.newGroup(w.program).String()
	invite := w.mustInvite(&inviteRequest{Email: "Jane@Example.com", GroupId: &group, ReferralCode: proto.String("Jane-D")})
	at := w.now.Truncate(time.Millisecond)
	want := &affiliatev1.CreatedParticipantInvite{
		Id: invite.Id, ProgramId: w.program.String(), Email: "jane@example.com", GroupId: &group, ReferralCode: proto.String("jane-d"),
		InvitedBy: w.user.String(), CreatedAt: server.Timestamp(at), ExpiresAt: server.Timestamp(at.AddDate(0, 0, 7)), Token: invite.Token,
	}
	if !proto.Equal(invite, want) || invite.Token == "" {
		t.Errorf("got  %v\nwant %v", invite, want)
	}
	if w.Count(`select count(*) from participant_invites where digest = sha256($1::bytea)`, []byte(invite.Token)) != 1 ||
		w.Count(`select count(*) from participant_invites i where i::text like '%' || $1 || '%'`, invite.Token) != 0 {
		t.Error("the row must contain the token's digest and not the token")
	}
	w.now = w.now.Add(time.Second)
	other := w.mustInvite(&inviteRequest{Email: "john@example.com"})
	if other.GroupId != nil || other.ReferralCode != nil {
		t.Errorf("invited %v", other)
	}
	if got := w.openInvites(affiliate.RoleManager); !slices.Equal(got, []string{"john@example.com", "jane@example.com"}) {
		t.Errorf("open: %v", got)
	}
	if got := w.openInvites(affiliate.RoleViewer); !slices.Equal(got, []string{"j***@example.com", "j***@example.com"}) {
		t.Errorf("open to a viewer: %v", got)
	}
	page, err := w.service.ListParticipantInvites(w.asMerchant(affiliate.RoleOwner), &affiliatev1.ListParticipantInvitesRequest{
		ProgramId: w.program.String(), Page: proto.Int32(2), PageSize: proto.Int32(1),
	})
	if err != nil || page.Total != 2 || len(page.Data) != 1 || page.Data[0].Id != invite.Id || page.Data[0].GetReferralCode() != "jane-d" || page.Data[0].GetGroupId() != group {
		t.Errorf("second page %v, %v", page, err)
	}

	// A new invitation of the same address replaces the earlier one.
	again := w.mustInvite(&inviteRequest{Email: "JANE@example.com"})
	jane := w.NewPartner("Jane")
	_, err = w.accept(jane, invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if got := w.openInvites(affiliate.RoleManager); len(got) != 2 {
		t.Errorf("open: %v", got)
	}

	owner := w.asMerchant(affiliate.RoleOwner)
	if err := w.revoke(owner, w.program.String(), again.Id); err != nil {
		t.Fatal(err)
	}
	pgtest.RequireRefusal(t, w.revoke(owner, w.program.String(), again.Id), affiliate.ReasonNotFound)
	pgtest.RequireRefusal(t, w.revoke(owner, w.program.String(), "42"), affiliate.ReasonNotFound)
	_, err = w.accept(jane, again.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)

	w.now = at.AddDate(0, 0, 7).Add(time.Second)
	if got := w.openInvites(affiliate.RoleManager); len(got) != 0 {
		t.Errorf("open after a week: %v", got)
	}
	_, err = w.accept(jane, other.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	pgtest.RequireRefusal(t, w.revoke(owner, w.program.String(), other.Id), affiliate.ReasonNotFound)

	if w.Count(`select count(*) from audit_log where action = 'participant_invite.create' and actor = $1`, w.user.String()) != 3 ||
		w.Count(`select count(*) from audit_log where action = 'participant_invite.revoke' and resource_id = $1`, again.Id) != 1 ||
		w.Count(`select count(*) from audit_log where before::text like '%@%' or after::text like '%@%'`) != 0 {
		t.Error("the audit log has wrong records or contains an address")
	}
}

func TestInviteParticipant_Refusals(t *testing.T) {
	w := newWorld(t)
	partner := w.NewPartner("Jane")
	jane, err := w.apply(partner, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.update(jane.Id, &update{ReferralCode: "summer"}, "referral_code"); err != nil {
		t.Fatal(err)
	}
	foreign := w.newGroup(w.newProgram()).String()
	_, err = w.invite(&inviteRequest{Email: "a@example.com", GroupId: &foreign})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "group_id")
	_, err = w.invite(&inviteRequest{Email: "a@example.com", ReferralCode: proto.String("Google")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "referral_code")
	_, err = w.invite(&inviteRequest{Email: "Jane <a@example.com>"})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "email")
	for _, code := range []string{"Summer", "jane"} {
		_, err = w.invite(&inviteRequest{Email: "a@example.com", ReferralCode: &code})
		pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	}
	_, err = w.invite(&inviteRequest{Email: strings.ToUpper(jane.PartnerEmail)})
	pgtest.RequireRefusal(t, err, affiliate.ReasonApplicationDuplicate)
	for _, id := range []string{"42", affiliate.NewID[affiliate.Program](w.now).String()} {
		_, err = w.invite(&inviteRequest{Email: "a@example.com", ProgramId: id})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	for status, reason := range map[string]affiliate.Reason{"draft": "", "paused": "", "archived": affiliate.ReasonProgramStateInvalid} {
		w.Exec(`update programs set status = $1, is_public = false`, status)
		_, err := w.invite(&inviteRequest{Email: status + "@example.com"})
		if reason == "" && err != nil {
			t.Errorf("%s: %v", status, err)
		} else if reason != "" {
			pgtest.RequireRefusal(t, err, reason)
		}
	}
	if n := w.Count(`select count(*) from participant_invites`); n != 2 {
		t.Errorf("%d invitations", n)
	}
}

func TestAcceptParticipantInvite_CreatesAnApprovedParticipant(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set is_public = false`)
	group := w.newGroup(w.program).String()
	invite := w.mustInvite(&inviteRequest{Email: "someone@example.com", GroupId: &group, ReferralCode: proto.String("star")})
	partner := w.NewPartner("Jane") // has another address than the invitation, which is allowed
	p, err := w.accept(partner, invite.Token)
	if err != nil {
		t.Fatal(err)
	}
	if p.Status != affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_APPROVED || p.ApprovedAt == nil || p.ReferralCode != "star" || p.PartnerId != partner.String() {
		t.Errorf("joined %v", p)
	}
	if p.GroupId != nil || p.Note != nil || len(p.Tags) != 0 {
		t.Errorf("the partner sees %v", p)
	}
	if got := w.get(p.Id); got.GetGroupId() != group || got.PartnerEmail != "jane-"+partner.String()+"@example.com" {
		t.Errorf("the merchant sees %v", got)
	}
	if got := w.eventTypes(); !slices.Equal(got, []string{"link.created", "participant.applied", "participant.approved"}) {
		t.Errorf("events %v", got)
	}
	if w.Count(`select count(*) from audit_log where action = 'participant.accept_invite' and resource_id = $1 and actor = $2`, p.Id, partner.String()) != 1 ||
		w.Count(`select count(*) from links where participant_id = $1 and is_default and code = 'star'`, p.Id) != 1 ||
		w.Count(`select count(*) from river.river_job where kind = 'sync_directory' and args->>'participant' = $1`, p.Id) != 1 {
		t.Error("audit log, link or job is missing")
	}
	w.checkCounts()
	_, err = w.accept(w.NewPartner("John"), invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if got := w.openInvites(affiliate.RoleOwner); len(got) != 0 {
		t.Errorf("open: %v", got)
	}
	pgtest.RequireRefusal(t, w.revoke(w.asMerchant(affiliate.RoleOwner), w.program.String(), invite.Id), affiliate.ReasonNotFound)
}

// After a refused acceptance the invitation stays open, so that the partner can try again.
func TestAcceptParticipantInvite_RefusalKeepsTheInvitation(t *testing.T) {
	w := newWorld(t)
	invite := w.mustInvite(&inviteRequest{Email: "jane@example.com", ReferralCode: proto.String("star")})
	applied := w.NewPartner("Ada")
	if _, err := w.apply(applied, nil); err != nil {
		t.Fatal(err)
	}
	jane := w.NewPartner("Jane")

	_, err := w.accept(applied, invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonApplicationDuplicate)
	_, err = w.accept(jane, "inv_wrong")
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	test := server.WithPrincipal(t.Context(), server.Principal{Kind: server.PartnerToken, User: jane, Mode: affiliate.ModeTest})
	_, err = w.service.AcceptParticipantInvite(test, &affiliatev1.AcceptParticipantInviteRequest{Token: invite.Token})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	for _, status := range []string{"draft", "paused", "archived"} {
		w.Exec(`update programs set status = $1`, status)
		_, err = w.accept(jane, invite.Token)
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	w.Exec(`update programs set status = 'active', terms_url = 'https://a.example/terms'`)
	_, err = w.accept(jane, invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "accept_terms")
	w.Exec(`update programs set terms_url = null`)
	eve, err := w.apply(w.NewPartner("Eve"), func(r *affiliatev1.ApplyRequest) { r.ReferralCode = proto.String("star") })
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.accept(jane, invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	w.Exec(`update participants set erased_at = $1 where id = $2`, w.now, eve.Id)

	if got := w.openInvites(affiliate.RoleOwner); !slices.Equal(got, []string{"jane@example.com"}) {
		t.Fatalf("open: %v", got)
	}
	w.Exec(`update participant_invites set referral_code = null`)
	w.Exec(`update programs set terms_url = 'https://a.example/terms'`)
	p, err := w.service.AcceptParticipantInvite(w.asPartner(jane), &affiliatev1.AcceptParticipantInviteRequest{Token: invite.Token, AcceptTerms: true})
	if err != nil || p.TermsAcceptedAt == nil || p.ReferralCode != "jane" {
		t.Errorf("%v, %v", p, err)
	}
	if w.Count(`select count(*) from participants`) != 3 {
		t.Error("a refused acceptance created a participant")
	}
	w.checkCounts()
}

func TestAcceptParticipantInvite_TokenWorksOnce(t *testing.T) {
	w := newWorld(t)
	partners := make([]affiliate.UserID, 20)
	for i := range partners {
		partners[i] = w.NewPartner("Jane")
	}
	for _, samePartner := range []bool{false, true} {
		invite := w.mustInvite(&inviteRequest{Email: "jane@example.com"})
		before := w.Count(`select count(*) from participants`)
		late := w.NewPartner("Late")
		w.expectOneSuccess(20, func(i int) error {
			partner := partners[i]
			if samePartner {
				partner = late
			}
			_, err := w.accept(partner, invite.Token)
			return err
		}, affiliate.ReasonNotFound)
		if w.Count(`select count(*) from participants`) != before+1 {
			t.Error("the token did not create exactly one participant")
		}
	}
	w.checkCounts()
}

func TestInviteParticipant_SameAddressInParallelLeavesOneOpen(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := w.invite(&inviteRequest{Email: "jane@example.com"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := w.openInvites(affiliate.RoleOwner); len(got) != 1 || w.Count(`select count(*) from participant_invites`) != 20 {
		t.Errorf("open: %v", got)
	}
}

func TestApply_ToPrivateProgramNeedsAnInvitation(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set is_public = false`)
	partner := w.NewPartner("Jane")
	email := "jane-" + partner.String() + "@example.com"
	expectRefusal := func(reason string) {
		t.Helper()
		if _, err := w.apply(partner, nil); err == nil {
			t.Fatalf("the application was accepted although %s", reason)
		} else {
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		}
	}
	expectRefusal("there is no invitation")
	w.mustInvite(&inviteRequest{Email: "john@example.com"})
	expectRefusal("another partner was invited")
	private := w.program
	w.program = w.newProgram()
	w.mustInvite(&inviteRequest{Email: email})
	w.program = private
	expectRefusal("another programme invited the partner")
	invite := w.mustInvite(&inviteRequest{Email: email})
	if err := w.revoke(w.asMerchant(affiliate.RoleOwner), w.program.String(), invite.Id); err != nil {
		t.Fatal(err)
	}
	expectRefusal("the invitation was revoked")
	w.mustInvite(&inviteRequest{Email: email})
	now := w.now
	w.now = now.AddDate(0, 0, 7)
	expectRefusal("the invitation has expired")
	w.now = now
	w.Exec(`update programs set status = 'paused' where id = $1`, w.program)
	expectRefusal("the programme is paused")
	w.Exec(`update programs set status = 'active' where id = $1`, w.program)
	if p, err := w.apply(partner, nil); err != nil || p.Status != affiliatev1.ParticipantStatus_PARTICIPANT_STATUS_PENDING {
		t.Errorf("%v, %v", p, err)
	}
}

func TestParticipantInvite_OfOtherScopesIsNotFound(t *testing.T) {
	w := newWorld(t)
	invite := w.mustInvite(&inviteRequest{Email: "jane@example.com"})
	as := func(workspace affiliate.WorkspaceID, mode affiliate.Mode) context.Context {
		return server.WithPrincipal(t.Context(), server.Principal{Kind: server.MerchantToken, User: w.user, Workspace: workspace, Role: affiliate.RoleOwner, Mode: mode})
	}
	for name, ctx := range map[string]context.Context{
		"another mode":      as(w.workspace, affiliate.ModeTest),
		"another workspace": as(affiliate.NewID[affiliate.Workspace](w.now), affiliate.ModeLive),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.service.InviteParticipant(ctx, &inviteRequest{ProgramId: invite.ProgramId, Email: "jane@example.com"})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = w.service.ListParticipantInvites(ctx, &affiliatev1.ListParticipantInvitesRequest{ProgramId: invite.ProgramId})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			pgtest.RequireRefusal(t, w.revoke(ctx, invite.ProgramId, invite.Id), affiliate.ReasonNotFound)
		})
	}
	pgtest.RequireRefusal(t, w.revoke(w.asMerchant(affiliate.RoleOwner), w.newProgram().String(), invite.Id), affiliate.ReasonNotFound)
	if got := w.openInvites(affiliate.RoleOwner); len(got) != 1 {
		t.Errorf("open: %v", got)
	}
}
