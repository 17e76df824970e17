package account_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// auditTeam is a database with a workspace that has an owner.
type auditTeam struct {
	*pgtest.Fixture
	t     *testing.T
	store *account.Store
	now   time.Time
	scope affiliate.Scope
	owner affiliate.UserID
}

func newAuditTeam(t *testing.T) *auditTeam {
	t.Helper()
	f := &auditTeam{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
	f.Fixture = pgtest.Open(t, func() time.Time { return f.now })
	f.store = account.NewStore(f.Store.DB)
	f.scope = affiliate.Scope{Workspace: f.NewWorkspace(), Mode: affiliate.ModeTest}
	f.owner = f.member(affiliate.RoleOwner)
	return f
}

// member adds a new user to the workspace.
func (f *auditTeam) member(role affiliate.Role) affiliate.UserID {
	f.t.Helper()
	id := f.NewMerchant("Member")
	f.join(f.scope.Workspace, id, role)
	return id
}

func (f *auditTeam) join(workspace affiliate.WorkspaceID, user affiliate.UserID, role affiliate.Role) {
	f.t.Helper()
	f.Insert("members", pgtest.Row{"workspace_id": workspace, "user_id": user, "role": role, "created_at": f.now})
}

// insertEntry adds an entry for an action of actor to the audit log.
func (f *auditTeam) insertEntry(mode *affiliate.Mode, actor string) affiliate.AuditID {
	f.t.Helper()
	id := affiliate.NewID[affiliate.AuditEntry](f.now)
	f.Insert("audit_log", pgtest.Row{
		"workspace_id": f.scope.Workspace, "id": id, "mode": mode, "at": f.now, "actor": actor,
		"action": "program.update", "resource_type": "program", "resource_id": id,
	})
	return id
}

func (f *auditTeam) insertKey(workspace affiliate.WorkspaceID, name string) affiliate.APIKeyID {
	f.t.Helper()
	id, key := affiliate.NewID[affiliate.APIKey](f.now), affiliate.NewKey(affiliate.SecretKey, f.scope.Mode)
	digest := key.Digest()
	f.Insert("api_keys", pgtest.Row{
		"workspace_id": workspace, "id": id, "mode": f.scope.Mode, "kind": affiliate.SecretKey, "name": name, "digest": digest[:],
		"prefix": key.Prefix(), "last4": key.Last4(), "created_at": f.now,
	})
	return id
}

func TestAuditLog_NamesOnlyActorsOfTheWorkspace(t *testing.T) {
	f := newAuditTeam(t)
	other := affiliate.Scope{Workspace: f.NewWorkspace(), Mode: f.scope.Mode}
	live := affiliate.Scope{Workspace: f.scope.Workspace, Mode: affiliate.ModeLive}
	program, otherProgram, liveProgram := f.NewProgram(f.scope), f.NewProgram(other), f.NewProgram(live)
	partner := func(name string, scope affiliate.Scope, program affiliate.ProgramID, changes ...pgtest.Row) string {
		id := f.NewPartner(name)
		f.NewParticipant(scope, program, id, changes...)
		return id.String()
	}
	member, moved, removed := f.member(affiliate.RoleViewer), f.NewMerchant("Moved"), f.NewMerchant("Removed")
	f.join(other.Workspace, moved, affiliate.RoleOwner)
	erased := f.member(affiliate.RoleViewer)
	f.Exec(`update users set erased_at = $2 where id = $1`, erased, f.now)
	mode := &f.scope.Mode
	want := map[affiliate.AuditID]string{}
	for _, tc := range []struct {
		mode        *affiliate.Mode
		actor, name string
	}{
		{mode, member.String(), "Member"},
		{nil, member.String(), "Member"},
		{mode, moved.String(), ""},
		{mode, removed.String(), ""},
		{mode, erased.String(), ""},
		{mode, f.insertKey(f.scope.Workspace, "server").String(), "server"},
		{mode, f.insertKey(other.Workspace, "other").String(), ""},
		{mode, partner("Jane", f.scope, program), "Jane"},
		{mode, partner("Joe", f.scope, program, pgtest.Row{"status": affiliate.ParticipantRejected}), "Joe"},
		{mode, partner("Jack", f.scope, program, pgtest.Row{"erased_at": f.now}), ""},
		{mode, partner("Jill", other, otherProgram), ""},
		{mode, partner("Jim", live, liveProgram), ""},
		{mode, f.NewPartner("Jo").String(), ""},
		{mode, affiliate.System.String(), ""},
	} {
		want[f.insertEntry(tc.mode, tc.actor)] = tc.name
	}
	check := func(what string, entry affiliate.AuditEntry) {
		t.Helper()
		name, ok := want[entry.ID]
		got := ""
		if entry.ActorName != nil {
			got = *entry.ActorName
		}
		if !ok || got != name || (entry.ActorName == nil) != (name == "") {
			t.Errorf("%s: the name of actor %s is %q, want %q", what, entry.Actor, got, name)
		}
	}
	entries, _, err := f.store.AuditLog(t.Context(), f.scope, affiliate.AuditFilter{}, affiliate.Page{Number: 1, Size: 50})
	if err != nil || len(entries) != len(want) {
		t.Fatalf("AuditLog returned %d entries, %v, want %d", len(entries), err, len(want))
	}
	for _, entry := range entries {
		check("listed", entry)
	}
	exported := 0
	for entry, err := range f.store.ExportAuditLog(t.Context(), f.scope, affiliate.AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		exported++
		check("exported", entry)
	}
	if exported != len(want) {
		t.Errorf("exported %d of %d entries", exported, len(want))
	}
}

// The audit log must read the names of actors with indexes, so that the cost of a page
// does not grow with the number of users.
func TestAuditLog_ReadsActorNamesByKey(t *testing.T) {
	f := newAuditTeam(t)
	f.Exec(`
		insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), case when n % 3 = 0 then 'merchant' else 'partner' end, n || '@example.com', '', 'U', $1
		from generate_series(1, 3000) n`, f.now)
	f.Exec(`
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select id, 'W', 'EUR', 'UTC', $1, $1 from users where kind = 'merchant' and email like '%@example.com'`, f.now)
	f.Exec(`
		insert into members (workspace_id, user_id, role, created_at)
		select case when right(email, 13) = '0@example.com' then $1 else id end, id, 'owner', $2 from users where kind = 'merchant' and id <> $3`,
		f.scope.Workspace, f.now, f.owner)
	f.Exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at)
		select workspace_id, user_id, 'test', 'secret', '', sha256(user_id::text::bytea), '', '', $1 from members`, f.now)
	program := f.NewProgram(f.scope)
	f.Exec(`
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $2, $3, id, 'U', email, 'approved', id::text, '{}', $4, $4, $4 from users where kind = 'partner'`,
		f.scope.Workspace, program, f.scope.Mode, f.now)
	f.Exec(`
		insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
		select $1, gen_random_uuid(), $2, $3::timestamptz - row_number() over () * interval '1 second', id::text, 'program.update', 'program', id
		from users`, f.scope.Workspace, f.scope.Mode, f.now)
	f.VacuumAnalyze()
	page, _, export, args := account.AuditSQL(f.scope, affiliate.AuditFilter{}, 20)
	for what, sql := range map[string]string{"page": page, "export": export} {
		plan := plan(f.Fixture, sql, args)
		for _, table := range []string{"users", "members", "participants", "api_keys"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s: the plan reads the whole table %s\n%s", what, table, plan)
			}
		}
		if strings.Contains(plan, "Hash") || strings.Contains(plan, "hashed") {
			t.Errorf("%s: the plan reads all names of the workspace into a hash table\n%s", what, plan)
		}
		if !strings.Contains(plan, "participants_by_partner") && !strings.Contains(plan, "participants_once") {
			t.Errorf("%s: the plan does not find participants by partner with an index\n%s", what, plan)
		}
	}
}
