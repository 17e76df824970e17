package export_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// expectation says which rows of a table a member of a bundle contains.
type expectation struct {
	key, table, where string
	// id is the expression that identifies a row. The record has the same value under the keys
	// in recordID, separated by a slash.
	id       string
	recordID []string
}

func rowsOf(key, table, where string) expectation {
	return expectation{key, table, where, "id::text", []string{"id"}}
}

// renamed maps keys of records to columns with other names.
var renamed = map[string]string{
	"public_key": "public_text", "last_used_at": "", "last_seen_at": "seen_at", "account_created_at": "", "joined_at": "created_at",
	"accepted_at": "terms_accepted_at",
}

// derived are keys without a column of the same name.
var derived = []string{"customer", "payout_method", "second_factor_at", "rules", "type", "email", "name", "email_verified_at", "terms_url", "participant_id", "created_at", "ip_prefix"}

// compare compares the records of a bundle with the rows of the database, column by column.
func (f *fixture) compare(c contents, expectations []expectation, args ...any) {
	f.Helper()
	for _, want := range expectations {
		rows := map[string]map[string]any{}
		for _, text := range f.Texts(`select jsonb_build_object('key', `+want.id+`, 'row', to_jsonb(t))::text from `+want.table+` t where `+want.where, args[:strings.Count(want.where, "$")]...) {
			var found struct {
				Key string
				Row map[string]any
			}
			decoder := json.NewDecoder(strings.NewReader(text))
			decoder.UseNumber()
			if err := decoder.Decode(&found); err != nil {
				f.Fatal(err)
			}
			rows[found.Key] = found.Row
		}
		records := c.records(f.TB, want.key)
		if len(records) != len(rows) || len(rows) == 0 {
			f.Errorf("%s has %d records, and the table %s has %d rows; want the same number, and more than 0", want.key, len(records), want.table, len(rows))
		}
		for _, record := range records {
			parts := make([]string, len(want.recordID))
			for i, key := range want.recordID {
				parts[i] = fmt.Sprint(record[key])
			}
			row, ok := rows[strings.Join(parts, "/")]
			if !ok {
				f.Errorf("%s has the record %v, which is not in the table", want.key, record)
				continue
			}
			delete(rows, strings.Join(parts, "/"))
			for key, value := range record {
				column := key
				if other, ok := renamed[key]; ok && row[key] == nil {
					column = other
				}
				stored, exists := row[column]
				switch {
				case column == "":
				case !exists && slices.Contains(derived, key):
				case !exists:
					f.Errorf("%s: the key %s is not a column of %s", want.key, key, want.table)
				case key == "ip_prefix" && value == nil: // hidden
				case !sameValue(value, stored) && !slices.Contains(derived, key):
					f.Errorf("%s.%s is %v, and the column is %v", want.key, key, value, stored)
				}
			}
		}
		for key := range rows {
			f.Errorf("%s does not contain the row %s", want.key, key)
		}
	}
}

// sameValue compares a value of a bundle with a value of to_jsonb. Times have different forms.
func sameValue(value, stored any) bool {
	if reflect.DeepEqual(value, stored) || value == nil && stored == nil {
		return true
	}
	one, ok1 := value.(string)
	two, ok2 := stored.(string)
	if !ok1 || !ok2 {
		return false
	}
	at, err1 := time.Parse("2006-01-02T15:04:05.000Z", one)
	storedAt, err2 := time.Parse(time.RFC3339Nano, two)
	return err1 == nil && err2 == nil && at.Equal(storedAt)
}

// notExport leaves out the notification about the export, which exists when the bundle is
// complete. The audit log is compared without the entry about the export for the same reason.
const notExport = " and type <> 'gdpr.export_ready'"

// participationRows are the rows of a participation, or of several.
func participationRows(where string) []expectation {
	return []expectation{
		rowsOf("participations", "participants", strings.ReplaceAll(where, "participant_id", "id")),
		rowsOf("referral_links", "links", where),
		{"referral_codes", "referral_codes", where, "code", []string{"code"}},
		rowsOf("promo_codes", "promo_codes", where),
		rowsOf("clicks", "clicks", where+" and clicked_at > now() - interval '90 days'"),
		rowsOf("conversions", "conversions", where),
		rowsOf("commissions", "commissions", where),
		rowsOf("payouts", "payouts", where),
		rowsOf("ledger", "ledger_entries", where),
	}
}

func TestExportPartnerAccount_HasAllDataOfThePartnerOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c, text := f.contents(f.exportPartner(f.ada.Partner))
	want := strings.Fields(`audit click_summary clicks commissions consents conversions devices generated_at ledger mails networks notifications
		participations payouts preferences profile program_audit promo_codes referral_codes referral_links schema_version sessions subject`)
	if got := c.keys(); !slices.Equal(got, want) {
		t.Errorf("the bundle has the keys %q, want %q", got, want)
	}
	user := f.ada.Partner
	f.compare(c, append(participationRows("participant_id in (select id from participants where partner_id = $1)"),
		rowsOf("profile", "users", "id = $1"), rowsOf("sessions", "sessions", "user_id = $1"), rowsOf("notifications", "notifications", "feed_id = $1"+notExport),
		rowsOf("audit", "account_audit_log", "user_id = $1 and action <> 'account.export'"), rowsOf("mails", "mails", "user_id = $1"),
		rowsOf("program_audit", "audit_log", "actor = $1::uuid::text"),
		expectation{"preferences", "notification_preferences", "user_id = $1", "category", []string{"category"}},
		expectation{"networks", "(select distinct on (user_id, ip_prefix) * from user_origins order by user_id, ip_prefix, seen_at desc)", "user_id = $1", "ip_prefix", []string{"ip_prefix"}},
		expectation{"devices", "user_devices", "user_id = $1", "user_id::text", []string{"user_id"}},
		expectation{"consents", "participants", "partner_id = $1 and terms_accepted_at is not null", "id::text", []string{"participant_id"}},
	), user)

	profile := c.records(t, "profile")[0]
	if method, _ := profile["payout_method"].(map[string]any); method["account"] != account || method["account_holder"] != "Ada King" {
		t.Errorf("the payout method is %v, want the account in clear text", profile["payout_method"])
	}
	f.wantSummary(c, f.ada, f.adaLive, f.adaElsewhere)
	f.wantNone(text, "a partner must not see it", "pays late", "ext-of-the-merchant", "vip", "once suspended", "looks odd", "order-of-", "203.0.113.0/24")
	f.wantNone(text, "data of another partner", "Bob", "bob-", f.bob.ID.String(), f.bob.Partner.String(), f.bobElsewhere.ID.String())
	f.wantNoSecrets(text)
}

func TestExportParticipant_HasTheParticipationOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c, text := f.contents(f.exportParticipant(f.ada))
	want := strings.Fields(`audit click_summary clicks commissions consents conversions fraud_events generated_at ledger notifications participations
		payouts preferences profile promo_codes referral_codes referral_links schema_version sessions subject`)
	if got := c.keys(); !slices.Equal(got, want) {
		t.Errorf("the bundle has the keys %q, want %q", got, want)
	}
	f.compare(c, append(participationRows("participant_id = $1"),
		rowsOf("fraud_events", "fraud_events", "participant_id = $1"), rowsOf("notifications", "notifications", "participant_id = $1 and feed_id <> workspace_id"),
		rowsOf("audit", "audit_log", "resource_id = $1 and action <> 'participant.export'"),
	), f.ada.ID)
	f.wantSummary(c, f.ada)
	subject := c.records(t, "subject")[0]
	for key, want := range map[string]any{"type": "participant", "id": f.ada.ID.String(), "workspace_id": f.Scope.Workspace.String(), "program_id": f.Program.String(), "mode": "test"} {
		if subject[key] != want {
			t.Errorf("subject.%s is %v, want %v", key, subject[key], want)
		}
	}
	for _, wanted := range []string{"pays late", "ext-of-the-merchant", "vip", "looks odd", "order-of-ada-code", `"sessions":[]`, `"preferences":[]`} {
		if !strings.Contains(text, wanted) {
			t.Errorf("the bundle does not contain %q", wanted)
		}
	}
	f.wantNone(text, "data of the partner's account", account, "Engines", "198.51.100.0/24", "mail-of-")
	f.wantNone(text, "data of another participation", "ada-live", "ada-elsewhere", f.adaLive.ID.String(), f.other.Scope.Workspace.String())
	f.wantNone(text, "data of another participant", "Bob", "bob", f.bob.ID.String(), f.bob.Partner.String())
	f.wantNone(text, "the network of a member", "203.0.113.0/24")
	f.wantNoSecrets(text)
}

func TestExportMerchantAccount_HasBothModesOfTheWorkspaceOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c, text := f.contents(f.exportMerchant())
	where := "workspace_id = $1"
	members := "user_id in (select user_id from members where workspace_id = $1)"
	f.compare(c, []expectation{
		rowsOf("workspace", "workspaces", "id = $1"),
		{"members", "members", where, "user_id::text", []string{"user_id"}},
		rowsOf("member_invites", "member_invites", where), rowsOf("sessions", "sessions", members), rowsOf("api_keys", "api_keys", where), rowsOf("service_tokens", "service_tokens", where),
		rowsOf("webhook_endpoints", "webhook_endpoints", where), rowsOf("processor_connections", "processor_connections", where),
		rowsOf("programs", "programs", where), rowsOf("groups", "groups", where),
		{"rules", "program_rules", where, "program_id::text", []string{"program_id"}},
		rowsOf("participant_invites", "participant_invites", where), rowsOf("participants", "participants", where),
		rowsOf("referral_links", "links", where),
		{"referral_codes", "referral_codes", where, "mode || '/' || code", []string{"mode", "code"}},
		rowsOf("promo_codes", "promo_codes", where), rowsOf("clicks", "clicks", where+" and clicked_at > now() - interval '90 days'"),
		rowsOf("conversions", "conversions", where), rowsOf("refunds", "refunds", where), rowsOf("fraud_events", "fraud_events", where),
		rowsOf("commissions", "commissions", where),
		{"commission_history", "commission_history", where, "commission_id || '/' || seq", []string{"commission_id", "seq"}},
		rowsOf("payouts", "payouts", where), rowsOf("payout_batches", "payout_batches", where), rowsOf("ledger", "ledger_entries", where),
		rowsOf("notifications", "notifications", "feed_id = $1"+notExport), rowsOf("mails", "mails", where+" and logged"),
		rowsOf("audit", "audit_log", where+" and action <> 'workspace.export'"),
		{"preferences", "notification_preferences", members, "category", []string{"category"}},
	}, f.Scope.Workspace)
	f.wantSummary(c, f.ada, f.bob, f.adaLive)
	for _, mode := range []string{"test", "live"} {
		if !strings.Contains(string(c["commissions"]), `"mode":"`+mode+`"`) {
			t.Errorf("the bundle has no commission of %s mode", mode)
		}
	}
	f.wantNone(text, "data of another workspace", "Other Shop", f.other.Scope.Workspace.String(), f.other.Program.String(), f.other.Owner.String(),
		"ada-elsewhere", "bob-elsewhere", f.adaElsewhere.ID.String())
	f.wantNone(text, "the account of a partner", account, "Engines", "mail-of-"+f.ada.Partner.String())
	f.wantNoSecrets(text)
}

// wantSummary checks click_summary: the click of 91 days ago, which is only there, and the click
// and the purchase of today, for each of the participants.
func (f *fixture) wantSummary(c contents, participants ...pgtest.Participant) {
	f.Helper()
	var want []string
	for _, p := range participants {
		for _, counts := range []string{
			f.Now().Add(-91*24*time.Hour).Format(time.DateOnly) + " 1 0 0 0",
			f.Now().Format(time.DateOnly) + " 1 0 0 1",
		} {
			want = append(want, fmt.Sprintf("%s %s %s %s %s", p.Scope.Workspace, p.Program, p.ID, p.Scope.Mode, counts))
		}
	}
	var got []string
	for _, day := range c.records(f.TB, "click_summary") {
		got = append(got, fmt.Sprintf("%s %s %s %s %s %s %s %s %s", day["workspace_id"], day["program_id"], day["participant_id"], day["mode"],
			day["day"], day["clicks"], day["unique_clicks"], day["signups"], day["conversions"]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		f.Errorf("click_summary is %q, want %q", got, want)
	}
}

// Both kinds of records of a buyer have the same pseudonym. It differs between workspaces, and
// does not contain what the service stores.
func TestExport_BuyersArePseudonymous(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pseudonyms := map[string]map[any]bool{}
	c, _ := f.contents(f.exportPartner(f.ada.Partner))
	for _, key := range []string{"conversions", "commissions"} {
		for _, record := range c.records(t, key) {
			place := fmt.Sprint(record["workspace_id"], record["mode"])
			if pseudonyms[place] == nil {
				pseudonyms[place] = map[any]bool{}
			}
			pseudonyms[place][record["customer"]] = true
		}
	}
	all := map[any]bool{}
	for place, names := range pseudonyms {
		if len(names) != 1 {
			t.Errorf("the buyer has the pseudonyms %v in %s, want one", names, place)
		}
		for name := range names {
			if text, _ := name.(string); !strings.HasPrefix(text, "customer-") || all[name] {
				t.Errorf("the pseudonym is %v, want a name that occurs in one workspace and mode only", name)
			}
			all[name] = true
		}
	}
	if len(all) != 3 {
		t.Errorf("there are %d pseudonyms, want 3", len(all))
	}
}

func (f *fixture) wantNone(text, reason string, words ...string) {
	f.Helper()
	for _, word := range words {
		if at := strings.Index(text, word); at >= 0 {
			f.Errorf("%s: the bundle contains %q: …%s…", reason, word, text[max(0, at-80):min(len(text), at+80)])
		}
	}
}

// wantNoSecrets checks that a bundle contains no password, no buyer and no binary value of any
// table in any form.
func (f *fixture) wantNoSecrets(text string) {
	f.Helper()
	f.wantNone(text, "a secret", "argon2id", "sealed token", "secret of", "key of")
	f.wantNone(text, "data of a buyer", "hash-of-the-buyer", "Eve Buyer", "buyers.example", "evidence about")
	for _, column := range f.Texts(`
		select format('select encode(%I, ''hex'') from %I where %1$I is not null', column_name, table_name)
		from information_schema.columns where table_schema = 'public' and data_type = 'bytea' and table_name not like 'export_chunks'`) {
		for _, value := range f.Texts(column) {
			binary, err := hex.DecodeString(value)
			if err != nil {
				f.Fatal(err)
			}
			if len(binary) < 6 {
				continue
			}
			f.wantNone(text, "the result of "+column, value, base64.StdEncoding.EncodeToString(binary), string(binary))
		}
	}
}
