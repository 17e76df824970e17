package postgres_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// Reasons why a key does not contain the workspace. docs/operations/scaling.md explains what
// each of them means for a distribution of the tables over several servers.
const (
	ofPerson       = "belongs to a person, who can be in several workspaces: a table that every server has"
	ofInstallation = "belongs to the whole installation: a table that every server has"
	ofFeed         = "belongs to a feed of notifications: distributed by the feed"
	ofOperation    = "belongs to an export, an erasure, a message or a dead letter: distributed by its id"
	findsWorkspace = "finds the workspace of a random value that a request contains: a table from the value to the workspace"
)

// keysWithoutWorkspace contains each unique index and each foreign key of the schema public
// that does not contain the workspace.
var keysWithoutWorkspace = map[string]string{
	"account_audit_log_pkey": ofPerson, "account_audit_log_user_id_fkey": ofPerson,
	"email_requests_pkey": ofPerson, "email_tokens_pkey": ofPerson, "email_tokens_user_id_fkey": ofPerson,
	"login_challenges_pkey": ofPerson, "login_challenges_user_id_fkey": ofPerson, "login_failures_pkey": ofPerson,
	"former_emails_pkey": ofPerson, "former_emails_user_id_fkey": ofPerson,
	"payout_methods_pkey": ofPerson, "payout_methods_user_id_fkey": ofPerson,
	"recovery_codes_pkey": ofPerson, "recovery_codes_user_id_fkey": ofPerson,
	"refresh_tokens_pkey": ofPerson, "refresh_tokens_session_id_fkey": ofPerson,
	"second_factors_pkey": ofPerson, "second_factors_user_id_fkey": ofPerson,
	"sessions_by_browser": ofPerson, "sessions_pkey": ofPerson, "sessions_user_id_fkey": ofPerson,
	"user_devices_pkey": ofPerson, "user_devices_user_id_fkey": ofPerson, "user_origins_pkey": ofPerson, "user_origins_user_id_fkey": ofPerson,
	"users_kind_email_key": ofPerson, "users_pkey": ofPerson,
	"members_user_id_key": ofPerson, "members_user_id_fkey": ofPerson, "participants_partner_id_fkey": ofPerson,
	"member_invites_invited_by_fkey": ofPerson, "participant_invites_invited_by_fkey": ofPerson, "service_tokens_created_by_fkey": ofPerson,
	"notification_preferences_pkey": ofPerson, "notification_reads_pkey": ofPerson, "notification_watermarks_pkey": ofPerson,
	"notification_stream_tickets_pkey": ofPerson, "notification_streams_pkey": ofPerson,

	"announcements_pkey": ofInstallation, "click_rolls_pkey": ofInstallation, "fx_rates_pkey": ofInstallation, "goose_db_version_pkey": ofInstallation,
	"mail_provider_messages_pkey": ofInstallation, "mail_suppressions_pkey": ofInstallation, "click_dead_letters_pkey": ofOperation,
	"check_results_pkey": ofInstallation, "key_fingerprints_pkey": ofInstallation, "workspaces_pkey": ofInstallation, "notification_arrivals_pkey": ofInstallation,

	"notification_dismissals_pkey": ofFeed, "notification_feeds_pkey": ofFeed, "notification_periods_pkey": ofFeed,
	"notification_positions_pkey": ofFeed, "notifications_pkey": ofFeed,

	"erasures_of_subject": ofOperation, "erasures_pkey": ofOperation, "erasure_participants_erasure_id_fkey": ofOperation,
	"export_chunks_pkey": ofOperation, "export_chunks_export_id_fkey": ofOperation, "export_recipients_pkey": ofOperation,
	"export_recipients_export_id_fkey": ofOperation, "export_tokens_pkey": ofOperation, "export_tokens_export_id_fkey": ofOperation,
	"exports_pkey": ofOperation, "exports_running": ofOperation, "mails_pkey": ofOperation,

	"api_keys_digest_key": findsWorkspace, "service_tokens_digest_key": findsWorkspace, "links_short_key_key": findsWorkspace,
	"member_invites_digest_key": findsWorkspace, "participant_invites_digest_key": findsWorkspace,
	"member_invites_mail_digest_key": findsWorkspace, "participant_invites_mail_digest_key": findsWorkspace,
	"processor_connections_by_id": findsWorkspace, "programs_id_key": findsWorkspace, "workspaces_slug": findsWorkspace,
}

// A table can only be distributed by a column that all its unique keys contain (Citus; see
// docs/operations/scaling.md#several-postgres-servers). So each unique, primary and
// foreign key must contain the workspace, or be listed with a reason.
func TestKeys_ContainWorkspace(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	found := f.Texts(`
		select i.relname
		from pg_index x join pg_class c on c.oid = x.indrelid join pg_class i on i.oid = x.indexrelid
		where c.relnamespace = 'public'::regnamespace and x.indisunique and not c.relispartition
		  and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'workspace_id' and a.attnum = any((x.indkey::int2[])[0:x.indnkeyatts - 1]))
		union all
		select conname from pg_constraint k
		where k.contype = 'f' and k.connamespace = 'public'::regnamespace and k.conparentid = 0
		  and not exists (select from pg_attribute a where a.attrelid = k.conrelid and a.attname = 'workspace_id' and a.attnum = any(k.conkey)
		    and (k.confrelid = 'workspaces'::regclass
		      or exists (select from pg_attribute b where b.attrelid = k.confrelid and b.attname = 'workspace_id' and b.attnum = any(k.confkey))))`)
	if all := f.Count(`select count(*) from pg_index x join pg_class c on c.oid = x.indrelid where c.relnamespace = 'public'::regnamespace and x.indisunique and not c.relispartition`); all < 100 {
		t.Fatalf("the schema has only %d unique indexes", all)
	}
	listed := slices.Sorted(maps.Keys(keysWithoutWorkspace))
	slices.Sort(found)
	for _, key := range found {
		if !slices.Contains(listed, key) {
			t.Errorf("the key %s does not contain the workspace: add workspace_id to it, or list it with a reason", key)
		}
	}
	for _, key := range listed {
		if !slices.Contains(found, key) {
			t.Errorf("the key %s is listed, but does not exist or contains the workspace", key)
		}
	}
}
