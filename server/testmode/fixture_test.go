package testmode_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/directory"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/server/testmode"
	"github.com/tributary-hq/tributary/storage/clickstream"
	edge "github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/postgres"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/storage/redistest"
	"github.com/tributary-hq/tributary/storage/visitors"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

// fixture is a shop in test mode with the service under test, an edge directory and the
// visitors in Redis.
type fixture struct {
	*pgtest.Shop
	service  *testmode.Service
	keeper   *directory.Keeper
	visitors *visitors.Visitors
	redis    redis.UniversalClient
	clock    *pgtest.Clock
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewRunningClock()
	f := &fixture{Shop: pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest), clock: clock}
	options, err := redis.ParseURL(redistest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	f.redis = redis.NewClient(options)
	t.Cleanup(func() { _ = f.redis.Close() })
	f.visitors = visitors.New(f.redis)
	f.keeper = directory.New(f.DB, edge.NewWriter(f.redis), directory.Config{Now: clock.Now, Log: slog.New(slog.DiscardHandler)})
	f.service = f.newService(f.DB)
	return f
}

// newService returns a service that uses the given handle of the database.
func (f *fixture) newService(db *postgres.DB) *testmode.Service {
	return testmode.New(testmode.Config{DB: db, Edge: f.keeper, Visitors: f.visitors, DeadLetters: clickstream.NewDeadLetters(f.redis), Log: slog.New(slog.DiscardHandler), Now: f.clock.Now})
}

// reset calls the service as the owner of the workspace.
func (f *fixture) reset(service *testmode.Service) (*affiliatev1.DeleteTestDataResponse, error) {
	return service.DeleteTestData(servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner), &affiliatev1.DeleteTestDataRequest{})
}

// mustReset calls the service and returns what it has deleted.
func (f *fixture) mustReset() *affiliatev1.DeletedTestData {
	f.Helper()
	response, err := f.reset(f.service)
	if err != nil || response.GetDeleted() == nil {
		f.Fatalf("DeleteTestData returned %v, %v, want what it has deleted", response, err)
	}
	return response.GetDeleted()
}

// makeJobsDue makes the waiting jobs due, so that a worker runs them at once.
func (f *fixture) makeJobsDue() {
	f.Helper()
	f.Exec(`update river.river_job set scheduled_at = now() - interval '1 second', state = 'available'
		where kind = 'delete_test_data' and state in ('scheduled', 'retryable')`)
}

// runJobs makes the waiting jobs due and starts their worker.
func (f *fixture) runJobs(service *testmode.Service) {
	f.Helper()
	f.makeJobsDue()
	workers := river.NewWorkers()
	service.AddWorkers(workers)
	f.StartWorkers(&river.Config{
		Schema: "river", Workers: workers, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
		FetchCooldown: 10 * time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
	})
}

// waitUntilFinished waits until no deletion is running.
func (f *fixture) waitUntilFinished() {
	f.Helper()
	pgtest.Eventually(f, "the deletion is finished", func() bool {
		return f.Count(`select count(*) from test_data_resets where finished_at is null`) == 0
	})
}

// populate inserts at least one row into each table that contains data of a mode, or that
// belongs to such data. The names of the shop's objects contain the suffix.
func populate(f *pgtest.Fixture, s *pgtest.Shop, suffix string) pgtest.Participant {
	f.Helper()
	now, w, mode := s.Now(), s.Scope.Workspace, s.Scope.Mode
	id := func() string { return affiliate.NewID[affiliate.UserID](now).String() }
	row := func(columns pgtest.Row) pgtest.Row {
		all := pgtest.Row{"workspace_id": w, "mode": mode}
		for name, value := range columns {
			all[name] = value
		}
		return all
	}
	group := s.NewGroup(s.Scope, s.Program, "Group "+suffix)
	p := s.Join("Jane", pgtest.Row{"group_id": group.ID, "referral_code": "jane-" + suffix})
	f.Insert("program_rules", pgtest.Row{"workspace_id": w, "program_id": s.Program, "version": 1, "rules": "{}", "at": now, "by": s.Owner})
	f.Insert("participant_invites", row(pgtest.Row{
		"id": id(), "program_id": s.Program, "email": suffix + "@example.com", "digest": []byte("invite " + suffix), "mail_digest": []byte("mailed invite " + suffix), "invited_by": s.Owner,
		"created_at": now, "expires_at": now.Add(time.Hour), "ended_at": now,
	}))
	s.NewLink(p, "link-"+suffix)
	code := s.NewPromoCode(p, "PROMO-"+strings.ToUpper(suffix))
	endpoint := s.NewEndpoint(s.Scope)
	click := s.NewClick(p)
	commission := s.NewCommission(p, func(c *commission.Commission) {
		c.Status, c.ApprovedAt, c.Click = commission.Approved, &now, &click.ID
	})
	ref := "customer " + suffix
	f.Insert("customers", row(pgtest.Row{"ref": ref, "created_at": now}))
	f.Insert("customer_payments", row(pgtest.Row{"ref": ref, "program_id": s.Program, "payments": 1, "first_at": now}))
	f.Insert("awaited_clicks", row(pgtest.Row{"click_id": id(), "conversion_id": commission.Conversion, "created_at": now, "expires_at": now.Add(time.Hour)}))
	f.Insert("refunds", row(pgtest.Row{
		"id": id(), "external_refund_id": "refund", "external_transaction_id": "unknown", "created_at": now, "expires_at": now.Add(time.Hour),
	}))
	f.Insert("fraud_events", row(pgtest.Row{
		"id": id(), "program_id": s.Program, "participant_id": p.ID, "conversion_id": commission.Conversion, "score": 1, "signals": "[]",
		"action": "observed", "status": "open", "created_at": now,
	}))
	f.Insert("idempotency_keys", row(pgtest.Row{"method": "m", "key": "k", "fingerprint": []byte{1}, "created_at": now, "expires_at": now.Add(time.Hour)}))
	f.Insert("erased_values", row(pgtest.Row{"kind": "code", "digest": []byte(suffix), "subject_id": p.ID}))
	f.Insert("analytics_locks", row(pgtest.Row{"version": 1}))
	f.Insert("analytics_days", row(pgtest.Row{
		"program_id": s.Program, "participant_id": p.ID, "link_id": p.Link, "dimension": "country", "day": now, "value": suffix, "currency": "", "quarters": []byte{},
	}))
	const none = "00000000-0000-0000-0000-000000000000"
	f.Insert("analytics_days", row(pgtest.Row{ // the sum of analytics_conversions
		"program_id": s.Program, "participant_id": none, "link_id": none, "dimension": "", "day": now.UTC(), "value": "", "currency": "", "conversions": 1, "new_customers": 1, "quarters": []byte{},
	}))
	f.Insert("analytics_values", row(pgtest.Row{"dimension": "country", "day": now, "value": suffix, "weight": 1}))
	f.Insert("analytics_conversions", row(pgtest.Row{
		"conversion_id": commission.Conversion, "program_id": s.Program, "participant_id": p.ID, "link_id": p.Link, "occurred_at": now,
		"event_type": "custom", "dimension_values": []string{}, "customer_ref": ref, "currency": "", "amount_cents": 0, "refunded_cents": 0,
		"commission_status": "", "commission_cents": 0, "commission_currency": "",
	}))
	f.Insert("analytics_customers", row(pgtest.Row{
		"customer_ref": ref, "conversion_id": commission.Conversion, "first_at": now,
		"program_id": s.Program, "participant_id": p.ID, "link_id": p.Link, "activity": []byte{},
	}))
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	f.Insert("analytics_cohorts", row(pgtest.Row{
		"program_id": none, "participant_id": none, "link_id": none, "cohort": month, "month": month, "currency": "",
		"customers": 1, "conversions": 1, "revenue_cents": 0, "commission_cents": 0,
	}))
	batch, payout := id(), id()
	f.Insert("payout_batches", row(pgtest.Row{"id": batch, "status": "draft", "program_ids": []string{}, "cutoff": now, "created_by": s.Owner, "created_at": now}))
	f.Insert("payouts", row(pgtest.Row{
		"id": payout, "batch_id": batch, "program_id": s.Program, "participant_id": p.ID, "partner_id": p.Partner, "amount_cents": 200,
		"currency": "EUR", "commission_count": 1, "adjustment_cents": 0, "status": "draft", "method": "manual", "created_at": now, "updated_at": now,
	}))
	f.Insert("payout_commissions", pgtest.Row{"workspace_id": w, "payout_id": payout, "commission_id": commission.ID, "amount_cents": 200})
	f.Exec(`update commissions set payout_id = $2 where workspace_id = $1 and id = $3`, w, payout, commission.ID)
	f.Insert("click_days", row(pgtest.Row{
		"program_id": s.Program, "participant_id": p.ID, "link_id": p.Link, "day": now, "others": true, "clicks": 1, "unique_clicks": 1, "bot_clicks": 0,
	}))
	connection := processor.ConnectionIDOf(s.Scope, conversion.Stripe)
	f.Insert("processor_events", row(pgtest.Row{
		"connection_id": connection, "id": "evt_" + suffix, "type": "invoice.paid", "account_id": "a", "resync": false, "status": "applied", "happened_at": now, "received_at": now,
	}))
	f.Insert("conversion_aliases", row(pgtest.Row{"id": "ch_1", "conversion_id": commission.Conversion}))
	f.Insert("processor_charges", row(pgtest.Row{"id": "ch_1", "currency": "EUR", "amount_cents": 1, "refunded_cents": 0, "read_number": 1, "updated_at": now}))
	f.Insert("processor_charge_aliases", row(pgtest.Row{"id": "in_1", "charge_id": "ch_1"}))
	f.Insert("processor_disputes", row(pgtest.Row{"id": "dp_1", "charge_id": "ch_1", "status": "open", "updated_at": now}))
	f.Insert("processor_promo_codes", row(pgtest.Row{
		"promotion_code_id": "promo_1", "coupon_id": "c", "account_id": "a", "promo_code_id": code.ID, "code": code.Code, "terms": "", "active": true, "created_at": now,
	}))
	for _, feed := range []string{w.String(), p.Partner.String()} {
		f.Insert("notifications", row(pgtest.Row{
			"feed_id": feed, "category": "conversions", "day": now.UTC(), "id": id(), "type": "conversion.created", "facts": "{}",
		}))
	}
	f.Insert("notification_digests", row(pgtest.Row{"user_id": s.Owner, "category": "conversions", "window_start": now, "mailed": []string{}, "due_at": now}))
	f.Insert("announcements", row(pgtest.Row{"id": id(), "program_id": s.Program, "title": "T", "body": "B", "created_by": s.Owner, "created_at": now}))
	f.Insert("mails", row(pgtest.Row{
		"id": id(), "kind": "notifications", "type": "digest", "category": "conversions", "logged": mode == affiliate.ModeTest, "account_kind": "merchant",
		"recipient_name": "Mara", "recipient": "mara@example.com", "facts": "{}", "status": "suppressed", "created_at": now,
	}))
	f.WantCount(1, "deliveries to the endpoint", `select least(1, count(*)) from webhook_deliveries where endpoint_id = $1`, endpoint)
	return p
}

// kept lists the tables that a deletion does not empty, with the reasons.
var kept = map[string]string{
	"users": "accounts belong to no mode", "sessions": "as users", "refresh_tokens": "as users", "login_failures": "as users",
	"email_tokens": "as users", "email_requests": "as users", "user_origins": "as users", "user_devices": "as users",
	"account_audit_log": "as users", "payout_methods": "as users", "former_emails": "as users", "second_factors": "as users", "recovery_codes": "as users", "login_challenges": "as users",
	"workspaces": "the settings stay; the time of the deletion is stored here", "workspace_logos": "as workspaces", "members": "members stay", "member_invites": "members stay",
	"api_keys": "API keys stay", "service_tokens": "service tokens stay", "webhook_endpoints": "endpoints stay",
	"processor_connections": "the connection stays", "processor_signature_failures": "as the connection",
	"audit_log":        "the merchant's record of what members did",
	"test_data_resets": "the record of deletions",
	"erasures":         "the record of erasures, which also serves a restore", "erasure_participants": "rows of running erasures",
	"buyer_erasures": "erasures of buyers are about both modes", "buyer_erasure_keys": "as buyer_erasures", "buyer_erasure_sales": "as buyer_erasures", "buyer_erasure_customers": "as buyer_erasures",
	"exports": "deleted by the package of exports, if they contain test data", "export_chunks": "as exports", "export_tokens": "as exports", "export_recipients": "as exports",
	"fx_rates": "belongs to no workspace", "check_results": "belongs to no workspace", "key_fingerprints": "belongs to no workspace", "click_dead_letters": "belongs to no workspace; ends after 90 days",
	"click_rolls": "progress of a job for all workspaces", "mail_suppressions": "belongs to addresses", "mail_provider_messages": "belongs to no workspace",
	"notification_arrivals": "lives for seconds", "notification_reads": "has only ids; ends after 180 days",
	"notification_watermarks": "has only the position of a user in the feed", "notification_dismissals": "as notification_watermarks",
	"notification_preferences": "what users have chosen", "notification_feeds": "state of open streams",
	"notification_positions": "has only ids; ends after a day", "notification_streams": "open streams", "notification_stream_tickets": "as open streams",
	"notification_periods": "keeps a summary from being repeated", "goose_db_version": "the version of the schema",
}

// tables returns the names of all tables in the schema of the service, except partitions.
func (f *fixture) tables() []string {
	f.Helper()
	return f.Texts(`select relname::text from pg_class
		where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition order by 1`)
}

// dump returns a digest of the rows of each table that is not in kept.
func (f *fixture) dump() map[string]string {
	f.Helper()
	digests := map[string]string{}
	for _, table := range f.tables() {
		if kept[table] == "" {
			digests[table] = f.Texts(fmt.Sprintf(`select count(*) || ' ' || md5(coalesce(string_agg(t::text, ',' order by t::text), '')) from %s t`, table))[0]
		}
	}
	return digests
}

// wantDump reports an error for each table whose rows differ from an earlier dump.
func (f *fixture) wantDump(want map[string]string) {
	f.Helper()
	got := f.dump()
	for _, table := range f.tables() {
		if got[table] != want[table] {
			f.Errorf("the table %s has the rows %s, want %s", table, got[table], want[table])
		}
	}
}

// wantCleanAccounts reports an error if the checks of `core check` find a violation.
func (f *fixture) wantCleanAccounts() {
	f.Helper()
	results, err := checks.Run(context.WithoutCancel(f.Context()), f.DB, time.Now)
	if err != nil {
		f.Fatal(err)
	}
	for _, result := range results {
		if result.Violated > 0 {
			f.Errorf("%s: %q", result.Name, result.Violations)
		}
	}
}

// audited returns what the newest audit log entry of a deletion says.
func (f *fixture) audited() (actor string, after privacy.DeletedTestData) {
	f.Helper()
	entries := f.Texts(`select actor || after::text from audit_log where workspace_id = $1 and action = 'test_data.delete' and mode = 'test' order by at desc, id desc`, f.Scope.Workspace)
	if len(entries) == 0 {
		f.Fatal("the audit log has no entry")
	}
	actor, text := entries[0][:36], entries[0][36:]
	if err := json.Unmarshal([]byte(text), &after); err != nil {
		f.Fatal(err)
	}
	return actor, after
}

// changedTables returns the names of tables whose digests differ.
func changedTables(before, after map[string]string) []string {
	var names []string
	for table := range after {
		if before[table] != after[table] {
			names = append(names, table)
		}
	}
	slices.Sort(names)
	return names
}
