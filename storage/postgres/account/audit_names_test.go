package account_test

import (
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// insertEntry adds an entry to the audit log and returns its id. actor is the id of the
// user or API key that made the change, or "system".
func (f *fixture) insertEntry(mode *affiliate.Mode, actor string, columns ...pgtest.Row) affiliate.AuditID {
	f.Helper()
	id := affiliate.NewID[affiliate.AuditID](f.Now())
	f.Insert("audit_log", append([]pgtest.Row{{
		"workspace_id": f.Scope.Workspace, "id": id, "mode": mode, "at": f.Now(), "actor": actor,
		"action": "program.update", "resource_type": "program", "resource_id": id,
	}}, columns...)...)
	return id
}

func (f *fixture) insertKey(workspace affiliate.WorkspaceID, name string) affiliate.APIKeyID {
	f.Helper()
	id, key := affiliate.NewID[affiliate.APIKeyID](f.Now()), account.NewKey(account.SecretKey, f.Scope.Mode)
	digest := key.Digest()
	f.Insert("api_keys", pgtest.Row{
		"workspace_id": workspace, "id": id, "mode": f.Scope.Mode, "kind": account.SecretKey, "name": name, "digest": digest[:],
		"prefix": key.Prefix(), "last4": key.Last4(), "created_at": f.Now(),
	})
	return id
}

func TestAuditLog_NamesOnlyActorsOfTheWorkspace(t *testing.T) {
	f := newFixture(t)
	other := f.NewShop(f.Scope.Mode)
	member, removed := f.NewMember(f.Scope.Workspace, affiliate.RoleViewer), f.NewMerchant("Removed")
	erased := f.NewMember(f.Scope.Workspace, affiliate.RoleViewer, pgtest.Row{"erased_at": f.Now()})
	mode := &f.Scope.Mode
	want := map[affiliate.AuditID]string{}
	for _, tc := range []struct {
		mode        *affiliate.Mode
		actor, name string
	}{
		{mode, member.String(), "Mara"},
		{nil, member.String(), "Mara"},
		{mode, other.Owner.String(), ""},
		{mode, removed.String(), ""},
		{mode, erased.String(), ""},
		{mode, f.insertKey(f.Scope.Workspace, "server").String(), "server"},
		{mode, f.insertKey(other.Scope.Workspace, "other").String(), ""},
		{mode, f.Join("Jane").Partner.String(), "Jane"},
		{mode, f.Join("Joe", pgtest.Row{"status": participant.Rejected}).Partner.String(), "Joe"},
		{mode, f.Join("Jack", pgtest.Row{"erased_at": f.Now()}).Partner.String(), ""},
		{mode, other.Join("Jill").Partner.String(), ""},
		{mode, f.InOtherMode().Join("Jim").Partner.String(), ""},
		{mode, f.NewPartner("Jo").String(), ""},
		{mode, affiliate.System.String(), ""},
	} {
		want[f.insertEntry(tc.mode, tc.actor)] = tc.name
	}
	ofToken := f.insertEntry(mode, member.String(), pgtest.Row{"participant_token": true})
	ofRemoved := f.insertEntry(mode, removed.String(), pgtest.Row{"participant_token": true})
	want[ofToken], want[ofRemoved] = "participant token of Mara", ""
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
	entries, _, err := accounts.AuditLog(t.Context(), f.DB, f.Scope, affiliate.AuditFilter{}, affiliate.Page{Number: 1, Size: 50})
	if err != nil || len(entries) != len(want) {
		t.Fatalf("AuditLog returned %d entries, %v, want %d", len(entries), err, len(want))
	}
	for _, entry := range entries {
		check("list", entry)
	}
	exported := 0
	for entry, err := range accounts.ExportAuditLog(t.Context(), f.DB, f.Scope, affiliate.AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		exported++
		check("export", entry)
	}
	if exported != len(want) {
		t.Errorf("exported %d of %d entries", exported, len(want))
	}
}

// The audit log must read the names of actors with indexes, so that the cost of a page
// does not grow with the number of users.
func TestAuditLog_ReadsActorNamesByKey(t *testing.T) {
	f := newFixture(t)
	f.Exec(`
		insert into users (id, kind, email, password_hash, name, created_at)
		select gen_random_uuid(), case when n % 3 = 0 then 'merchant' else 'partner' end, n || '@example.com', '', 'U', $1
		from generate_series(1, 3000) n`, f.Now())
	f.Exec(`
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select id, 'W', 'EUR', 'UTC', $1, $1 from users where kind = 'merchant' and email like '%@example.com'`, f.Now())
	f.Exec(`
		insert into members (workspace_id, user_id, role, created_at)
		select case when right(email, 13) = '0@example.com' then $1 else id end, id, 'owner', $2 from users where kind = 'merchant' and id <> $3`,
		f.Scope.Workspace, f.Now(), f.Owner)
	f.Exec(`
		insert into api_keys (workspace_id, id, mode, kind, name, digest, prefix, last4, created_at)
		select workspace_id, user_id, 'live', 'secret', '', sha256(user_id::text::bytea), '', '', $1 from members`, f.Now())
	f.Exec(`
		insert into participants (workspace_id, id, program_id, mode, partner_id, partner_name, partner_email, status, referral_code,
			application_answers, applied_at, created_at, updated_at)
		select $1, gen_random_uuid(), $2, $3, id, 'U', email, 'approved', id::text, '{}', $4, $4, $4 from users where kind = 'partner'`,
		f.Scope.Workspace, f.Program, f.Scope.Mode, f.Now())
	f.Exec(`
		insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
		select $1, gen_random_uuid(), $2, $3::timestamptz - row_number() over () * interval '1 second', id::text, 'program.update', 'program', id
		from users`, f.Scope.Workspace, f.Scope.Mode, f.Now())
	f.VacuumAnalyze()
	page, _, export, pageArgs, args := accounts.AuditSQL(f.Scope, affiliate.AuditFilter{}, 20)
	for what, plan := range map[string]string{"page": f.Plan(page, pageArgs...), "export": f.Plan(export, args...)} {
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
