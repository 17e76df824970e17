package conversion_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	conversionservice "github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/server/servertest"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

type reportRequest = affiliatev1.ReportConversionRequest

const (
	pending  = affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING
	approved = affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED
	rejected = affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED
	refunded = affiliatev1.CommissionStatus_COMMISSION_STATUS_REFUNDED
)

const (
	day          = 24 * time.Hour
	hashKey      = "key of the tests"
	partnerEmail = "pat@corp.example"
)

// fixture is a shop in test mode with the service under test. Its programme pays 30
// percent. Pat is an approved participant with the email address partnerEmail.
type fixture struct {
	*pgtest.Shop
	service *conversionservice.Service
	config  conversionservice.Config // of the service
	stream  *clickStream
	clock   *pgtest.Clock
	pat     pgtest.Participant
	// clickLookups is the number of clicks that were looked up in the database, see
	// countLookups.
	clickLookups atomic.Int64
}

// newFixture returns a fixture. program changes the columns of the programme.
func newFixture(t *testing.T, program ...pgtest.Row) *fixture {
	t.Helper()
	clock := pgtest.NewRunningClock()
	program = append([]pgtest.Row{pgtest.Rules()}, program...)
	f := &fixture{Shop: pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest, program...), stream: &clickStream{}, clock: clock}
	f.config = conversionservice.Config{
		DB: f.DB, Tail: f.stream, HashKeys: affiliate.HashKeys{[]byte(hashKey)}, Now: clock.Now, Log: slog.New(slog.DiscardHandler),
	}
	f.restart()
	f.pat = f.NewParticipant(f.Scope, f.Program, f.NewPartner("Pat", pgtest.Row{"email": partnerEmail}))
	return f
}

func withoutHoldPeriod(r *program.Rules) { r.HoldDays = 0 }

// setRules replaces the rules of the shop's programme.
func (f *fixture) setRules(change func(*program.Rules)) {
	f.Helper()
	f.Exec(`update programs set rules = $2, rules_version = rules_version + 1 where id = $1`, f.Program, pgtest.Rules(change)["rules"])
}

// ago returns a change that makes a click as old as age.
func (f *fixture) ago(age time.Duration) func(*click.Click) {
	return receivedAt(f.clock.Now().Add(-age))
}

// receivedAt returns a change that sets the times of a click.
func receivedAt(received time.Time) func(*click.Click) {
	return func(c *click.Click) {
		received = received.UTC().Truncate(time.Millisecond)
		c.ID = affiliate.NewID[affiliate.ClickID](received)
		c.ClickedAt, c.ReceivedAt, c.CreatedAt, c.ExpiresAt = received, received, received, click.WindowEnd(received, 30)
	}
}

// unknownClick returns the id of a click that is not stored. The click is an hour old, so
// a report does not wait for its ingestion.
func (f *fixture) unknownClick() affiliate.ClickID {
	return f.UnstoredClick(f.pat, f.ago(time.Hour)).ID
}

// purchase returns the report of a purchase of 100 EUR with a click.
func purchase(external string, click affiliate.ClickID) *reportRequest {
	return &reportRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: external,
		AmountCents: new(int64(10_000)), Currency: new("eur"), ClickId: new(click.String()),
	}
}

// purchaseBy returns the report of a customer's purchase with a click.
func purchaseBy(customer, external string, click affiliate.ClickID) *reportRequest {
	r := purchase(external, click)
	r.CustomerId = &customer
	return r
}

// purchaseWithCode returns the report of a purchase with a promo code, without a click.
func purchaseWithCode(external, code string) *reportRequest {
	r := purchase(external, affiliate.ClickID{})
	r.ClickId, r.PromoCode = nil, &code
	return r
}

// lead returns the report of a lead, which has no amount.
func lead(external string, click affiliate.ClickID) *reportRequest {
	r := purchase(external, click)
	r.EventType, r.AmountCents, r.Currency = affiliatev1.EventType_EVENT_TYPE_LEAD, nil, nil
	return r
}

// asOwner returns the context of a call by the shop's owner.
func (f *fixture) asOwner() context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
}

// asKey returns the context of a call with a secret key of the shop.
func (f *fixture) asKey() context.Context { return servertest.AsSecretKey(f, f.Scope) }

func (f *fixture) report(req *reportRequest) (*affiliatev1.ReportConversionResponse, error) {
	return f.service.ReportConversion(f.asKey(), req)
}

// mustReport reports a conversion and ends the test if the report is rejected.
func (f *fixture) mustReport(req *reportRequest) *affiliatev1.ReportConversionResponse {
	f.Helper()
	response, err := f.report(req)
	if err != nil {
		f.Fatalf("ReportConversion(%v): %v", req, err)
	}
	return response
}

// reportUnattributed reports a conversion and ends the test if it is attributed.
func (f *fixture) reportUnattributed(req *reportRequest) *affiliatev1.ReportConversionResponse {
	f.Helper()
	response := f.mustReport(req)
	if response.GetAttributed() {
		f.Fatalf("the conversion is attributed: %v", response)
	}
	return response
}

// lateConversion reports a purchase with an unknown click, then stores and returns the
// click. The job with this click attributes the purchase.
func (f *fixture) lateConversion(external string) click.AwaitedClick {
	f.Helper()
	click := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
	f.reportUnattributed(purchase(external, click.ID))
	return f.storeLate(click)
}

// storeLate stores a click that conversions wait for, and returns it as the job receives
// it.
func (f *fixture) storeLate(stored click.Click) click.AwaitedClick {
	f.Helper()
	if err := clicks.Store(f.Context(), f.DB, []click.Click{stored}); err != nil {
		f.Fatal(err)
	}
	return click.AwaitedClick{Workspace: stored.Workspace, Click: stored.ID}
}

// attribute runs the job that attributes the conversions that wait for a click.
func (f *fixture) attribute(click click.AwaitedClick) {
	f.Helper()
	if err := f.service.AttributeAwaited(f.Context(), click); err != nil {
		f.Fatalf("AttributeAwaited: %v", err)
	}
}

// moveCommission applies a transition to the commission of a conversion, as the shop's
// owner. change adds the fields that the move needs.
func (f *fixture) moveCommission(
	r *affiliatev1.ReportConversionResponse, move commission.Move, change ...func(*commission.Transition),
) error {
	id, ok := affiliate.ParseID[affiliate.CommissionID](r.GetCommission().GetId())
	if !ok {
		return fmt.Errorf("no commission in %v", r)
	}
	transition := commission.Transition{
		Scope: f.Scope, Program: f.Program, Commission: id, Move: move, Actor: affiliate.Actor{User: &f.Owner}, At: f.clock.Now(),
	}
	for _, c := range change {
		c(&transition)
	}
	_, err := commissionservice.Move(f.Context(), f.DB, transition)
	return err
}

// pay approves and pays the commission of a conversion.
func (f *fixture) pay(r *affiliatev1.ReportConversionResponse) {
	f.Helper()
	err := f.moveCommission(r, commission.MoveOverride, func(t *commission.Transition) { t.Reason = new("They asked.") })
	if err != nil {
		f.Fatalf("approving the commission: %v", err)
	}
	err = f.moveCommission(r, commission.MovePay, func(t *commission.Transition) {
		t.Actor, t.PaidAt, t.Payout = affiliate.System, t.At, new(affiliate.NewID[affiliate.PayoutID](t.At))
	})
	if err != nil {
		f.Fatalf("paying the commission: %v", err)
	}
}

// wantRows compares the number of rows that the query "select count(*) from fromClause"
// returns.
func (f *fixture) wantRows(want int, fromClause string, args ...any) {
	f.Helper()
	if got := f.Count(`select count(*) from `+fromClause, args...); got != want {
		f.Errorf("%d rows of %s (arguments %v), want %d", got, fromClause, args, want)
	}
}

// wantAttributes compares the attributes in want with those of the object of an event.
func (f *fixture) wantAttributes(event string, object map[string]any, want pgtest.Row) {
	f.Helper()
	for name, value := range want {
		if n, ok := value.(int); ok {
			value = float64(n)
		}
		if object[name] != value {
			f.Errorf("%s of %s is %v, want %v", name, event, object[name], value)
		}
	}
}

// wantAttribution compares the reason and the participant of an attribution.
func (f *fixture) wantAttribution(r *affiliatev1.ReportConversionResponse, reason string, p pgtest.Participant) {
	f.Helper()
	servertest.WantFields(f, "attribution of "+r.GetExternalTransactionId(), r.GetAttribution(), &affiliatev1.ConversionAttribution{
		ReasonCode: reason, ParticipantId: new(p.ID.String()),
	})
}

// wantReason compares the reason of an attribution.
func (f *fixture) wantReason(r *affiliatev1.ReportConversionResponse, want string) {
	f.Helper()
	if got := r.GetAttribution().GetReasonCode(); got != want {
		f.Errorf("the reason for %s is %s, want %s", r.GetExternalTransactionId(), got, want)
	}
}

// wantLookups compares the number of look-ups of clicks in the database (see countLookups),
// and the number of reads of the click stream's tail (see clickStream).
func (f *fixture) wantLookups(lookups, reads int64) {
	f.Helper()
	if l, r := f.clickLookups.Load(), f.stream.reads.Load(); l != lookups || r != reads {
		f.Errorf("the service made %d look-ups of clicks and %d reads of the tail, want %d and %d", l, r, lookups, reads)
	}
}

// stats are the sums of the statistics of one participant in one currency.
type stats struct{ conversions, signups, revenue, commission int64 }

func (f *fixture) wantStats(p pgtest.Participant, currency string, want stats) {
	f.Helper()
	var got stats
	err := f.SQL.QueryRow(f.Context(), `
		select coalesce(sum(conversions), 0)::bigint, coalesce(sum(signups), 0)::bigint,
			coalesce(sum(revenue_cents), 0)::bigint, coalesce(sum(commission_cents), 0)::bigint
		from stats_deltas d
		join participants p on p.workspace_id = d.workspace_id and p.mode = d.mode and p.program_id = d.program_id and p.id = d.participant_id
		where d.participant_id = $1 and d.currency = $2`, p.ID, currency).
		Scan(&got.conversions, &got.signups, &got.revenue, &got.commission)
	if err != nil {
		f.Fatal(err)
	}
	if got != want {
		f.Errorf("the statistics in %q are %+v, want %+v", currency, got, want)
	}
}

// trace returns the stored trace of a decision.
func (f *fixture) trace(decision string) (trace attribution.Trace) {
	f.Helper()
	stored := f.Texts(`select trace::text from attribution_decisions where id::text = $1`, decision)
	if len(stored) != 1 {
		f.Fatalf("%d decisions have the id %s, want 1", len(stored), decision)
	}
	if err := json.Unmarshal([]byte(stored[0]), &trace); err != nil {
		f.Fatal(err)
	}
	return trace
}

// parallelCalls runs calls in parallel and counts their results.
type parallelCalls struct {
	testing.TB
	group  sync.WaitGroup
	mu     sync.Mutex
	counts map[string]int
}

func (f *fixture) parallelCalls() *parallelCalls {
	return &parallelCalls{TB: f, counts: map[string]int{}}
}

// start starts a call, which may start further calls. An error without an error code
// fails the test.
func (c *parallelCalls) start(name string, call func() error) {
	c.group.Go(func() {
		err := call()
		var refusal *affiliate.Error
		switch {
		case errors.As(err, &refusal):
			c.count(name + " " + string(refusal.Reason))
		case err != nil:
			c.Errorf("%s: %v", name, err)
		default:
			c.count(name)
		}
	})
}

func (c *parallelCalls) count(result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[result]++
}

// wait waits until all calls have ended. It returns the numbers of their results. The
// result of a call is its name, followed by the error code if the call was rejected.
func (c *parallelCalls) wait() map[string]int {
	c.group.Wait()
	return c.counts
}

// want waits until all calls have ended, and compares the numbers of their results.
func (c *parallelCalls) want(want map[string]int) {
	c.Helper()
	if got := c.wait(); !maps.Equal(got, want) {
		c.Errorf("the parallel calls had the results %v, want %v", got, want)
	}
}

// Parts of the statements that store conversions and look up clicks.
const (
	insertConversion = "insert into conversions ("
	lookUpClicks     = "c.clicked_at = n.clicked_at"
)

// restart continues with a service that has the current config.
func (f *fixture) restart() { f.service = conversionservice.New(f.config) }

// useHook makes the service use a database whose hook sees the service's statements.
func (f *fixture) useHook(hook pgtest.Hook) {
	f.Helper()
	f.config.DB = f.OpenHooked(hook)
	f.restart()
}

// failRecording makes the service fail when it records conversions, until repair is called.
func (f *fixture) failRecording() {
	f.Helper()
	f.useHook(func(sql string, _ []any) error {
		if strings.Contains(sql, insertConversion) {
			return errors.New("the connection was lost")
		}
		return nil
	})
}

// repair makes the service use the database without a hook.
func (f *fixture) repair() {
	f.config.DB = f.DB
	f.restart()
}

// countLookups counts the clicks that the service looks up in the database. Before each
// statement that looks up clicks, it calls the function before with the number of the
// statement, unless before is nil.
func (f *fixture) countLookups(before func(n int)) {
	f.Helper()
	n := 0 // statements; one of them is running at a time
	f.useHook(func(sql string, args []any) error {
		if !strings.Contains(sql, lookUpClicks) {
			return nil
		}
		f.clickLookups.Add(int64(len(args[2].([]affiliate.ClickID))))
		if n++; before != nil {
			before(n)
		}
		return nil
	})
}

// wantInternalError ends the test unless a call returned an error without an error code.
func wantInternalError(t *testing.T, call string, err error) {
	t.Helper()
	if err == nil || errors.As(err, new(*affiliate.Error)) {
		t.Fatalf("%s returned %v, want an error without an error code", call, err)
	}
}

// clickStream is a click stream in memory. Its tail is its newest part, with clicks that
// may not be in the database yet. A test sets the tail. If a click is not in the tail,
// Find returns err. If panics is true, Find panics.
type clickStream struct {
	tail   []click.Click
	err    error
	panics bool
	reads  atomic.Int64
}

func (s *clickStream) Find(_ context.Context, id affiliate.ClickID) (click.Click, bool, error) {
	s.reads.Add(1)
	if s.panics {
		panic("a bug")
	}
	for _, c := range s.tail {
		if c.ID == id {
			return c, true, nil
		}
	}
	return click.Click{}, false, s.err
}
