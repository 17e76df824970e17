package conversion_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// clickOf stores and returns a click of a participant in the world's programme.
func (w *world) clickOf(participant affiliate.ParticipantID) affiliate.Click {
	w.Helper()
	c := w.click()
	c.Participant = participant
	return w.storeClick(c)
}

// buy returns the report of a purchase by a customer after a click.
func buy(external, customer string, click affiliate.ClickID) *affiliatev1.ReportConversionRequest {
	r := purchase(external, click)
	r.CustomerId = &customer
	return r
}

func TestCustomer_IsBoundByFirstAttributedEvent(t *testing.T) {
	w := newWorld(t)
	unknown := buy("order-0", "ann", w.clickAt(w.now().Add(-time.Hour)).ID)
	if w.mustReport(unknown).GetAttributed() {
		t.Fatal("attributed")
	}
	w.wantCount(1, `customers where program_id is null and bound_at is null`)

	first := buy("order-1", "ann", w.clickOf(w.participant).ID)
	first.OccurredAt = timestamppb.New(w.now().Add(2 * time.Minute))
	r := w.mustReport(first)
	w.wantCount(1, `customers c join conversions v on v.id = c.conversion_id
		where v.id = $1 and c.mode = 'test' and c.program_id = $2 and c.participant_id = $3
			and c.bound_at = v.occurred_at and c.window_ends_at = v.occurred_at + interval '720 hours'`, r.GetId(), w.program, w.participant)

	other, _ := w.newParticipant(w.scope, w.program)
	if a := w.mustReport(buy("order-2", "ann", w.clickOf(other).ID)).GetAttribution(); a.GetReasonCode() != "CLICK_MATCHED" || a.GetParticipantId() != other.String() {
		t.Errorf("%v", a)
	}
	w.wantCount(1, `customers where participant_id = $1`, w.participant)
	w.wantCount(1, `customer_payments where payments = 2`)
}

func TestCustomer_ParallelFirstEventsBindOnce(t *testing.T) {
	w := newWorld(t)
	other, _ := w.newParticipant(w.scope, w.program)
	const customers = 25
	var wg sync.WaitGroup
	for i := range customers {
		if i%2 == 0 {
			// Half of the customers have a row already, but are not bound.
			earlier := withCode(fmt.Sprint("earlier-", i), "unknown")
			earlier.CustomerId = ptr(fmt.Sprint("customer-", i))
			w.mustReport(earlier)
		}
		for n, participant := range []affiliate.ParticipantID{w.participant, other} {
			click := w.clickOf(participant)
			wg.Go(func() {
				if _, err := w.report(buy(fmt.Sprint("order-", i, "-", n), fmt.Sprint("customer-", i), click.ID)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	w.wantCount(2*customers, `conversions where reason_code = 'CLICK_MATCHED'`)
	// The conversion that was decided first is the first payment and binds the customer.
	w.wantCount(customers, `customers c join conversions v on v.id = c.conversion_id and v.customer_ref = c.ref
		where v.recurring_index = 1 and v.participant_id = c.participant_id`)
	w.wantCount(customers, `conversions where recurring_index = 2`)
}

func TestRenewal_UsesBindingAfterWindow(t *testing.T) {
	w := newWorld(t)
	click := w.clickOf(w.participant)
	w.mustReport(buy("order-1", "ann", click.ID))
	w.offset.Store(int64(80 * 24 * time.Hour))
	renewal := buy("order-2", "ann", click.ID)
	renewal.EventType = affiliatev1.EventType_EVENT_TYPE_RENEWAL
	r := w.mustReport(renewal)
	a := r.GetAttribution()
	if a.GetReasonCode() != "CUSTOMER_BOUND" || a.GetMethod() != "customer" || a.GetParticipantId() != w.participant.String() ||
		a.GetClickId() != click.ID.String() || r.GetCommission().GetAmountCents() != 3_000 {
		t.Errorf("%v", r)
	}
	w.wantCount(1, `commissions where id = $1 and recurring_index = 2 and click_id is null`, r.GetCommission().GetId())
	candidates := w.trace(a.GetDecisionId()).Candidates
	if len(candidates) != 2 || *candidates[0].RejectedBecause != affiliate.WhyClickExpired || !candidates[1].Eligible {
		t.Errorf("candidates %+v", candidates)
	}

	// Another customer, another mode and another workspace have no binding.
	if a := w.mustReport(buy("order-3", "ben", click.ID)).GetAttribution(); a.GetReasonCode() != "CLICK_EXPIRED" {
		t.Errorf("%v", a)
	}
	code := func(external string) *affiliatev1.ReportConversionRequest {
		r := withCode(external, "unknown")
		r.CustomerId = ptr("ann")
		return r
	}
	if a := w.mustReport(code("order-4")).GetAttribution(); a.GetReasonCode() != "CUSTOMER_BOUND" {
		t.Errorf("%v", a)
	}
	for _, scope := range []affiliate.Scope{
		{Workspace: w.scope.Workspace, Mode: affiliate.ModeLive}, {Workspace: w.NewWorkspace(), Mode: affiliate.ModeTest},
	} {
		if r, err := w.service.ReportConversion(as(scope), code("order-4")); err != nil || r.GetAttributed() {
			t.Errorf("%v: %v, %v", scope, r, err)
		}
	}
}

func TestCustomer_ModelRanksBindingAndLaterClick(t *testing.T) {
	for _, tc := range []struct {
		model  string
		later  time.Duration
		reason string
	}{
		{"first_click", 10 * 24 * time.Hour, "CUSTOMER_BOUND"},
		{"first_click", 31 * 24 * time.Hour, "CLICK_MATCHED"},
		{"last_click", 10 * 24 * time.Hour, "CLICK_MATCHED"},
	} {
		t.Run(fmt.Sprint(tc.model, " after ", tc.later), func(t *testing.T) {
			w := newWorld(t)
			w.Exec(`update programs set attribution_model = $1`, tc.model)
			other, _ := w.newParticipant(w.scope, w.program)
			w.mustReport(buy("order-1", "ann", w.clickOf(w.participant).ID))
			w.offset.Store(int64(tc.later))
			a := w.mustReport(buy("order-2", "ann", w.clickOf(other).ID)).GetAttribution()
			want := map[string]string{"CUSTOMER_BOUND": w.participant.String(), "CLICK_MATCHED": other.String()}[tc.reason]
			if a.GetReasonCode() != tc.reason || a.GetParticipantId() != want {
				t.Errorf("%v", a)
			}
			w.wantCount(1, `customers where participant_id = $1`, w.participant)
		})
	}
}

func TestRenewal_ParallelRenewalsAreNumberedOnce(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set rules = rules || '{"recurring":{"max_payments":12}}'`)
	click := w.clickOf(w.participant)
	const renewals = 30
	var wg sync.WaitGroup
	for i := range renewals {
		wg.Go(func() {
			req := buy(fmt.Sprint("order-", i), "ann", click.ID)
			req.EventType = affiliatev1.EventType_EVENT_TYPE_RENEWAL
			if _, err := w.report(req); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rows, _ := w.SQL.Query(t.Context(), `select recurring_index from conversions order by recurring_index`)
	got, err := pgx.CollectRows(rows, pgx.RowTo[int])
	want := make([]int, renewals)
	for i := range want {
		want[i] = i + 1
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	w.wantCount(12, `commissions m join conversions c on c.id = m.conversion_id and c.recurring_index = m.recurring_index where m.recurring_index <= 12`)
	w.wantCount(12, `commissions`)
	w.wantCount(18, `conversions where reason_code = 'RECURRING_LIMIT_REACHED' and attributed and recurring_index > 12`)
	w.wantCount(1, `customer_payments p join conversions c on c.customer_ref = p.ref
		where c.recurring_index = 1 and p.payments = 30 and p.first_at = (select min(occurred_at) from conversions)`)
}

func TestRenewal_EarnsUntilMonthLimit(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set rules = rules || '{"recurring":{"max_months":1},"later_rate_bps":1000}', attribution_window_days = 365`)
	at := func(external string, day int) *affiliatev1.ReportConversionResponse {
		req := buy(external, "ann", w.clickOf(w.participant).ID)
		req.OccurredAt = timestamppb.New(w.now().Add(time.Duration(day) * 24 * time.Hour))
		return w.mustReport(req)
	}
	first := buy("order-1", "ann", w.storeClick(w.clickAt(w.now().Add(-60*24*time.Hour))).ID)
	first.OccurredAt = timestamppb.New(w.now().Add(-50 * 24 * time.Hour))
	if c := w.mustReport(first).GetCommission(); c.GetAmountCents() != 3_000 {
		t.Errorf("first: %v", c)
	}
	second := buy("order-2", "ann", w.storeClick(w.clickAt(w.now().Add(-60*24*time.Hour))).ID)
	second.OccurredAt = timestamppb.New(w.now().Add(-31 * 24 * time.Hour))
	if c := w.mustReport(second).GetCommission(); c.GetAmountCents() != 1_000 {
		t.Errorf("second: %v", c)
	}
	if r := at("order-3", 0); r.GetAttribution().GetReasonCode() != "RECURRING_LIMIT_REACHED" || r.GetCommission() != nil || !r.GetAttributed() {
		t.Errorf("third: %v", r)
	}
	w.wantCount(1, `customer_payments where payments = 3`)
}

func TestTrial_BindsWithoutPaymentNumber(t *testing.T) {
	w := newWorld(t)
	trial := buy("trial-1", "ann", w.clickOf(w.participant).ID)
	trial.EventType, trial.AmountCents, trial.Currency = affiliatev1.EventType_EVENT_TYPE_TRIAL, nil, nil
	if r := w.mustReport(trial); r.GetAttribution().GetReasonCode() != "RULE_NOT_APPLICABLE" || !r.GetAttributed() {
		t.Errorf("%v", r)
	}
	w.wantCount(1, `customers where participant_id = $1`, w.participant)
	w.wantCount(0, `customer_payments`)
	w.wantCount(1, `conversions where recurring_index is null`)
}

// A late click has the same effects as a click that was stored before the report.
func TestLateClick_BindsAndCounts(t *testing.T) {
	w := newWorld(t)
	w.code(w.scope, w.program, w.participant, "spring10", `active = false`)
	click := w.clickAt(w.now().Add(-10 * time.Minute))
	req := buy("order-1", "ann", click.ID)
	req.PromoCode, req.ProductIds = ptr("spring10"), []string{"a"}
	req.LineItems = []*affiliatev1.LineItem{{ProductId: "a", AmountCents: 10_000}}
	w.mustReport(req)
	w.wantCount(0, `stats_deltas`)
	w.wantCount(1, `customers where participant_id is null`)

	// The promo code becomes usable before the click arrives.
	w.Exec(`update promo_codes set active = true, max_redemptions = 1`)
	w.Exec(`update programs set rules = rules || '{"products":[{"product_id":"a","rate_bps":5000}]}'`)
	w.storeClick(click)
	for range 2 {
		if err := w.service.AttributeAwaited(context.Background(), affiliate.AttributeLateClick{Workspace: w.scope.Workspace, Click: click.ID}); err != nil {
			t.Fatal(err)
		}
	}
	w.wantCount(1, `conversions c join links l on l.id = c.link_id where c.attributed and c.recurring_index = 1 and l.participant_id = $1`, w.participant)
	w.wantCount(1, `customers where participant_id = $1`, w.participant)
	w.wantCount(1, `customer_payments where payments = 1`)
	w.wantCount(1, `promo_codes where redemptions = 1`)
	w.wantCount(1, `commissions where recurring_index = 1 and amount_cents = 5000`)
	w.wantCount(1, `river.river_job where kind = 'sync_directory'`)
	w.wantStats(w.participant, "EUR", stats{conversions: 1, revenue: 10_000, commission: 5_000})
}

func TestLateClick_KeepsExistingAttribution(t *testing.T) {
	w := newWorld(t)
	other, _ := w.newParticipant(w.scope, w.program)
	w.code(w.scope, w.program, other, "spring10", "")
	click := w.clickAt(w.now().Add(-10 * time.Minute))
	req := buy("order-1", "ann", click.ID)
	req.PromoCode = ptr("spring10")
	if a := w.mustReport(req).GetAttribution(); a.GetReasonCode() != "PROMO_CODE_MATCHED" {
		t.Fatalf("%v", a)
	}
	w.wantCount(1, `awaited_clicks`)
	w.storeClick(click)
	if err := w.service.AttributeAwaited(t.Context(), affiliate.AttributeLateClick{Workspace: w.scope.Workspace, Click: click.ID}); err != nil {
		t.Fatal(err)
	}
	w.wantCount(1, `conversions where participant_id = $1 and version = 1 and link_id is null`, other)
	w.wantCount(1, `promo_codes where redemptions = 1`)
	w.wantCount(1, `customer_payments where payments = 1`)
	w.wantCount(0, `awaited_clicks`)
}
