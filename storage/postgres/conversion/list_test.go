package conversion_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/fraud"
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
	links        []affiliate.LinkID
}

// newConversionFixture stores conversions: the given number of rows in the fixture's
// scope and a third of this number in each of three other scopes. The newest conversion
// is at noon. Each following conversion is older by the duration step. One in 20
// conversions is not attributed, one in 10 is a lead, one in 50 is refunded, and one in 25 is
// suspicious, half of them flagged. There are 50 links and 50 promo codes. Two participants
// belong to one partner.
func newConversionFixture(t *testing.T, rows int, step time.Duration) *conversionFixture {
	t.Helper()
	f := &conversionFixture{fixture: newFixture(t)}
	other := f.NewShop(affiliate.ModeLive)
	for _, shop := range []*pgtest.Shop{f.Shop, f.InOtherMode(), other, other.InOtherMode()} {
		count := rows / 3
		programs := []affiliate.ProgramID{shop.Program, f.NewProgram(shop.Scope)}
		var participants []affiliate.ParticipantID
		for range 10 {
			partner := f.NewPartner("Pat")
			for _, program := range programs {
				participants = append(participants, f.NewParticipant(shop.Scope, program, partner).ID)
			}
		}
		links := make([]affiliate.LinkID, 100)
		for i := range links {
			links[i] = affiliate.NewID[affiliate.LinkID](pgtest.Noon)
		}
		f.ExecWithoutForeignKeys(`
			insert into links (workspace_id, id, program_id, participant_id, mode, code, short_key, destination_url, is_default, created_at, updated_at)
			select $1, id, $3, $4, $2, id::text, id::text, 'https://shop.example', false, $6, $6 from unnest($5::uuid[]) id`,
			shop.Scope.Workspace, shop.Scope.Mode, shop.Program, participants[0], links, pgtest.Noon)
		if shop == f.Shop {
			count, f.programs, f.participants, f.links = rows, programs, participants, links
		}
		f.ExecWithoutForeignKeys(`
			insert into conversions (workspace_id, id, mode, external_transaction_id, event_type, amount_cents, currency, tax_cents, shipping_cents, fee_cents,
				discount_cents, occurred_at, created_at, source, status, attributed, reason_code, decision_id, program_id, participant_id, product_ids,
				is_recurring, fraud_score, fraud_signals, version, customer_ref, link_id, promo_code)
			select $1, gen_random_uuid(), $2, 'order-' || n, case when n % 10 = 5 then 'lead' else 'purchase' end, n, 'EUR', 1, 2, 3, 4,
				$5::timestamptz - n * $7::interval, $5::timestamptz - n * $7::interval, 'api', case when n % 50 = 3 then 'refunded' else 'recorded' end, n % 20 <> 0,
				case when n % 20 = 0 then 'CLICK_UNKNOWN' else 'CLICK_MATCHED' end, gen_random_uuid(),
				case when n % 20 <> 0 then ($3::uuid[])[1 + n % 2] end, case when n % 20 <> 0 then ($4::uuid[])[1 + n % 20] end,
				'{}', false, case when n % 25 = 1 then 60 else 0 end, '[]', 1, 'customer-' || n % 1000,
				case when n % 2 = 1 then ($8::uuid[])[1 + n % 100] end, case when n % 4 = 1 then 'code-' || n % 200 end
			from generate_series(0, $6::integer - 1) n`, shop.Scope.Workspace, shop.Scope.Mode, programs, participants, pgtest.Noon, count, step, links)
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
		select workspace_id, decision_id, mode, program_id, participant_id, id, 60, '[]',
			case when fraud_score > 0 and amount_cents % 2 = 0 then 'flagged' else 'observed' end, 'open', created_at
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
	// The table of programmes has one page.
	scans := pgtest.ScansOf("conversions", "attribution_decisions", "commissions", "fraud_events", "customers", "participants")
	f.CheckSearchPlan(func(db *postgres.DB) ([]affiliate.Hit, error) {
		return conversions.Search(t.Context(), db, f.Scope, "order-77")
	}, "conversions_external", "conversions_pkey")
	for name, c := range map[string]struct {
		filter conversion.Filter
		page   affiliate.Page
		index  string // index that the plan of the page must use
	}{
		"status":           {conversion.Filter{Status: conversion.Refunded}, newest, "conversions_by_status"},
		"status and dates": {conversion.Filter{Status: conversion.Refunded, Created: affiliate.Period{From: &monday}}, newest, "conversions_by_status"},
		"link":             {conversion.Filter{Link: &f.links[1]}, newest, "conversions_by_link"},
		"promo code":       {conversion.Filter{PromoCode: "code-5"}, newest, "conversions_by_promo_code"},
		"all":              {conversion.Filter{}, newest, "conversions_by_age"},
		"a later page":     {conversion.Filter{}, deep, "conversions_by_age"},
		"dates":            {conversion.Filter{Created: affiliate.Period{From: &monday, Before: &tuesday}}, newest, "conversions_by_age"},
		"attributed":       {conversion.Filter{Attributed: new(true)}, newest, "conversions_by_attributed"},
		"not attributed":   {conversion.Filter{Attributed: new(false)}, newest, "conversions_by_attributed"},
		"event":            {conversion.Filter{EventType: affiliate.Lead}, newest, "conversions_by_event_type"},
		"external id":      {conversion.Filter{ExternalTransactionID: "order-77"}, newest, "conversions_external"},
		"programme":        {conversion.Filter{Program: &f.programs[0]}, newest, "conversions_by_program"},
		"participant":      {conversion.Filter{Participant: &f.participants[3]}, newest, "conversions_by_participant_time"},
		"programme and dates": {
			conversion.Filter{Program: &f.programs[0], Created: affiliate.Period{From: &monday}}, deep, "conversions_by_program",
		},
	} {
		t.Run(name, func(t *testing.T) {
			list, listArgs, count, countArgs := conversions.ConversionListSQL(f.Scope, c.filter, nil, c.page)
			// The plan must read the keys of the page from the index alone and in order.
			want := "Limit -> Index Only Scan using " + c.index
			if c.index == "conversions_external" {
				want = "Index Scan using " + c.index
			}
			pgtest.CheckPlan(t, "page", f.Plan(list, listArgs...), []string{want, "conversions_pkey", "attribution_decisions_pkey", "commissions_decision", "customers_pkey"}, scans)
			// The plan of the total may use any index, but this index must cover all
			// conditions.
			pgtest.CheckPlan(t, "total", f.Plan(count, countArgs...), []string{"Index Only Scan"}, []string{"Filter"})
		})
	}

	// These filters also read the table or the fraud events.
	for name, c := range map[string]struct {
		filter       conversion.Filter
		participants []affiliate.ParticipantID
		page, count  string // parts of the plans
	}{
		"flagged":     {conversion.Filter{Flagged: new(true)}, nil, "Scan using conversions_suspicious", "conversions_suspicious"},
		"not flagged": {conversion.Filter{Flagged: new(false)}, nil, "Scan using conversions_by_age", "conversions"},
		"recorded":    {conversion.Filter{Status: conversion.Recorded}, nil, "Scan using conversions_by_age", "conversions"},
		"customer":    {conversion.Filter{CustomerRef: new("customer-77")}, nil, "conversions_by_customer", "conversions_by_customer"},
		"partner": {
			conversion.Filter{}, f.participants[2:4], "Limit -> Index Only Scan using conversions_by_participant_time", "Index Only Scan using conversions_by_participant_time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			list, listArgs, count, countArgs := conversions.ConversionListSQL(f.Scope, c.filter, c.participants, newest)
			pgtest.CheckPlan(t, "page", f.Plan(list, listArgs...), []string{c.page, "conversions_pkey", "attribution_decisions_pkey", "commissions_decision"}, scans)
			pgtest.CheckPlan(t, "total", f.Plan(count, countArgs...), []string{c.count}, nil)
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

// The statement of the list has the same limit, so Postgres can use the index.
func TestConversions_IndexOfSuspiciousScores(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	want := fmt.Sprintf("(fraud_score >= %d)", fraud.SuspiciousScore)
	if got := f.Texts(`select indexdef from pg_indexes where indexname = 'conversions_suspicious'`)[0]; !strings.Contains(got, want) {
		t.Errorf("the index is %s, want the condition %s", got, want)
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
		Status      conversion.Status
		Flagged     bool
		Link        *affiliate.LinkID
		PromoCode   *string
		Partner     *affiliate.UserID
		CustomerRef *string
	}
	rows, _ := f.SQL.Query(t.Context(), `
		select c.id, external_transaction_id as external, event_type as event, c.created_at as at, attributed, c.program_id as program, participant_id as participant,
			c.status, link_id as link, promo_code, t.partner_id as partner, customer_ref,
			exists (select from fraud_events f where f.id = c.decision_id and f.action <> 'observed') as flagged
		from conversions c left join participants t on t.id = c.participant_id
		where c.workspace_id = $1 and c.mode = $2 order by c.created_at desc, c.id desc`, f.Scope.Workspace, f.Scope.Mode)
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
		if oneIn(6) {
			filter.Status = []conversion.Status{conversion.Recorded, conversion.Refunded, conversion.Disputed}[random.IntN(3)]
		}
		if oneIn(6) {
			flagged := oneIn(2)
			filter.Flagged = &flagged
		}
		if sample := all[random.IntN(len(all))]; oneIn(3) {
			switch random.IntN(4) {
			case 0:
				filter.Link = sample.Link
			case 1:
				filter.Partner = sample.Partner
			case 2:
				filter.CustomerRef = sample.CustomerRef
			default:
				filter.PromoCode = fmt.Sprintf("code-%d", random.IntN(8))
			}
		}
		if oneIn(10) {
			filter.ExternalTransactionID = fmt.Sprintf("order-%d", random.IntN(310))
		}
		var want []affiliate.ConversionID
		for _, r := range all {
			if filter.Created.Contains(r.At) && (filter.Attributed == nil || *filter.Attributed == r.Attributed) && (filter.EventType == "" || filter.EventType == r.Event) &&
				(filter.ExternalTransactionID == "" || filter.ExternalTransactionID == r.External) && matchesID(filter.Program, r.Program) && matchesID(filter.Participant, r.Participant) &&
				(filter.Status == "" || filter.Status == r.Status) && (filter.Flagged == nil || *filter.Flagged == r.Flagged) && matchesID(filter.Link, r.Link) &&
				(filter.PromoCode == "" || matchesID(&filter.PromoCode, r.PromoCode)) && matchesID(filter.Partner, r.Partner) && matchesID(filter.CustomerRef, r.CustomerRef) {
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
