package conversion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// sales is a shop with one participant. The tests report sales of this participant.
type sales struct {
	*pgtest.NoonShop
	participant pgtest.Participant
}

func newSales(t *testing.T) *sales {
	t.Helper()
	f := pgtest.OpenNoonShop(t, pgtest.Row{
		"name": "Spring", "attribution_model": program.FirstClick, "rules_version": 4,
		"rules": `{"commission_type":"percentage","rate_bps":3000,"hold_period_days":30,"auto_approval":true,"net_basis":"net_of_tax"}`,
	})
	return &sales{f, f.Join("Pat")}
}

// click stores a click that was received at the given instant and returns its id.
func (s *sales) click(at time.Time) affiliate.ClickID {
	s.Helper()
	return s.NewClick(s.participant, func(c *click.Click) {
		c.ID = affiliate.NewID[affiliate.ClickID](at)
		c.ClickedAt, c.ReceivedAt, c.CreatedAt, c.ExpiresAt = at, at, at, click.WindowEnd(at, 30)
	}).ID
}

// record stores a purchase with the id of a click.
func (s *sales) record(external string, click affiliate.ClickID) error {
	s.Helper()
	_, err := s.Record(s.Report(external, click))
	return err
}

// record records a report and returns its result.
func record(ctx context.Context, c *recorder, r pgtest.Report) (*report, error) {
	pending := &report{Report: r.Report, decide: r.Decide}
	return pending, c.record(ctx, pending)
}

// counts returns the numbers of batches that are being recorded and of reports that wait.
func counts(c *recorder) [2]int {
	running, waiting := c.reports.Counts()
	return [2]int{running, waiting}
}

// recordTogether records reports in one batch, which is one transaction. It first starts
// the maximum number of other batches and blocks them with a lock, so that the reports
// wait for the next batch. Two reports with the same external id, customer, promo code or
// idempotency key are not in the same batch. recordTogether returns the errors of the
// reports.
func (s *sales) recordTogether(recorder *recorder, reports ...pgtest.Report) []error {
	s.Helper()
	holder, err := s.SQL.Begin(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = holder.Rollback(s.Context()) }() // if the test fails
	click := s.click(pgtest.Noon.Add(-24 * time.Hour))
	var busy sync.WaitGroup
	for i := range recordConcurrency {
		ref := fmt.Sprint("locked-", i)
		if _, err := holder.Exec(s.Context(), `
			insert into customers (workspace_id, mode, ref, created_at) values ($1, $2, $3, $4)
			on conflict (workspace_id, mode, ref) do update set created_at = excluded.created_at`, s.Scope.Workspace, s.Scope.Mode, ref, pgtest.Noon); err != nil {
			s.Fatal(err)
		}
		report := s.Report(affiliate.NewID[affiliate.ConversionID](pgtest.Noon).String(), click, pgtest.ByCustomer(ref), func(c *conversion.Conversion) {
			c.OccurredAt = pgtest.Noon.Add(-12 * time.Hour)
		})
		busy.Go(func() {
			if _, err := record(s.Context(), recorder, report); err != nil {
				s.Errorf("a report that waits for the lock returned %v", err)
			}
		})
		// Start the next report only when this report is being recorded. Otherwise
		// several reports would be in one batch.
		pgtest.Eventually(s, "the report is being recorded", func() bool { return counts(recorder) == [2]int{i + 1, 0} })
	}
	errs := make([]error, len(reports))
	var waiting sync.WaitGroup
	for i, r := range reports {
		waiting.Go(func() { _, errs[i] = record(s.Context(), recorder, r) })
		pgtest.Eventually(s, "the report waits", func() bool { return counts(recorder)[1] == i+1 })
	}
	if err := holder.Rollback(s.Context()); err != nil {
		s.Fatal(err)
	}
	waiting.Wait()
	busy.Wait()
	return errs
}

func isRefusedWith(err error, reason affiliate.Reason) bool {
	return errors.Is(err, affiliate.Refuse(reason))
}

// transactions returns the number of transactions that have written the conversions with
// the given external ids.
func (s *sales) transactions(externals ...string) int {
	return s.Count(`select count(*) from (select distinct xmin::text from conversions where external_transaction_id = any($1)) x`, externals)
}

func TestRecord_ConcurrentReportsShareATransaction(t *testing.T) {
	s := newSales(t)
	click := s.click(pgtest.Noon.Add(-time.Hour))
	if err := s.record("known", click); err != nil {
		t.Fatal(err)
	}
	if _, err := record(t.Context(), newRecorder(s.DB), s.Report("old", click, pgtest.ByCustomer("old"))); err != nil {
		t.Fatal(err)
	}
	var reports []pgtest.Report
	var externals []string
	for i := range 30 {
		externals = append(externals, fmt.Sprintf("order-%02d", i))
		reports = append(reports, s.Report(externals[i], click, pgtest.ByCustomer(fmt.Sprint("customer-", i))))
	}
	mismatch := func(attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
		return attribution.Decision{}, nil, affiliate.Refuse(affiliate.ReasonModeMismatch)
	}
	refused := s.Report("refused", click, pgtest.ByCustomer("refused"))
	refused.Key = &affiliate.IdempotencyKey{Method: "m", Key: "refused", Fingerprint: []byte{1}, At: pgtest.Noon}
	refused.Decide = mismatch
	refusedAgain := s.Report("refused-again", click, pgtest.ByCustomer("old"))
	refusedAgain.Decide = mismatch
	broken := s.Report("broken", click, pgtest.ByCustomer("broken"))
	broken.Decide = func(attribution.Inputs) (attribution.Decision, *commission.Commission, error) { panic("broken") }
	keyed := s.Report("keyed", click)
	keyed.Key = &affiliate.IdempotencyKey{Method: "m", Key: "keyed", Fingerprint: []byte{1}, At: pgtest.Noon}
	duplicate := s.Report("known", click, pgtest.ByCustomer("duplicate"))
	duplicate.Key = &affiliate.IdempotencyKey{Method: "m", Key: "duplicate", Fingerprint: []byte{1}, At: pgtest.Noon}
	again := s.Report("order-29", click)

	errs := s.recordTogether(newRecorder(s.DB), append(reports, refused, broken, keyed, duplicate, again, refusedAgain)...)
	// errs[30] to errs[35] belong to refused, broken, keyed, duplicate, again and
	// refusedAgain.
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
	if n := s.Count(`select count(*) from customers where ref in ('refused', 'broken', 'duplicate')`); n != 0 {
		t.Errorf("%d customers of refused reports are stored, want 0", n)
	}
	if n := s.Count(`select count(*) from customers where ref = 'old' and conversion_id is not null`); n != 1 {
		t.Errorf("there are %d rows of the existing customer of a refused report, want 1", n)
	}
	if n := s.Count(`select count(*) from idempotency_keys where convert_from(response, 'UTF8')::jsonb #>> '{conversion,external_transaction_id}' = 'keyed'`); n != 1 || s.Count(`select count(*) from idempotency_keys`) != 1 {
		t.Errorf("%d keys have the response of the recorded report, %d keys are stored, want 1 and 1", n, s.Count(`select count(*) from idempotency_keys`))
	}
	const recorded = 2 + recordConcurrency + 31
	if n := s.Count(`select count(*) from conversions`); n != recorded || s.Count(`select count(*) from attribution_decisions`) != recorded || s.Count(`select count(*) from commission_history`) != recorded || s.Count(`select count(*) from events`) != 2*recorded {
		t.Errorf("%d conversions are stored, want %d with their decisions, histories and events", n, recorded)
	}
	if counted := s.Count(`select sum(n) from commission_counts where grain = 'ever'`); counted != recorded {
		t.Errorf("the counters have %d commissions, want %d", counted, recorded)
	}
}

// The reports of two workspaces are recorded in one transaction. The rows of each report
// must be in its own workspace.
func TestRecord_BatchOfTwoWorkspaces(t *testing.T) {
	s := newSales(t)
	click := s.click(pgtest.Noon.Add(-time.Hour))
	first, second := s.Report("order-1", click), s.Report("order-1", click)
	otherScope := affiliate.Scope{Workspace: s.NewWorkspace(), Mode: s.Scope.Mode}
	s.NewEndpoint(s.Scope)
	s.NewEndpoint(otherScope)
	second.Conversion.Scope, second.Inputs.FoundClick = otherScope, nil
	second.Decide = pgtest.DecideAt(second.Conversion, pgtest.Noon)
	for i, err := range s.recordTogether(newRecorder(s.DB), first, second) {
		if err != nil {
			t.Errorf("report %d returned %v", i, err)
		}
	}
	if n := s.transactions("order-1"); n != 1 {
		t.Errorf("the reports were recorded in %d transactions, want 1", n)
	}
	for _, scope := range []affiliate.Scope{s.Scope, otherScope} {
		events := s.Count(`select count(*) from events where workspace_id = $1`, scope.Workspace)
		deliveries := s.Count(`
			select count(*) from webhook_deliveries d
			join events v on v.workspace_id = d.workspace_id and v.id = d.event_id
			join webhook_endpoints e on e.workspace_id = d.workspace_id and e.id = d.endpoint_id
			where d.workspace_id = $1`, scope.Workspace)
		if events == 0 || deliveries != events {
			t.Errorf("the workspace %s has %d deliveries of %d events, want one delivery per event", scope.Workspace, deliveries, events)
		}
	}
	if n, events := s.Count(`select count(*) from webhook_deliveries`), s.Count(`select count(*) from events`); n != events {
		t.Errorf("%d deliveries are stored in total, want %d", n, events)
	}
}

// If the database rejects a report, or if its decision panics, the other reports of its
// batch must still be recorded.
func TestRecord_FailedReportDoesNotAffectItsBatch(t *testing.T) {
	s := newSales(t)
	click := s.click(pgtest.Noon.Add(-time.Hour))
	invalid := s.Report("order-invalid", click, pgtest.ByCustomer("invalid"))
	decide := invalid.Decide
	invalid.Decide = func(in attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
		d, commission, err := decide(in)
		commission.AmountCents = commission.OriginalAmountCents + 1
		return d, commission, err
	}
	var reports []pgtest.Report
	for i := range 9 {
		reports = append(reports, s.Report(fmt.Sprint("order-", i), click))
	}
	panics := s.Report("order-panics", click)
	panics.Key = &affiliate.IdempotencyKey{Method: "m", Key: "panics", Fingerprint: []byte{1}, At: pgtest.Noon}
	panics.Decide = func(in attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
		d, commission, err := pgtest.DecideAt(panics.Conversion, pgtest.Noon)(in)
		d.Program = nil // makes the code that counts the conversion panic
		return d, commission, err
	}
	for i, err := range s.recordTogether(newRecorder(s.DB), append(reports, invalid, panics)...) {
		if (err != nil) != (i >= 9) {
			t.Errorf("report %d returned %v, want an error only for the reports 9 and 10", i, err)
		}
	}
	if n := s.Count(`select count(*) from conversions where external_transaction_id like 'order-_'`); n != 9 {
		t.Errorf("%d conversions of the other reports are stored, want 9", n)
	}
	if n := s.Count(`select count(*) from customers where ref = 'invalid'`) + s.Count(`select count(*) from idempotency_keys`) +
		s.Count(`select count(*) from conversions where external_transaction_id in ('order-invalid', 'order-panics')`); n != 0 {
		t.Errorf("%d rows of the failed reports are stored, want 0", n)
	}
}

// Two ids of one sale are reported at the same time, and the first report is refused. The
// second report is then not a duplicate.
func TestRecord_RefusedReportDoesNotClaimAliases(t *testing.T) {
	s := newSales(t)
	click := s.click(pgtest.Noon.Add(-time.Hour))
	refused, recorded := s.Report("pi_1", click), s.Report("cs_1", click)
	refused.Aliases, recorded.Aliases = []string{"pi_1", "cs_1"}, []string{"cs_1"}
	refused.Decide = func(attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
		return attribution.Decision{}, nil, affiliate.Refuse(affiliate.ReasonValidation)
	}
	errs := s.recordTogether(newRecorder(s.DB), refused, recorded)
	if !isRefusedWith(errs[0], affiliate.ReasonValidation) || errs[1] != nil {
		t.Errorf("the reports returned %v, want a refusal and a success", errs)
	}
	if aliases := s.Texts(`select id from conversion_aliases`); !slices.Equal(aliases, []string{"cs_1"}) {
		t.Errorf("the aliases are %q, want cs_1", aliases)
	}
}

// A report that needs a locked row must wait for the lock. Other reports must not wait.
func TestRecord_OnlyReportsThatNeedALockWaitForIt(t *testing.T) {
	t.Parallel()
	s := newSales(t)
	recorder := newRecorder(s.DB)
	click := s.click(pgtest.Noon.Add(-time.Hour))
	holder, err := s.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `insert into customers (workspace_id, mode, ref, created_at) values ($1, $2, 'held', $3)`, s.Scope.Workspace, s.Scope.Mode, pgtest.Noon); err != nil {
		t.Fatal(err)
	}
	var blocked, others sync.WaitGroup
	held := s.Report("held", click, pgtest.ByCustomer("held"))
	blocked.Go(func() {
		if _, err := record(t.Context(), recorder, held); err != nil {
			t.Errorf("the report that waits for the lock returned %v", err)
		}
	})
	pgtest.Eventually(s, "the report is being recorded", func() bool { return counts(recorder) == [2]int{1, 0} })
	for i := range 5 {
		r := s.Report(fmt.Sprint("order-", i), click)
		others.Go(func() {
			if _, err := record(t.Context(), recorder, r); err != nil {
				t.Errorf("report %d returned %v", i, err)
			}
		})
	}
	others.Wait() // the lock has not been released yet
	if n := s.Count(`select count(*) from conversions`); n != 5 {
		t.Errorf("before the lock is released, %d conversions are stored, want 5", n)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	blocked.Wait()
	if n := s.Count(`select count(*) from conversions`); n != 6 {
		t.Errorf("after the lock was released, %d conversions are stored, want 6", n)
	}
}

// brokenNetwork forwards connections to the database. It closes one of them: the first on
// which a client sends a message that contains text. If afterSend is false, the server does
// not receive this message. If afterSend is true, the server receives the message, and the
// network closes the connection when the server responds.
type brokenNetwork struct {
	text      string
	afterSend bool
	done      atomic.Bool  // a message with text was sent; all later messages are forwarded
	begins    atomic.Int32 // number of transactions that have begun
}

// listen returns the URL of the database at this network.
func (n *brokenNetwork) listen(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go n.forward(client, server)
		}
	}()
	u.Host = listener.Addr().String()
	return u.String()
}

func (n *brokenNetwork) forward(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var cut atomic.Bool // close the connection when the server responds
	go func() {
		response := make([]byte, 64<<10)
		for {
			read, err := server.Read(response)
			if err != nil || cut.Load() {
				break
			}
			if _, err := client.Write(response[:read]); err != nil {
				break
			}
		}
		_ = client.Close()
	}()
	message := make([]byte, 64<<10)
	for {
		read, err := client.Read(message)
		if err != nil {
			return
		}
		if bytes.Contains(message[:read], []byte("begin")) {
			n.begins.Add(1)
		}
		if bytes.Contains(message[:read], []byte(n.text)) && !n.done.Swap(true) {
			if !n.afterSend {
				return
			}
			cut.Store(true)
		}
		if _, err := server.Write(message[:read]); err != nil {
			return
		}
	}
}

// If the connection breaks before COMMIT is sent, the store must record each report of
// the batch again, in its own transaction. If the connection breaks later, it is unknown
// whether the batch was committed, so the store must not repeat anything.
func TestRecord_ConnectionLoss(t *testing.T) {
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
			click := s.click(pgtest.Noon.Add(-time.Hour))
			var reports []pgtest.Report
			for i := range 5 {
				reports = append(reports, s.Report(fmt.Sprint("order-", i), click))
			}
			network := &brokenNetwork{text: tc.text, afterSend: tc.afterSend}
			network.done.Store(true) // do not break the connections of the reports that are recorded first
			db, err := postgres.Open(t.Context(), postgres.Config{URL: network.listen(t, s.URL), ErasureKeys: pgtest.ErasureKeys})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			recorder := newRecorder(db)
			decide, enabled := reports[0].Decide, false
			reports[0].Decide = func(in attribution.Inputs) (attribution.Decision, *commission.Commission, error) {
				if !enabled {
					enabled = true
					pgtest.Eventually(s, "the batch is being recorded", func() bool { return counts(recorder)[0] == 1 })
					network.begins.Store(1)
					network.done.Store(false)
				}
				return decide(in)
			}
			for i, err := range s.recordTogether(recorder, reports...) {
				var refusal *affiliate.Error
				if (err == nil) != tc.recorded || errors.As(err, &refusal) {
					t.Errorf("report %d returned %v, want success: %t", i, err, tc.recorded)
				}
			}
			stored := 0
			if tc.recorded || tc.afterSend {
				stored = 5
			}
			if n := s.Count(`select count(*) from conversions where external_transaction_id like 'order-%'`); n != stored {
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
func TestRecord_VelocityCountsTheBatch(t *testing.T) {
	s := newSales(t)
	s.Exec(`update programs set fraud_policy = 'flag'`)
	click := s.click(pgtest.Noon.Add(-24 * time.Hour))
	var reports []pgtest.Report
	for i := range 14 {
		reports = append(reports, s.Report(fmt.Sprint("order-", i), click))
	}
	for i, err := range s.recordTogether(newRecorder(s.DB), reports...) {
		if err != nil {
			t.Errorf("report %d returned %v", i, err)
		}
	}
	// The rule allows ten conversions per hour.
	if n := s.Count(`select count(*) from conversions where fraud_signals @> '[{"rule": "conversion_velocity"}]'`); n != 4 {
		t.Errorf("%d conversions have the signal conversion_velocity, want 4", n)
	}
}

// If the context of the caller ends before a report is processed, the report must not be
// recorded.
func TestRecord_CanceledReportIsNotRecorded(t *testing.T) {
	s := newSales(t)
	recorder := newRecorder(s.DB)
	click := s.click(pgtest.Noon.Add(-time.Hour))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	report := s.Report("canceled", click)
	tx, err := s.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `insert into customers (workspace_id, mode, ref, created_at) values ($1, $2, 'held', $3)`, s.Scope.Workspace, s.Scope.Mode, pgtest.Noon); err != nil {
		t.Fatal(err)
	}
	var busy sync.WaitGroup
	held := s.Report("held", click, pgtest.ByCustomer("held"))
	busy.Go(func() {
		if _, err := record(t.Context(), recorder, held); err != nil {
			t.Errorf("the report that waits for the lock returned %v", err)
		}
	})
	pgtest.Eventually(s, "the report is being recorded", func() bool { return counts(recorder) == [2]int{1, 0} })
	if _, err := record(canceled, recorder, report); !errors.Is(err, context.Canceled) {
		t.Errorf("Record with a canceled context returned %v, want %v", err, context.Canceled)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	busy.Wait()
	if err := s.record("last", click); err != nil {
		t.Fatal(err)
	}
	if n := s.Count(`select count(*) from conversions where external_transaction_id = 'canceled'`); n != 0 {
		t.Error("the canceled report was recorded")
	}
}

// Two processes record the same conversions of the same customers with the same
// idempotency keys. They must not deadlock, and each conversion must be recorded once.
func TestRecord_TwoProcessesDoNotDeadlock(t *testing.T) {
	s := newSales(t)
	click := s.click(pgtest.Noon.Add(-time.Hour))
	other, err := postgres.Open(t.Context(), postgres.Config{URL: s.URL, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const orders = 60
	var recorded, refused, replayed atomic.Int32
	var all sync.WaitGroup
	for _, db := range []*postgres.DB{s.DB, other} {
		recorder := newRecorder(db)
		for range 2 {
			for _, i := range rand.Perm(orders) {
				r := s.Report(fmt.Sprint("order-", i), click, pgtest.ByCustomer(fmt.Sprint("customer-", (i*7)%9)))
				if i%3 == 0 {
					r.Key = &affiliate.IdempotencyKey{Method: "m", Key: fmt.Sprint("key-", i), Fingerprint: []byte{1}, At: pgtest.Noon}
				}
				all.Go(func() {
					got, err := record(t.Context(), recorder, r)
					switch {
					case err == nil && got.Replay != nil:
						replayed.Add(1)
					case err == nil:
						recorded.Add(1)
					case isRefusedWith(err, affiliate.ReasonConversionDuplicate):
						refused.Add(1)
					default:
						t.Errorf("Record returned %v, want success or the reason %s", err, affiliate.ReasonConversionDuplicate)
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
	rows, err := s.SQL.Query(t.Context(), `select customer_ref, array_agg(recurring_index order by recurring_index) from conversions group by 1`)
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
