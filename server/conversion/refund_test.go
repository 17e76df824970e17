package conversion_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	applied = affiliatev1.RefundStatus_REFUND_STATUS_APPLIED
	parked  = affiliatev1.RefundStatus_REFUND_STATUS_PARKED
)

// refund refunds an amount (cents) of a conversion, or all that is left if cents is 0.
// sale is the external id of the conversion, and external is the external id of the
// refund. The second result is the HTTP status that the service sets.
func (f *fixture) refund(sale, external string, cents int64) (*affiliatev1.Refund, string, error) {
	req := &affiliatev1.RefundConversionRequest{ExternalTransactionId: sale, ExternalRefundId: external}
	if cents > 0 {
		req.AmountCents = &cents
	}
	ctx, transport := servertest.WithTransport(f.asKey())
	r, err := f.service.RefundConversion(ctx, req)
	return r, transport.Status(), err
}

func (f *fixture) mustRefund(sale, external string, cents int64) *affiliatev1.Refund {
	f.Helper()
	r, _, err := f.refund(sale, external, cents)
	if err != nil {
		f.Fatalf("RefundConversion of %s: %v", sale, err)
	}
	return r
}

func (f *fixture) sweepRefunds() {
	f.Helper()
	if _, err := f.service.SweepRefunds(f.Context(), conversion.ParkedSale{}); err != nil {
		f.Fatalf("SweepRefunds: %v", err)
	}
}

// reportHidingRefunds hides all refunds while it calls the function report. A refund that
// arrives before its conversion is parked, and the report of the conversion normally
// applies it. The hidden refunds stay parked. The same happens if the
// transactions of a refund and of its conversion run in parallel and do not see each
// other's rows.
func (f *fixture) reportHidingRefunds(report func()) {
	f.Helper()
	f.Exec(`update refunds set external_transaction_id = 'hidden-' || external_transaction_id`)
	report()
	f.Exec(`update refunds set external_transaction_id = substr(external_transaction_id, 8)`)
}

// wantRefunded compares the refunded amount (cents) and the status of a conversion, and
// the amount of its commission (earns). It also checks that the sum of the refunds is
// the refunded amount.
func (f *fixture) wantRefunded(sale string, cents int64, status conversion.Status, earns int64) {
	f.Helper()
	f.wantRows(1, `conversions c where external_transaction_id = $1 and refunded_amount_cents = $2 and status = $3
		and refunded_amount_cents = (select sum(r.amount_cents) from refunds r where r.conversion_id = c.id)`, sale, cents, status)
	f.wantRows(1, `commissions m join conversions c on c.decision_id = m.decision_id
		where c.external_transaction_id = $1 and m.amount_cents = $2 and (m.status = 'refunded') = (c.status = 'refunded')`, sale, earns)
}

func TestRefund_PartialLowersCommission(t *testing.T) {
	f := newFixture(t)
	sale := f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	r, status, err := f.refund("order-1", "refund-1", 2_500)
	if err != nil {
		t.Fatal(err)
	}
	servertest.WantFields(t, "refund", r, &affiliatev1.Refund{
		Status: applied, ConversionId: new(sale.GetId()), ExternalRefundId: "refund-1", ExternalTransactionId: "order-1",
		AmountCents: new(int64(2_500)), Currency: new("EUR"), RefundedAmountCents: new(int64(2_500)),
		Commission: &affiliatev1.RefundedCommission{
			Id: sale.GetCommission().GetId(), AmountCents: 2_250, ReversedAmountCents: 750, Currency: "EUR", Status: pending,
		},
	})
	if status != "" || r.GetId() == "" || r.Reason != nil || !r.GetCreatedAt().IsValid() {
		t.Errorf("RefundConversion set the status %q and returned %v; want the default status, an id, a time and no reason", status, r)
	}
	f.wantRefunded("order-1", 2_500, conversion.PartiallyRefunded, 2_250)
	f.wantStats(f.pat, "EUR", stats{conversions: 1, revenue: 7_500, commission: 2_250})

	object, previous := f.LastEvent(affiliate.EventConversionRefunded)
	f.wantAttributes("conversion.refunded", object, pgtest.Row{
		"id": sale.GetId(), "refunded_amount_cents": 2_500, "version": 2, "amount_cents": 10_000,
		"program_id": f.Program.String(), "participant_id": f.pat.ID.String(),
	})
	if len(previous) != 1 || previous["refunded_amount_cents"] != 0.0 {
		t.Errorf("the previous attributes in conversion.refunded are %v, want only refunded_amount_cents with the value 0", previous)
	}
	attribution, _ := object["attribution"].(map[string]any)
	f.wantAttributes("attribution in conversion.refunded", attribution, pgtest.Row{
		"reason_code": "CLICK_MATCHED", "method": "click", "decision_id": sale.GetAttribution().GetDecisionId(),
		"explanation": sale.GetAttribution().GetExplanation(),
	})
	if attribution["clicked_at"] == nil || attribution["expires_at"] == nil {
		t.Errorf("the attribution in conversion.refunded is %v, want the times of the click", attribution)
	}
	object, previous = f.LastEvent(affiliate.EventCommissionRefunded)
	f.wantAttributes("commission.refunded", object, pgtest.Row{"amount_cents": 2_250, "original_amount_cents": 3_000})
	f.wantAttributes("previous attributes in commission.refunded", previous, pgtest.Row{"amount_cents": 3_000})
	refund, _ := object["refund"].(map[string]any)
	f.wantAttributes("refund in commission.refunded", refund, pgtest.Row{
		"type": "partial", "amount_cents": 750, "reason": "refund", "clawback_cents": 0,
	})

	servertest.WantFields(t, "refund of the rest", f.mustRefund("order-1", "refund-2", 0), &affiliatev1.Refund{
		AmountCents: new(int64(7_500)), RefundedAmountCents: new(int64(10_000)),
		Commission: &affiliatev1.RefundedCommission{Status: refunded, ReversedAmountCents: 3_000},
	})
	f.wantRefunded("order-1", 10_000, conversion.Refunded, 0)
	f.wantStats(f.pat, "EUR", stats{conversions: 1})
	f.wantRows(1, `commissions where refunded_at is not null and version = 3`)
	f.wantRows(3, `commission_history`)
	f.wantRows(0, `audit_log`)
	types, _ := f.Events()
	if want := []string{
		"conversion.created", "commission.created", "conversion.refunded", "commission.refunded", "conversion.refunded", "commission.refunded",
	}; !slices.Equal(types, want) {
		t.Errorf("the events are %q, want %q", types, want)
	}
}

func TestRefund_ByMemberIsInAuditLog(t *testing.T) {
	f := newFixture(t)
	known := f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	f.mustRefund("order-1", "of the server", 100)
	f.wantRows(0, `audit_log where action = 'conversion.refund'`)
	for _, sale := range []string{"order-1", "unknown"} {
		if _, err := f.service.RefundConversion(f.asOwner(), &affiliatev1.RefundConversionRequest{ExternalTransactionId: sale, ExternalRefundId: "r-" + sale}); err != nil {
			t.Fatal(err)
		}
	}
	f.wantRows(1, `audit_log a join refunds r on r.id = a.resource_id where a.action = 'conversion.refund' and a.actor = $1 and a.mode = r.mode
		and r.external_refund_id = 'r-order-1' and a.after = jsonb_build_object('conversion_id', $2::text, 'amount_cents', r.amount_cents)`, f.Owner.String(), known.GetId())
	f.wantRows(1, `audit_log a join refunds r on r.id = a.resource_id
		where r.external_refund_id = 'r-unknown' and a.after = '{"conversion_id": null, "amount_cents": null}'`)
}

func TestRefund_Errors(t *testing.T) {
	f := newFixture(t)
	f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	f.mustRefund("order-1", "refund-1", 4_000)
	f.mustRefund("order-9", "parked", 0)
	f.mustReport(lead("lead-1", f.NewClick(f.pat).ID))
	tables := []string{"refunds", "events", "commission_history", "stats_deltas", "conversions where refunded_amount_cents = 4000 and version = 2"}
	before := f.countRows(tables)
	for name, tc := range map[string]struct {
		sale, refund string
		cents        int64
		want         affiliate.Reason
		refundable   string // metadata refundable_cents of the error
	}{
		"duplicate":                                {"order-1", "refund-1", 4_000, affiliate.ReasonRefundDuplicate, ""},
		"duplicate that exceeds the sale":          {"order-1", "refund-1", 9_000, affiliate.ReasonRefundDuplicate, ""},
		"duplicate for another sale":               {"lead-1", "refund-1", 0, affiliate.ReasonRefundDuplicate, ""},
		"duplicate for an unknown sale":            {"order-2", "refund-1", 0, affiliate.ReasonRefundDuplicate, ""},
		"duplicate of a parked refund":             {"order-9", "parked", 0, affiliate.ReasonRefundDuplicate, ""},
		"duplicate of a parked refund, other sale": {"order-1", "parked", 1, affiliate.ReasonRefundDuplicate, ""},
		"more than the rest of the sale":           {"order-1", "refund-2", 6_001, affiliate.ReasonRefundExceedsAmount, "6000"},
		"amount for a lead":                        {"lead-1", "refund-2", 1, affiliate.ReasonRefundExceedsAmount, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, status, err := f.refund(tc.sale, tc.refund, tc.cents)
			metadata := pgtest.RequireRefusal(t, err, tc.want)
			if got := metadata["refundable_cents"]; got != tc.refundable || status != "" {
				t.Errorf("RefundConversion returned refundable_cents %q and status %q, want %q and the default status", got, status, tc.refundable)
			}
		})
	}
	if after := f.countRows(tables); !slices.Equal(after, before) {
		t.Errorf("after rejected calls, the numbers of rows of %q are %v, want %v", tables, after, before)
	}

	f.mustRefund("order-1", "refund-2", 6_000)
	f.mustRefund("lead-1", "refund-3", 0)
	for _, sale := range []string{"order-1", "lead-1"} {
		_, _, err := f.refund(sale, "refund-4", 0)
		if got := pgtest.RequireRefusal(t, err, affiliate.ReasonRefundExceedsAmount)["refundable_cents"]; got != "0" {
			t.Errorf("refundable_cents of %s is %q, want 0", sale, got)
		}
	}
	// The external ids of refunds are unique only within a scope.
	r, err := f.service.RefundConversion(servertest.AsSecretKey(t, f.InOtherMode().Scope), &affiliatev1.RefundConversionRequest{
		ExternalTransactionId: "order-1", ExternalRefundId: "refund-1",
	})
	if err != nil || r.GetStatus() != parked {
		t.Errorf("RefundConversion in live mode returned %v, %v; want a parked refund", r, err)
	}
}

// The refund of a lead ends its flat commission, although no money is paid back.
func TestRefund_OfLeadEndsFlatCommission(t *testing.T) {
	f := newFixture(t, pgtest.Rules(withoutHoldPeriod, func(r *program.Rules) {
		r.Type, r.RateBps, r.FlatCents = program.Flat, nil, new(int64(500))
		r.Events = []program.EventRate{{EventType: affiliate.Lead}, {EventType: affiliate.Purchase}}
	}))
	f.mustReport(lead("lead-1", f.NewClick(f.pat).ID))
	r := f.mustRefund("lead-1", "refund-1", 0)
	servertest.WantFields(t, "refund of a lead", r, &affiliatev1.Refund{
		AmountCents: new(int64(0)), Commission: &affiliatev1.RefundedCommission{Status: refunded},
	})
	if r.Currency != nil {
		t.Errorf("the refund of a lead has the currency %s, want none", r.GetCurrency())
	}
	f.wantRefunded("lead-1", 0, conversion.Refunded, 0)
	if _, previous := f.LastEvent(affiliate.EventConversionRefunded); previous != nil {
		t.Errorf("the previous attributes in conversion.refunded are %v, want none", previous)
	}

	// A partial refund of a sale does not change a flat commission.
	f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	c := f.mustRefund("order-1", "refund-2", 9_999).GetCommission()
	if c.GetAmountCents() != 500 || c.GetReversedAmountCents() != 0 {
		t.Errorf("after a partial refund, the flat commission is %v, want 500 cents and no reversed amount", c)
	}
	f.wantRows(1, `commissions where external_transaction_id = 'order-1' and version = 1`)
	f.wantRows(1, `events where type = 'commission.refunded'`)
	f.wantRows(2, `events where type = 'conversion.refunded'`)
	f.mustRefund("order-1", "refund-3", 0)
	f.wantRefunded("order-1", 10_000, conversion.Refunded, 0)
	f.wantRows(0, `(select commission_id from ledger_entries group by commission_id having sum(amount_cents) <> 0) x`)
	f.wantRows(2, `ledger_entries where type = 'commission_reversed' and amount_cents = -500`)
}

func TestRefund_OfPaidCommissionClawsBack(t *testing.T) {
	f := newFixture(t)
	f.pay(f.mustReport(purchase("order-1", f.NewClick(f.pat).ID)))
	f.mustRefund("order-1", "refund-1", 5_000)
	f.wantRows(1, `commissions where status = 'paid' and amount_cents = 1500`)
	f.wantRows(1, `ledger_entries where type = 'clawback' and amount_cents = -1500 and created_by = 'system'`)
	f.mustRefund("order-1", "refund-2", 5_000)
	f.wantRows(1, `commissions where status = 'refunded' and amount_cents = 0 and payout_id is not null and paid_at is not null`)
	f.wantRows(2, `ledger_entries where type = 'clawback' and amount_cents = -1500`)
	f.wantRows(1, `(select sum(balance_cents) as owed from ledger_balances) x where owed = 0`)
	object, _ := f.LastEvent(affiliate.EventCommissionRefunded)
	refund, _ := object["refund"].(map[string]any)
	f.wantAttributes("refund in commission.refunded", refund, pgtest.Row{"type": "full", "clawback_cents": 1_500})
}

func TestRefund_KeepsRejectedCommission(t *testing.T) {
	f := newFixture(t)
	if err := f.moveCommission(f.mustReport(purchase("order-1", f.NewClick(f.pat).ID)), commission.MoveReject); err != nil {
		t.Fatal(err)
	}
	servertest.WantFields(t, "refund", f.mustRefund("order-1", "refund-1", 0), &affiliatev1.Refund{
		Commission: &affiliatev1.RefundedCommission{Status: rejected, AmountCents: 3_000},
	})
	f.mustReport(purchaseWithCode("order-2", "unknown"))
	if r := f.mustRefund("order-2", "refund-2", 1_000); r.GetCommission() != nil || r.GetRefundedAmountCents() != 1_000 {
		t.Errorf("the refund of an unattributed sale is %v, want 1000 refunded cents and no commission", r)
	}
	f.wantRows(0, `events where type = 'commission.refunded'`)
	f.wantRows(2, `events where type = 'conversion.refunded'`)
	f.wantStats(f.pat, "EUR", stats{conversions: 1})
}

func TestRefund_ParallelRefundsNeverExceedSale(t *testing.T) {
	f := newFixture(t)
	f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	calls := f.parallelCalls()
	for i := range 100 {
		calls.start("refund", func() error {
			_, _, err := f.refund("order-1", fmt.Sprint("refund-", i/2), 300)
			return err
		})
	}
	// Each external id is sent twice. The sale of 10,000 cents has room for 33 refunds of
	// 300 cents, and 100 cents are left.
	calls.want(map[string]int{"refund": 33, "refund REFUND_EXCEEDS_AMOUNT": 34, "refund REFUND_DUPLICATE": 33})
	f.wantRefunded("order-1", 9_900, conversion.PartiallyRefunded, 30)
	f.wantRows(33, `refunds where conversion_id is not null and amount_cents = 300`)
	f.wantRows(33, `refunds`)
	f.wantRows(33, `events where type = 'conversion.refunded'`)
	f.wantRows(1, `conversions where version = 34`)
	f.wantStats(f.pat, "EUR", stats{conversions: 1, revenue: 100, commission: 30})
}

func TestRefund_BeforeConversionIsParkedAndApplied(t *testing.T) {
	f := newFixture(t)
	for i, cents := range []int64{4_000, 9_000, 0} {
		f.clock.Advance(time.Millisecond) // refunds of the same millisecond have no order
		r, status, err := f.refund("order-1", fmt.Sprint("refund-", i), cents)
		if err != nil {
			t.Fatal(err)
		}
		if status != "202" || r.GetStatus() != parked {
			t.Errorf("RefundConversion set the status %q and returned %s, want 202 and %s", status, r.GetStatus(), parked)
		}
		if (r.AmountCents == nil) != (cents == 0) || r.GetAmountCents() != cents {
			t.Errorf("the parked refund has the amount %v, want that of the request, %d", r.AmountCents, cents)
		}
		if r.ConversionId != nil || r.Currency != nil || r.RefundedAmountCents != nil || r.Commission != nil {
			t.Errorf("the parked refund is %v, want no data of a conversion", r)
		}
	}
	f.mustRefund("order-2", "refund-of-another", 1_000)
	f.wantRows(4, `refunds where expires_at = created_at + interval '90 days' and conversion_id is null`)

	r := f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	if c := r.GetCommission(); c.GetStatus() != refunded || c.GetAmountCents() != 0 {
		t.Errorf("the commission is %v, want %s with 0 cents", c, refunded)
	}
	// If a parked refund exceeds the rest of the amount, it refunds only the rest. Later
	// parked refunds then refund 0.
	for i, cents := range []int64{4_000, 6_000, 0} {
		f.wantRows(1, `refunds where external_refund_id = $1 and conversion_id = $2 and amount_cents = $3 and applied_at is not null`,
			fmt.Sprint("refund-", i), r.GetId(), cents)
	}
	f.wantRefunded("order-1", 10_000, conversion.Refunded, 0)
	f.wantRows(1, `conversions where version = 3`)
	f.wantRows(1, `commissions where version = 2 and original_amount_cents = 3000`)
	f.wantRows(1, `refunds where conversion_id is null`)
	f.wantStats(f.pat, "EUR", stats{conversions: 1})
	objects := f.wantLastEvents("conversion.created", "conversion.refunded", "conversion.refunded", "commission.created", "commission.refunded")
	for i, cents := range []int{0, 4_000, 10_000} {
		f.wantAttributes(fmt.Sprint("event ", i), objects[i], pgtest.Row{"refunded_amount_cents": cents, "version": i + 1})
	}
}

// If the transactions of a refund and of its conversion do not see each other's rows, the
// refund stays parked. The next sweep, or the next refund of the same conversion, applies
// it.
func TestRefundSweep_AppliesRefundsThatConversionDidNotSee(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		f.mustRefund(fmt.Sprint("order-", i), fmt.Sprint("refund-", i), 4_000)
	}
	f.reportHidingRefunds(func() {
		f.mustReport(purchase("order-0", f.NewClick(f.pat).ID))
		f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	})

	r := f.mustRefund("order-0", "refund-of-the-rest", 0)
	if r.GetAmountCents() != 6_000 || r.GetRefundedAmountCents() != 10_000 {
		t.Errorf("the refund of the rest is %d of %d refunded cents, want 6000 of 10000", r.GetAmountCents(), r.GetRefundedAmountCents())
	}
	for range 2 {
		f.sweepRefunds()
	}
	f.wantRefunded("order-0", 10_000, conversion.Refunded, 0)
	f.wantRefunded("order-1", 4_000, conversion.PartiallyRefunded, 1_800)
	f.wantRows(1, `refunds where conversion_id is null and external_refund_id = 'refund-2'`)
	f.wantRows(3, `events where type = 'conversion.refunded'`)
}

// The transaction that records a sale applies at most 100 of its parked refunds. Sweeps apply
// the rest.
func TestRefund_ParkedRefundsAreAppliedInBatches(t *testing.T) {
	f := newFixture(t)
	// The first 100 refunds are the whole sale. Therefore only they change it.
	for i := range 119 {
		f.mustRefund("order-1", fmt.Sprint("refund-", i), 100)
		f.clock.Advance(time.Millisecond)
	}
	f.mustRefund("order-1", "refund-of-the-rest", 0)
	f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	f.wantRows(20, `refunds where conversion_id is null`)
	for range 2 {
		f.sweepRefunds()
	}
	f.wantRows(120, `refunds where conversion_id is not null`)
	f.wantRows(1, `conversions where refunded_amount_cents = amount_cents and status = 'refunded' and version = 101`)
	f.wantRows(100, `events where type = 'conversion.refunded'`)
}

// Refunds, their conversions and sweeps run in parallel. After the last sweep, each
// refund is applied once.
func TestRefund_ParallelToConversion(t *testing.T) {
	f := newFixture(t)
	const sales, refundsOfSale = 60, 3
	const refunds = sales * refundsOfSale
	sweep := func() error {
		_, err := f.service.SweepRefunds(t.Context(), conversion.ParkedSale{})
		return err
	}
	var countApplied, countParked atomic.Int64
	for i := range sales {
		sale, click := fmt.Sprint("order-", i), f.NewClick(f.pat)
		refund := func(external string) func() error {
			return func() error {
				r, _, err := f.refund(sale, external, 1_000)
				if r.GetStatus() == applied {
					countApplied.Add(1)
				}
				if r.GetStatus() == parked {
					countParked.Add(1)
				}
				return err
			}
		}
		calls := f.parallelCalls()
		calls.start("report", func() error {
			_, err := f.report(purchase(sale, click.ID))
			calls.start("refund", refund(sale+"-refund-after-report"))
			return err
		})
		for j := range refundsOfSale - 1 {
			calls.start("refund", refund(fmt.Sprint(sale, "-refund-", j)))
		}
		want := map[string]int{"report": 1, "refund": refundsOfSale}
		if i%2 == 0 {
			calls.start("sweep", sweep)
			want["sweep"] = 1
		}
		calls.want(want)
	}
	if a, p := countApplied.Load(), countParked.Load(); a+p != refunds || a < sales || p == 0 {
		t.Errorf("%d refunds were applied immediately and %d were parked, want at least %d and at least 1, and %d in all", a, p, sales, refunds)
	}
	calls := f.parallelCalls()
	for range 3 {
		calls.start("sweep", sweep)
	}
	calls.want(map[string]int{"sweep": 3})
	f.wantRows(refunds, `refunds r join conversions c on c.id = r.conversion_id and c.external_transaction_id = r.external_transaction_id
		where r.amount_cents = 1000`)
	f.wantRows(refunds, `refunds`)
	f.wantRows(sales, `conversions where refunded_amount_cents = 3000 and status = 'partially_refunded' and version = 4`)
	f.wantRows(sales, `commissions where amount_cents = 2100`)
	f.wantRows(refunds, `events where type = 'conversion.refunded'`)
	f.wantStats(f.pat, "EUR", stats{conversions: sales, revenue: 7_000 * sales, commission: 2_100 * sales})
	f.wantNoDeadlocks()
}

func TestRefundSweep_DeletesRefundsAfterNinetyDays(t *testing.T) {
	f := newFixture(t)
	f.mustRefund("order-1", "refund-1", 4_000)
	f.mustReport(purchase("order-2", f.NewClick(f.pat).ID))
	f.mustRefund("order-2", "refund-2", 4_000)
	for _, step := range []struct {
		advance time.Duration
		parked  int
	}{{90*day - time.Minute, 1}, {2 * time.Minute, 0}} {
		f.clock.Advance(step.advance)
		f.sweepRefunds()
		f.wantRows(step.parked, `refunds where conversion_id is null`)
		f.wantRows(1, `refunds where conversion_id is not null`)
	}
	// The external id of the deleted refund can be used again.
	f.mustRefund("order-1", "refund-1", 4_000)
}

// If the refunds of one conversion cannot be applied, the sweep still applies the other
// refunds and deletes expired refunds.
func TestRefundSweep_ContinuesAfterFailedConversion(t *testing.T) {
	f := newFixture(t)
	for i := range 3 {
		f.mustRefund(fmt.Sprint("order-", i), fmt.Sprint("refund-", i), 0)
	}
	f.reportHidingRefunds(func() {
		for i := range 3 {
			f.mustReport(purchase(fmt.Sprint("order-", i), f.NewClick(f.pat).ID))
		}
	})
	f.Exec(`alter table conversions add constraint broken check (external_transaction_id <> 'order-1' or refunded_amount_cents = 0) not valid`)
	f.mustRefund("order-9", "expired", 0)
	f.Exec(`update refunds set expires_at = created_at where external_refund_id = 'expired'`)
	if _, err := f.service.SweepRefunds(t.Context(), conversion.ParkedSale{}); err == nil {
		t.Error("SweepRefunds returned no error although a conversion failed")
	}
	f.wantRows(2, `conversions where status = 'refunded'`)
	f.wantRows(0, `refunds where external_refund_id = 'expired'`)
	f.wantRows(1, `refunds where conversion_id is null`)
}

// A reattribution after refunds: the new participant gets the commission and the revenue
// of the amount that is not refunded.
func TestReattribute_AfterRefunds(t *testing.T) {
	for name, tc := range map[string]struct {
		cents  int64
		status affiliatev1.CommissionStatus
		earns  int64
		events []string
	}{
		"partial refund": {5_000, pending, 1_500, []string{
			"conversion.reattributed", "commission.rejected", "commission.created", "commission.refunded",
		}},
		"full refund": {10_000, refunded, 0, []string{
			"conversion.reattributed", "commission.created", "commission.refunded",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			other := f.Join("Olga")
			r := f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
			f.mustRefund("order-1", "refund-1", tc.cents)
			c := f.mustReattribute(r.GetId(), other).GetCommission()
			if c.GetAmountCents() != tc.earns || c.GetStatus() != tc.status {
				t.Errorf("the new commission is %v, want %d cents and %s", c, tc.earns, tc.status)
			}
			f.wantRows(1, `commissions where participant_id = $1 and original_amount_cents = 3000 and amount_cents = $2 and version = 2`,
				other.ID, tc.earns)
			f.wantRows(2, `commission_history h join commissions m on m.id = h.commission_id where m.participant_id = $1`, other.ID)
			f.wantStats(f.pat, "EUR", stats{})
			f.wantStats(other, "EUR", stats{conversions: 1, revenue: 10_000 - tc.cents, commission: tc.earns})
			f.wantLastEvents(tc.events...)
			if tc.cents < 10_000 {
				f.mustRefund("order-1", "refund-2", 2_000)
				f.wantStats(f.pat, "EUR", stats{})
				f.wantStats(other, "EUR", stats{conversions: 1, revenue: 3_000, commission: 900})
			}
		})
	}
}

// A click that arrives after refunds earns a commission on the amount that is left.
func TestLateClick_AfterRefunds(t *testing.T) {
	f := newFixture(t)
	job := f.lateConversion("order-1")
	if c := f.mustRefund("order-1", "refund-1", 5_000).GetCommission(); c != nil {
		t.Fatalf("the refund of an unattributed sale has the commission %v", c)
	}
	f.attribute(job)
	f.wantRefunded("order-1", 5_000, conversion.PartiallyRefunded, 1_500)
	f.wantRows(1, `conversions where version = 3 and attributed`)
	f.wantStats(f.pat, "EUR", stats{conversions: 1, revenue: 5_000, commission: 1_500})
	object, _ := f.LastEvent(affiliate.EventConversionReattributed)
	f.wantAttributes("conversion.reattributed", object, pgtest.Row{"refunded_amount_cents": 5_000, "version": 3})
}

// Refunds, reattributions and late clicks of the same conversions run in parallel. At the
// end only the chosen participant has a commission, on the amount that is not refunded.
func TestRefund_ParallelToReattribution(t *testing.T) {
	f := newFixture(t)
	other := f.Join("Olga")
	const conversions = 20
	calls := f.parallelCalls()
	for i := range conversions {
		sale := fmt.Sprint("order-", i)
		job := f.lateConversion(sale)
		id := f.conversionID(sale)
		for j := range 2 {
			calls.start("refund", func() error {
				_, _, err := f.refund(sale, fmt.Sprint(sale, "-refund-", j), 2_500)
				return err
			})
		}
		calls.start("attribute", func() error { return f.service.AttributeAwaited(t.Context(), job) })
		calls.start("reattribute", func() error {
			_, err := f.reattribute(id, other)
			return err
		})
	}
	calls.want(map[string]int{"refund": 2 * conversions, "attribute": conversions, "reattribute": conversions})
	f.wantRows(conversions, `conversions where refunded_amount_cents = 5000 and participant_id = $1`, other.ID)
	f.wantRows(conversions, `commissions m join conversions c on c.decision_id = m.decision_id where m.amount_cents = 1500 and m.status = 'pending'`)
	f.wantRows(conversions, `commissions where status <> 'rejected'`)
	f.wantStats(f.pat, "EUR", stats{})
	f.wantStats(other, "EUR", stats{conversions: conversions, revenue: 5_000 * conversions, commission: 1_500 * conversions})
}

func TestRefundSweep_RunsAsPeriodicJob(t *testing.T) {
	f := newFixture(t)
	f.mustRefund("order-1", "refund-1", 0)
	f.reportHidingRefunds(func() { f.mustReport(purchase("order-1", f.NewClick(f.pat).ID)) })
	f.startWorkers(f.service.PeriodicJobs())
	pgtest.Eventually(t, "the sweep applies the refund", func() bool {
		return f.Count(`select count(*) from refunds where conversion_id is not null`) > 0
	})
	f.wantRefunded("order-1", 10_000, conversion.Refunded, 0)
}
