package buyer_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"sort"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/server/privacy/buyer"
	"github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

var hashKeys = privacy.BuyerKeys{[]byte("key of the tests")}

const (
	processing = affiliatev1.BuyerErasureStatus_BUYER_ERASURE_STATUS_PROCESSING
	done       = affiliatev1.BuyerErasureStatus_BUYER_ERASURE_STATUS_DONE
	failed     = affiliatev1.BuyerErasureStatus_BUYER_ERASURE_STATUS_FAILED
)

// fixture is a shop in test mode, the same workspace in live mode, and the service under test.
// Pat is an approved participant in each mode.
type fixture struct {
	*pgtest.Shop
	live        *pgtest.Shop
	pat, livePa pgtest.Participant
	service     *buyer.Service
	log         *recordedLog
	conversions *conversion.Service
	keys        affiliate.HashKeys
	processors  *processor.Service
	clock       *pgtest.Clock
	// anonymousClicks makes report use clicks without data about the visitor.
	anonymousClicks bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewRunningClock()
	return newFixtureIn(pgtest.Open(t, clock.Now), clock)
}

// newFixtureIn returns a fixture with a new workspace in a database.
func newFixtureIn(db *pgtest.Fixture, clock *pgtest.Clock) *fixture {
	db.Helper()
	f := &fixture{Shop: db.NewShop(affiliate.ModeTest, pgtest.Rules(), pgtest.Row{"fraud_policy": "flag"}), clock: clock, log: &recordedLog{}}
	f.live = f.InOtherMode(pgtest.Rules(), pgtest.Row{"fraud_policy": "flag"})
	f.pat, f.livePa = f.Join("Pat"), f.live.Join("Pat")
	f.useKeys(affiliate.HashKeys(hashKeys))
	return f
}

// useKeys makes the services use other hash keys. The database must use the same keys.
func (f *fixture) useKeys(keys affiliate.HashKeys) {
	quiet := slog.New(slog.DiscardHandler)
	f.keys = keys
	f.conversions = conversion.New(conversion.Config{DB: f.DB, Tail: emptyTail{}, HashKeys: keys, Now: f.clock.Now, Log: quiet})
	f.processors = processor.New(processor.Config{
		DB: f.DB, Sales: f.conversions, Seal: servertest.Seal(f.TB), PublicURL: "https://api.example", Log: quiet, Now: f.clock.Now,
	})
	f.service = f.newService(f.DB)
}

func (f *fixture) newService(db *postgres.DB) *buyer.Service {
	return buyer.New(buyer.Config{
		DB: db, Events: f.processors, ErasureLog: f.log, Analytics: analytics.New(f.DB, slog.New(slog.DiscardHandler), f.clock.Now),
		BuyerKeys: privacy.BuyerKeys(f.keys), ErasureKeys: privacy.NewErasureKeys(f.keys),
		Log: slog.New(slog.DiscardHandler), Now: f.clock.Now,
	})
}

// addAnalytics adds all clicks and conversions to the sums of the analytics.
func (f *fixture) addAnalytics() {
	f.Helper()
	if err := f.service.Analytics.AddAll(f.Context(), f.Scope.Workspace); err != nil {
		f.Fatal(err)
	}
}

// emptyTail is a click stream without entries.
type emptyTail struct{}

func (emptyTail) Find(context.Context, affiliate.ClickID) (click click.Click, ok bool, err error) {
	return click, false, nil
}

// recordedLog is an erasure log in memory. It fails with err.
type recordedLog struct {
	entries []privacy.ErasureLogEntry
	err     error
}

func (l *recordedLog) Append(entry privacy.ErasureLogEntry) error {
	if l.err == nil {
		l.entries = append(l.entries, entry)
	}
	return l.err
}

// useHook makes the service use a database whose hook sees the service's statements.
func (f *fixture) useHook(hook pgtest.Hook) {
	f.Helper()
	f.service = f.newService(f.OpenHooked(hook))
}

// as returns the context of a call of the owner with an Idempotency-Key.
func (f *fixture) as(key string) context.Context {
	ctx := servertest.AsMember(f.TB, f.Scope, f.Owner, affiliate.RoleOwner)
	return metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
}

type identity = affiliatev1.BuyerIdentity

func byEmail(value string) *identity       { return &identity{Email: &value} }
func byCustomer(value string) *identity    { return &identity{CustomerId: &value} }
func byTransaction(value string) *identity { return &identity{ExternalTransactionId: &value} }
func byProcessor(value string) *identity   { return &identity{ProcessorCustomerId: &value} }

func (f *fixture) request(key string, who *identity) (string, error) {
	response, err := f.service.EraseBuyer(f.as(key), &affiliatev1.EraseBuyerRequest{Confirmation: new("DELETE"), Buyer: who})
	if err == nil && response.GetState() != processing {
		f.Errorf("state %s, want processing", response.GetState())
	}
	return response.GetOperationId(), err
}

func (f *fixture) mustRequest(key string, who *identity) string {
	f.Helper()
	id, err := f.request(key, who)
	if err != nil {
		f.Fatal(err)
	}
	return id
}

func (f *fixture) status(operation string) affiliatev1.BuyerErasureStatus {
	f.Helper()
	state, err := f.service.GetBuyerErasure(f.as(""), &affiliatev1.GetBuyerErasureRequest{OperationId: operation})
	if err != nil {
		f.Fatal(err)
	}
	return state.GetStatus()
}

func (f *fixture) job(operation string) privacy.EraseBuyer {
	id, _ := affiliate.ParseID[privacy.BuyerErasureID](operation)
	return privacy.EraseBuyer{Workspace: f.Scope.Workspace, Operation: id}
}

// work runs the job of an operation until it ends.
func (f *fixture) work(operation string) {
	f.Helper()
	for range 100 {
		wait, err := f.service.Work(f.Context(), f.job(operation))
		if err != nil {
			f.Fatal(err)
		}
		if wait == 0 {
			return
		}
		f.clock.Advance(wait)
	}
	f.Fatal("the job does not end")
}

// erase requests the erasure of a buyer and runs its job.
func (f *fixture) erase(key string, who *identity) string {
	f.Helper()
	operation := f.mustRequest(key, who)
	f.work(operation)
	if got := f.status(operation); got != done {
		f.Fatalf("status %s, want done", got)
	}
	return operation
}

// order reports a purchase of 100 EUR of a buyer in a mode. change modifies the report.
func (f *fixture) order(p pgtest.Participant, external string, change ...func(*affiliatev1.ReportConversionRequest)) affiliate.ConversionID {
	f.Helper()
	id, err := f.report(p, external, "", change...)
	if err != nil {
		f.Fatal(err)
	}
	return id
}

func (f *fixture) report(p pgtest.Participant, external, key string, change ...func(*affiliatev1.ReportConversionRequest)) (affiliate.ConversionID, error) {
	click := f.NewClick(p, func(c *click.Click) {
		if f.anonymousClicks {
			return
		}
		c.LandingURL, c.Language, c.Screen, c.IPPrefix, c.SubID = "https://shop.example/"+external, "nl", "1x1", "198.51.100.0/24", "sub-"+external
		c.IPHash, c.UAHash, c.Country = []byte("ip of "+external), []byte("ua of "+external), "NL"
	})
	req := &affiliatev1.ReportConversionRequest{
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: external,
		AmountCents: new(int64(10_000)), Currency: new("eur"), ClickId: new(click.ID.String()),
	}
	for _, c := range change {
		c(req)
	}
	ctx := servertest.AsSecretKey(f.TB, p.Scope)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	response, err := f.conversions.ReportConversion(ctx, req)
	if err != nil {
		return affiliate.ConversionID{}, err
	}
	id, _ := affiliate.ParseID[affiliate.ConversionID](response.GetId())
	return id, nil
}

func (f *fixture) refund(scope affiliate.Scope, external, refund string, cents int64) (*affiliatev1.Refund, error) {
	return f.conversions.RefundConversion(servertest.AsSecretKey(f.TB, scope), &affiliatev1.RefundConversionRequest{
		ExternalTransactionId: external, ExternalRefundId: refund, AmountCents: &cents, Reason: new("reason of " + refund),
	})
}

// dispute reports that 10 of a sale's 100 euros are disputed.
func (f *fixture) dispute(scope affiliate.Scope, external, dispute string, status affiliatev1.DisputeStatus) (*affiliatev1.Dispute, error) {
	return f.conversions.ReportDispute(servertest.AsSecretKey(f.TB, scope), &affiliatev1.ReportDisputeRequest{
		ExternalTransactionId: external, ExternalDisputeId: dispute, Status: status, AmountCents: new(int64(1_000)),
	})
}

// dump returns all rows of all tables as texts. The keys are the names of the tables.
func (f *fixture) dump() map[string][]string {
	f.Helper()
	tables := f.Texts(`
		select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') order by 1`)
	all := map[string][]string{}
	for _, table := range tables {
		rows := f.Texts(`select t::text from ` + table + ` t`)
		sort.Strings(rows)
		all[table] = rows
	}
	return all
}

// requireAbsent reports each value that a row of the database contains, as a text or in
// hexadecimal digits.
func (f *fixture) requireAbsent(values ...string) {
	f.Helper()
	for table, rows := range f.dump() {
		for _, row := range rows {
			for _, value := range values {
				if strings.Contains(row, value) || strings.Contains(row, hex.EncodeToString([]byte(value))) {
					f.Errorf("%s contains %q: %s", table, value, row)
				}
			}
		}
	}
}

// requirePresent ends the test if a value is in no row, so that requireAbsent proves
// something.
func (f *fixture) requirePresent(values ...string) {
	f.Helper()
	var all strings.Builder
	for _, rows := range f.dump() {
		all.WriteString(strings.Join(rows, "\n"))
	}
	for _, value := range values {
		if text := all.String(); !strings.Contains(text, value) && !strings.Contains(text, hex.EncodeToString([]byte(value))) {
			f.Fatalf("no row contains %q before the erasure", value)
		}
	}
}

// money returns what an erasure must not change: the amounts of conversions, commissions,
// refunds, payouts and the ledger.
func (f *fixture) money() string {
	f.Helper()
	var lines []string
	for _, query := range []string{
		`select (id, mode, event_type, amount_cents, currency, tax_cents, refunded_amount_cents, status, attributed, reason_code, program_id, participant_id, version, created_at)::text from conversions order by id`,
		`select (id, conversion_id, status, amount_cents, original_amount_cents, base_amount_cents, needs_review, review_reasons, dispute_status, version, rule_snapshot)::text from commissions order by id`,
		`select t::text from ledger_entries t order by id`, `select t::text from ledger_balances t order by t::text`, `select t::text from commission_history t order by t::text`,
		`select (id, conversion_id, asked_cents, amount_cents)::text from refunds order by id`,
		`select (conversion_id, amount_cents, refunded_cents)::text from processor_charges order by 1`,
		`select (id, conversion_id, attributed, method, reason_code, explanation, program_id, participant_id)::text from attribution_decisions order by id`,
		`select t::text from stats_deltas t order by t::text`,
	} {
		lines = append(lines, f.Texts(query)...)
	}
	return strings.Join(lines, "\n")
}

// hashesOf returns the hashes of a buyer that conversions store, in hexadecimal digits.
func (f *fixture) hashesOf(email string, customers ...string) []string {
	hash, _, ok := hashKeys.Email(f.Scope.Workspace, email)
	if !ok {
		panic(fmt.Sprintf("not an address: %s", email))
	}
	hashes := []string{hex.EncodeToString(hash.First())}
	for _, id := range customers {
		hashes = append(hashes, hashKeys.CustomerRefs(f.Scope.Workspace, id)...)
	}
	return hashes
}
