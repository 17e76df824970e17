package participant_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

type inviteRequest = affiliatev1.InviteParticipantRequest

func (f *fixture) invite(req *inviteRequest) (*affiliatev1.CreatedParticipantInvite, error) {
	if req.ProgramId == "" {
		req.ProgramId = f.Program.String()
	}
	if err := servertest.Check(f.service, req); err != nil {
		return nil, err
	}
	return f.service.InviteParticipant(f.asMember(affiliate.RoleManager), req)
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

func (f *fixture) revoke(caller context.Context, program, id string) error {
	_, err := f.service.RevokeParticipantInvite(caller, &affiliatev1.RevokeParticipantInviteRequest{ProgramId: program, InviteId: id})
	return err
}

// wantOpenInvites checks the email addresses of the open invitations, as a member with
// the role sees them.
func (f *fixture) wantOpenInvites(role affiliate.Role, want ...string) {
	f.Helper()
	list, err := f.service.ListParticipantInvites(f.asMember(role), &affiliatev1.ListParticipantInvitesRequest{ProgramId: f.Program.String()})
	if err != nil {
		f.Fatal(err)
	}
	var emails []string
	for _, invite := range list.Data {
		emails = append(emails, invite.Email)
	}
	if !slices.Equal(emails, want) || list.Total != int64(len(want)) {
		f.Errorf("ListParticipantInvites as %s returned %q and the total %d, want %q and %d", role, emails, list.Total, want, len(want))
	}
}

// requireNotOpen checks that an invitation can neither be accepted nor revoked.
func (f *fixture) requireNotOpen(t *testing.T, invite *affiliatev1.CreatedParticipantInvite) {
	t.Helper()
	_, err := f.accept(f.NewPartner("Late"), invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	pgtest.RequireRefusal(t, f.revoke(f.asOwner(), invite.ProgramId, invite.Id), affiliate.ReasonNotFound)
}

func TestParticipantInvite_IsMailed(t *testing.T) {
	f := newFixture(t)
	invite := f.mustInvite(&inviteRequest{Email: "Jane@Example.com"})
	var id notification.MailID
	var secret []byte
	err := f.SQL.QueryRow(t.Context(), `
		select m.id, m.secret
		from mails m
		join workspaces w on w.id = m.workspace_id
		join programs p on p.workspace_id = w.id
		where m.kind = 'participant_invite' and m.recipient = 'jane@example.com' and m.account_kind = 'partner'
			and m.mode is null and m.user_id is null
			and m.facts ->> 'workspaceName' = w.name and m.facts ->> 'programName' = p.name and m.facts ->> 'inviterName' = 'Mara'
			and (m.facts ->> 'expiresAt')::timestamptz = $1`, invite.ExpiresAt.AsTime()).Scan(&id, &secret)
	if err != nil {
		t.Fatalf("the mail of the invitation: %v", err)
	}
	// The inviter sees the token of the response, so the mail has another one. Both accept
	// the invitation.
	token, err := servertest.Seal(t).OpenMailToken(id, secret)
	if err != nil || token == invite.Token {
		t.Fatalf("the mail has the token %q, %v, want another token than the response", token, err)
	}
	if _, err := f.accept(f.NewPartner("Jane"), token); err != nil {
		t.Errorf("the token of the mail: %v", err)
	}
}

func TestParticipantInvite_MailContainsTermsAndText(t *testing.T) {
	f := newFixture(t)
	group := f.NewGroup(f.Scope, f.Program, "Gold").ID.String()
	facts := func(address string) string {
		t.Helper()
		return f.Texts(`select concat_ws('|', recipient_name, facts ->> 'message', facts ->> 'rate', facts ->> 'link') from mails where recipient = $1`, address)[0]
	}
	f.mustInvite(&inviteRequest{Email: "jane@example.com", Name: new("Jane Doe"), Message: new("Join us.\nWe pay well."), Language: new("en"), ReferralCode: new("Jane")})
	if got, want := facts("jane@example.com"), "Jane Doe|Join us.\nWe pay well.|20% of each sale|https://shop.example/?via=jane"; got != want {
		t.Errorf("the mail contains %q, want %q", got, want)
	}
	f.mustInvite(&inviteRequest{Email: "john@example.com", GroupId: &group})
	rate := f.Texts(`select rate_bps / 100 || '% of each sale' from groups`)[0]
	if got, want := facts("john@example.com"), "|"+rate; got != want {
		t.Errorf("the mail to a partner of a group contains %q, want %q", got, want)
	}
}

func TestParticipantInvite_RefusesTextThatMailsMustNotShow(t *testing.T) {
	f := newFixture(t)
	long := strings.Repeat("x", 1001)
	for name, tc := range map[string]struct {
		req   *inviteRequest
		field string
	}{
		"link in the name":          {&inviteRequest{Name: new("www.evil.example")}, "name"},
		"line break in the name":    {&inviteRequest{Name: new("Jane\nDoe")}, "name"},
		"link in the message":       {&inviteRequest{Message: new("See https://evil.example")}, "message"},
		"direction of text":         {&inviteRequest{Message: new("\u202eolleh")}, "message"},
		"long message":              {&inviteRequest{Message: &long}, "message"},
		"long name":                 {&inviteRequest{Name: new(long[:101])}, "name"},
		"language that mails lack":  {&inviteRequest{Language: new("tlh")}, "language"},
		"message of another script": {&inviteRequest{Message: new("\u2028")}, "message"},
	} {
		tc.req.Email = "jane@example.com"
		if _, err := f.invite(tc.req); err == nil || !strings.Contains(strings.ToLower(err.Error()), tc.field) {
			t.Errorf("%s: InviteParticipant returned %v, want a violation of %s", name, err, tc.field)
		}
	}
	f.WantCount(0, "invitations and mails", `select (select count(*) from participant_invites) + (select count(*) from mails)`)
}

// The mailed link stays valid, because a second mail would be needed for another one.
func TestParticipantInvite_MailsAnAddressOnceAnHour(t *testing.T) {
	f := newFixture(t)
	group := f.NewGroup(f.Scope, f.Program, "Gold").ID.String()
	first := f.mustInvite(&inviteRequest{Email: "jane@example.com"})
	f.clock.Advance(account.InviteMailInterval - time.Second)
	again := f.mustInvite(&inviteRequest{Email: "Jane@example.com", GroupId: &group, ReferralCode: new("Jane")})
	if !first.Mailed || again.Mailed || again.Token != "" || again.Id != first.Id || again.GetGroupId() != group || again.GetReferralCode() != "jane" {
		t.Errorf("the second request returned %v, want the first invitation with the new group and code, not mailed and without a token", again)
	}
	f.WantCount(1, "mails", `select count(*) from mails where recipient = 'jane@example.com'`)
	f.wantAudits(1, "participant_invite.update", f.Owner)
	f.clock.Advance(time.Second)
	later := f.mustInvite(&inviteRequest{Email: "jane@example.com"})
	if !later.Mailed || later.Token == "" || later.Id == first.Id {
		t.Errorf("the request after an hour returned %v, want a new invitation that was mailed", later)
	}
	f.WantCount(2, "mails", `select count(*) from mails where recipient = 'jane@example.com'`)
	f.requireNotOpen(t, first)

	// A revoked invitation does not hold back the mail of the next one.
	if err := f.revoke(f.asOwner(), f.Program.String(), later.Id); err != nil {
		t.Fatal(err)
	}
	if got := f.mustInvite(&inviteRequest{Email: "jane@example.com"}); !got.Mailed {
		t.Error("the invitation after a revocation was not mailed")
	}
}

func TestParticipantInvite_CreateAndList(t *testing.T) {
	f := newFixture(t)
	group := f.NewGroup(f.Scope, f.Program, "Gold").ID.String()
	invite := f.mustInvite(&inviteRequest{Email: "Jane@Example.com", GroupId: &group, ReferralCode: new("Jane-D")})
	at := f.changeTime()
	want := &affiliatev1.CreatedParticipantInvite{
		Id: invite.Id, ProgramId: f.Program.String(), Email: "jane@example.com", GroupId: &group, ReferralCode: new("jane-d"),
		InvitedBy: f.Owner.String(), CreatedAt: server.Timestamp(at), ExpiresAt: server.Timestamp(at.AddDate(0, 0, 7)), Token: invite.Token, Mailed: true,
	}
	if !proto.Equal(invite, want) || invite.Token == "" {
		t.Errorf("InviteParticipant returned %v\nwant %v with a token", invite, want)
	}
	f.WantCount(1, "invitations with the hash of the token", `select count(*) from participant_invites where digest = sha256($1::bytea)`, []byte(invite.Token))
	f.WantCount(0, "invitations with the token itself", `select count(*) from participant_invites i where i::text like '%' || $1 || '%'`, invite.Token)

	f.clock.Advance(time.Second)
	if got := f.mustInvite(&inviteRequest{Email: "john@example.com"}); got.GroupId != nil || got.ReferralCode != nil {
		t.Errorf("InviteParticipant without group and code returned the group %v and the code %v, want none", got.GroupId, got.ReferralCode)
	}
	f.wantOpenInvites(affiliate.RoleManager, "john@example.com", "jane@example.com")
	f.wantOpenInvites(affiliate.RoleViewer, "j***@example.com", "j***@example.com")
	got, err := f.service.ListParticipantInvites(f.asOwner(), &affiliatev1.ListParticipantInvitesRequest{
		ProgramId: f.Program.String(), Page: new(int32(2)), PageSize: new(int32(1)),
	})
	if err != nil {
		t.Fatal(err)
	}
	wantPage := &affiliatev1.ListParticipantInvitesResponse{
		Total: 2, Page: 2, Limit: 1,
		Data: []*affiliatev1.ParticipantInvite{{
			Id: want.Id, ProgramId: want.ProgramId, Email: want.Email, GroupId: want.GroupId, ReferralCode: want.ReferralCode,
			InvitedBy: want.InvitedBy, InvitedByName: new(f.Texts(`select name from users where id = $1`, f.Owner)[0]),
			CreatedAt: want.CreatedAt, ExpiresAt: want.ExpiresAt,
		}},
	}
	if !proto.Equal(got, wantPage) {
		t.Errorf("the second page of ListParticipantInvites is %v\nwant %v", got, wantPage)
	}
	f.wantAudits(2, "participant_invite.create", f.Owner)
	f.WantCount(0, "audit records with an address", `select count(*) from audit_log where before::text like '%@%' or after::text like '%@%'`)
}

func TestParticipantInvite_EndsWhenReplacedRevokedOrExpired(t *testing.T) {
	f := newFixture(t)
	replaced := f.mustInvite(&inviteRequest{Email: "jane@example.com"})
	f.clock.Advance(account.InviteMailInterval)
	revoked := f.mustInvite(&inviteRequest{Email: "JANE@example.com"})
	f.requireNotOpen(t, replaced)
	f.wantOpenInvites(affiliate.RoleManager, "jane@example.com")

	if err := f.revoke(f.asOwner(), f.Program.String(), revoked.Id); err != nil {
		t.Fatal(err)
	}
	f.requireNotOpen(t, revoked)
	pgtest.RequireRefusal(t, f.revoke(f.asOwner(), f.Program.String(), "42"), affiliate.ReasonNotFound)
	f.wantAudits(1, "participant_invite.revoke", f.Owner)
	f.wantOpenInvites(affiliate.RoleManager)

	expired := f.mustInvite(&inviteRequest{Email: "jane@example.com"})
	f.clock.Advance(7 * 24 * time.Hour)
	f.requireNotOpen(t, expired)
	f.wantOpenInvites(affiliate.RoleManager)
	f.WantCount(0, "audit records with an address", `select count(*) from audit_log where before::text like '%@%' or after::text like '%@%'`)
}

func TestInviteParticipant_Refusals(t *testing.T) {
	f := newFixture(t)
	jane := f.Join("Jane", pgtest.Row{"referral_code": "jane", "partner_email": "jane@example.com"}).ID.String()
	f.mustUpdate(jane, &updateRequest{ReferralCode: "summer"}, "referral_code")
	foreignGroup := f.NewGroup(f.Scope, f.NewProgram(f.Scope), "Gold").ID.String()
	archived := f.NewProgram(f.Scope, pgtest.Row{"status": "archived"}).String()
	for name, tc := range map[string]struct {
		req        *inviteRequest
		wantReason affiliate.Reason
		wantField  string
	}{
		"group of another programme":        {&inviteRequest{GroupId: &foreignGroup}, affiliate.ReasonValidation, "group_id"},
		"reserved code":                     {&inviteRequest{ReferralCode: new("Google")}, affiliate.ReasonValidation, "referral_code"},
		"address with a display name":       {&inviteRequest{Email: "Jane <a@example.com>"}, affiliate.ReasonValidation, "email"},
		"code of a participant":             {&inviteRequest{ReferralCode: new("Summer")}, affiliate.ReasonReferralCodeTaken, ""},
		"replaced code of a participant":    {&inviteRequest{ReferralCode: new("jane")}, affiliate.ReasonReferralCodeTaken, ""},
		"address of a participant":          {&inviteRequest{Email: "JANE@EXAMPLE.COM"}, affiliate.ReasonApplicationDuplicate, ""},
		"archived programme":                {&inviteRequest{ProgramId: archived}, affiliate.ReasonProgramStateInvalid, ""},
		"invalid id instead of a programme": {&inviteRequest{ProgramId: "42"}, affiliate.ReasonNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.req.Email == "" {
				tc.req.Email = "a@example.com"
			}
			_, err := f.invite(tc.req)
			pgtest.RequireRefusal(t, err, tc.wantReason, tc.wantField)
		})
	}
	f.WantCount(0, "invitations after refused calls", `select count(*) from participant_invites`)
}

func TestInviteParticipant_ToProgramsThatAreNotPublic(t *testing.T) {
	f := newFixture(t)
	for _, status := range []string{"draft", "active", "paused"} {
		program := f.inNewProgram(pgtest.Row{"status": status, "is_public": false})
		program.mustInvite(&inviteRequest{Email: "jane@example.com"})
		program.wantOpenInvites(affiliate.RoleOwner, "jane@example.com")
	}
}

func TestAcceptParticipantInvite_CreatesAnApprovedParticipant(t *testing.T) {
	f := newFixture(t, pgtest.Row{"is_public": false})
	group := f.NewGroup(f.Scope, f.Program, "Gold").ID.String()
	invite := f.mustInvite(&inviteRequest{Email: "someone@example.com", GroupId: &group, ReferralCode: new("star")})
	// The partner's address may differ from the address in the invitation.
	partner := f.NewPartner("Jane")
	got, err := f.accept(partner, invite.Token)
	if err != nil {
		t.Fatal(err)
	}
	at := server.Timestamp(f.changeTime())
	want := &affiliatev1.Participant{
		Id: got.Id, ProgramId: f.Program.String(), ProgramName: "P", Currency: "EUR", PartnerId: new(partner.String()), PartnerName: "Jane",
		PartnerEmail: "jane-" + partner.String() + "@example.com", Status: approved, ReferralCode: "star",
		AppliedAt: at, ApprovedAt: at, CreatedAt: at, UpdatedAt: at,
	}
	if !proto.Equal(got, want) {
		t.Errorf("AcceptParticipantInvite returned %v\nwant %v", got, want)
	}
	want.GroupId = &group // only the merchant sees the group
	if got := f.get(want.Id); !proto.Equal(got, want) {
		t.Errorf("GetParticipant returned %v\nwant %v", got, want)
	}
	f.wantEvents(nil, "link.created", "participant.applied", "participant.approved")
	f.wantAudits(1, "participant.accept_invite", partner)
	f.WantCount(1, "default links with the code", `select count(*) from links where participant_id = $1 and is_default and code = 'star'`, want.Id)
	if n := f.directoryJobs(want.Id); n != 1 {
		t.Errorf("AcceptParticipantInvite inserted %d jobs for the edge directory, want 1", n)
	}
	f.checkCounts()
	f.requireNotOpen(t, invite)
	f.wantOpenInvites(affiliate.RoleOwner)
}

// After a refused acceptance the invitation stays open, so that the partner can try
// again.
func TestAcceptParticipantInvite_RefusalKeepsTheInvitation(t *testing.T) {
	f := newFixture(t)
	invite := f.mustInvite(&inviteRequest{Email: "jane@example.com", ReferralCode: new("star")})
	ada, jane := f.Join("Ada").Partner, f.NewPartner("Jane")
	inStatus := func(status string) func() { return func() { f.Exec(`update programs set status = $1`, status) } }
	noChange := func() {}
	for _, tc := range []struct {
		name       string
		change     func()
		caller     context.Context
		token      string
		wantReason affiliate.Reason
		wantField  string
	}{
		{"the partner is already a participant", noChange, f.asPartner(ada), invite.Token, affiliate.ReasonApplicationDuplicate, ""},
		{"wrong token", noChange, f.asPartner(jane), "inv_wrong", affiliate.ReasonNotFound, ""},
		{"the other mode", noChange, servertest.AsPartner(t, jane, affiliate.ModeTest), invite.Token, affiliate.ReasonNotFound, ""},
		{"draft programme", inStatus("draft"), f.asPartner(jane), invite.Token, affiliate.ReasonNotFound, ""},
		{"paused programme", inStatus("paused"), f.asPartner(jane), invite.Token, affiliate.ReasonNotFound, ""},
		{"archived programme", inStatus("archived"), f.asPartner(jane), invite.Token, affiliate.ReasonNotFound, ""},
		{
			"terms are not accepted", func() { f.Exec(`update programs set status = 'active', terms_url = 'https://a.example/terms'`) },
			f.asPartner(jane), invite.Token, affiliate.ReasonValidation, "accept_terms",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.change()
			_, err := f.service.AcceptParticipantInvite(tc.caller, &affiliatev1.AcceptParticipantInviteRequest{Token: tc.token})
			pgtest.RequireRefusal(t, err, tc.wantReason, tc.wantField)
			f.wantOpenInvites(affiliate.RoleOwner, "jane@example.com")
		})
	}
	f.WantCount(1, "participants after refused acceptances", `select count(*) from participants`)
	got, err := f.service.AcceptParticipantInvite(f.asPartner(jane), &affiliatev1.AcceptParticipantInviteRequest{Token: invite.Token, AcceptTerms: true})
	if err != nil {
		t.Fatal(err)
	}
	if got.ReferralCode != "star" || !got.TermsAcceptedAt.AsTime().Equal(f.changeTime()) {
		t.Errorf("AcceptParticipantInvite returned the code %s, terms accepted at %v, want star and %v", got.ReferralCode, got.TermsAcceptedAt.AsTime(), f.changeTime())
	}
	f.checkCounts()
}

func TestAcceptParticipantInvite_RefusesACodeTakenAfterTheInvitation(t *testing.T) {
	f := newFixture(t)
	invite := f.mustInvite(&inviteRequest{Email: "jane@example.com", ReferralCode: new("star")})
	f.Join("Eve", pgtest.Row{"referral_code": "star"})
	_, err := f.accept(f.NewPartner("Jane"), invite.Token)
	pgtest.RequireRefusal(t, err, affiliate.ReasonReferralCodeTaken)
	f.wantOpenInvites(affiliate.RoleOwner, "jane@example.com")
}

func TestAcceptParticipantInvite_TokenWorksOnce(t *testing.T) {
	f := newFixture(t)
	partners := make([]affiliate.UserID, 20)
	for i := range partners {
		partners[i] = f.NewPartner("Jane")
	}
	for name, partners := range map[string][]affiliate.UserID{
		"different partners": partners,
		"the same partner":   slices.Repeat([]affiliate.UserID{f.NewPartner("John")}, 20),
	} {
		t.Run(name, func(t *testing.T) {
			invite := f.mustInvite(&inviteRequest{Email: "jane@example.com"})
			before := f.Count(`select count(*) from participants`)
			requireOneSuccess(t, inParallel(len(partners), func(i int) error {
				_, err := f.accept(partners[i], invite.Token)
				return err
			}), affiliate.ReasonNotFound)
			f.WantCount(before+1, "participants", `select count(*) from participants`)
		})
	}
	f.checkCounts()
}

func TestInviteParticipant_SameEmailInParallelLeavesOneOpenInvitation(t *testing.T) {
	f := newFixture(t)
	for _, err := range inParallel(20, func(int) error {
		_, err := f.invite(&inviteRequest{Email: "jane@example.com"})
		return err
	}) {
		if err != nil {
			t.Errorf("InviteParticipant: %v", err)
		}
	}
	f.wantOpenInvites(affiliate.RoleOwner, "jane@example.com")
}

func TestApply_ToPrivateProgramNeedsAnInvitation(t *testing.T) {
	f := newFixture(t, pgtest.Row{"is_public": false})
	partner := f.NewPartner("Jane", pgtest.Row{"email": "jane@example.com"})
	requireRefusal := func(when string) {
		t.Helper()
		if _, err := f.apply(partner); pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
			t.Fatalf("Apply %s returned %v, want NOT_FOUND", when, err)
		}
	}
	requireRefusal("without an invitation")
	f.mustInvite(&inviteRequest{Email: "john@example.com"})
	requireRefusal("after the invitation of another partner")
	f.inNewProgram().mustInvite(&inviteRequest{Email: "jane@example.com"})
	requireRefusal("after an invitation to another programme")
	invite := f.mustInvite(&inviteRequest{Email: "jane@example.com"})
	if err := f.revoke(f.asOwner(), f.Program.String(), invite.Id); err != nil {
		t.Fatal(err)
	}
	requireRefusal("after the invitation was revoked")
	f.mustInvite(&inviteRequest{Email: "jane@example.com"})
	now := f.Now()
	f.clock.Set(now.AddDate(0, 0, 7))
	requireRefusal("after the invitation expired")
	f.clock.Set(now)
	f.Exec(`update programs set status = 'paused' where id = $1`, f.Program)
	requireRefusal("to a paused programme")
	f.Exec(`update programs set status = 'active' where id = $1`, f.Program)
	if p, err := f.apply(partner); err != nil || p.Status != pending {
		t.Errorf("Apply of an invited partner returned %v, error %v, want the status PENDING", p, err)
	}
}

func TestInviteParticipant_OncePerIdempotencyKey(t *testing.T) {
	f := newFixture(t)
	group := f.NewGroup(f.Scope, f.Program, "Gold").ID.String()
	invite := func(f *fixture, key, email string, group *string) (*affiliatev1.CreatedParticipantInvite, bool, error) {
		f.clock.Advance(time.Second)
		ctx, transport := servertest.WithTransport(f.asMember(affiliate.RoleManager), key)
		invite, err := f.service.InviteParticipant(ctx, &inviteRequest{ProgramId: f.Program.String(), Email: email, GroupId: group})
		return invite, transport.Replayed(), err
	}
	first, replayed, err := invite(f, "k-1", "jane@example.com", &group)
	if err != nil || replayed {
		t.Fatalf("the first request returned %v, replayed %t", err, replayed)
	}
	again, replayed, err := invite(f, "k-1", "jane@example.com", &group)
	if err != nil || !replayed || !proto.Equal(again, first) {
		t.Errorf("the repeated request returned %v, %v, replayed %t; want the first response %v", again, err, replayed, first)
	}
	_, _, err = invite(f, "k-1", "jane@example.com", nil)
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
	f.wantOpenInvites(affiliate.RoleManager, "jane@example.com")
	f.WantCount(1, "mails", `select count(*) from mails`)
	f.WantCount(0, "tokens in the table of keys", `select count(*) from idempotency_keys where position($1::bytea in response) > 0`, []byte(first.Token))
	if _, err := f.accept(f.NewPartner("Jane"), again.Token); err != nil {
		t.Errorf("the token of the repeated response: %v", err)
	}
	// The response is still the first one after the invitation has ended.
	if ended, replayed, err := invite(f, "k-1", "jane@example.com", &group); err != nil || !replayed || !proto.Equal(ended, first) {
		t.Errorf("after the invitation was accepted the request returned %v, %v, replayed %t", ended, err, replayed)
	}
	if _, replayed, err := invite(f.in(f.InOtherMode()), "k-1", "jane@example.com", nil); err != nil || replayed {
		t.Errorf("the other mode: the request returned %v, replayed %t", err, replayed)
	}
}

func TestInvitations_RequireAVerifiedInviterInLiveMode(t *testing.T) {
	f := newFixture(t)
	f.service = newService(t, f.DB, f.clock.Now, true)
	without := false
	calls := func() (invite, created error) {
		_, invite = f.invite(&inviteRequest{Email: "jane@example.com"})
		_, created = f.create(&createRequest{Email: "john@example.com"})
		return invite, created
	}
	invite, created := calls()
	pgtest.RequireRefusal(t, invite, affiliate.ReasonEmailNotVerified)
	pgtest.RequireRefusal(t, created, affiliate.ReasonEmailNotVerified)
	f.WantCount(0, "mails", `select count(*) from mails`)
	f.WantCount(0, "participants", `select count(*) from participants`)
	if _, err := f.create(&createRequest{Email: "silent@example.com", SendInvite: &without}); err != nil {
		t.Errorf("a partner who gets no mail: %v", err)
	}
	f.Exec(`update users set email_verified_at = $2 where id = $1`, f.Owner, f.Now())
	if invite, created = calls(); invite != nil || created != nil {
		t.Errorf("a verified inviter: %v, %v", invite, created)
	}
}
