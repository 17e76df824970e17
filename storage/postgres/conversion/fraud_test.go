package conversion_test

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// manyFacts stores so many rows that a scan of a table is more expensive than the use of
// an index: conversions with customers, origins (IP networks and user agents) of all
// users, 5,000 conversions of one participant, and clicks of several days from a few IP
// addresses.
func (s *sales) manyFacts() {
	s.Helper()
	s.partitionClicks()
	s.manySignals()
	s.Exec(`update conversions set customer_email_hash = sha256(id::text::bytea)`)
	s.ExecWithoutForeignKeys(`
		insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents, fee_cents,
			discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, program_id, participant_id, customer_ref,
			customer_email_hash, product_ids, is_recurring, fraud_score, fraud_signals, version)
		select $1, gen_random_uuid(), $2, 'many-' || n, 'purchase', 100, 'EUR', 0, 0, 0, 0, at, at, 'api', 'recorded', true, 'CLICK_MATCHED',
			gen_random_uuid(), $3, $4, 'many-' || n, sha256(n::text::bytea), '{}', false, 0, '[]', 1
		from generate_series(1, 5000) n cross join lateral (select $5::timestamptz - n * interval '1 minute' as at) as instant`,
		s.Scope.Workspace, s.Scope.Mode, s.Program, s.participant.ID, pgtest.Noon)
	s.ExecWithoutForeignKeys(`
		insert into user_origins (user_id, ip_prefix, ua_hash, seen_at)
		select id, '10.' || n || '.0.0/24', decode(md5(n::text), 'hex'), $1 from users, generate_series(1, 5) n`, pgtest.Noon)
	s.ExecWithoutForeignKeys(`insert into former_emails (user_id, digest, created_at) select id, sha256(n::text::bytea), $1 from users, generate_series(1, 5) n`, pgtest.Noon)
	for day := range 5 {
		s.ExecWithoutForeignKeys(`
			insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code, received_at, expires_at, created_at, consent, is_bot, ip_hash)
			select $1, gen_random_uuid(), $2::timestamptz + n * interval '1 second', 'live', $3, $4, gen_random_uuid(), 'pat', $2, $2, $2, 'unknown', false, decode(md5((n % 200)::text), 'hex')
			from generate_series(1, 4000) as n`, s.Scope.Workspace, pgtest.Noon.AddDate(0, 0, day-2), s.Program, s.participant.ID)
	}
	s.VacuumAnalyze()
}

// The custom and the generic plans of the statements that read the facts for a decision
// must use indexes.
func TestFraudFacts_AreReadByIndex(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	s := newSales(t)
	s.manyFacts()
	at := pgtest.Noon.Format(time.RFC3339Nano)
	facts := fmt.Sprintf(
		`'{0}', '{10.1.0.0/24}', '24 hours', '{0}', '{10.1.0.0/24}', array['\xab'::bytea], '720 hours',
			'{0}', array['\xab'::bytea], '{0}', '{%s}', '{live}', '{%s}', '{%s}', '{%s}', '{%s}', '{%s}', '{many-1}', array['\xab'::bytea], 200, 20`,
		s.Scope.Workspace, s.participant.ID, s.Program, s.participant.ID, at, at)
	for mode, plan := range s.ExecutedPlans(conversions.FindFraudFactsSQL(t), facts) {
		pgtest.CheckPlan(t, mode, plan,
			[]string{"conversions_by_participant_time", "conversions_by_customer", "conversions_by_email", "user_origins_pkey", "former_emails_pkey"}, []string{"Seq Scan", "Sort"})
	}
	clicks := fmt.Sprintf(`'{0}', '{%s}', '{live}', array['\x%x'::bytea], '{%s}', '%s', '%s', 101`, s.Scope.Workspace,
		[]byte("0123456789abcdef"), at, pgtest.Noon.Add(-time.Hour).Format(time.RFC3339Nano), at)
	for mode, plan := range s.ExecutedPlans(conversions.CountFromAddressSQL, clicks) {
		pgtest.CheckReadsOnePartition(t, mode, plan, "clicks_20260310_workspace_id_ip_hash")
	}
}

// The facts cost a limited number of pages, even if one participant has thousands of
// conversions of one customer that were all reported within an hour and occurred before it.
func TestFraudFacts_CostDoesNotGrow(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	s := newSales(t)
	s.manyFacts()
	s.Exec(`
		update conversions set customer_ref = 'guest', customer_email_hash = '\xab', created_at = $1::timestamptz - (numbered.n % 3600) * interval '1 second'
		from (select id, row_number() over () as n from conversions where external_transaction_id like 'many-%') as numbered
		where conversions.id = numbered.id`, pgtest.Noon)
	s.VacuumAnalyze()
	args := fmt.Sprintf(`'{}', '{}', '24 hours', '{}', '{}', '{}', '720 hours', '{}', '{}',
		'{0}', '{%s}', '{live}', '{%s}', '{%s}', '{%s}', '{%s}', '{%s}', '{guest}', array['\xab'::bytea], 200, 20`,
		s.Scope.Workspace, s.participant.ID, s.Program, s.participant.ID, pgtest.Noon.Format(time.RFC3339Nano), pgtest.Noon.AddDate(1, 0, 0).Format(time.RFC3339Nano))
	for mode, plan := range s.ExecutedPlans(conversions.FindFraudFactsSQL(t), args) {
		if pages := pagesRead(t, plan); pages > 400 {
			t.Errorf("%s: the statement reads %d pages, want at most 400\n%s", mode, pages, plan)
		}
	}
}

// pagesRead returns the number of pages that an executed plan has read from memory or disk.
func pagesRead(t testing.TB, plan string) (pages int) {
	t.Helper()
	_, buffers, found := strings.Cut(plan, "Buffers: shared ")
	if !found {
		t.Fatalf("the plan shows no pages\n%s", plan)
	}
	buffers, _, _ = strings.Cut(buffers, "\n") // the first line is the sum of the whole plan
	for _, part := range regexp.MustCompile(`(?:hit|read)=(\d+)`).FindAllStringSubmatch(buffers, -1) {
		n, err := strconv.Atoi(part[1])
		if err != nil {
			t.Fatal(err)
		}
		pages += n
	}
	return pages
}

// statementRecorder is a tracer that records the statements of a connection and counts
// their batches. Each batch is one round trip.
type statementRecorder struct {
	texts   []string
	batches int
}

func (n *statementRecorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	n.texts = append(n.texts, data.SQL)
	return ctx
}

func (n *statementRecorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (n *statementRecorder) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	n.batches++
	return ctx
}

func (n *statementRecorder) TraceBatchQuery(_ context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData) {
	n.texts = append(n.texts, data.SQL)
}

func (n *statementRecorder) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

func TestFraudFacts_AreReadOnlyForProgrammesWithRules(t *testing.T) {
	s := newSales(t)
	for i, tc := range []struct {
		policy fraud.Policy
		hash   []byte
		facts  bool // the facts must be read
		clicks bool // the clicks from the IP address must be counted
	}{
		{fraud.Off, []byte("hash"), false, false},
		{fraud.Observe, nil, true, false},
		{fraud.Flag, []byte("hash"), true, true},
	} {
		s.Exec(`update programs set fraud_policy = $1`, tc.policy)
		click := s.NewClick(s.participant, func(c *click.Click) { c.IPHash = tc.hash })
		recorder := &statementRecorder{}
		if err := s.withDB(s.OpenWith(postgres.Config{Tracer: recorder})).record(fmt.Sprintf("order-%d", i), click.ID); err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(recorder.texts, conversions.FindFraudFactsSQL(t)); got != tc.facts {
			t.Errorf("with the policy %s, the store read the facts: %t, want %t", tc.policy, got, tc.facts)
		}
		if got := slices.Contains(recorder.texts, conversions.CountFromAddressSQL); got != tc.clicks {
			t.Errorf("with the policy %s, the store counted clicks: %t, want %t", tc.policy, got, tc.clicks)
		}
	}
}

// The traits of a click are the data that the fraud rules check. They must be the same
// for a stored click and for a click that is still in the click stream.
func TestFind_ReturnsTheStoredTraits(t *testing.T) {
	s := newSales(t)
	stored := s.UnstoredClick(s.participant)
	stored.ReferrerDomain, stored.IPHash, stored.IPPrefix, stored.UAHash = "news.example", []byte("0123456789abcdef"), "203.0.113.0/24", []byte("0123456789abcdef")
	stored.Country, stored.PaidPlatform, stored.IsBot = "AQ", "google", true
	stored.UTM = click.UTM{Source: "s", Medium: "m", Term: "t"}
	bare := stored
	bare.ID = affiliate.NewID[affiliate.ClickID](stored.ClickedAt)
	bare.Country, bare.PaidPlatform, bare.ReferrerDomain, bare.UTM, bare.IsBot = "", "", "", click.UTM{}, false
	bare.IPHash, bare.IPPrefix, bare.UAHash = nil, "", nil
	both := []click.Click{stored, bare}
	if err := clicks.Store(t.Context(), s.DB, both); err != nil {
		t.Fatal(err)
	}
	for _, c := range both {
		found, err := conversions.NewClicks(s.DB).Find(t.Context(), s.Scope.Workspace, c.ID)
		if err != nil || found == nil {
			t.Fatalf("Find returned %v, %v, want the click", found, err)
		}
		if !reflect.DeepEqual(found.ClickTraits, attribution.TraitsOf(c)) {
			t.Errorf("the traits of the click are %+v, want %+v", found.ClickTraits, attribution.TraitsOf(c))
		}
	}
}
