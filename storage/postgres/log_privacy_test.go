package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestAuditLog_OmitsNotes(t *testing.T) {
	f := newTeam(t)
	program := f.NewProgram(f.scope)
	p := f.NewParticipant(f.scope, program, f.NewPartner("Jane"))
	for _, tc := range []struct{ note, want string }{
		{"a secret", `{"note": null, "tags": []} → {"note": "(changed)", "tags": ["a secret"]}`},
		{"another secret", `{"note": "(changed)", "tags": ["a secret"]} → {"note": "(changed)", "tags": ["another secret"]}`},
		{"", `{"note": "(changed)", "tags": ["another secret"]} → {"note": null, "tags": [""]}`},
	} {
		f.now = f.now.Add(time.Millisecond)
		got, err := f.Store.UpdateParticipant(t.Context(), f.scope, program, p.ID,
			affiliate.ParticipantPatch{Note: affiliate.Set(tc.note), Tags: affiliate.Set([]string{tc.note})}, f.now, by(f.owner))
		if err != nil || (got.Note == nil) != (tc.note == "") || got.Note != nil && *got.Note != tc.note {
			t.Fatalf("%q: %v, %v", tc.note, got.Note, err)
		}
		if line := f.lastRecord("participant.update"); line != tc.want {
			t.Errorf("%q: %s", tc.note, line)
		}
	}
	// A patch without a note has nothing to hide.
	if _, err := f.Store.UpdateParticipant(t.Context(), f.scope, program, p.ID,
		affiliate.ParticipantPatch{Tags: affiliate.Set([]string{})}, f.now.Add(time.Millisecond), by(f.owner)); err != nil {
		t.Fatal(err)
	}
	if line := f.lastRecord("participant.update"); line != `{"tags": [""]} → {"tags": []}` {
		t.Errorf("without a note: %s", line)
	}
}

func TestAuditLog_OmitsPartnerNames(t *testing.T) {
	f := newTeam(t)
	program := f.NewProgram(f.scope)
	applicant, invited := f.NewPartner("Secretia"), f.NewPartner("Secretius")
	p, err := f.Store.Apply(t.Context(), affiliate.Application{
		Program: program, Partner: applicant, Mode: f.scope.Mode, ReferralCode: "first", Answers: map[string]string{},
	}, f.now, by(applicant))
	if err != nil {
		t.Fatal(err)
	}
	if line, want := f.lastRecord("participant.apply"), `null → {"id": "`+p.ID.String()+`", "status": "pending", "version": 1, "partner_id": "`+
		applicant.String()+`", "program_id": "`+program.String()+`", "referral_code": "first"}`; line != want {
		t.Errorf("audited %s, want %s", line, want)
	}
	if object, _ := f.LastEvent(affiliate.EventParticipantApplied); object["partner_name"] != "Secretia" {
		t.Errorf("the event contains %v", object)
	}
	if _, err := f.Store.MoveParticipant(t.Context(), f.scope, program, p.ID, affiliate.ApproveParticipant, nil, f.now, by(f.owner)); err != nil {
		t.Fatal(err)
	}

	invite := func(email, code string) (affiliate.InviteID, [32]byte) {
		t.Helper()
		_, digest := affiliate.NewInviteToken()
		i := affiliate.ParticipantInvite{Scope: f.scope, Program: program, ReferralCode: code, Invite: affiliate.Invite{
			ID: affiliate.NewID[affiliate.Invite](f.now), Email: email, InvitedBy: f.owner, CreatedAt: f.now, ExpiresAt: f.now.Add(affiliate.InviteLife),
		}}
		if err := f.Store.InviteParticipant(t.Context(), i, digest, by(f.owner)); err != nil {
			t.Fatal(err)
		}
		return i.ID, digest
	}
	details := `null → {"group_id": null, "program_id": "` + program.String() + `", "referral_code": ""`
	f.now = f.now.Add(time.Millisecond)
	earlier, _ := invite("secret@example.com", "")
	if line := f.lastRecord("participant_invite.create"); line != details+`}` {
		t.Errorf("the first invitation: %s", line)
	}
	f.now = f.now.Add(time.Millisecond)
	later, _ := invite("secret@example.com", "")
	if line := f.lastRecord("participant_invite.create"); line != strings.Replace(details, `"program_id"`, `"replaces": "`+earlier.String()+`", "program_id"`, 1)+`}` {
		t.Errorf("the second invitation: %s", line)
	}
	if err := f.Store.RevokeParticipantInvite(t.Context(), f.scope, program, later, f.now, by(f.owner)); err != nil {
		t.Fatal(err)
	}
	_, token := invite("secret@example.com", "second")
	if _, err := f.Store.AcceptParticipantInvite(t.Context(), token, f.scope.Mode, invited, true, f.now, by(invited)); err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`select count(*) from audit_log where action = 'participant.accept_invite'`); n != 1 {
		t.Errorf("%d audit records of the acceptance", n)
	}
	if found := f.Texts(`select l::text from audit_log l where l::text ilike '%secret%' or coalesce(after, '{}') ? 'partner_name'`); len(found) != 0 {
		t.Errorf("the audit log contains %s", found)
	}
}

func TestAccountAuditLog_OmitsValues(t *testing.T) {
	f := newTeam(t)
	user := f.NewPartner("Secretia")
	for _, patch := range []affiliate.PartnerProfilePatch{
		{Name: affiliate.Set("Secretina"), Country: affiliate.Set("DE"), CompanyName: affiliate.Set("Secret Inc.")},
		{Name: affiliate.Set("Secretina"), WebsiteURL: affiliate.Set("https://secret.example/")},
		{Name: affiliate.Set("Secretina")},
	} {
		f.now = f.now.Add(time.Millisecond)
		if _, err := f.Store.UpdatePartnerProfile(t.Context(), user, patch, f.now, by(user)); err != nil {
			t.Fatal(err)
		}
	}
	got := f.Texts(`select concat(action, ' ', before, ' → ', after) from account_audit_log where user_id = $1 order by at, id`, user)
	if want := []string{
		`profile.update  → {"changed": ["company_name", "country", "name"]}`,
		`profile.update  → {"changed": ["website_url"]}`,
	}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
