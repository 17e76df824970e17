package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

const testDataPath = "/api/v1/workspace/test-data"

var resetInProgress = outcome{http.StatusConflict, "RESET_IN_PROGRESS"}

// liveRows returns a digest of the workspace's rows of live mode, for each table with a
// column for the mode. It leaves out counts that a job moves between two tables, and the lease of
// a webhook endpoint, which its sender renews.
func (sys *system) liveRows(t *testing.T, workspace string) map[string]string {
	t.Helper()
	digests := map[string]string{}
	sys.withDatabase(t, func(conn *pgx.Conn) error {
		rows, _ := conn.Query(t.Context(), `
			select table_name::text from information_schema.columns
			where table_schema = 'public' and column_name in ('mode', 'workspace_id') and table_name not like '%\_20______' and table_name not like '%\_default'
				and table_name <> 'stats_deltas'
			group by 1 having count(*) = 2`)
		tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		for _, table := range tables {
			var digest string
			query := fmt.Sprintf(`select count(*) || ' ' || md5(coalesce(string_agg(r, ',' order by r), ''))
				from (select (to_jsonb(t) - array['sender', 'sender_until'])::text as r, workspace_id, mode from %s t) t where workspace_id = $1 and mode = 'live'`, table)
			if err := conn.QueryRow(t.Context(), query, workspace).Scan(&digest); err != nil {
				return err
			}
			digests[table] = digest
		}
		return nil
	})
	if len(digests) < 20 {
		t.Fatalf("%d tables have a mode, want at least 20", len(digests))
	}
	return digests
}

// settle waits until no delivery of the workspace is due and no mail is pending.
func (sys *system) settle(t *testing.T, workspace string) {
	t.Helper()
	eventually(t, waitTimeout, "the deliveries and mails are completed", func() error {
		n := sys.count(t, `select (select count(*) from webhook_deliveries where workspace_id = $1 and status = 'pending')
			+ (select count(*) from mails where workspace_id = $1 and status = 'pending')`, workspace)
		if n > 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
}

// testTestData deletes the test data of a workspace that has data of all kinds in both
// modes. The header X-Mode says live. Live mode stays the same, test mode is empty, and all
// names can be used again.
func testTestData(t *testing.T, sys *system) {
	merchant, partner := sys.newMerchant(t), sys.newPartner(t)
	live := sys.newFixtureFor(t, merchant.inMode("live"), partner.inMode("live"), nil)
	live.createAll(t)
	slug := object{"slug": uniqueName("slug")}
	f := sys.newFixtureFor(t, merchant.inMode("test"), partner.inMode("test"), slug)
	ids := f.createAll(t)
	short := f.merchant.get(t, f.programPath()+"/links/"+ids["link_id"]).wantStatus(http.StatusOK).text("shortUrl")
	sale := purchase(f.click(t))
	f.report(t, sale).wantStatus(http.StatusCreated)
	sys.settle(t, merchant.workspace)
	rowsBefore := sys.liveRows(t, merchant.workspace)

	deleted := live.merchant.do(t, http.MethodDelete, testDataPath, nil).wantStatus(http.StatusOK)
	if strings.Contains(deleted.body, `"status"`) {
		t.Errorf("the response is %s, want no status", deleted.body)
	}
	for name, least := range map[string]int64{
		"programs": 1, "participants": 1, "links": 2, "clicks": 2, "conversions": 3, "commissions": 3,
		"webhookDeliveries": 1, "notificationLogs": 1, "promoCodes": 1, "payouts": 1,
	} {
		if n := deleted.number("deleted." + name); n < least || name == "programs" && n != 1 {
			t.Errorf("deleted.%s is %d, want at least %d", name, n, least)
		}
	}
	rowsAfter := sys.liveRows(t, merchant.workspace)
	for _, table := range slices.Sorted(maps.Keys(rowsAfter)) {
		if rowsAfter[table] != rowsBefore[table] {
			t.Errorf("the deletion has changed rows of live mode in %s", table)
		}
	}

	for _, path := range []string{
		"/api/v1/programs", "/api/v1/conversions", "/api/v1/payouts", "/api/v1/fraud/events", "/api/v1/notifications?category=commissions",
		"/api/v1/notifications?category=conversions", "/api/v1/workspace/notification-log",
	} {
		if total := f.merchant.get(t, path).wantStatus(http.StatusOK).number("total"); total != 0 {
			t.Errorf("%s has the total %d after the deletion, want 0", path, total)
		}
	}
	f.merchant.get(t, f.programPath()).wantOutcome(notFound)
	f.merchant.get(t, "/api/v1/webhooks/"+ids["webhook_id"]).wantStatus(http.StatusOK)
	if n := len(f.partner.get(t, "/api/v1/partner/balances").wantStatus(http.StatusOK).value("balances").([]any)); n != 0 {
		t.Errorf("the partner has %d balances after the deletion, want none", n)
	}
	sys.click(t, f.publicKey, object{"referral_code": f.code}).wantOutcome(notFound)
	if got := sys.client().send(t, http.MethodGet, sys.edge+short[strings.Index(short, "/r/"):], nil); got.status != http.StatusNotFound {
		t.Errorf("the short link responds with %d, want 404", got.status)
	}
	live.click(t)

	second := fixture{sys: sys, merchant: f.merchant, partner: f.partner, code: f.code, publicKey: f.publicKey, secretKey: f.secretKey}
	second.program = f.merchant.createProgram(t, slug)
	second.participant = f.partner.post(t, second.applyPath(), object{"referralCode": f.code}).wantStatus(http.StatusCreated).text("id")
	f.merchant.patch(t, second.participantPath()+"/approve", nil).wantStatus(http.StatusOK)
	f.merchant.post(t, second.programPath()+"/promo-codes", object{
		"participantId": second.participant, "code": "ROUTES", "discountType": "percentage", "discountValue": 10,
	}).wantStatus(http.StatusCreated)
	sale["click_id"] = second.click(t)
	if got := second.report(t, sale).wantStatus(http.StatusCreated); got.value("attributed") != true {
		t.Errorf("the sale after the deletion is not attributed: %s", got.body)
	}
	audit := f.merchant.get(t, "/api/v1/workspace/audit-log?action=test_data.delete").wantStatus(http.StatusOK)
	if audit.number("total") != 1 || audit.text("data.0.actor") != merchant.id || audit.number("data.0.after.programs") != 1 {
		t.Errorf("the audit log has %s, want one deletion by the owner", audit.body)
	}
}

// testTestDataOnceAtATime sends 20 requests at the same time. One of them deletes the data.
// The others are refused, or begin later and find nothing.
func testTestDataOnceAtATime(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	f.createAll(t)
	var mu sync.Mutex
	var wg sync.WaitGroup
	deletions := 0
	for range 20 {
		wg.Go(func() {
			got := f.merchant.do(t, http.MethodDelete, testDataPath, nil)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case got.status != http.StatusOK:
				got.wantOutcome(resetInProgress)
			case got.number("deleted.programs") == 1:
				deletions++
			case got.number("deleted.programs") != 0:
				t.Errorf("a request deleted %s", got.body)
			}
		})
	}
	wg.Wait()
	if deletions != 1 {
		t.Errorf("%d requests deleted the programme, want 1", deletions)
	}
}

// testTestDataOfManyRecords leaves the deletion of more than 5,000 records to a job. Until
// it ends, other requests are refused.
func testTestDataOfManyRecords(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	sys.exec(t, `
		insert into mails (id, kind, type, category, workspace_id, logged, mode, account_kind, recipient_name, recipient, facts, status, created_at)
		select gen_random_uuid(), 'notifications', 'digest', 'conversions', $1, true, 'test', 'merchant', 'M', 'm@example.com', '{}', 'suppressed', now()
		from generate_series(1, 5000)`, f.merchant.workspace)
	got := f.merchant.do(t, http.MethodDelete, testDataPath, nil).wantStatus(http.StatusAccepted)
	if got.body != `{"status":"processing"}` {
		t.Errorf("the response is %s, want the status processing", got.body)
	}
	eventually(t, waitTimeout, "the job has deleted the data", func() error {
		if total := f.merchant.get(t, "/api/v1/workspace/audit-log?action=test_data.delete").wantStatus(http.StatusOK).number("total"); total != 1 {
			return fmt.Errorf("the audit log has %d entries", total)
		}
		return nil
	})
	f.merchant.get(t, f.programPath()).wantOutcome(notFound)

	const running = `
		insert into test_data_resets (workspace_id, id, started_at, user_id, ip_prefix, request_id)
		values ($1, gen_random_uuid(), now(), $2, '', '')`
	sys.exec(t, running, f.merchant.workspace, f.merchant.id)
	f.merchant.do(t, http.MethodDelete, testDataPath, nil).wantOutcome(resetInProgress)
	service := affiliatev1.NewTestModeServiceClient(sys.dial(t))
	ctx := metadata.AppendToOutgoingContext(context.WithoutCancel(t.Context()), "authorization", "Bearer "+f.merchant.access)
	_, err := service.DeleteTestData(ctx, &affiliatev1.DeleteTestDataRequest{})
	wantGRPCError(t, err, codes.FailedPrecondition, "RESET_IN_PROGRESS")
	sys.exec(t, `delete from test_data_resets where workspace_id = $1 and finished_at is null`, f.merchant.workspace)
	response, err := service.DeleteTestData(ctx, &affiliatev1.DeleteTestDataRequest{})
	if err != nil || response.GetDeleted().GetPrograms() != 0 {
		t.Errorf("DeleteTestData over gRPC returned %v, %v, want that nothing was deleted", response, err)
	}
}
