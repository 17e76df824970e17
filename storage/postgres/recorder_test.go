package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// report returns the report of a purchase with the id of a click.
func (s *sales) report(external string, click affiliate.ClickID) affiliate.Report {
	s.Helper()
	found, err := s.store.FindClick(s.Context(), s.scope.Workspace, click)
	if err != nil {
		s.Fatal(err)
	}
	c := affiliate.Conversion{
		ID: affiliate.NewID[affiliate.Conversion](salesDay), Scope: s.scope, ExternalTransactionID: external,
		EventType: affiliate.Purchase, Sale: affiliate.Sale{Paid: affiliate.Money{Cents: 100, Currency: "EUR"}},
		OccurredAt: salesDay, CreatedAt: salesDay, Source: affiliate.SourceAPI, Status: affiliate.ConversionRecorded,
		Click: &click, Version: 1,
	}
	in := affiliate.AttributionInputs{
		Mode: s.scope.Mode, EventType: c.EventType, OccurredAt: c.OccurredAt, Sale: c.Sale, Click: &click, FoundClick: found,
	}
	return affiliate.Report{Conversion: c, Inputs: in, Decide: decideAt(c, salesDay)}
}

// byCustomer returns the report with a customer reference.
func (s *sales) byCustomer(r affiliate.Report, ref string) affiliate.Report {
	r.Conversion.CustomerRef = &ref
	r.Decide = decideAt(r.Conversion, salesDay)
	return r
}

// recordTogether records reports while the maximum number of batches is being recorded.
// Therefore the reports wait and are then recorded in one batch, which is one
// transaction. Two reports with the same external id, customer, promo code or idempotency
// key are not in the same batch. recordTogether returns the errors of the reports.
func (s *sales) recordTogether(store *postgres.Store, reports ...affiliate.Report) []error {
	s.Helper()
	holder, err := s.asOwner().Begin(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	click := s.click(salesDay.Add(-24 * time.Hour))
	var busy sync.WaitGroup
	for i := range postgres.RecordConcurrency {
		ref := fmt.Sprint("locked-", i)
		if _, err := holder.Exec(s.Context(), `
			insert into customers (workspace_id, mode, ref, created_at) values ($1, $2, $3, $4)
			on conflict (workspace_id, mode, ref) do update set created_at = excluded.created_at`, s.scope.Workspace, s.scope.Mode, ref, salesDay); err != nil {
			s.Fatal(err)
		}
		report := s.report(affiliate.NewID[affiliate.Conversion](salesDay).String(), click)
		report.Conversion.OccurredAt = salesDay.Add(-12 * time.Hour)
		report.Inputs.OccurredAt = report.Conversion.OccurredAt
		report = s.byCustomer(report, ref)
		busy.Go(func() {
			if _, err := store.RecordConversion(s.Context(), report); err != nil {
				s.Errorf("a report that waits for the lock returned %v", err)
			}
		})
		// Start the next report only when this report is being recorded. Otherwise
		// several reports would be in one batch.
		s.eventually(func() bool { return store.RunningBatches() == i+1 && store.WaitingReports() == 0 })
	}
	errs := make([]error, len(reports))
	var waiting sync.WaitGroup
	for i, r := range reports {
		waiting.Go(func() { _, errs[i] = store.RecordConversion(s.Context(), r) })
		s.eventually(func() bool { return store.WaitingReports() == i+1 })
	}
	if err := holder.Rollback(s.Context()); err != nil {
		s.Fatal(err)
	}
	waiting.Wait()
	busy.Wait()
	return errs
}

// eventually waits until the condition is true. It fails the test after 20 seconds.
func (s *sales) eventually(condition func() bool) {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal("the condition is still false after 20 s")
		}
	}
}

func isRefusedWith(err error, reason affiliate.Reason) bool {
	return errors.Is(err, affiliate.Refuse(reason))
}

// transactions returns the number of transactions that have written the conversions with
// the given external ids.
func (s *sales) transactions(externals ...string) int {
	return s.count(`(select distinct xmin::text from conversions where external_transaction_id = any($1)) x`, externals)
}

func TestRecordConversion_ConcurrentReportsShareATransaction(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	if err := s.record("known", click); err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.RecordConversion(t.Context(), s.byCustomer(s.report("old", click), "old")); err != nil {
		t.Fatal(err)
	}
	var reports []affiliate.Report
	var externals []string
	for i := range 30 {
		externals = append(externals, fmt.Sprintf("order-%02d", i))
		reports = append(reports, s.byCustomer(s.report(externals[i], click), fmt.Sprint("customer-", i)))
	}
	mismatch := func(affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
		return affiliate.Decision{}, nil, affiliate.Refuse(affiliate.ReasonModeMismatch)
	}
	refused := s.byCustomer(s.report("refused", click), "refused")
	refused.Key = &affiliate.IdempotencyKey{Method: "m", Key: "refused", Fingerprint: []byte{1}, At: salesDay}
	refused.Decide = mismatch
	refusedAgain := s.byCustomer(s.report("refused-again", click), "old")
	refusedAgain.Decide = mismatch
	broken := s.byCustomer(s.report("broken", click), "broken")
	broken.Decide = func(affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) { panic("broken") }
	keyed := s.report("keyed", click)
	keyed.Key = &affiliate.IdempotencyKey{Method: "m", Key: "keyed", Fingerprint: []byte{1}, At: salesDay}
	duplicate := s.byCustomer(s.report("known", click), "duplicate")
	duplicate.Key = &affiliate.IdempotencyKey{Method: "m", Key: "duplicate", Fingerprint: []byte{1}, At: salesDay}
	again := s.report("order-29", click)

	errs := s.recordTogether(s.store, append(reports, refused, broken, keyed, duplicate, again, refusedAgain)...)
	for i, err := range errs[:29] {
		if err != nil {
			t.Errorf("the report of %s returned %v", externals[i], err)
		}
	}
	if n := s.transactions(append(externals[:29], "keyed")...); n != 1 {
		t.Errorf("the reports were recorded in %d transactions, want 1", n)
	}
	// Two reports have the same external id. They do not share a transaction, and either
	// of them can succeed.
	if first, second := errs[29], errs[34]; (first == nil) == (second == nil) ||
		!isRefusedWith(errors.Join(first, second), affiliate.ReasonConversionDuplicate) {
		t.Errorf("two reports with the same external id returned %v and %v, want one success and the reason %s", first, second, affiliate.ReasonConversionDuplicate)
	}
	for i, want := range map[int]affiliate.Reason{
		30: affiliate.ReasonModeMismatch, 33: affiliate.ReasonConversionDuplicate, 35: affiliate.ReasonModeMismatch,
	} {
		if !isRefusedWith(errs[i], want) {
			t.Errorf("report %d returned %v, want the reason %s", i, errs[i], want)
		}
	}
	var refusal *affiliate.Error
	if errs[31] == nil || errors.As(errs[31], &refusal) {
		t.Errorf("the report that panics returned %v, want an internal error", errs[31])
	}
	if errs[32] != nil {
		t.Errorf("the report with an idempotency key returned %v", errs[32])
	}
	// No rows of refused reports may be stored.
	if n := s.count(`customers where ref in ('refused', 'broken', 'duplicate')`); n != 0 {
		t.Errorf("%d customers of refused reports are stored, want 0", n)
	}
	if n := s.count(`customers where ref = 'old' and conversion_id is not null`); n != 1 {
		t.Errorf("there are %d rows of the existing customer of a refused report, want 1", n)
	}
	if n := s.count(`idempotency_keys where convert_from(response, 'UTF8')::jsonb #>> '{conversion,external_transaction_id}' = 'keyed'`); n != 1 || s.count(`idempotency_keys`) != 1 {
		t.Errorf("%d keys have the response of the recorded report, %d keys are stored, want 1 and 1", n, s.count(`idempotency_keys`))
	}
	const recorded = 2 + postgres.RecordConcurrency + 31
	if n := s.count(`conversions`); n != recorded || s.count(`attribution_decisions`) != recorded || s.count(`commission_history`) != recorded || s.count(`events`) != 2*recorded {
		t.Errorf("%d conversions are stored, want %d with their decisions, histories and events", n, recorded)
	}
	var counted int
	if err := s.sql.QueryRow(t.Context(), `select sum(n) from commission_counts where grain = 'ever'`).Scan(&counted); err != nil || counted != recorded {
		t.Errorf("the counters have %d commissions, %v, want %d", counted, err, recorded)
	}
}

// The reports of two workspaces are recorded in one transaction. The rows of each report
// must be in its own workspace.
func TestRecordConversion_BatchOfTwoWorkspaces(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	first, second := s.report("order-1", click), s.report("order-1", click)
	otherScope := affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](salesDay), Mode: s.scope.Mode}
	s.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'Other', 'EUR', 'UTC', $2, $2)`, otherScope.Workspace, salesDay)
	s.exec(insertFullSubscription, s.scope.Workspace, s.scope.Mode, salesDay)
	s.exec(insertFullSubscription, otherScope.Workspace, otherScope.Mode, salesDay)
	second.Conversion.Scope, second.Inputs.FoundClick = otherScope, nil
	second.Decide = decideAt(second.Conversion, salesDay)
	for i, err := range s.recordTogether(s.store, first, second) {
		if err != nil {
			t.Errorf("report %d returned %v", i, err)
		}
	}
	if n := s.transactions("order-1"); n != 1 {
		t.Errorf("the reports were recorded in %d transactions, want 1", n)
	}
	for _, scope := range []affiliate.Scope{s.scope, otherScope} {
		events := s.count(`events where workspace_id = $1`, scope.Workspace)
		deliveries := s.count(`
			webhook_deliveries d
			join events v on v.workspace_id = d.workspace_id and v.id = d.event_id
			join webhook_endpoints e on e.workspace_id = d.workspace_id and e.id = d.endpoint_id
			where d.workspace_id = $1`, scope.Workspace)
		if events == 0 || deliveries != events {
			t.Errorf("the workspace %s has %d deliveries of %d events, want one delivery per event", scope.Workspace, deliveries, events)
		}
	}
	if n, events := s.count(`webhook_deliveries`), s.count(`events`); n != events {
		t.Errorf("%d deliveries are stored in total, want %d", n, events)
	}
}

// If the database rejects a report, or if its decision panics, the other reports of its
// batch must still be recorded.
func TestRecordConversion_FailedReportDoesNotAffectItsBatch(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	invalid := s.byCustomer(s.report("order-invalid", click), "invalid")
	decide := invalid.Decide
	invalid.Decide = func(in affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
		d, commission, err := decide(in)
		commission.AmountCents = commission.OriginalAmountCents + 1
		return d, commission, err
	}
	var reports []affiliate.Report
	for i := range 9 {
		reports = append(reports, s.report(fmt.Sprint("order-", i), click))
	}
	panics := s.report("order-panics", click)
	panics.Key = &affiliate.IdempotencyKey{Method: "m", Key: "panics", Fingerprint: []byte{1}, At: salesDay}
	panics.Decide = func(in affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
		d, commission, err := decideAt(panics.Conversion, salesDay)(in)
		d.Program = nil // makes the code that counts the conversion panic
		return d, commission, err
	}
	for i, err := range s.recordTogether(s.store, append(reports, invalid, panics)...) {
		if (err != nil) != (i >= 9) {
			t.Errorf("report %d returned %v, want an error only for the reports 9 and 10", i, err)
		}
	}
	if n := s.count(`conversions where external_transaction_id like 'order-_'`); n != 9 {
		t.Errorf("%d conversions of the other reports are stored, want 9", n)
	}
	if n := s.count(`customers where ref = 'invalid'`) + s.count(`idempotency_keys`) +
		s.count(`conversions where external_transaction_id in ('order-invalid', 'order-panics')`); n != 0 {
		t.Errorf("%d rows of the failed reports are stored, want 0", n)
	}
}

// A report that needs a locked row must wait for the lock. Other reports must not wait.
func TestRecordConversion_OnlyReportsThatNeedALockWaitForIt(t *testing.T) {
	t.Parallel()
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	holder, err := s.asOwner().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `insert into customers (workspace_id, mode, ref, created_at) values ($1, $2, 'held', $3)`, s.scope.Workspace, s.scope.Mode, salesDay); err != nil {
		t.Fatal(err)
	}
	var blocked, others sync.WaitGroup
	held := s.byCustomer(s.report("held", click), "held")
	blocked.Go(func() {
		if _, err := s.store.RecordConversion(t.Context(), held); err != nil {
			t.Errorf("the report that waits for the lock returned %v", err)
		}
	})
	s.eventually(func() bool { return s.store.RunningBatches() == 1 && s.store.WaitingReports() == 0 })
	for i := range 5 {
		r := s.report(fmt.Sprint("order-", i), click)
		others.Go(func() {
			if _, err := s.store.RecordConversion(t.Context(), r); err != nil {
				t.Errorf("report %d returned %v", i, err)
			}
		})
	}
	others.Wait() // the lock has not been released yet
	if n := s.count(`conversions`); n != 5 {
		t.Errorf("before the lock is released, %d conversions are stored, want 5", n)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	blocked.Wait()
	if n := s.count(`conversions`); n != 6 {
		t.Errorf("after the lock was released, %d conversions are stored, want 6", n)
	}
}

// brokenNetwork is a network that closes one connection, when a client sends text for the
// first time. It closes the connection before the server receives the text. If afterSend
// is true, it closes the connection when the server responds to the text.
type brokenNetwork struct {
	text      string
	afterSend bool
	done      atomic.Bool  // the connection has been closed
	begins    atomic.Int32 // number of transactions that have begun
}

func (c *brokenNetwork) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &brokenConn{Conn: conn, network: c}, err
}

type brokenConn struct {
	net.Conn
	network *brokenNetwork
	silent  bool // close the connection when the server responds
}

func (c *brokenConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("begin")) {
		c.network.begins.Add(1)
	}
	if !bytes.Contains(b, []byte(c.network.text)) || c.network.done.Swap(true) {
		return c.Conn.Write(b)
	}
	if !c.network.afterSend {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	c.silent = true
	return c.Conn.Write(b)
}

func (c *brokenConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.silent {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// If the connection breaks before COMMIT is sent, the store must record the reports of
// the batch again. If the connection breaks later, it is unknown whether the batch was
// committed, so the store must not repeat anything.
func TestRecordConversion_ConnectionLoss(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text      string
		afterSend bool
		begins    int32
		recorded  bool
	}{
		"before COMMIT is reached": {"insert into conversions", false, 6, true},
		"after COMMIT was sent":    {"commit", true, 1, false},
		"while sending COMMIT":     {"commit", false, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSales(t)
			click := s.click(salesDay.Add(-time.Hour))
			var reports []affiliate.Report
			for i := range 5 {
				reports = append(reports, s.report(fmt.Sprint("order-", i), click))
			}
			network := &brokenNetwork{text: tc.text, afterSend: tc.afterSend}
			network.done.Store(true) // do not break the connections of the reports that are recorded first
			store := s.store.WithDialer(t, s.url, network.dial)
			decide, enabled := reports[0].Decide, false
			reports[0].Decide = func(in affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
				if !enabled {
					enabled = true
					s.eventually(func() bool { return store.RunningBatches() == 1 })
					network.begins.Store(1)
					network.done.Store(false)
				}
				return decide(in)
			}
			for i, err := range s.recordTogether(store, reports...) {
				var refusal *affiliate.Error
				if (err == nil) != tc.recorded || errors.As(err, &refusal) {
					t.Errorf("report %d returned %v, want success: %t", i, err, tc.recorded)
				}
			}
			stored := 0
			if tc.recorded || tc.afterSend {
				stored = 5
			}
			if n := s.count(`conversions where external_transaction_id like 'order-%'`); n != stored {
				t.Errorf("%d conversions are stored, want %d", n, stored)
			}
			if n := network.begins.Load(); n != tc.begins {
				t.Errorf("%d transactions have begun, want %d", n, tc.begins)
			}
		})
	}
}

// The fraud rule conversion_velocity must count the earlier conversions of the same batch
// too, as if each conversion had its own transaction.
func TestRecordConversion_VelocityCountsTheBatch(t *testing.T) {
	s := newSales(t)
	s.exec(`update programs set fraud_policy = 'flag'`)
	click := s.click(salesDay.Add(-24 * time.Hour))
	var reports []affiliate.Report
	for i := range 14 {
		reports = append(reports, s.report(fmt.Sprint("order-", i), click))
	}
	for i, err := range s.recordTogether(s.store, reports...) {
		if err != nil {
			t.Errorf("report %d returned %v", i, err)
		}
	}
	// The rule allows ten conversions per hour.
	if n := s.count(`conversions where fraud_signals @> '[{"rule": "conversion_velocity"}]'`); n != 4 {
		t.Errorf("%d conversions have the signal conversion_velocity, want 4", n)
	}
}

// If the context of the caller ends before a report is processed, the report must not be
// recorded.
func TestRecordConversion_CanceledReportIsNotRecorded(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	report := s.report("canceled", click)
	tx, err := s.asOwner().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `insert into customers (workspace_id, mode, ref, created_at) values ($1, $2, 'held', $3)`, s.scope.Workspace, s.scope.Mode, salesDay); err != nil {
		t.Fatal(err)
	}
	var busy sync.WaitGroup
	held := s.byCustomer(s.report("held", click), "held")
	busy.Go(func() {
		if _, err := s.store.RecordConversion(t.Context(), held); err != nil {
			t.Errorf("the report that waits for the lock returned %v", err)
		}
	})
	s.eventually(func() bool { return s.store.RunningBatches() == 1 && s.store.WaitingReports() == 0 })
	if _, err := s.store.RecordConversion(canceled, report); !errors.Is(err, context.Canceled) {
		t.Errorf("RecordConversion with a canceled context returned %v, want %v", err, context.Canceled)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	busy.Wait()
	if err := s.record("last", click); err != nil {
		t.Fatal(err)
	}
	if n := s.count(`conversions where external_transaction_id = 'canceled'`); n != 0 {
		t.Error("the canceled report was recorded")
	}
}

// Two processes record the same conversions of the same customers with the same
// idempotency keys. They must not deadlock, and each conversion must be recorded once.
func TestRecordConversion_TwoProcessesDoNotDeadlock(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	twin, err := postgres.Open(t.Context(), postgres.Config{URL: s.url, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer twin.Close()
	const orders = 60
	var recorded, refused, replayed atomic.Int32
	var all sync.WaitGroup
	for _, store := range []*postgres.Store{s.store, twin} {
		for range 2 {
			for _, i := range rand.Perm(orders) {
				r := s.byCustomer(s.report(fmt.Sprint("order-", i), click), fmt.Sprint("customer-", (i*7)%9))
				if i%3 == 0 {
					r.Key = &affiliate.IdempotencyKey{Method: "m", Key: fmt.Sprint("key-", i), Fingerprint: []byte{1}, At: salesDay}
				}
				all.Go(func() {
					got, err := store.RecordConversion(t.Context(), r)
					switch {
					case err == nil && got.Replay != nil:
						replayed.Add(1)
					case err == nil:
						recorded.Add(1)
					case isRefusedWith(err, affiliate.ReasonConversionDuplicate):
						refused.Add(1)
					default:
						t.Errorf("RecordConversion returned %v, want success or the reason %s", err, affiliate.ReasonConversionDuplicate)
					}
				})
			}
		}
	}
	all.Wait()
	if recorded.Load() != orders || replayed.Load() != orders/3*3 || refused.Load() != orders/3*2*3 {
		t.Errorf("%d reports were recorded, %d replayed and %d refused, want %d, %d and %d",
			recorded.Load(), replayed.Load(), refused.Load(), orders, orders/3*3, orders/3*2*3)
	}
	rows, err := s.sql.Query(t.Context(), `select customer_ref, array_agg(recurring_index order by recurring_index) from conversions group by 1`)
	if err != nil {
		t.Fatal(err)
	}
	var ref string
	var numbers []int64
	if _, err := pgx.ForEachRow(rows, []any{&ref, &numbers}, func() error {
		for i, n := range numbers {
			if n != int64(i+1) {
				t.Errorf("the payments of customer %s have the numbers %v, want consecutive numbers from 1", ref, numbers)
				break
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
