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

// report is a purchase by a click, which a test can make special.
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

func (s *sales) byCustomer(r affiliate.Report, ref string) affiliate.Report {
	r.Conversion.CustomerRef = &ref
	r.Decide = decideAt(r.Conversion, salesDay)
	return r
}

// together hands in reports while everybody who records is busy, so that those
// that do not want the same share a transaction, and gives their outcomes.
func (s *sales) together(store *postgres.Store, reports ...affiliate.Report) []error {
	s.Helper()
	holder, err := s.asOwner().Begin(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	click := s.click(salesDay.Add(-24 * time.Hour))
	var busy sync.WaitGroup
	for i := range postgres.RecordConcurrency {
		ref := fmt.Sprint("held-", i)
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
				s.Errorf("held up: %v", err)
			}
		})
		// One at a time, or one transaction would take both.
		s.eventually(func() bool { return store.RunningBatches() == i+1 && store.WaitingReports() == 0 })
	}
	outcomes := make([]error, len(reports))
	var waiting sync.WaitGroup
	for i, r := range reports {
		waiting.Go(func() { _, outcomes[i] = store.RecordConversion(s.Context(), r) })
		s.eventually(func() bool { return store.WaitingReports() == i+1 })
	}
	if err := holder.Rollback(s.Context()); err != nil {
		s.Fatal(err)
	}
	waiting.Wait()
	busy.Wait()
	return outcomes
}

func (s *sales) eventually(is func() bool) {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatal("it does not come to that")
		}
	}
}

func refusedAs(err error, reason affiliate.Reason) bool {
	return errors.Is(err, affiliate.Refuse(reason))
}

// transactions are how many have written the conversions.
func (s *sales) transactions(externals ...string) int {
	return s.count(`(select distinct xmin::text from conversions where external_transaction_id = any($1)) x`, externals)
}

func TestReportsAtTheSameTimeShareATransaction(t *testing.T) {
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
	keyed.Key = &affiliate.IdempotencyKey{Method: "m", Key: "kept", Fingerprint: []byte{1}, At: salesDay}
	duplicate := s.byCustomer(s.report("known", click), "duplicate")
	duplicate.Key = &affiliate.IdempotencyKey{Method: "m", Key: "duplicate", Fingerprint: []byte{1}, At: salesDay}
	again := s.report("order-29", click)

	outcomes := s.together(s.store, append(reports, refused, broken, keyed, duplicate, again, refusedAgain)...)
	for i, err := range outcomes[:29] {
		if err != nil {
			t.Errorf("%s: %v", externals[i], err)
		}
	}
	if n := s.transactions(append(externals[:29], "keyed")...); n != 1 {
		t.Errorf("%d transactions", n)
	}
	// The two that want one external id do not, and either may be the first.
	if first, second := outcomes[29], outcomes[34]; (first == nil) == (second == nil) ||
		!refusedAs(errors.Join(first, second), affiliate.ReasonConversionDuplicate) {
		t.Errorf("%v, %v", first, second)
	}
	for i, want := range map[int]affiliate.Reason{
		30: affiliate.ReasonModeMismatch, 33: affiliate.ReasonConversionDuplicate, 35: affiliate.ReasonModeMismatch,
	} {
		if !refusedAs(outcomes[i], want) {
			t.Errorf("%d: %v, want %s", i, outcomes[i], want)
		}
	}
	var refusal *affiliate.Error
	if outcomes[31] == nil || errors.As(outcomes[31], &refusal) || outcomes[32] != nil {
		t.Errorf("broken: %v; keyed: %v", outcomes[31], outcomes[32])
	}
	// What was refused has left nothing behind.
	if n := s.count(`customers where ref in ('refused', 'broken', 'duplicate')`); n != 0 {
		t.Errorf("%d customers of refused reports", n)
	}
	if n := s.count(`customers where ref = 'old' and conversion_id is not null`); n != 1 {
		t.Error("a customer is gone whom a refused report named")
	}
	if n := s.count(`idempotency_keys where convert_from(response, 'UTF8')::jsonb #>> '{conversion,external_transaction_id}' = 'keyed'`); n != 1 || s.count(`idempotency_keys`) != 1 {
		t.Errorf("%d keys of %d are the kept one", n, s.count(`idempotency_keys`))
	}
	const recorded = 2 + postgres.RecordConcurrency + 31
	if n := s.count(`conversions`); n != recorded || s.count(`attribution_decisions`) != recorded || s.count(`commission_history`) != recorded || s.count(`events`) != 2*recorded {
		t.Errorf("%d conversions, want %d with their decisions, histories and events", n, recorded)
	}
	var counted int
	if err := s.sql.QueryRow(t.Context(), `select sum(n) from commission_counts where grain = 'ever'`).Scan(&counted); err != nil || counted != recorded {
		t.Errorf("%d counted, %v", counted, err)
	}
}

// Workspaces share a transaction and nothing else.
func TestABatchOfTwoWorkspaces(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	mine, theirs := s.report("order-1", click), s.report("order-1", click)
	stranger := affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](salesDay), Mode: s.scope.Mode}
	s.exec(`insert into workspaces (id, name, currency, timezone, created_at, updated_at) values ($1, 'Other', 'EUR', 'UTC', $2, $2)`, stranger.Workspace, salesDay)
	s.exec(insertFullSubscription, s.scope.Workspace, s.scope.Mode, salesDay)
	s.exec(insertFullSubscription, stranger.Workspace, stranger.Mode, salesDay)
	theirs.Conversion.Scope, theirs.Inputs.FoundClick = stranger, nil
	theirs.Decide = decideAt(theirs.Conversion, salesDay)
	for i, err := range s.together(s.store, mine, theirs) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := s.transactions("order-1"); n != 1 {
		t.Errorf("%d transactions", n)
	}
	for _, scope := range []affiliate.Scope{s.scope, stranger} {
		events := s.count(`events where workspace_id = $1`, scope.Workspace)
		deliveries := s.count(`
			webhook_deliveries d
			join events v on v.workspace_id = d.workspace_id and v.id = d.event_id
			join webhook_endpoints e on e.workspace_id = d.workspace_id and e.id = d.endpoint_id
			where d.workspace_id = $1`, scope.Workspace)
		if events == 0 || deliveries != events {
			t.Errorf("%d deliveries of %d events", deliveries, events)
		}
	}
	if n := s.count(`webhook_deliveries`); n != s.count(`events`) {
		t.Errorf("%d deliveries in all", n)
	}
}

// What the schema refuses, and what panics on the way, keeps none of the others
// from being recorded.
func TestAPoisonedReportHarmsNoneOfItsBatch(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	poison := s.byCustomer(s.report("order-poison", click), "poison")
	honest := poison.Decide
	poison.Decide = func(in affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
		d, commission, err := honest(in)
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
		d.Program = nil // what an attributed conversion counts for
		return d, commission, err
	}
	outcomes := s.together(s.store, append(reports, poison, panics)...)
	for i, err := range outcomes {
		if (err != nil) != (i >= 9) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := s.count(`conversions where external_transaction_id like 'order-_'`); n != 9 {
		t.Errorf("%d conversions", n)
	}
	if n := s.count(`customers where ref = 'poison'`) + s.count(`idempotency_keys`) +
		s.count(`conversions where external_transaction_id in ('order-poison', 'order-panics')`); n != 0 {
		t.Errorf("%d rows of the poisoned ones", n)
	}
}

// Who wants what somebody holds waits for it; the others of the group do not.
func TestAHeldLockKeepsOnlyThoseWaitingWhoWantIt(t *testing.T) {
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
	var kept, free sync.WaitGroup
	held := s.byCustomer(s.report("held", click), "held")
	kept.Go(func() {
		if _, err := s.store.RecordConversion(t.Context(), held); err != nil {
			t.Errorf("held: %v", err)
		}
	})
	s.eventually(func() bool { return s.store.RunningBatches() == 1 && s.store.WaitingReports() == 0 })
	for i := range 5 {
		r := s.report(fmt.Sprint("order-", i), click)
		free.Go(func() {
			if _, err := s.store.RecordConversion(t.Context(), r); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	free.Wait() // with the lock still held
	if n := s.count(`conversions`); n != 5 {
		t.Errorf("%d conversions", n)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	kept.Wait()
	if n := s.count(`conversions`); n != 6 {
		t.Errorf("%d conversions in the end", n)
	}
}

// cut is a network that loses a connection when the word comes by for the first
// time: before the word has arrived, or, with answered, when its answer is on the
// way back.
type cut struct {
	word     string
	answered bool
	done     atomic.Bool
	begun    atomic.Int32
}

func (c *cut) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &cutConn{Conn: conn, by: c}, err
}

type cutConn struct {
	net.Conn
	by     *cut
	silent bool
}

func (c *cutConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("begin")) {
		c.by.begun.Add(1)
	}
	if !bytes.Contains(b, []byte(c.by.word)) || c.by.done.Swap(true) {
		return c.Conn.Write(b)
	}
	if !c.by.answered {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	c.silent = true
	return c.Conn.Write(b)
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.silent {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// A batch whose connection breaks before COMMIT is repeated; behind COMMIT, nobody
// knows, and nothing is.
func TestABatchThatLosesItsConnection(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		word     string
		answered bool
		begins   int32
		recorded bool
	}{
		"before COMMIT":      {"insert into conversions", false, 6, true},
		"behind COMMIT":      {"commit", true, 1, false},
		"in front of COMMIT": {"commit", false, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSales(t)
			click := s.click(salesDay.Add(-time.Hour))
			var reports []affiliate.Report
			for i := range 5 {
				reports = append(reports, s.report(fmt.Sprint("order-", i), click))
			}
			network := &cut{word: tc.word, answered: tc.answered}
			network.done.Store(true) // for those that hold the others up
			store := s.store.WithDialer(t, s.url, network.dial)
			decide, armed := reports[0].Decide, false
			reports[0].Decide = func(in affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
				if !armed {
					armed = true
					s.eventually(func() bool { return store.RunningBatches() == 1 })
					network.begun.Store(1)
					network.done.Store(false)
				}
				return decide(in)
			}
			for i, err := range s.together(store, reports...) {
				var refusal *affiliate.Error
				if (err == nil) != tc.recorded || errors.As(err, &refusal) {
					t.Errorf("%d: %v", i, err)
				}
			}
			stored := 0
			if tc.recorded || tc.answered {
				stored = 5
			}
			if n := s.count(`conversions where external_transaction_id like 'order-%'`); n != stored {
				t.Errorf("%d conversions, want %d", n, stored)
			}
			if n := network.begun.Load(); n != tc.begins {
				t.Errorf("%d transactions were begun, want %d", n, tc.begins)
			}
		})
	}
}

// Conversions of one batch count for each other as if they came one by one.
func TestVelocityCountsTheWholeBatch(t *testing.T) {
	s := newSales(t)
	s.exec(`update programs set fraud_policy = 'flag'`)
	click := s.click(salesDay.Add(-24 * time.Hour))
	var reports []affiliate.Report
	for i := range 14 {
		reports = append(reports, s.report(fmt.Sprint("order-", i), click))
	}
	for i, err := range s.together(s.store, reports...) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	// Ten in an hour are nothing.
	if n := s.count(`conversions where fraud_signals @> '[{"rule": "conversion_velocity"}]'`); n != 4 {
		t.Errorf("%d of the conversions are too many", n)
	}
}

// Who has gone before it was at work is not recorded.
func TestAReportThatWasWithdrawnIsNotRecorded(t *testing.T) {
	s := newSales(t)
	click := s.click(salesDay.Add(-time.Hour))
	gone, leave := context.WithCancel(t.Context())
	leave()
	report := s.report("gone", click)
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
			t.Error(err)
		}
	})
	s.eventually(func() bool { return s.store.RunningBatches() == 1 && s.store.WaitingReports() == 0 })
	if _, err := s.store.RecordConversion(gone, report); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	busy.Wait()
	if err := s.record("last", click); err != nil {
		t.Fatal(err)
	}
	if n := s.count(`conversions where external_transaction_id = 'gone'`); n != 0 {
		t.Error("it was recorded")
	}
}

// Two processes that report the same things of the same customers under the same
// keys wait for each other, never in a circle, and each conversion is recorded
// once.
func TestBatchesOfTwoProcesses(t *testing.T) {
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
					case refusedAs(err, affiliate.ReasonConversionDuplicate):
						refused.Add(1)
					default:
						t.Error(err)
					}
				})
			}
		}
	}
	all.Wait()
	if recorded.Load() != orders || replayed.Load() != orders/3*3 || refused.Load() != orders/3*2*3 {
		t.Errorf("%d recorded, %d replayed, %d refused", recorded.Load(), replayed.Load(), refused.Load())
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
				t.Errorf("%s has paid %v", ref, numbers)
				break
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
