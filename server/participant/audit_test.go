package participant_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// lastEntry returns the newest audit log entry of an action as "before → after".
func (f *fixture) lastEntry(action string) string {
	f.Helper()
	lines := f.Texts(`
		select coalesce(before::text, 'null') || ' → ' || coalesce(after::text, 'null') from audit_log
		where workspace_id = $1 and action = $2 order by at desc, id desc limit 1`, f.Scope.Workspace, action)
	return strings.Join(lines, "")
}

func TestAuditLog_OmitsNotes(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Jane")
	for _, tc := range []struct{ note, want string }{
		{"a secret", `{"note": null, "tags": []} → {"note": "(changed)", "tags": ["a secret"]}`},
		{"another secret", `{"note": "(changed)", "tags": ["a secret"]} → {"note": "(changed)", "tags": ["another secret"]}`},
		{"", `{"note": "(changed)", "tags": ["another secret"]} → {"note": null, "tags": [""]}`},
	} {
		f.clock.Advance(time.Millisecond)
		got, err := f.service.UpdateParticipant(f.asOwner(), &updateRequest{
			ProgramId: f.Program.String(), ParticipantId: p.ID.String(), Note: &tc.note, Tags: []string{tc.note},
			UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"note", "tags"}},
		})
		if err != nil || (got.Note == nil) != (tc.note == "") || got.Note != nil && *got.Note != tc.note {
			t.Fatalf("UpdateParticipant returned the note %v, %v, want %q", got.Note, err, tc.note)
		}
		if line := f.lastEntry("participant.update"); line != tc.want {
			t.Errorf("after setting the note %q, the audit log has %s, want %s", tc.note, line, tc.want)
		}
	}
	// The entry of a patch without a note must not mention the note.
	f.clock.Advance(time.Millisecond)
	f.mustUpdate(p.ID.String(), &updateRequest{}, "tags")
	if line, want := f.lastEntry("participant.update"), `{"tags": [""]} → {"tags": []}`; line != want {
		t.Errorf("after a patch without a note, the audit log has %s, want %s", line, want)
	}
}

func TestAuditLog_OmitsPartnerNames(t *testing.T) {
	f := newFixture(t)
	applicant, invited := f.NewPartner("Secretia"), f.NewPartner("Secretius")
	p, err := f.apply(applicant, func(r *affiliatev1.ApplyRequest) { r.ReferralCode = new("first") })
	if err != nil {
		t.Fatal(err)
	}
	if line, want := f.lastEntry("participant.apply"), `null → {"id": "`+p.Id+`", "status": "pending", "version": 1, "partner_id": "`+
		applicant.String()+`", "program_id": "`+f.Program.String()+`", "referral_code": "first"}`; line != want {
		t.Errorf("the audit log has %s, want %s", line, want)
	}
	if object, _ := f.LastEvent(affiliate.EventParticipantApplied); object["partner_name"] != "Secretia" {
		t.Errorf("the event contains %v, want the partner_name Secretia", object)
	}
	f.mustMove("approve", p.Id)

	invite := func(email string, code *string) *affiliatev1.CreatedParticipantInvite {
		t.Helper()
		invite, err := f.service.InviteParticipant(f.asOwner(), &affiliatev1.InviteParticipantRequest{ProgramId: f.Program.String(), Email: email, ReferralCode: code})
		if err != nil {
			t.Fatal(err)
		}
		return invite
	}
	details := `null → {"group_id": null, "program_id": "` + f.Program.String() + `", "referral_code": ""`
	f.clock.Advance(time.Millisecond)
	earlier := invite("secret@example.com", nil)
	if line := f.lastEntry("participant_invite.create"); line != details+`}` {
		t.Errorf("the audit log has %s for the first invitation, want %s", line, details+`}`)
	}
	f.clock.Advance(account.InviteMailInterval)
	later := invite("secret@example.com", nil)
	want := strings.Replace(details, `"program_id"`, `"replaces": "`+earlier.Id+`", "program_id"`, 1) + `}`
	if line := f.lastEntry("participant_invite.create"); line != want {
		t.Errorf("the audit log has %s for the second invitation, want %s", line, want)
	}
	revocation := &affiliatev1.RevokeParticipantInviteRequest{ProgramId: f.Program.String(), InviteId: later.Id}
	if _, err := f.service.RevokeParticipantInvite(f.asOwner(), revocation); err != nil {
		t.Fatal(err)
	}
	acceptance := &affiliatev1.AcceptParticipantInviteRequest{Token: invite("secret@example.com", new("second")).Token, AcceptTerms: true}
	if _, err := f.service.AcceptParticipantInvite(f.asPartner(invited), acceptance); err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`select count(*) from audit_log where action = 'participant.accept_invite'`); n != 1 {
		t.Errorf("the audit log has %d entries of the acceptance, want 1", n)
	}
	if found := f.Texts(`select l::text from audit_log l where l::text ilike '%secret%' or coalesce(after, '{}') ? 'partner_name'`); len(found) != 0 {
		t.Errorf("the audit log contains names or e-mail addresses of partners: %s", found)
	}
}
