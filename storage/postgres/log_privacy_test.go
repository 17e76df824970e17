package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/partner"
	"github.com/tributary-hq/tributary/storage/postgres"
	participants "github.com/tributary-hq/tributary/storage/postgres/participant"
	partners "github.com/tributary-hq/tributary/storage/postgres/partner"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
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
		f.Clock.Advance(time.Millisecond)
		got, err := participants.Update(t.Context(), f.DB, f.Scope, f.Program, p.ID,
			participant.Patch{Note: affiliate.Set(tc.note), Tags: affiliate.Set([]string{tc.note})}, f.Now(), pgtest.By(f.Owner))
		if err != nil || (got.Note == nil) != (tc.note == "") || got.Note != nil && *got.Note != tc.note {
			t.Fatalf("UpdateParticipant returned the note %v, %v, want %q", got.Note, err, tc.note)
		}
		if line := f.lastEntry("participant.update"); line != tc.want {
			t.Errorf("after setting the note %q, the audit log has %s, want %s", tc.note, line, tc.want)
		}
	}
	// The entry of a patch without a note must not mention the note.
	if _, err := participants.Update(t.Context(), f.DB, f.Scope, f.Program, p.ID,
		participant.Patch{Tags: affiliate.Set([]string{})}, f.Now().Add(time.Millisecond), pgtest.By(f.Owner)); err != nil {
		t.Fatal(err)
	}
	if line, want := f.lastEntry("participant.update"), `{"tags": [""]} → {"tags": []}`; line != want {
		t.Errorf("after a patch without a note, the audit log has %s, want %s", line, want)
	}
}

func TestAuditLog_OmitsPartnerNames(t *testing.T) {
	f := newFixture(t)
	applicant, invited := f.NewPartner("Secretia"), f.NewPartner("Secretius")
	p, err := participants.Apply(t.Context(), f.DB, participant.Application{
		Program: f.Program, Partner: applicant, Mode: f.Scope.Mode, ReferralCode: "first", Answers: map[string]string{},
	}, f.Now(), pgtest.By(applicant))
	if err != nil {
		t.Fatal(err)
	}
	if line, want := f.lastEntry("participant.apply"), `null → {"id": "`+p.ID.String()+`", "status": "pending", "version": 1, "partner_id": "`+
		applicant.String()+`", "program_id": "`+f.Program.String()+`", "referral_code": "first"}`; line != want {
		t.Errorf("the audit log has %s, want %s", line, want)
	}
	if object, _ := f.LastEvent(affiliate.EventParticipantApplied); object["partner_name"] != "Secretia" {
		t.Errorf("the event contains %v, want the partner_name Secretia", object)
	}
	if _, err := participants.Move(t.Context(), f.DB, f.Scope, f.Program, p.ID, participant.ApproveParticipant, nil, f.Now(), pgtest.By(f.Owner)); err != nil {
		t.Fatal(err)
	}

	invite := func(email, code string) (affiliate.InviteID, [32]byte) {
		t.Helper()
		_, digests := account.NewInviteTokens()
		i := participant.Invite{Scope: f.Scope, Program: f.Program, ReferralCode: code, Invite: account.Invite{
			ID: affiliate.NewID[affiliate.InviteID](f.Now()), Email: email, InvitedBy: f.Owner, CreatedAt: f.Now(), ExpiresAt: f.Now().Add(account.InviteLife),
		}}
		err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
			_, _, err := participants.Invite(t.Context(), tx, i, digests, pgtest.By(f.Owner))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return i.ID, digests.Shown
	}
	details := `null → {"group_id": null, "program_id": "` + f.Program.String() + `", "referral_code": ""`
	f.Clock.Advance(time.Millisecond)
	earlier, _ := invite("secret@example.com", "")
	if line := f.lastEntry("participant_invite.create"); line != details+`}` {
		t.Errorf("the audit log has %s for the first invitation, want %s", line, details+`}`)
	}
	f.Clock.Advance(account.InviteMailInterval)
	later, _ := invite("secret@example.com", "")
	want := strings.Replace(details, `"program_id"`, `"replaces": "`+earlier.String()+`", "program_id"`, 1) + `}`
	if line := f.lastEntry("participant_invite.create"); line != want {
		t.Errorf("the audit log has %s for the second invitation, want %s", line, want)
	}
	if err := participants.RevokeInvite(t.Context(), f.DB, f.Scope, f.Program, later, f.Now(), pgtest.By(f.Owner)); err != nil {
		t.Fatal(err)
	}
	_, token := invite("secret@example.com", "second")
	if _, err := participants.AcceptInvite(t.Context(), f.DB, token, f.Scope.Mode, invited, true, f.Now(), pgtest.By(invited)); err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`select count(*) from audit_log where action = 'participant.accept_invite'`); n != 1 {
		t.Errorf("the audit log has %d entries of the acceptance, want 1", n)
	}
	if found := f.Texts(`select l::text from audit_log l where l::text ilike '%secret%' or coalesce(after, '{}') ? 'partner_name'`); len(found) != 0 {
		t.Errorf("the audit log contains names or e-mail addresses of partners: %s", found)
	}
}

func TestAccountAuditLog_OmitsValues(t *testing.T) {
	f := newFixture(t)
	user := f.NewPartner("Secretia")
	for _, patch := range []partner.ProfilePatch{
		{Name: affiliate.Set("Secretina"), Country: affiliate.Set("DE"), CompanyName: affiliate.Set("Secret Inc.")},
		{Name: affiliate.Set("Secretina"), WebsiteURL: affiliate.Set("https://secret.example/")},
		{Name: affiliate.Set("Secretina")},
	} {
		f.Clock.Advance(time.Millisecond)
		if _, err := partners.UpdateProfile(t.Context(), f.DB, user, patch, f.Now(), pgtest.By(user)); err != nil {
			t.Fatal(err)
		}
	}
	got := f.Texts(`select concat(action, ' ', before, ' → ', after) from account_audit_log where user_id = $1 order by at, id`, user)
	if want := []string{
		`profile.update  → {"changed": ["company_name", "country", "name"]}`,
		`profile.update  → {"changed": ["website_url"]}`,
	}; !slices.Equal(got, want) {
		t.Errorf("the account's audit log is\n%q\nwant\n%q", got, want)
	}
}
