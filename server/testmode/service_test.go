package testmode_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// After a deletion, the database has the same rows as before the test data was created. This
// includes live data and the test data of another workspace. Each table must change when the
// test data is created, or be in the list kept with a reason.
func TestDeleteTestData_RestoresTheStateBeforeTheTestData(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`delete from programs where workspace_id = $1`, f.Scope.Workspace)
	populate(f.Fixture, f.InOtherMode(), "live")
	populate(f.Fixture, f.NewShop(affiliate.ModeTest), "other")
	before := f.dump()

	f.Program = f.NewProgram(f.Scope)
	populate(f.Fixture, f.Shop, "test")
	changed := changedTables(before, f.dump())
	for _, table := range f.tables() {
		if isKept := kept[table] != ""; isKept == slices.Contains(changed, table) {
			t.Errorf("the table %s: a deletion must empty it, and populate must fill it, or kept must name it with a reason", table)
		}
	}
	deleted := f.mustReset()
	f.wantDump(before)
	f.wantCleanAccounts()

	want := privacy.DeletedTestData{
		Programs: 1, Participants: 1, Links: 2, Clicks: 1, Conversions: 1, Commissions: 1,
		WebhookDeliveries: deleted.GetWebhookDeliveries(), NotificationLogs: 1, PromoCodes: 1, Payouts: 1,
	}
	if got := fromProto(deleted); got != want || got.WebhookDeliveries == 0 {
		t.Errorf("DeleteTestData deleted %+v, want %+v", got, want)
	}
	if actor, after := f.audited(); actor != f.Owner.String() || after != want {
		t.Errorf("the audit log says that %s deleted %+v, want %s and %+v", actor, after, f.Owner, want)
	}
}

func fromProto(d *affiliatev1.DeletedTestData) privacy.DeletedTestData {
	return privacy.DeletedTestData{
		Programs: d.GetPrograms(), Participants: d.GetParticipants(), Links: d.GetLinks(), Clicks: d.GetClicks(),
		Conversions: d.GetConversions(), Commissions: d.GetCommissions(), WebhookDeliveries: d.GetWebhookDeliveries(),
		NotificationLogs: d.GetNotificationLogs(), PromoCodes: d.GetPromoCodes(), Payouts: d.GetPayouts(),
	}
}

// The audit log says who has changed test data, but not the values. Entries about other things,
// live mode and other workspaces stay as they are.
func TestDeleteTestData_ClearsTheAuditLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewShop(affiliate.ModeTest)
	entry := func(workspace affiliate.WorkspaceID, mode, resource string) {
		f.Insert("audit_log", pgtest.Row{
			"workspace_id": workspace, "id": affiliate.NewID[affiliate.AuditID](f.Now()), "mode": mode, "at": f.Now(), "actor": "system", "action": resource + ".update",
			"resource_type": resource, "resource_id": f.Program.UUID, "after": `{"name": "Jane"}`, "ip_prefix": "192.0.2.0/24",
		})
	}
	for _, resource := range []string{"participant", "link", "api_key"} {
		entry(f.Scope.Workspace, "test", resource)
	}
	entry(f.Scope.Workspace, "live", "participant")
	entry(other.Scope.Workspace, "test", "participant")
	f.mustReset()
	const entries = `select (workspace_id = $1)::text || ' ' || mode || ' ' || resource_type || ' ' || (after is not null and ip_prefix is not null) from audit_log where action like '%.update' order by 1`
	want := "false test participant true; true live participant true; true test api_key true; true test link false; true test participant false"
	if got := strings.Join(f.Texts(entries, f.Scope.Workspace), "; "); got != want {
		t.Errorf("the entries are %s, want %s", got, want)
	}
}

func TestDeleteTestData_DeletesNothingOfAnEmptyTestMode(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.mustReset()
	if deleted := fromProto(f.mustReset()); deleted != (privacy.DeletedTestData{}) {
		t.Errorf("a second deletion deleted %+v, want nothing", deleted)
	}
}

// The slug, the codes and the external ids of deleted data can be used again.
func TestDeleteTestData_FreesNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`update programs set slug = 'shop' where id = $1`, f.Program)
	for range 2 {
		jane := populate(f.Fixture, f.Shop, "test")
		f.NewConversion(f.Scope, func(c *conversion.Conversion) { c.ExternalTransactionID = "order 1" })
		if f.Count(`select count(*) from referral_codes where code = $1`, jane.Code) != 1 {
			t.Fatal("the code does not exist")
		}
		f.mustReset()
		f.Program = f.NewProgram(f.Scope, pgtest.Row{"slug": "shop"})
	}
}

// A deletion of more records than the limit is left to a job.
func TestDeleteTestData_LeavesManyRecordsToTheJob(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	populate(f.Fixture, f.InOtherMode(), "live")
	f.Exec(`delete from programs where id = $1`, f.Program)
	before := f.dump()
	f.Program = f.NewProgram(f.Scope)
	jane := populate(f.Fixture, f.Shop, "test")
	const clicks, conversions = 12_000, 6_000
	f.Exec(`
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
		select $1, gen_random_uuid(), now() - n * interval '1 minute', case n % 3 when 0 then 'test' else 'test' end, $2, $3, gen_random_uuid(), 'x', now(), now(), now(), 'granted', false
		from generate_series(1, $4::int) n`, f.Scope.Workspace, f.Program, jane.ID, clicks)
	f.Exec(`
		insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, tax_cents, shipping_cents, fee_cents, discount_cents,
			occurred_at, created_at, source, status, attributed, reason_code, decision_id, product_ids, is_recurring, fraud_score, fraud_signals, version)
		select $1, gen_random_uuid(), 'test', 'many ' || n, 'purchase', 1, 0, 0, 0, 0, now(), now(), 'api', 'recorded', false, 'CLICK_UNKNOWN',
			gen_random_uuid(), '{}', false, 0, '[]', 1
		from generate_series(1, $2::int) n`, f.Scope.Workspace, conversions)
	f.Exec(`
		insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, reason_code, explanation, engine_version, trace, decided_at)
		select workspace_id, decision_id, id, mode, false, reason_code, 'e', 'v', '{}', created_at from conversions where external_transaction_id like 'many %'`)

	response, err := f.reset(f.service)
	if err != nil || response.GetDeleted() != nil || response.GetStatus() != affiliatev1.TestDataStatus_TEST_DATA_STATUS_PROCESSING {
		t.Fatalf("DeleteTestData returned %v, %v, want the status processing", response, err)
	}
	_, err = f.reset(f.service)
	pgtest.RequireRefusal(t, err, affiliate.ReasonResetInProgress)
	f.runJobs(f.service)
	f.waitUntilFinished()
	f.wantDump(before)
	if _, after := f.audited(); after.Clicks != clicks+1 || after.Conversions != conversions+1 {
		t.Errorf("the audit log says that %+v was deleted, want %d clicks and %d conversions", after, clicks+1, conversions+1)
	}
	f.mustReset()
}

// A workspace with many clicks of live mode has no index that finds the few clicks of test
// mode, so the request does not count them.
func TestDeleteTestData_LeavesWorkspacesWithManyLiveClicksToTheJob(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	live := f.InOtherMode()
	jane := live.Join("Jane")
	f.Exec(`
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
		select $1, gen_random_uuid(), now() - n * interval '1 second', 'live', $2, $3, gen_random_uuid(), 'x', now(), now(), now(), 'granted', false
		from generate_series(1, 100000) n`, f.Scope.Workspace, live.Program, jane.ID)
	f.NewClick(f.Join("Joe"))
	response, err := f.reset(f.service)
	if err != nil || response.GetStatus() != affiliatev1.TestDataStatus_TEST_DATA_STATUS_PROCESSING {
		t.Fatalf("DeleteTestData returned %v, %v, want the status processing", response, err)
	}
	f.runJobs(f.service)
	f.waitUntilFinished()
	f.WantCount(100_000, "clicks", `select count(*) from clicks`)
}

// Collectors no longer find the codes and links, and the visitors' next clicks are unique.
func TestDeleteTestData_ClearsRedis(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	live := f.InOtherMode()
	same := pgtest.Row{"referral_code": "jane"}
	jane, liveJane := f.Join("Jane", same), live.Join("Jane", same)
	for _, p := range []pgtest.Participant{jane, liveJane} {
		if err := f.keeper.Sync(t.Context(), affiliate.SyncDirectory{Workspace: p.Scope.Workspace, Participant: &p.ID}); err != nil {
			t.Fatal(err)
		}
	}
	stored := f.UnstoredClick(jane, func(c *click.Click) { c.IPHash, c.UAHash = []byte("address"), []byte("agent") })
	f.visitors.MarkUnique(t.Context(), []*click.Click{&stored})
	f.NewClick(jane, func(c *click.Click) { *c = stored })
	entries := func(scope affiliate.Scope) string {
		value, err := f.redis.Get(t.Context(), "{directory}:code:"+scope.Workspace.String()+":"+string(scope.Mode)+":jane").Result()
		if err != nil {
			t.Fatal(err)
		}
		return value[19:20]
	}
	if entries(f.Scope) != "+" || entries(live.Scope) != "+" {
		t.Fatal("the directory does not have the codes before the deletion")
	}
	f.mustReset()
	if entries(f.Scope) != "-" || entries(live.Scope) != "+" {
		t.Errorf("after the deletion, the code is %q in test mode and %q in live mode, want - and +", entries(f.Scope), entries(live.Scope))
	}
	next := f.UnstoredClick(jane, func(c *click.Click) { c.IPHash, c.UAHash = stored.IPHash, stored.UAHash })
	if f.visitors.MarkUnique(t.Context(), []*click.Click{&next}); !next.Unique {
		t.Error("the next click of the visitor is not unique")
	}
}

// Promotion codes at the payment processor are deactivated by a job, which needs their ids.
func TestDeleteTestData_DeactivatesPromotionCodesAtTheProcessor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Insert("processor_connections", pgtest.Row{
		"workspace_id": f.Scope.Workspace, "id": processor.ConnectionIDOf(f.Scope, conversion.Stripe), "mode": f.Scope.Mode, "processor": "stripe",
		"account_id": "acct", "key": []byte{1}, "endpoint_id": "we", "secret": []byte{1}, "create_conversions": true, "include_out_of_band": false,
		"connected_at": time.Now(), "updated_at": time.Now(),
	})
	populate(f.Fixture, f.Shop, "test")
	f.mustReset()
	f.WantCount(1, "promotion codes", `select count(*) from processor_promo_codes where workspace_id = $1 and mode = 'test' and active`, f.Scope.Workspace)
	if n := f.CountJobs(promocode.SyncPromoCode{}.Kind()); n == 0 {
		t.Error("no job deactivates the promotion code")
	}
	f.Exec(`update processor_promo_codes set active = false`)
	f.mustReset()
	f.WantCount(0, "promotion codes", `select count(*) from processor_promo_codes`)
}
