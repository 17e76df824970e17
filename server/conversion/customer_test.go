package conversion_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestCustomer_IsBoundByFirstAttributedEvent(t *testing.T) {
	f := newFixture(t)
	f.reportUnattributed(purchaseBy("ann", "order-0", f.unknownClick()))
	f.wantRows(1, `customers where program_id is null and bound_at is null`)

	first := purchaseBy("ann", "order-1", f.NewClick(f.pat).ID)
	first.OccurredAt = timestamppb.New(f.clock.Now().Add(2 * time.Minute))
	r := f.mustReport(first)
	f.wantRows(1, `customers c join conversions v on v.id = c.conversion_id
		where v.id = $1 and c.mode = 'test' and c.program_id = $2 and c.participant_id = $3
			and c.bound_at = v.occurred_at and c.window_ends_at = v.occurred_at + interval '720 hours'`, r.GetId(), f.Program, f.pat.ID)

	other := f.Join("Olga")
	f.wantAttribution(f.mustReport(purchaseBy("ann", "order-2", f.NewClick(other).ID)), "CLICK_MATCHED", other)
	f.wantRows(1, `customers where participant_id = $1`, f.pat.ID)
	f.wantRows(1, `customer_payments where payments = 2`)
}

func TestCustomer_ParallelFirstEventsBindOnce(t *testing.T) {
	f := newFixture(t)
	participants := []pgtest.Participant{f.pat, f.Join("Olga")}
	const customers = 25
	calls := f.parallelCalls()
	for i := range customers {
		customer := fmt.Sprint("customer-", i)
		if i%2 == 0 {
			// Half of the customers have a row already, but are not bound.
			earlier := purchaseWithCode(fmt.Sprint("earlier-", i), "unknown")
			earlier.CustomerId = &customer
			f.mustReport(earlier)
		}
		for n, participant := range participants {
			click := f.NewClick(participant)
			calls.start("report", func() error {
				_, err := f.report(purchaseBy(customer, fmt.Sprint("order-", i, "-", n), click.ID))
				return err
			})
		}
	}
	calls.want(map[string]int{"report": 2 * customers})
	f.wantRows(2*customers, `conversions where reason_code = 'CLICK_MATCHED'`)
	// The conversion that was decided first is the first payment and binds the customer.
	f.wantRows(customers, `customers c join conversions v on v.id = c.conversion_id and v.customer_ref = c.ref
		where v.recurring_index = 1 and v.participant_id = c.participant_id`)
	f.wantRows(customers, `conversions where recurring_index = 2`)
}

func TestRenewal_UsesBindingAfterWindow(t *testing.T) {
	f := newFixture(t)
	click := f.NewClick(f.pat)
	f.mustReport(purchaseBy("ann", "order-1", click.ID))
	f.clock.Advance(80 * day)
	renewal := purchaseBy("ann", "order-2", click.ID)
	renewal.EventType = affiliatev1.EventType_EVENT_TYPE_RENEWAL
	r := f.mustReport(renewal)
	servertest.WantFields(t, "renewal", r, &affiliatev1.ReportConversionResponse{
		Attribution: &affiliatev1.ConversionAttribution{
			ReasonCode: "CUSTOMER_BOUND", Method: new("customer"), ParticipantId: new(f.pat.ID.String()), ClickId: new(click.ID.String()),
		},
		Commission: &affiliatev1.ConversionCommission{AmountCents: 3_000},
	})
	f.wantRows(1, `commissions where id = $1 and recurring_index = 2 and click_id is null`, r.GetCommission().GetId())
	candidates := f.trace(r.GetAttribution().GetDecisionId()).Candidates
	if len(candidates) != 2 || *candidates[0].RejectedBecause != attribution.WhyClickExpired || !candidates[1].Eligible {
		t.Errorf("the candidates are %+v, want an expired click and an eligible binding", candidates)
	}

	// Another customer, another mode and another workspace have no binding.
	f.wantReason(f.mustReport(purchaseBy("ben", "order-3", click.ID)), "CLICK_EXPIRED")
	withCode := func(external string) *reportRequest {
		r := purchaseWithCode(external, "unknown")
		r.CustomerId = new("ann")
		return r
	}
	f.wantReason(f.mustReport(withCode("order-4")), "CUSTOMER_BOUND")
	for name, shop := range map[string]*pgtest.Shop{"the other mode": f.InOtherMode(), "another workspace": f.NewShop(affiliate.ModeTest)} {
		r, err := f.service.ReportConversion(servertest.AsSecretKey(t, shop.Scope), withCode("order-4"))
		if err != nil || r.GetAttributed() {
			t.Errorf("ReportConversion in %s returned %v, %v; want no attribution", name, r, err)
		}
	}
}

// renewalBy returns a renewal that names only the customer.
func renewalBy(customer, external string) *reportRequest {
	r := purchaseBy(customer, external, affiliate.ClickID{})
	r.EventType, r.ClickId = affiliatev1.EventType_EVENT_TYPE_RENEWAL, nil
	return r
}

func TestRenewal_NeedsOnlyBoundCustomer(t *testing.T) {
	f := newFixture(t)
	f.mustReport(purchaseBy("ann", "order-1", f.NewClick(f.pat).ID))
	f.reportUnattributed(purchaseBy("ben", "order-2", f.unknownClick())) // ben is known, but not bound
	f.clock.Advance(400 * day)

	wantBound := &affiliatev1.ReportConversionResponse{
		Attribution: &affiliatev1.ConversionAttribution{ReasonCode: "CUSTOMER_BOUND", Method: new("customer"), ParticipantId: new(f.pat.ID.String())},
		Commission:  &affiliatev1.ConversionCommission{AmountCents: 3_000},
	}
	servertest.WantFields(t, "renewal", f.mustReport(renewalBy("ann", "order-3")), wantBound)
	for i, wantReplayed := range []bool{false, true} {
		r, replayed, err := f.reportWithKey("k-1", renewalBy("ann", "order-4"))
		if err != nil || replayed != wantReplayed {
			t.Fatalf("report %d with the key returned %v, replayed %v; want a response, replayed %v", i, err, replayed, wantReplayed)
		}
		servertest.WantFields(t, "renewal with a key", r, wantBound)
	}

	for _, customer := range []string{"ben", "new"} {
		_, err := f.report(renewalBy(customer, "order-5"))
		pgtest.RequireRefusal(t, err, affiliate.ReasonNoAttributionSignal)
		_, _, err = f.reportWithKey("k-2", renewalBy(customer, "order-5"))
		pgtest.RequireRefusal(t, err, affiliate.ReasonNoAttributionSignal)
	}
	for name, shop := range map[string]*pgtest.Shop{"the other mode": f.InOtherMode(), "another workspace": f.NewShop(affiliate.ModeTest)} {
		_, err := f.service.ReportConversion(servertest.AsSecretKey(t, shop.Scope), renewalBy("ann", "order-5"))
		if got := pgtest.ReasonOf(t, err); got != affiliate.ReasonNoAttributionSignal {
			t.Errorf("ReportConversion in %s returned the error code %q, want NO_ATTRIBUTION_SIGNAL", name, got)
		}
	}
	// A refused report stores nothing, not even its customer or its key.
	f.wantRows(4, `conversions`)
	f.wantRows(2, `customers`)
	f.wantRows(1, `idempotency_keys`)
	f.wantRows(1, `customer_payments where payments = 3`)

	// The items of one customer are recorded in their order, so the first item can bind the
	// customer of the second.
	batch, err := f.reportBatch(renewalBy("ann", "order-6"), renewalBy("cleo", "order-7"),
		purchaseBy("cleo", "order-8", f.NewClick(f.pat).ID), renewalBy("cleo", "order-9"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := itemCodes(t, batch), []string{"ok", "NO_ATTRIBUTION_SIGNAL", "ok", "ok"}; !slices.Equal(got, want) {
		t.Errorf("the items of the batch have the codes %q, want %q", got, want)
	}
	f.wantReason(batch.GetResults()[3].GetConversion(), "CUSTOMER_BOUND")
}

func TestCustomer_ModelRanksBindingAndLaterClick(t *testing.T) {
	for _, tc := range []struct {
		model  program.AttributionModel
		delay  time.Duration // from the binding to the second click
		reason string
	}{
		{program.FirstClick, 10 * day, "CUSTOMER_BOUND"},
		{program.FirstClick, 31 * day, "CLICK_MATCHED"},
		{program.LastClick, 10 * day, "CLICK_MATCHED"},
	} {
		t.Run(fmt.Sprint(tc.model, " after ", tc.delay), func(t *testing.T) {
			f := newFixture(t, pgtest.Row{"attribution_model": tc.model})
			other := f.Join("Olga")
			f.mustReport(purchaseBy("ann", "order-1", f.NewClick(f.pat).ID))
			f.clock.Advance(tc.delay)
			winner := map[string]pgtest.Participant{"CUSTOMER_BOUND": f.pat, "CLICK_MATCHED": other}[tc.reason]
			f.wantAttribution(f.mustReport(purchaseBy("ann", "order-2", f.NewClick(other).ID)), tc.reason, winner)
			f.wantRows(1, `customers where participant_id = $1`, f.pat.ID)
		})
	}
}

func TestRenewal_ParallelRenewalsGetDifferentNumbers(t *testing.T) {
	const renewals, maxPayments = 30, 12
	f := newFixture(t, pgtest.Rules(func(r *program.Rules) { r.Recurring.MaxPayments = new(maxPayments) }))
	click := f.NewClick(f.pat)
	calls := f.parallelCalls()
	for i := range renewals {
		calls.start("report", func() error {
			req := purchaseBy("ann", fmt.Sprint("order-", i), click.ID)
			req.EventType = affiliatev1.EventType_EVENT_TYPE_RENEWAL
			_, err := f.report(req)
			return err
		})
	}
	calls.want(map[string]int{"report": renewals})
	f.wantRows(renewals, `generate_series(1, $1::int) n join conversions c on c.recurring_index = n`, renewals)
	f.wantRows(maxPayments, `commissions m join conversions c on c.id = m.conversion_id and c.recurring_index = m.recurring_index
		where m.recurring_index <= $1`, maxPayments)
	f.wantRows(maxPayments, `commissions`)
	f.wantRows(renewals-maxPayments, `conversions where reason_code = 'RECURRING_LIMIT_REACHED' and attributed and recurring_index > $1`, maxPayments)
	f.wantRows(1, `customer_payments p join conversions c on c.customer_ref = p.ref
		where c.recurring_index = 1 and p.payments = $1 and p.first_at = (select min(occurred_at) from conversions)`, renewals)
}

func TestRenewal_EarnsUntilMonthLimit(t *testing.T) {
	f := newFixture(t, pgtest.Row{"attribution_window_days": 365}, pgtest.Rules(func(r *program.Rules) {
		r.Recurring.MaxMonths, r.LaterRateBps = new(1), new(int64(1000))
	}))
	now, old, fresh := f.clock.Now(), f.NewClick(f.pat, f.ago(60*day)), f.NewClick(f.pat)
	pay := func(external string, click click.Click, age time.Duration) *affiliatev1.ReportConversionResponse {
		req := purchaseBy("ann", external, click.ID)
		req.OccurredAt = timestamppb.New(now.Add(-age))
		return f.mustReport(req)
	}
	if got := pay("order-1", old, 50*day).GetCommission().GetAmountCents(); got != 3_000 {
		t.Errorf("the first payment earns %d, want 3000", got)
	}
	if got := pay("order-2", old, 31*day).GetCommission().GetAmountCents(); got != 1_000 {
		t.Errorf("the second payment earns %d, want 1000", got)
	}
	third := pay("order-3", fresh, -time.Minute)
	f.wantAttribution(third, "RECURRING_LIMIT_REACHED", f.pat)
	if third.GetCommission() != nil || !third.GetAttributed() {
		t.Errorf("the payment after the limit is attributed: %t, and earns %v; want an attribution without a commission",
			third.GetAttributed(), third.GetCommission())
	}
	f.wantRows(1, `customer_payments where payments = 3`)
}

func TestTrial_BindsCustomerWithoutPaymentNumber(t *testing.T) {
	f := newFixture(t)
	trial := purchaseBy("ann", "trial-1", f.NewClick(f.pat).ID)
	trial.EventType, trial.AmountCents, trial.Currency = affiliatev1.EventType_EVENT_TYPE_TRIAL, nil, nil
	f.wantAttribution(f.mustReport(trial), "RULE_NOT_APPLICABLE", f.pat)
	f.wantRows(1, `customers where participant_id = $1`, f.pat.ID)
	f.wantRows(0, `customer_payments`)
	f.wantRows(1, `conversions where attributed and recurring_index is null`)
}

// A late click has the same effects as a click that was stored before the report.
func TestLateClick_BindsAndCounts(t *testing.T) {
	f := newFixture(t)
	f.NewPromoCode(f.pat, "spring10", func(c *promocode.PromoCode) { c.MaxRedemptions = new(int64(1)) })
	f.Exec(`update promo_codes set active = false`)
	click := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
	req := purchaseBy("ann", "order-1", click.ID)
	req.PromoCode, req.ProductIds = new("spring10"), []string{"a"}
	req.LineItems = []*affiliatev1.LineItem{{ProductId: "a", AmountCents: 10_000}}
	f.reportUnattributed(req)
	f.wantRows(0, `stats_deltas`)
	f.wantRows(1, `customers where participant_id is null`)

	// The promo code becomes usable before the click arrives.
	f.Exec(`update promo_codes set active = true`)
	f.setRules(func(r *program.Rules) {
		r.Products = []program.ProductRate{{ProductID: "a", Rate: program.Rate{Bps: new(int64(5000))}}}
	})
	jobs := f.CountJobs("sync_directory")
	job := f.storeLate(click)
	for range 2 {
		f.attribute(job)
	}
	f.wantRows(1, `conversions c join links l on l.id = c.link_id
		where c.attributed and c.recurring_index = 1 and l.participant_id = $1`, f.pat.ID)
	f.wantRows(1, `customers where participant_id = $1`, f.pat.ID)
	f.wantRows(1, `customer_payments where payments = 1`)
	f.wantRows(1, `promo_codes where redemptions = 1`)
	f.wantRows(1, `commissions where recurring_index = 1 and amount_cents = 5000`)
	if got := f.CountJobs("sync_directory") - jobs; got != 1 {
		t.Errorf("the redemption enqueued %d jobs that update the edge directory, want 1", got)
	}
	f.wantStats(f.pat, "EUR", stats{conversions: 1, revenue: 10_000, commission: 5_000})
}

func TestLateClick_KeepsExistingAttribution(t *testing.T) {
	f := newFixture(t)
	other := f.Join("Olga")
	f.NewPromoCode(other, "spring10")
	click := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
	req := purchaseBy("ann", "order-1", click.ID)
	req.PromoCode = new("spring10")
	f.wantAttribution(f.mustReport(req), "PROMO_CODE_MATCHED", other)
	f.wantRows(1, `awaited_clicks`)
	f.attribute(f.storeLate(click))
	f.wantRows(1, `conversions where participant_id = $1 and version = 1 and link_id is null`, other.ID)
	f.wantRows(1, `promo_codes where redemptions = 1`)
	f.wantRows(1, `customer_payments where payments = 1`)
	f.wantRows(0, `awaited_clicks`)
}
