package buyer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	buyers "github.com/tributary-hq/tributary/storage/postgres/buyer"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (f *fixture) sealed(connection processor.ConnectionID, body string) []byte {
	return servertest.Seal(f.TB).Seal([]byte(body), append(connection.UUID[:], "event"...))
}

func sorted(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// diff returns the lines that only one of two texts has.
func diff(before, after string) string {
	var lines []string
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	for _, line := range old {
		if !slices.Contains(now, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			lines = append(lines, "+ "+line)
		}
	}
	return strings.Join(lines, "\n")
}

// checkAccounts runs the check of the accounts.
func (f *fixture) checkAccounts() error {
	results, err := checks.Run(f.Context(), f.DB, time.Now)
	for _, result := range results {
		if len(result.Violations) > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %v", result.Name, result.Violations))
		}
	}
	return err
}

func TestEraseBuyer_JoinsAndRemembersKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.mustRequest("k1", byEmail("ada@shop.example"))
	for _, again := range []struct {
		key string
		who *identity
	}{{"k1", byEmail("ada@shop.example")}, {"k1", byEmail("ADA+x@shop.example")}, {"k2", byEmail("ada@shop.example")}, {"k2", byEmail("ada@shop.example")}} {
		if got := f.mustRequest(again.key, again.who); got != first {
			t.Errorf("key %s got the operation %s, want %s", again.key, got, first)
		}
	}
	for _, other := range []*identity{byEmail("bob@shop.example"), byCustomer("ada@shop.example"), byTransaction("ada@shop.example")} {
		if _, err := f.request("k1", other); pgtest.ReasonOf(t, err) != affiliate.ReasonIdempotencyKeyReused {
			t.Errorf("%v: %v, want IDEMPOTENCY_KEY_REUSED", other, err)
		}
		if _, err := f.request("k2", other); pgtest.ReasonOf(t, err) != affiliate.ReasonIdempotencyKeyReused {
			t.Errorf("%v with a key that has joined: %v, want IDEMPOTENCY_KEY_REUSED", other, err)
		}
	}
	f.work(first)
	if got := f.mustRequest("k1", byEmail("ada@shop.example")); got != first || f.status(got) != done {
		t.Error("the key of an erasure that has ended got another operation")
	}
	second := f.mustRequest("k3", byEmail("ada@shop.example"))
	if second == first {
		t.Error("a request after the end joined the erasure")
	}
	other := newFixtureIn(f.Fixture, f.clock)
	if got := other.mustRequest("k1", byEmail("ada@shop.example")); got == first || got == second {
		t.Error("another workspace has joined the erasure")
	}
	if _, err := other.service.GetBuyerErasure(other.as(""), &affiliatev1.GetBuyerErasureRequest{OperationId: first}); pgtest.ReasonOf(t, err) != affiliate.ReasonOperationNotFound {
		t.Errorf("another workspace reads the erasure: %v", err)
	}
	if n := f.CountJobs("erase_buyer"); n != 3 {
		t.Errorf("%d jobs, want 3", n)
	}
	if len(f.log.entries) != 3 { // also of the request that has joined
		t.Errorf("%d entries in the log, want 3", len(f.log.entries))
	}
}

// A key is remembered for 30 days.
func TestEraseBuyer_ForgetsKeysAfter30Days(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.erase("k1", byEmail("ada@shop.example"))
	f.clock.Advance(30*24*time.Hour - time.Minute)
	if got := f.mustRequest("k1", byEmail("ada@shop.example")); got != first {
		t.Error("the key was deleted too early")
	}
	count := func(keys, operations int64) {
		t.Helper()
		gotKeys, err := buyers.DeleteErasureKeys(t.Context(), f.DB, f.clock.Now(), 10)
		gotOperations, err2 := buyers.DeleteErasures(t.Context(), f.DB, f.clock.Now().Add(-privacy.BuyerErasureKeyLifetime), 10)
		if gotKeys != keys || gotOperations != operations || errors.Join(err, err2) != nil {
			t.Errorf("deleted %d keys and %d erasures, want %d and %d", gotKeys, gotOperations, keys, operations)
		}
	}
	count(0, 0)
	f.clock.Advance(2 * time.Minute)
	if got := f.mustRequest("k1", byEmail("bob@shop.example")); got == first {
		t.Error("the key was remembered for too long")
	}
	count(0, 1) // the key has a new erasure, which has not ended
	f.clock.Advance(31 * 24 * time.Hour)
	count(1, 0)
}

func TestEraseBuyer_ConcurrentRequestsShareOneOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			id, err := f.request(fmt.Sprintf("k%d", i%5), byEmail("ada@shop.example"))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got[id]++
		})
	}
	all.Wait()
	if len(got) != 1 || len(f.log.entries) != 5 { // one entry for each key
		t.Errorf("operations %v, %d entries in the log", got, len(f.log.entries))
	}
}

func TestPrecheckAndCheck_RefuseBadRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	request := &affiliatev1.EraseBuyerRequest{Confirmation: new("DELETE"), Buyer: byEmail("ada@shop.example")}
	owner := servertest.AsMember(t, f.Scope, f.Owner, affiliate.RoleOwner)
	for name, ctx := range map[string]context.Context{
		"missing": owner, "empty": f.as(""), "space": f.as("a b"), "dot": f.as("a.b"), "81 characters": f.as(strings.Repeat("a", 81)),
		"two": metadata.NewIncomingContext(owner, metadata.Pairs("idempotency-key", "a", "idempotency-key", "b")),
	} {
		if err := f.service.Precheck(ctx, request); pgtest.ReasonOf(t, err) != affiliate.ReasonIdempotencyKeyRequired {
			t.Errorf("key %s: %v, want IDEMPOTENCY_KEY_REQUIRED", name, err)
		}
	}
	if err := f.service.Precheck(f.as(strings.Repeat("-", 80)), request); err != nil {
		t.Error(err)
	}
	for _, tc := range []struct {
		who   *identity
		field string
	}{
		{&identity{}, "buyer"},
		{&identity{Email: new("")}, "buyer"},
		{&identity{Email: new("ada@shop.example"), CustomerId: new("ada")}, "buyer"},
		{&identity{CustomerId: new("ada"), ProcessorCustomerId: new("ada")}, "buyer"},
		{byEmail("ada"), "buyer.email"},
		{byEmail("@shop.example"), "buyer.email"},
		{byCustomer(strings.Repeat("a", 256)), servertest.Annotations},
		{nil, servertest.Annotations},
	} {
		err := servertest.Check(f.service, &affiliatev1.EraseBuyerRequest{Confirmation: new("DELETE"), Buyer: tc.who})
		pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, tc.field)
	}
	if err := servertest.Check(f.service, request); err != nil {
		t.Error(err)
	}
}

func TestListBuyerErasures(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.mustRequest("k1", byEmail("ada@shop.example"))
	f.clock.Advance(time.Minute)
	f.work(first)
	f.clock.Advance(time.Minute)
	second := f.mustRequest("k2", byCustomer("bob"))
	list := func(page int32) *affiliatev1.ListBuyerErasuresResponse {
		t.Helper()
		got, err := f.service.ListBuyerErasures(f.as(""), &affiliatev1.ListBuyerErasuresRequest{Page: &page, PageSize: new(int32(1))})
		if err != nil || got.GetTotal() != 2 || len(got.GetData()) != 1 {
			t.Fatalf("page %d: %v, %v, want one of two erasures", page, got, err)
		}
		return got
	}
	if e := list(1).GetData()[0]; e.GetOperationId() != second || e.GetStatus() != processing || e.FinishedAt != nil {
		t.Errorf("the newest erasure is %v, want %s without an end", e, second)
	}
	e := list(2).GetData()[0]
	if took := e.GetFinishedAt().AsTime().Sub(e.GetCreatedAt().AsTime()); e.GetOperationId() != first || e.GetStatus() != done || took < time.Minute {
		t.Errorf("the oldest erasure is %v, want %s, done after a minute", e, first)
	}
	other := servertest.AsMember(t, f.NewShop(affiliate.ModeLive).Scope, f.Owner, affiliate.RoleOwner)
	if got, err := f.service.ListBuyerErasures(other, &affiliatev1.ListBuyerErasuresRequest{}); err != nil || got.GetTotal() != 0 {
		t.Errorf("another workspace has the erasures %v, %v", got, err)
	}
}

func TestService_CanBeDisabled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	operation := f.mustRequest("k1", byEmail("ada@shop.example"))
	f.service.Disabled = true
	if _, err := f.request("k1", byEmail("ada@shop.example")); pgtest.ReasonOf(t, err) != affiliate.ReasonFeatureDisabled {
		t.Errorf("request: %v, want FEATURE_DISABLED", err)
	}
	_, err := f.service.GetBuyerErasure(f.as(""), &affiliatev1.GetBuyerErasureRequest{OperationId: operation})
	if pgtest.ReasonOf(t, err) != affiliate.ReasonFeatureDisabled {
		t.Errorf("status: %v, want FEATURE_DISABLED", err)
	}
	_, err = f.service.ListBuyerErasures(f.as(""), &affiliatev1.ListBuyerErasuresRequest{})
	if pgtest.ReasonOf(t, err) != affiliate.ReasonFeatureDisabled {
		t.Errorf("list: %v, want FEATURE_DISABLED", err)
	}
	f.work(operation)
	f.WantCount(1, "erasures that are done", `select count(*) from buyer_erasures where status = 'done'`)
}

// If the erasure log cannot be written, the erasure is not registered.
func TestEraseBuyer_NeedsTheErasureLog(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.log.err = errors.New("the disk is full")
	if _, err := f.request("k1", byEmail("ada@shop.example")); !errors.Is(err, f.log.err) {
		t.Errorf("error %v", err)
	}
	f.WantCount(0, "rows", `select (select count(*) from buyer_erasures) + (select count(*) from buyer_erasure_keys)`)
	if n := f.CountJobs("erase_buyer"); n != 0 {
		t.Errorf("%d jobs", n)
	}
}

func TestWork_EndsWithEventNotificationAndAudit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.NewEndpoint(f.live.Scope, pgtest.Row{"subscriptions": []string{"gdpr.*"}})
	f.NewEndpoint(f.Scope, pgtest.Row{"subscriptions": []string{"gdpr.*"}})
	operation := f.erase("k1", byEmail("nobody@shop.example"))
	object, _ := f.LastEvent(affiliate.EventGDPRBuyerErasureCompleted)
	if object["operation_id"] != operation || object["status"] != "done" || len(object) != 2 {
		t.Errorf("event %v", object)
	}
	if got := f.Texts(`select mode from webhook_deliveries`); !slices.Equal(got, []string{"live"}) {
		t.Errorf("deliveries in %v, want live", got)
	}
	if got := f.Texts(`select type || ' ' || mode || ' ' || (facts ->> 'outcome') from notifications`); !slices.Equal(got, []string{"gdpr.buyer_erasure_completed both was erased"}) {
		t.Errorf("notifications %q", got)
	}
	if got := f.AuditActions("buyer_erasure", operation); !slices.Equal(got, []string{"buyer.erase", "buyer.erasure_ended"}) {
		t.Errorf("audit %v", got)
	}
	f.requireAbsent("nobody")
	if wait, err := f.service.Work(t.Context(), f.job(operation)); wait != 0 || err != nil {
		t.Errorf("the job of an erasure that has ended: %s, %v", wait, err)
	}
	f.WantCount(1, "events", `select count(*) from events where type = 'gdpr.buyer_erasure_completed'`)
}

// Five failed attempts end the erasure. A request with another key begins a new one.
func TestWork_FailsAfterFiveAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.buys(ada)
	f.clock.Advance(time.Hour)
	operation := f.mustRequest("k1", byCustomer(ada.customer))
	if !f.breakAfter(0, operation) {
		t.Fatal("the erasure has not failed")
	}
	if object, _ := f.LastEvent(affiliate.EventGDPRBuyerErasureCompleted); object["status"] != "failed" {
		t.Errorf("event %v", object)
	}
	if got := f.mustRequest("k1", byCustomer(ada.customer)); got != operation {
		t.Error("the same key began another erasure")
	}
	f.erase("k2", byCustomer(ada.customer))
	f.requireAbsent(ada.values()...)
}

// breakAfter runs the job of an operation with a database that breaks after n transactions,
// until the erasure has failed. It returns false if the job ended before.
func (f *fixture) breakAfter(n int, operation string) bool {
	f.Helper()
	begun, last := 0, false // transactions, and whether this is the last attempt
	db := f.OpenHooked(func(sql string, _ []any) error {
		if sql != "begin" {
			return nil
		}
		begun++
		if last && begun == 1 || !last && begun > n {
			return errors.New("the database is broken")
		}
		return nil
	})
	defer db.Close()
	service := f.newService(db)
	for attempt := 1; ; attempt++ {
		if attempt == privacy.MaxBuyerErasureFailures {
			begun, last = 0, true // the transaction that stores the failure succeeds
		}
		wait, err := service.Work(f.Context(), f.job(operation))
		if err != nil {
			f.Fatalf("attempt %d: %v", attempt, err)
		}
		if wait > 0 {
			f.clock.Advance(wait)
			continue
		}
		ended := f.status(operation)
		if ended == failed && attempt != privacy.MaxBuyerErasureFailures {
			f.Errorf("the erasure failed after %d attempts", attempt)
		}
		return ended == failed
	}
}

// An erasure that fails has erased a part of the data, by which the rest could be found. The
// next erasure of the same buyer erases the rest.
func TestErase_EndsWhatAFailedErasureHasBegun(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	clock := pgtest.NewRunningClock()
	db := pgtest.Open(t, clock.Now)
	for n := 1; ; n++ {
		f := newFixtureIn(db, clock)
		ada := newPerson(fmt.Sprintf("ada%dx", n))
		f.buys(ada)
		clock.Advance(time.Hour)
		operation := f.mustRequest("k1", byTransaction(ada.live))
		if !f.breakAfter(n, operation) {
			if n < 8 {
				t.Errorf("the job has only %d transactions", n-1)
			}
			break
		}
		f.erase("k2", byTransaction(ada.live))
		f.requireAbsent(ada.values()...)
		f.requireAbsent(f.hashesOf(ada.email, ada.customer, ada.processorCustomer)...)
		f.requireStillKnown(ada)
	}
	db.WantCount(0, "rows of the work", `select (select count(*) from buyer_erasure_sales) + (select count(*) from buyer_erasure_customers)`)
}

// An erasure by the erasure log also ends what failed erasures have begun, and can fail itself.
func TestReplay_EndsWhatFailedErasuresHaveBegun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.buys(ada)
	f.clock.Advance(time.Hour)
	if !f.breakAfter(5, f.mustRequest("k1", byTransaction(ada.live))) {
		t.Fatal("the first erasure has not failed")
	}
	for _, transactions := range []int{1, 100} {
		f.replay(f.log.entries[0])
		if fails := f.breakAfter(transactions, f.active()); fails != (transactions == 1) {
			t.Fatalf("with %d transactions the erasure failed: %t", transactions, fails)
		}
	}
	f.requireAbsent(ada.values()...)
	f.requireAbsent(f.hashesOf(ada.email, ada.customer, ada.processorCustomer)...)
}

// A conversion that was found can be deleted with all test data before it is erased.
func TestWork_EndsIfConversionsWereDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, followed := range []bool{false, true} {
		operation := f.mustRequest(fmt.Sprint("k-", followed), byTransaction("order-1"))
		f.Exec(`
			insert into buyer_erasure_sales (workspace_id, operation_id, conversion_id, mode, followed)
			select $1, $2, gen_random_uuid(), 'test', $3 from generate_series(1, 250)`, f.Scope.Workspace, operation, followed)
		f.work(operation)
		if got := f.status(operation); got != done {
			t.Errorf("followed %t: status %s, want done", followed, got)
		}
	}
}

// The lists of a failed erasure are deleted with it.
func TestDeleteErasures_DeletesTheLists(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.buys(ada)
	operation := f.mustRequest("k1", byCustomer(ada.customer))
	if !f.breakAfter(3, operation) {
		t.Fatal("the erasure has not failed")
	}
	const rows = `select (select count(*) from buyer_erasure_sales) + (select count(*) from buyer_erasure_customers)`
	if f.Count(rows) == 0 {
		t.Fatal("the failed erasure has no lists")
	}
	if n, err := buyers.DeleteErasures(t.Context(), f.DB, f.clock.Now(), 10); n != 1 || err != nil {
		t.Fatalf("DeleteErasures deleted %d erasures, %v, want 1", n, err)
	}
	f.WantCount(0, "rows of the work", rows)
}

// A request that joins while a worker recovers the erasure is refused. The first worker has
// died, and its lease has expired.
func TestEraseBuyer_RefusesToJoinDuringRecovery(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	operation := f.mustRequest("k1", byEmail("ada@shop.example"))
	f.kill(1, operation)
	if got := f.mustRequest("k2", byEmail("ada@shop.example")); got != operation {
		t.Error("a request did not join while the lease of a dead worker is valid")
	}
	if wait, err := f.service.Work(t.Context(), f.job(operation)); err != nil || wait < 4*time.Minute {
		t.Fatalf("a second worker: %s, %v, want it to wait for the lease", wait, err)
	}
	f.clock.Advance(privacy.BuyerErasureLease)
	if got := f.mustRequest("k3", byEmail("ada@shop.example")); got != operation {
		t.Error("a request did not join while no worker has the lease")
	}
	during := 0
	other := f.service
	f.useHook(func(sql string, _ []any) error {
		if sql != "begin" {
			return nil
		}
		during++
		_, err := other.EraseBuyer(f.as("k4"), &affiliatev1.EraseBuyerRequest{Confirmation: new("DELETE"), Buyer: byEmail("ada@shop.example")})
		if got := pgtest.ReasonOf(t, err); got != affiliate.ReasonActiveOperationConflict {
			t.Errorf("a request during the recovery: %v, want ACTIVE_OPERATION_CONFLICT", err)
		}
		known, err := other.EraseBuyer(f.as("k1"), &affiliatev1.EraseBuyerRequest{Confirmation: new("DELETE"), Buyer: byEmail("ada@shop.example")})
		if err != nil || known.GetOperationId() != operation {
			t.Errorf("a known key during the recovery: %v, %v", known, err)
		}
		return nil
	})
	f.work(operation)
	if during == 0 || f.status(operation) != done {
		t.Errorf("%d transactions, status %s", during, f.status(operation))
	}
	f.WantCount(0, "keys of refused requests", `select count(*) from buyer_erasure_keys where key = 'k4'`)
}

// kill runs the job of an operation with a process that ends before its n-th commit. It
// returns false if the job ended before.
func (f *fixture) kill(n int, operation string) bool {
	f.Helper()
	ctx, end := context.WithCancel(f.Context())
	defer end()
	count := 0
	db := f.OpenHooked(func(sql string, _ []any) error {
		if sql == "commit" {
			count++
		}
		if count >= n {
			end()
			return errors.New("the process has ended")
		}
		return nil
	})
	defer db.Close()
	service := f.newService(db)
	for range 100 {
		wait, err := service.Work(ctx, f.job(operation))
		if count >= n {
			return true
		}
		if err != nil {
			f.Fatal(err)
		}
		if wait == 0 {
			return false
		}
		f.clock.Advance(privacy.BuyerErasureLease)
	}
	f.Fatal("the job does not end")
	return false
}

// A process may end at every step. A later worker finishes the erasure.
func TestWork_ContinuesAfterTheEndOfTheProcess(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	clock := pgtest.NewRunningClock()
	db := pgtest.Open(t, clock.Now)
	for n := 1; ; n++ {
		f := newFixtureIn(db, clock)
		ada := newPerson(fmt.Sprintf("ada%dx", n))
		f.buys(ada)
		clock.Advance(time.Hour)
		operation := f.mustRequest("k1", byEmail(ada.email))
		if !f.kill(n, operation) {
			if n < 7 {
				t.Errorf("the job has only %d transactions", n-1)
			}
			return
		}
		clock.Advance(privacy.BuyerErasureLease)
		f.work(operation)
		if got := f.status(operation); got != done {
			t.Errorf("killed in transaction %d: status %s", n, got)
		}
		f.requireAbsent(ada.values()...)
		f.requireStillKnown(ada)
	}
}

// An attempt that exceeds the time limit of the job counts as a failure. An attempt that ends
// because the process stops does not count.
func TestWork_CountsTimeoutsAsFailures(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	operation := f.mustRequest("k1", byCustomer("ada"))
	for n, tc := range []struct {
		limit    time.Duration // of the context
		stop     bool          // whether the process stops
		wait     time.Duration
		err      error
		failures int
	}{
		{time.Second, false, 10 * time.Second, nil, 1},
		{time.Hour, true, 0, context.Canceled, 1},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
		f.useHook(func(sql string, _ []any) error {
			if sql == "begin" {
				if tc.stop {
					cancel()
				}
				<-ctx.Done()
			}
			return nil
		})
		if wait, err := f.service.Work(ctx, f.job(operation)); wait != tc.wait || !errors.Is(err, tc.err) {
			t.Errorf("%d: Work returned %s, %v, want %s, %v", n, wait, err, tc.wait, tc.err)
		}
		cancel()
		f.WantCount(tc.failures, "failures", `select failures from buyer_erasures`)
		f.WantCount(0, "leases", `select count(*) from buyer_erasures where lease_owner is not null`)
	}
	f.service = f.newService(f.DB)
	f.work(operation)
	if got := f.status(operation); got != done {
		t.Errorf("status %s, want done", got)
	}
}

// A worker that has lost its lease changes nothing.
func TestWork_StopsWithoutTheLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ada := newPerson("ada")
	f.buys(ada)
	operation := f.mustRequest("k1", byEmail(ada.email))
	stolen := false
	f.useHook(func(sql string, _ []any) error {
		if sql == "begin" && !stolen {
			stolen = true
			f.Exec(`update buyer_erasures set lease_owner = gen_random_uuid()`)
		}
		return nil
	})
	if wait, err := f.service.Work(t.Context(), f.job(operation)); wait == 0 || err != nil {
		t.Errorf("Work returned %s, %v", wait, err)
	}
	f.WantCount(0, "erased conversions", `select count(*) from conversions where buyer_erased_at is not null`)
	f.WantCount(0, "failures", `select failures from buyer_erasures`)
}
