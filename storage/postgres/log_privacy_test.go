package postgres_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestTheLogMasksTheRedirect(t *testing.T) {
	w := newTeam(t)
	for _, tc := range []struct{ address, want string }{
		{"quality@shop.example", `{"test_mail_redirect": null} → {"test_mail_redirect": "q***@shop.example"}`},
		// Another address, though both look the same.
		{"quentin@shop.example", `{"test_mail_redirect": "q***@shop.example"} → {"test_mail_redirect": "q***@shop.example"}`},
		{"", `{"test_mail_redirect": "q***@shop.example"} → {"test_mail_redirect": null}`},
	} {
		w.now = w.now.Add(time.Millisecond)
		change := affiliate.Clear[string]()
		if tc.address != "" {
			change = affiliate.Set(tc.address)
		}
		got, err := w.Store.UpdateWorkspace(t.Context(), w.scope.Workspace, affiliate.WorkspacePatch{TestMailRedirect: change}, w.now, by(w.owner))
		if err != nil || (got.TestMailRedirect == nil) != (tc.address == "") || got.TestMailRedirect != nil && *got.TestMailRedirect != tc.address {
			t.Fatalf("%q: %v, %v", tc.address, got.TestMailRedirect, err)
		}
		if line := w.lastLine("workspace.update"); line != tc.want {
			t.Errorf("%q: %s", tc.address, line)
		}
	}
	if n := w.Count(`select version from workspaces where id = $1`, w.scope.Workspace); n != 4 {
		t.Errorf("version %d after three changes", n)
	}
}

func TestTheLogKeepsNoNote(t *testing.T) {
	w := newTeam(t)
	program := w.NewProgram(w.scope)
	p := w.NewParticipant(w.scope, program, w.NewPartner("Jane"))
	for _, tc := range []struct{ note, want string }{
		{"a secret", `{"note": null, "tags": []} → {"note": "(changed)", "tags": ["a secret"]}`},
		{"another secret", `{"note": "(changed)", "tags": ["a secret"]} → {"note": "(changed)", "tags": ["another secret"]}`},
		{"", `{"note": "(changed)", "tags": ["another secret"]} → {"note": null, "tags": [""]}`},
	} {
		w.now = w.now.Add(time.Millisecond)
		got, err := w.Store.UpdateParticipant(t.Context(), w.scope, program, p.ID,
			affiliate.ParticipantPatch{Note: affiliate.Set(tc.note), Tags: affiliate.Set([]string{tc.note})}, w.now, by(w.owner))
		if err != nil || (got.Note == nil) != (tc.note == "") || got.Note != nil && *got.Note != tc.note {
			t.Fatalf("%q: %v, %v", tc.note, got.Note, err)
		}
		if line := w.lastLine("participant.update"); line != tc.want {
			t.Errorf("%q: %s", tc.note, line)
		}
	}
	// Of a patch without it there is nothing to hide.
	if _, err := w.Store.UpdateParticipant(t.Context(), w.scope, program, p.ID,
		affiliate.ParticipantPatch{Tags: affiliate.Set([]string{})}, w.now.Add(time.Millisecond), by(w.owner)); err != nil {
		t.Fatal(err)
	}
	if line := w.lastLine("participant.update"); line != `{"tags": [""]} → {"tags": []}` {
		t.Errorf("without a note: %s", line)
	}
}

func TestLogsNameNoPartner(t *testing.T) {
	w := newTeam(t)
	program := w.NewProgram(w.scope)
	applicant, invited := w.NewPartner("Secretia"), w.NewPartner("Secretius")
	p, err := w.Store.Apply(t.Context(), affiliate.Application{
		Program: program, Partner: applicant, Mode: w.scope.Mode, ReferralCode: "first", Answers: map[string]string{},
	}, w.now, by(applicant))
	if err != nil {
		t.Fatal(err)
	}
	if line, want := w.lastLine("participant.apply"), `null → {"id": "`+p.ID.String()+`", "status": "pending", "version": 1, "partner_id": "`+
		applicant.String()+`", "program_id": "`+program.String()+`", "referral_code": "first"}`; line != want {
		t.Errorf("audited %s, want %s", line, want)
	}
	if object, _ := w.LastEvent(affiliate.EventParticipantApplied); object["partner_name"] != "Secretia" {
		t.Errorf("the event says %v", object)
	}
	if _, err := w.Store.MoveParticipant(t.Context(), w.scope, program, p.ID, affiliate.ApproveParticipant, nil, w.now, by(w.owner)); err != nil {
		t.Fatal(err)
	}

	invite := func(email, code string) (affiliate.InviteID, [32]byte) {
		t.Helper()
		_, digest := affiliate.NewInviteToken()
		i := affiliate.ParticipantInvite{Scope: w.scope, Program: program, ReferralCode: code, Invite: affiliate.Invite{
			ID: affiliate.NewID[affiliate.Invite](w.now), Email: email, InvitedBy: w.owner, CreatedAt: w.now, ExpiresAt: w.now.Add(affiliate.InviteLife),
		}}
		if err := w.Store.InviteParticipant(t.Context(), i, digest, by(w.owner)); err != nil {
			t.Fatal(err)
		}
		return i.ID, digest
	}
	details := `null → {"group_id": null, "program_id": "` + program.String() + `", "referral_code": ""`
	w.now = w.now.Add(time.Millisecond)
	earlier, _ := invite("secret@example.com", "")
	if line := w.lastLine("participant_invite.create"); line != details+`}` {
		t.Errorf("the first invitation: %s", line)
	}
	w.now = w.now.Add(time.Millisecond)
	later, _ := invite("secret@example.com", "")
	if line := w.lastLine("participant_invite.create"); line != strings.Replace(details, `"program_id"`, `"replaces": "`+earlier.String()+`", "program_id"`, 1)+`}` {
		t.Errorf("the second invitation: %s", line)
	}
	if err := w.Store.RevokeParticipantInvite(t.Context(), w.scope, program, later, w.now, by(w.owner)); err != nil {
		t.Fatal(err)
	}
	_, token := invite("secret@example.com", "second")
	if _, err := w.Store.AcceptParticipantInvite(t.Context(), token, w.scope.Mode, invited, true, w.now, by(invited)); err != nil {
		t.Fatal(err)
	}
	if n := w.Count(`select count(*) from audit_log where action = 'participant.accept_invite'`); n != 1 {
		t.Errorf("%d lines of the acceptance", n)
	}
	if said := w.Texts(`select l::text from audit_log l where l::text ilike '%secret%' or coalesce(after, '{}') ? 'partner_name'`); len(said) != 0 {
		t.Errorf("the log says %s", said)
	}
}

func TestTheAccountsLogKeepsNoValues(t *testing.T) {
	w := newTeam(t)
	user := affiliate.User{
		ID: affiliate.NewID[affiliate.User](w.now), Kind: affiliate.Partner, Email: "secret@example.com", Name: "Secretia", CreatedAt: w.now,
	}
	session := affiliate.Session{ID: affiliate.NewID[affiliate.Session](w.now), User: user.ID, CreatedAt: w.now, IdleExpiresAt: w.now, ExpiresAt: w.now}
	_, digest := affiliate.NewInviteToken()
	if err := w.Store.CreatePartner(t.Context(), user, "", session, digest, by(user.ID)); err != nil {
		t.Fatal(err)
	}
	for _, patch := range []affiliate.PartnerProfilePatch{
		{Name: affiliate.Set("Secretina"), Country: affiliate.Set("DE"), CompanyName: affiliate.Set("Secret Inc.")},
		{Name: affiliate.Set("Secretina"), WebsiteURL: affiliate.Set("https://secret.example/")},
		{Name: affiliate.Set("Secretina")},
	} {
		w.now = w.now.Add(time.Millisecond)
		if _, err := w.Store.UpdatePartnerProfile(t.Context(), user.ID, patch, w.now, by(user.ID)); err != nil {
			t.Fatal(err)
		}
	}
	got := w.Texts(`select concat(action, ' ', before, ' → ', after) from account_audit_log where user_id = $1 order by at, id`, user.ID)
	if want := []string{
		`account.create  → `,
		`profile.update  → {"changed": ["company_name", "country", "name"]}`,
		`profile.update  → {"changed": ["website_url"]}`,
	}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// line adds to the log what an actor did.
func (w *team) line(mode *affiliate.Mode, actor string) affiliate.AuditID {
	w.t.Helper()
	id := affiliate.NewID[affiliate.AuditEntry](w.now)
	w.Insert("audit_log", pgtest.Row{
		"workspace_id": w.scope.Workspace, "id": id, "mode": mode, "at": w.now, "actor": actor,
		"action": "program.update", "resource_type": "program", "resource_id": id,
	})
	return id
}

func (w *team) keyOf(workspace affiliate.WorkspaceID, name string) affiliate.APIKeyID {
	w.t.Helper()
	id, key := affiliate.NewID[affiliate.APIKey](w.now), affiliate.NewKey(affiliate.SecretKey, w.scope.Mode)
	digest := key.Digest()
	w.Insert("api_keys", pgtest.Row{
		"workspace_id": workspace, "id": id, "mode": w.scope.Mode, "kind": affiliate.SecretKey, "name": name, "digest": digest[:],
		"prefix": key.Prefix(), "last4": key.Last4(), "created_at": w.now,
	})
	return id
}

func TestTheLogNamesThoseOfTheWorkspace(t *testing.T) {
	w := newTeam(t)
	other := affiliate.Scope{Workspace: w.NewWorkspace(), Mode: w.scope.Mode}
	live := affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeLive}
	program, elsewhere, inLive := w.NewProgram(w.scope), w.NewProgram(other), w.NewProgram(live)
	partner := func(name string, scope affiliate.Scope, program affiliate.ProgramID, changes ...pgtest.Row) string {
		id := w.NewPartner(name)
		w.NewParticipant(scope, program, id, changes...)
		return id.String()
	}
	member, moved, gone := w.member(affiliate.RoleViewer), w.merchant("Moved"), w.merchant("Gone")
	w.join(other.Workspace, moved, affiliate.RoleOwner)
	erased := w.member(affiliate.RoleViewer)
	w.Exec(`update users set erased_at = $2 where id = $1`, erased, w.now)
	mode := &w.scope.Mode
	want := map[affiliate.AuditID]string{}
	for _, tc := range []struct {
		mode        *affiliate.Mode
		actor, name string
	}{
		{mode, member.String(), "Member"},
		{nil, member.String(), "Member"},
		{mode, moved.String(), ""},
		{mode, gone.String(), ""},
		{mode, erased.String(), ""},
		{mode, w.keyOf(w.scope.Workspace, "server").String(), "server"},
		{mode, w.keyOf(other.Workspace, "theirs").String(), ""},
		{mode, partner("Jane", w.scope, program), "Jane"},
		{mode, partner("Joe", w.scope, program, pgtest.Row{"status": affiliate.ParticipantRejected}), "Joe"},
		{mode, partner("Jack", w.scope, program, pgtest.Row{"erased_at": w.now}), ""},
		{mode, partner("Jill", other, elsewhere), ""},
		{mode, partner("Jim", live, inLive), ""},
		{mode, w.NewPartner("Jo").String(), ""},
		{mode, affiliate.System.String(), ""},
	} {
		want[w.line(tc.mode, tc.actor)] = tc.name
	}
	check := func(what string, entry affiliate.AuditEntry) {
		t.Helper()
		name, ok := want[entry.ID]
		got := ""
		if entry.ActorName != nil {
			got = *entry.ActorName
		}
		if !ok || got != name || (entry.ActorName == nil) != (name == "") {
			t.Errorf("%s: %s is %q, want %q", what, entry.Actor, got, name)
		}
	}
	entries, _, err := w.Store.AuditLog(t.Context(), w.scope, affiliate.AuditFilter{}, affiliate.Page{Number: 1, Size: 50})
	if err != nil || len(entries) != len(want) {
		t.Fatalf("%d of %d lines, %v", len(entries), len(want), err)
	}
	for _, entry := range entries {
		check("listed", entry)
	}
	exported := 0
	if err := w.Store.ExportAuditLog(t.Context(), w.scope, affiliate.AuditFilter{}, func(entry affiliate.AuditEntry) error {
		exported++
		check("exported", entry)
		return nil
	}); err != nil || exported != len(want) {
		t.Errorf("%d of %d exported, %v", exported, len(want), err)
	}
}

// An actor's name costs look-ups by key, however many people there are.
func TestNamesInTheLogCostLookUps(t *testing.T) {
	w := newTeam(t)
	w.Exec(`
		insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), case when n % 3 = 0 then 'merchant' else 'partner' end, n || '@example.com', '', 'U', $1
		from generate_series(1, 3000) n`, w.now)
	w.Exec(`
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select id, 'W', 'EUR', 'UTC', $1, $1 from users where kind = 'merchant' and email like '%@example.com'`, w.now)
	w.Exec(`
		insert into members (workspace_id, user_id, role, created_at)
		select case when right(email, 13) = '0@example.com' then $1 else id end, id, 'owner', $2 from users where kind = 'merchant' and id <> $3`,
		w.scope.Workspace, w.now, w.owner)
	w.Exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at)
		select workspace_id, user_id, 'test', 'secret', '', sha256(user_id::text::bytea), '', '', $1 from members`, w.now)
	program := w.NewProgram(w.scope)
	w.Exec(`
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $2, $3, id, 'U', email, 'approved', id::text, '{}', $4, $4, $4 from users where kind = 'partner'`,
		w.scope.Workspace, program, w.scope.Mode, w.now)
	w.Exec(`
		insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
		select $1, gen_random_uuid(), $2, $3::timestamptz - row_number() over () * interval '1 second', id::text, 'program.update', 'program', id
		from users`, w.scope.Workspace, w.scope.Mode, w.now)
	w.VacuumAnalyze()
	page, _, export, args := postgres.AuditSQL(w.scope, affiliate.AuditFilter{})
	for what, tc := range map[string]struct {
		sql  string
		args []any
	}{
		"page":   {page, append(slices.Clone(args), 20, 0)},
		"export": {export, args},
	} {
		plan := strings.Join(w.Texts("explain (costs off) "+tc.sql, append([]any{pgx.QueryExecModeCacheDescribe}, tc.args...)...), "\n")
		for _, walked := range []string{"users", "members", "participants", "api_keys"} {
			if strings.Contains(plan, "Seq Scan on "+walked) {
				t.Errorf("%s walks %s\n%s", what, walked, plan)
			}
		}
		if strings.Contains(plan, "Hash") || strings.Contains(plan, "hashed") {
			t.Errorf("%s reads the whole workspace for a name\n%s", what, plan)
		}
		if !strings.Contains(plan, "participants_by_partner") && !strings.Contains(plan, "participants_once") {
			t.Errorf("%s: a partner's name costs a walk\n%s", what, plan)
		}
	}
}
