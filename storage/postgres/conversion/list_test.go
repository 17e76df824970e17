package conversion_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// conversionFixture is a shop with conversions of two programmes. Each programme has ten
// participants. The other mode of the shop and another shop have conversions too.
type conversionFixture struct {
	*fixture
	programs     []affiliate.ProgramID
	participants []affiliate.ParticipantID
}

// newConversionFixture stores conversions: the given number of rows in the fixture's
// scope and a third of this number in each of three other scopes. The newest conversion
// is at noon. Each following conversion is older by the duration step. One in 20
// conversions is not attributed, and one in 10 is a lead.
func newConversionFixture(t *testing.T, rows int, step time.Duration) *conversionFixture {
	t.Helper()
	f := &conversionFixture{fixture: newFixture(t)}
	other := f.NewShop(affiliate.ModeLive)
	for _, shop := range []*pgtest.Shop{f.Shop, f.InOtherMode(), other, other.InOtherMode()} {
		count := rows / 3
		programs := []affiliate.ProgramID{shop.Program, f.NewProgram(shop.Scope)}
		var participants []affiliate.ParticipantID
		for i := range 20 {
			participants = append(participants, f.NewParticipant(shop.Scope, programs[i%2], f.NewPartner(strconv.Itoa(i))).ID)
		}
		if shop == f.Shop {
			count, f.programs, f.participants = rows, programs, participants
		}
		f.ExecWithoutForeignKeys(`
			insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents, fee_cents,
				discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, program_id, participant_id, product_ids,
				is_recurring, fraud_score, fraud_signals, version, customer_ref)
			select $1, gen_random_uuid(), $2, 'order-' || n, case when n % 10 = 5 then 'lead' else 'purchase' end, n, 'EUR', 1, 2, 3, 4,
				$5::timestamptz - n * $7::interval, $5::timestamptz - n * $7::interval, 'api', 'recorded', n % 20 <> 0,
				case when n % 20 = 0 then 'CLICK_UNKNOWN' else 'CLICK_MATCHED' end, gen_random_uuid(),
				case when n % 20 <> 0 then ($3::uuid[])[1 + n % 2] end, case when n % 20 <> 0 then ($4::uuid[])[1 + n % 20] end,
				'{}', false, 0, '[]', 1, 'customer-' || n % 1000
			from generate_series(0, $6::integer - 1) n`, shop.Scope.Workspace, shop.Scope.Mode, programs, participants, pgtest.Noon, count, step)
	}
	f.ExecWithoutForeignKeys(`
		insert into customers (workspace_id, mode, ref, label, created_at)
		select distinct workspace_id, mode, customer_ref, customer_ref, $1::timestamptz from conversions`, pgtest.Noon)
	f.ExecWithoutForeignKeys(`
		insert into attribution_decisions (workspace_id, id, conversion_id, mode, attributed, method, reason_code, explanation, engine_version,
			program_id, participant_id, trace, decided_at)
		select workspace_id, decision_id, id, mode, attributed, case when attributed then 'click' end, reason_code, 'Because.', '1',
			program_id, participant_id, '{}', created_at from conversions`)
	f.ExecWithoutForeignKeys(`
		insert into commissions (workspace_id, id, mode, program_id, participant_id, partner_id, conversion_id, decision_id, external_transaction_id, status,
			commission_type, event_type, rate_bps, amount_cents, original_amount_cents, currency, base_amount_cents, sale_amount_cents, sale_currency,
			needs_review, review_reasons, dispute_status, rule_snapshot, version, created_at, updated_at)
		select workspace_id, gen_random_uuid(), mode, program_id, participant_id, participant_id, id, decision_id, external_transaction_id, 'pending',
			'percentage', 'purchase', 1000, amount_cents, amount_cents, 'EUR', 100, 100, 'EUR', false, '{}', 'none', '{}', 1, created_at, created_at
		from conversions where attributed`)
	f.ExecWithoutForeignKeys(`
		insert into fraud_events (workspace_id, id, mode, program_id, participant_id, conversion_id, score, signals, action, status, created_at)
		select workspace_id, decision_id, mode, program_id, participant_id, id, 60, '[]', 'observed', 'open', created_at
		from conversions where attributed`)
	return f
}

func TestConversions_ReadIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newConversionFixture(t, 12_000, time.Minute)
	f.VacuumAnalyze()
	monday, tuesday := pgtest.Noon.AddDate(0, 0, -6), pgtest.Noon.AddDate(0, 0, -5)
	newest, deep := affiliate.Page{Number: 1, Size: 20}, affiliate.Page{Number: 100, Size: 20}
	for name, c := range map[string]struct {
		filter conversion.Filter
		page   affiliate.Page
		index  string // index that the plan of the page must use
	}{
		"all":            {conversion.Filter{}, newest, "conversions_by_age"},
		"a later page":   {conversion.Filter{}, deep, "conversions_by_age"},
		"dates":          {conversion.Filter{Created: affiliate.Period{From: &monday, Before: &tuesday}}, newest, "conversions_by_age"},
		"attributed":     {conversion.Filter{Attributed: new(true)}, newest, "conversions_by_attributed"},
		"not attributed": {conversion.Filter{Attributed: new(false)}, newest, "conversions_by_attributed"},
		"event":          {conversion.Filter{EventType: affiliate.Lead}, newest, "conversions_by_event_type"},
		"external id":    {conversion.Filter{ExternalTransactionID: "order-77"}, newest, "conversions_external"},
		"programme":      {conversion.Filter{Program: &f.programs[0]}, newest, "conversions_by_program"},
		"participant":    {conversion.Filter{Participant: &f.participants[3]}, newest, "conversions_by_participant_time"},
		"programme and dates": {
			conversion.Filter{Program: &f.programs[0], Created: affiliate.Period{From: &monday}}, deep, "conversions_by_program",
		},
	} {
		t.Run(name, func(t *testing.T) {
			list, listArgs, count, countArgs := conversions.ConversionListSQL(f.Scope, c.filter, c.page)
			// The plan must read the keys of the page from the index alone and in order.
			want := "Limit -> Index Only Scan using " + c.index
			if c.index == "conversions_external" {
				want = "Index Scan using " + c.index
			}
			pgtest.CheckPlan(t, "page", f.Plan(list, listArgs...), []string{want, "conversions_pkey", "attribution_decisions_pkey", "commissions_decision", "customers_pkey"}, pgtest.ScansOf(""))
			// The plan of the total may use any index, but this index must cover all
			// conditions.
			pgtest.CheckPlan(t, "total", f.Plan(count, countArgs...), []string{"Index Only Scan"}, []string{"Filter"})
		})
	}

	items, total, err := conversions.List(t.Context(), f.DB, f.Scope, conversion.Filter{}, newest)
	if err != nil || len(items) != 20 || total != 12_000 {
		t.Errorf("Conversions returned %d items and the total %d, %v, want 20 and 12000", len(items), total, err)
	}
	for _, page := range []affiliate.Page{{Number: 120, Size: 100}, {Number: 121, Size: 100}} {
		if _, total, err := conversions.List(t.Context(), f.DB, f.Scope, conversion.Filter{}, page); err != nil || total != 12_000 {
			t.Errorf("page %d has the total %d, %v, want 12000", page.Number, total, err)
		}
	}
}

// For random filters, the pages together must have the conversions that the test selects
// from all conversions.
func TestConversions_ReturnEachRowOnce(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newConversionFixture(t, 300, 0) // many conversions have the same time
	random := rand.New(rand.NewPCG(3, 5))
	f.Exec(`update conversions set created_at = created_at - (amount_cents % 7) * interval '1 hour'`)
	f.Exec(`analyze`)
	type row struct {
		ID          affiliate.ConversionID
		External    string
		Event       affiliate.EventType
		At          time.Time
		Attributed  bool
		Program     *affiliate.ProgramID
		Participant *affiliate.ParticipantID
	}
	rows, _ := f.SQL.Query(t.Context(), `
		select id, external_transaction_id as external, event_type as event, created_at as at, attributed, program_id as program, participant_id as participant
		from conversions where workspace_id = $1 and mode = $2 order by created_at desc, id desc`, f.Scope.Workspace, f.Scope.Mode)
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
	if err != nil {
		t.Fatal(err)
	}
	// oneIn returns true with the probability 1/n.
	oneIn := func(n int) bool { return random.IntN(n) == 0 }
	for range 60 {
		var filter conversion.Filter
		if oneIn(3) {
			attributed := oneIn(2)
			filter.Attributed = &attributed
		}
		if oneIn(3) {
			filter.EventType = []affiliate.EventType{affiliate.Lead, affiliate.Purchase, affiliate.Trial}[random.IntN(3)]
		}
		if oneIn(4) {
			filter.Program = &f.programs[random.IntN(2)]
		}
		if oneIn(4) {
			filter.Participant = &f.participants[random.IntN(20)]
		}
		if oneIn(3) {
			from := pgtest.Noon.Add(-time.Duration(random.IntN(8)) * time.Hour)
			filter.Created.From = &from
		}
		if oneIn(3) {
			before := pgtest.Noon.Add(-time.Duration(random.IntN(8)) * time.Hour)
			filter.Created.Before = &before
		}
		if oneIn(10) {
			filter.ExternalTransactionID = fmt.Sprintf("order-%d", random.IntN(310))
		}
		var want []affiliate.ConversionID
		for _, r := range all {
			if filter.Created.Contains(r.At) && (filter.Attributed == nil || *filter.Attributed == r.Attributed) && (filter.EventType == "" || filter.EventType == r.Event) &&
				(filter.ExternalTransactionID == "" || filter.ExternalTransactionID == r.External) && matchesID(filter.Program, r.Program) && matchesID(filter.Participant, r.Participant) {
				want = append(want, r.ID)
			}
		}
		var got []affiliate.ConversionID
		for page := (affiliate.Page{Number: 1, Size: 1 + random.IntN(100)}); ; page.Number++ {
			items, total, err := conversions.List(t.Context(), f.DB, f.Scope, filter, page)
			if err != nil || total != int64(len(want)) {
				t.Fatalf("filter %+v: the total is %d, %v, want %d", filter, total, err, len(want))
			}
			for _, item := range items {
				got = append(got, item.Conversion.ID)
			}
			if len(items) == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("filter %+v: the pages have the conversions %v, want %v", filter, got, want)
		}
	}
}

func matchesID[T comparable](want, got *T) bool { return want == nil || got != nil && *want == *got }

func TestDropExpiredIdempotencyKeys(t *testing.T) {
	f := newFixture(t)
	for i := range 5 {
		key := affiliate.IdempotencyKey{Method: "m", Key: strconv.Itoa(i), Fingerprint: []byte{1}, At: pgtest.Noon.Add(time.Duration(i) * time.Hour)}
		if _, err := postgres.ClaimKeyAlone(t.Context(), f.DB, f.Scope, key); err != nil {
			t.Fatal(err)
		}
	}
	now := pgtest.Noon.Add(affiliate.IdempotencyTTL + 3*time.Hour)
	for _, want := range []int64{3, 1, 0} {
		if n, err := postgres.DropExpiredIdempotencyKeys(t.Context(), f.DB, now, 3); err != nil || n != want {
			t.Errorf("DropExpiredIdempotencyKeys dropped %d keys, %v, want %d", n, err, want)
		}
	}
	if remaining := f.Texts(`select key from idempotency_keys`); !slices.Equal(remaining, []string{"4"}) {
		t.Errorf("the keys %v remain, want only 4", remaining)
	}

	f.Exec(`
		insert into idempotency_keys (workspace_id, mode, method, key, fingerprint, created_at, expires_at)
		select $1, 'test', 'm', n::text, '', $2, $2::timestamptz + n * interval '1 second' from generate_series(1, 20000) n`, f.Scope.Workspace, pgtest.Noon)
	f.VacuumAnalyze("idempotency_keys")
	plans := f.PlansOf(func(db *postgres.DB) error {
		_, err := postgres.DropExpiredIdempotencyKeys(t.Context(), db, pgtest.Noon.Add(time.Minute), 1000)
		return err
	})
	pgtest.CheckPlan(t, "expired keys", plans[0], []string{"idempotency_keys_by_expiry"}, pgtest.ScansOf("idempotency_keys"))
}
