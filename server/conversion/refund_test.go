package conversion_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// header is the transport of one call. It records the response header.
type header struct{ metadata.MD }

func (header) Method() string                   { return "" }
func (h header) SetHeader(md metadata.MD) error { return h.SendHeader(md) }
func (header) SetTrailer(metadata.MD) error     { return nil }
func (h header) SendHeader(md metadata.MD) error {
	for name, values := range md {
		h.MD[name] = values
	}
	return nil
}

// refund refunds cents of a sale, or the rest of the sale if cents is 0. The second
// result is the HTTP status that the response sets.
func (w *world) refund(sale, external string, cents int64) (*affiliatev1.Refund, string, error) {
	req := &affiliatev1.RefundConversionRequest{ExternalTransactionId: sale, ExternalRefundId: external}
	if cents > 0 {
		req.AmountCents = &cents
	}
	h := header{metadata.MD{}}
	r, err := w.service.RefundConversion(grpc.NewContextWithServerTransportStream(as(w.scope), h), req)
	code := ""
	if values := h.Get("x-http-code"); len(values) > 0 {
		code = values[0]
	}
	return r, code, err
}

func (w *world) mustRefund(sale, external string, cents int64) *affiliatev1.Refund {
	w.Helper()
	r, _, err := w.refund(sale, external, cents)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// wantRefunded checks the refunded amount of a conversion against its refund rows, and
// the conversion's commission.
func (w *world) wantRefunded(sale string, cents int64, status affiliate.ConversionStatus, earns int64) {
	w.Helper()
	w.wantCount(1, `conversions c where external_transaction_id = $1 and refunded_amount_cents = $2 and status = $3
		and refunded_amount_cents = (select sum(r.amount_cents) from refunds r where r.conversion_id = c.id)`, sale, cents, status)
	w.wantCount(1, `commissions m join conversions c on c.decision_id = m.decision_id where c.external_transaction_id = $1 and m.amount_cents = $2
		and (m.status = 'refunded') = (c.status = 'refunded')`, sale, earns)
}

func TestRefund_PartialLowersCommission(t *testing.T) {
	w := newWorld(t)
	sale := w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
	r, code, err := w.refund("order-1", "refund-1", 2_500)
	if err != nil {
		t.Fatal(err)
	}
	c := r.GetCommission()
	if code != "" || r.GetStatus() != affiliatev1.RefundStatus_REFUND_STATUS_APPLIED || r.GetConversionId() != sale.GetId() || r.GetAmountCents() != 2_500 ||
		r.GetCurrency() != "EUR" || r.GetRefundedAmountCents() != 2_500 || r.GetExternalRefundId() != "refund-1" ||
		r.GetExternalTransactionId() != "order-1" || r.GetId() == "" || r.Reason != nil || !r.GetCreatedAt().IsValid() ||
		c.GetId() != sale.GetCommission().GetId() || c.GetAmountCents() != 2_250 || c.GetReversedAmountCents() != 750 || c.GetCurrency() != "EUR" ||
		c.GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING {
		t.Errorf("%s %v", code, r)
	}
	w.wantRefunded("order-1", 2_500, affiliate.ConversionPartiallyRefunded, 2_250)
	w.wantStats(w.participant, "EUR", stats{conversions: 1, revenue: 7_500, commission: 2_250})
	object, previous := w.LastEvent(affiliate.EventConversionRefunded)
	if object["id"] != sale.GetId() || object["refunded_amount_cents"] != 2_500.0 || object["version"] != 2.0 || object["amount_cents"] != 10_000.0 ||
		object["program_id"] != w.program.String() || object["participant_id"] != w.participant.String() || len(previous) != 1 || previous["refunded_amount_cents"] != 0.0 {
		t.Errorf("%v, before %v", object, previous)
	}
	why, _ := object["attribution"].(map[string]any)
	if why["reason_code"] != "CLICK_MATCHED" || why["decision_id"] != sale.GetAttribution().GetDecisionId() || why["method"] != "click" ||
		why["explanation"] != sale.GetAttribution().GetExplanation() || why["clicked_at"] == nil || why["expires_at"] == nil {
		t.Errorf("%v", why)
	}
	object, previous = w.LastEvent(affiliate.EventCommissionRefunded)
	refund, _ := object["refund"].(map[string]any)
	if object["amount_cents"] != 2_250.0 || object["original_amount_cents"] != 3_000.0 || previous["amount_cents"] != 3_000.0 ||
		refund["type"] != "partial" || refund["amount_cents"] != 750.0 || refund["reason"] != "refund" || refund["clawback_cents"] != 0.0 {
		t.Errorf("%v, before %v", object, previous)
	}

	if r = w.mustRefund("order-1", "refund-2", 0); r.GetAmountCents() != 7_500 || r.GetRefundedAmountCents() != 10_000 ||
		r.GetCommission().GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_REFUNDED || r.GetCommission().GetReversedAmountCents() != 3_000 {
		t.Errorf("%v", r)
	}
	w.wantRefunded("order-1", 10_000, affiliate.ConversionRefunded, 0)
	w.wantStats(w.participant, "EUR", stats{conversions: 1})
	w.wantCount(1, `commissions where refunded_at is not null and version = 3`)
	w.wantCount(3, `commission_history`)
	w.wantCount(0, `audit_log`)
	types, _ := w.Events()
	if want := []string{
		"conversion.created", "commission.created", "conversion.refunded", "commission.refunded", "conversion.refunded", "commission.refunded",
	}; !slices.Equal(types, want) {
		t.Errorf("events: %v", types)
	}
}

func TestRefund_Errors(t *testing.T) {
	w := newWorld(t)
	w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
	w.mustRefund("order-1", "refund-1", 4_000)
	w.mustRefund("order-9", "parked", 0)
	lead := purchase("lead-1", w.clickOf(w.participant).ID)
	lead.EventType, lead.AmountCents, lead.Currency = affiliatev1.EventType_EVENT_TYPE_LEAD, nil, nil
	w.mustReport(lead)
	rows := func() (counts []int) {
		for _, table := range []string{"refunds", "events", "commission_history", "stats_deltas", "conversions where refunded_amount_cents = 4000 and version = 2"} {
			counts = append(counts, w.count(table))
		}
		return counts
	}
	before := rows()
	for name, tc := range map[string]struct {
		sale, refund string
		cents        int64
		want         affiliate.Reason
		left         string
	}{
		"again":                            {"order-1", "refund-1", 4_000, affiliate.ReasonRefundDuplicate, ""},
		"again, of more than is left":      {"order-1", "refund-1", 9_000, affiliate.ReasonRefundDuplicate, ""},
		"again, of another sale":           {"lead-1", "refund-1", 0, affiliate.ReasonRefundDuplicate, ""},
		"again, of an unknown sale":        {"order-2", "refund-1", 0, affiliate.ReasonRefundDuplicate, ""},
		"a parked one again":               {"order-9", "parked", 0, affiliate.ReasonRefundDuplicate, ""},
		"a parked one again, a known sale": {"order-1", "parked", 1, affiliate.ReasonRefundDuplicate, ""},
		"more than is left":                {"order-1", "refund-2", 6_001, affiliate.ReasonRefundExceedsAmount, "6000"},
		"an amount of none":                {"lead-1", "refund-2", 1, affiliate.ReasonRefundExceedsAmount, "0"},
	} {
		_, code, err := w.refund(tc.sale, tc.refund, tc.cents)
		if meta := pgtest.RequireRefusal(t, err, tc.want); meta["refundable_cents"] != tc.left || code != "" {
			t.Errorf("%s: %v, %s", name, meta, code)
		}
	}
	if after := rows(); !slices.Equal(after, before) {
		t.Errorf("before %v, after %v", before, after)
	}

	w.mustRefund("order-1", "refund-2", 6_000)
	w.mustRefund("lead-1", "refund-3", 0)
	for _, sale := range []string{"order-1", "lead-1"} {
		_, _, err := w.refund(sale, "refund-4", 0)
		if left := pgtest.RequireRefusal(t, err, affiliate.ReasonRefundExceedsAmount)["refundable_cents"]; left != "0" {
			t.Errorf("%s left", left)
		}
	}
	// The external ids of refunds are unique only within a scope.
	live := affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeLive}
	r, err := w.service.RefundConversion(as(live), &affiliatev1.RefundConversionRequest{ExternalTransactionId: "order-1", ExternalRefundId: "refund-1"})
	if err != nil || r.GetStatus() != affiliatev1.RefundStatus_REFUND_STATUS_PARKED {
		t.Errorf("%v, %v", r, err)
	}
}

// The refund of a lead ends its flat commission, although no money is paid back.
func TestRefund_OfLeadEndsFlatCommission(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set rules = rules || '{"commission_type":"flat","flat_amount_cents":500,"hold_period_days":0,"events":[{"event_type":"lead"},{"event_type":"purchase"}]}'`)
	lead := purchase("lead-1", w.clickOf(w.participant).ID)
	lead.EventType, lead.AmountCents, lead.Currency = affiliatev1.EventType_EVENT_TYPE_LEAD, nil, nil
	w.mustReport(lead)
	r := w.mustRefund("lead-1", "refund-1", 0)
	if r.AmountCents == nil || r.GetAmountCents() != 0 || r.Currency != nil || r.GetCommission().GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_REFUNDED {
		t.Errorf("%v", r)
	}
	w.wantRefunded("lead-1", 0, affiliate.ConversionRefunded, 0)
	if _, previous := w.LastEvent(affiliate.EventConversionRefunded); previous != nil {
		t.Errorf("%v", previous)
	}

	// A partial refund of a sale does not change a flat commission.
	w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
	r = w.mustRefund("order-1", "refund-2", 9_999)
	if r.GetCommission().GetAmountCents() != 500 || r.GetCommission().GetReversedAmountCents() != 0 {
		t.Errorf("%v", r)
	}
	w.wantCount(1, `commissions where external_transaction_id = 'order-1' and version = 1`)
	w.wantCount(1, `events where type = 'commission.refunded'`)
	w.wantCount(2, `events where type = 'conversion.refunded'`)
	w.mustRefund("order-1", "refund-3", 0)
	w.wantRefunded("order-1", 10_000, affiliate.ConversionRefunded, 0)
	w.wantCount(0, `(select commission_id from ledger_entries group by commission_id having sum(amount_cents) <> 0) x`)
	w.wantCount(2, `ledger_entries where type = 'commission_reversed' and amount_cents = -500`)
}

func TestRefund_OfPaidCommissionClawsBack(t *testing.T) {
	w := newWorld(t)
	sale := w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
	w.pay(sale)
	w.mustRefund("order-1", "refund-1", 5_000)
	w.wantCount(1, `commissions where status = 'paid' and amount_cents = 1500`)
	w.wantCount(1, `ledger_entries where type = 'clawback' and amount_cents = -1500 and created_by = 'system'`)
	w.mustRefund("order-1", "refund-2", 5_000)
	w.wantCount(1, `commissions where status = 'refunded' and amount_cents = 0 and payout_id is not null and paid_at is not null`)
	w.wantCount(2, `ledger_entries where type = 'clawback' and amount_cents = -1500`)
	w.wantCount(1, `(select sum(balance_cents) as owed from ledger_balances) x where owed = 0`)
	object, _ := w.LastEvent(affiliate.EventCommissionRefunded)
	if refund, _ := object["refund"].(map[string]any); refund["type"] != "full" || refund["clawback_cents"] != 1_500.0 {
		t.Errorf("%v", refund)
	}
}

func TestRefund_KeepsRejectedCommission(t *testing.T) {
	w := newWorld(t)
	rejected := w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
	id, _ := affiliate.ParseID[affiliate.Commission](rejected.GetCommission().GetId())
	if _, err := commissionservice.Move(t.Context(), stores.Commission(w.Store), affiliate.CommissionTransition{
		Scope: w.scope, Program: w.program, Commission: id, Move: affiliate.MoveReject, Actor: affiliate.Actor{User: &merchant}, At: w.now(),
	}); err != nil {
		t.Fatal(err)
	}
	r := w.mustRefund("order-1", "refund-1", 0)
	if r.GetCommission().GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED || r.GetCommission().GetAmountCents() != 3_000 {
		t.Errorf("%v", r)
	}
	w.mustReport(withCode("order-2", "unknown"))
	if r = w.mustRefund("order-2", "refund-2", 1_000); r.GetCommission() != nil || r.GetRefundedAmountCents() != 1_000 {
		t.Errorf("%v", r)
	}
	w.wantCount(0, `events where type = 'commission.refunded'`)
	w.wantCount(2, `events where type = 'conversion.refunded'`)
	w.wantStats(w.participant, "EUR", stats{conversions: 1})
}

func TestRefund_ParallelRefundsNeverExceedSale(t *testing.T) {
	w := newWorld(t)
	w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
	var wg sync.WaitGroup
	var applied, exceeded, duplicates atomic.Int64
	for i := range 100 {
		wg.Go(func() {
			// Each id is sent twice with 300 cents. 33 refunds fit, and 100 cents are left.
			switch _, _, err := w.refund("order-1", fmt.Sprint("refund-", i/2), 300); {
			case err == nil:
				applied.Add(1)
			case refused(err, affiliate.ReasonRefundExceedsAmount):
				exceeded.Add(1)
			case refused(err, affiliate.ReasonRefundDuplicate):
				duplicates.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if applied.Load() != 33 || exceeded.Load() != 34 || duplicates.Load() != 33 {
		t.Errorf("%d applied, %d exceeded, %d duplicates", applied.Load(), exceeded.Load(), duplicates.Load())
	}
	w.wantRefunded("order-1", 9_900, affiliate.ConversionPartiallyRefunded, 30)
	w.wantCount(33, `refunds where conversion_id is not null and amount_cents = 300`)
	w.wantCount(33, `refunds`)
	w.wantCount(33, `events where type = 'conversion.refunded'`)
	w.wantCount(1, `conversions where version = 34`)
	w.wantStats(w.participant, "EUR", stats{conversions: 1, revenue: 100, commission: 30})
}

func TestRefund_BeforeConversionIsParkedAndApplied(t *testing.T) {
	w := newWorld(t)
	for i, cents := range []int64{4_000, 9_000, 0} {
		r, code, err := w.refund("order-1", fmt.Sprint("refund-", i), cents)
		if err != nil || code != "202" || r.GetStatus() != affiliatev1.RefundStatus_REFUND_STATUS_PARKED || r.ConversionId != nil ||
			r.Currency != nil || r.RefundedAmountCents != nil || r.Commission != nil || (r.AmountCents == nil) != (cents == 0) || r.GetAmountCents() != cents {
			t.Fatalf("%s %v, %v", code, r, err)
		}
	}
	w.mustRefund("order-2", "refund-of-another", 1_000)
	w.wantCount(4, `refunds where expires_at = created_at + interval '90 days' and conversion_id is null`)

	r := w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
	if r.GetCommission().GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_REFUNDED || r.GetCommission().GetAmountCents() != 0 {
		t.Errorf("%v", r)
	}
	// A parked refund that exceeds the rest refunds only the rest; the next one refunds 0.
	for i, gave := range []int64{4_000, 6_000, 0} {
		w.wantCount(1, `refunds where external_refund_id = $1 and conversion_id = $2 and amount_cents = $3 and applied_at is not null`,
			fmt.Sprint("refund-", i), r.GetId(), gave)
	}
	w.wantRefunded("order-1", 10_000, affiliate.ConversionRefunded, 0)
	w.wantCount(1, `conversions where version = 3`)
	w.wantCount(1, `commissions where version = 2 and original_amount_cents = 3000`)
	w.wantCount(1, `refunds where conversion_id is null`)
	w.wantStats(w.participant, "EUR", stats{conversions: 1})
	types, objects := w.Events()
	if want := []string{"conversion.created", "conversion.refunded", "conversion.refunded", "commission.created", "commission.refunded"}; !slices.Equal(types, want) {
		t.Fatalf("events: %v", types)
	}
	for i, want := range []float64{0, 4_000, 10_000} {
		if objects[i]["refunded_amount_cents"] != want || objects[i]["version"] != float64(i+1) {
			t.Errorf("%v", objects[i])
		}
	}
}

// The transactions of a refund and of its conversion may not see each other's rows. The
// next sweep, or the next refund of the sale, finds both.
func TestRefundSweep_FindsMissedConversion(t *testing.T) {
	w := newWorld(t)
	w.mustRefund("order-1", "refund-1", 4_000)
	w.mustRefund("order-2", "refund-2", 4_000)
	w.mustRefund("order-3", "refund-3", 4_000)
	// Create the state that two such transactions leave.
	w.Exec(`update refunds set external_transaction_id = 'hidden-' || external_transaction_id`)
	w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
	w.mustReport(purchase("order-2", w.clickOf(w.participant).ID))
	w.Exec(`update refunds set external_transaction_id = substr(external_transaction_id, 8)`)

	r := w.mustRefund("order-1", "refund-4", 0)
	if r.GetAmountCents() != 6_000 || r.GetRefundedAmountCents() != 10_000 {
		t.Errorf("%v", r)
	}
	for range 2 {
		if _, err := w.service.SweepRefunds(t.Context(), affiliate.ParkedSale{}); err != nil {
			t.Fatal(err)
		}
	}
	w.wantRefunded("order-1", 10_000, affiliate.ConversionRefunded, 0)
	w.wantRefunded("order-2", 4_000, affiliate.ConversionPartiallyRefunded, 1_800)
	w.wantCount(1, `refunds where conversion_id is null and external_refund_id = 'refund-3'`)
	w.wantCount(3, `events where type = 'conversion.refunded'`)
}

// Refunds, their conversions and sweeps run in parallel. After the last sweep, each
// refund is applied once.
func TestRefund_ParallelToConversion(t *testing.T) {
	w := newWorld(t)
	const rounds, each = 60, 3
	for i := range rounds {
		sale := fmt.Sprint("order-", i)
		click := w.clickOf(w.participant).ID
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.report(purchase(sale, click)); err != nil {
				t.Error(err)
			}
		})
		for j := range each {
			wg.Go(func() {
				if _, _, err := w.refund(sale, fmt.Sprint(sale, "-refund-", j), 1_000); err != nil {
					t.Error(err)
				}
			})
		}
		if i%2 == 0 {
			wg.Go(func() {
				if _, err := w.service.SweepRefunds(context.Background(), affiliate.ParkedSale{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := w.service.SweepRefunds(context.Background(), affiliate.ParkedSale{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.wantCount(rounds*each, `refunds r join conversions c on c.id = r.conversion_id and c.external_transaction_id = r.external_transaction_id where r.amount_cents = 1000`)
	w.wantCount(rounds*each, `refunds`)
	w.wantCount(rounds, `conversions where refunded_amount_cents = 3000 and status = 'partially_refunded' and version = 4`)
	w.wantCount(rounds, `commissions where amount_cents = 2100`)
	w.wantCount(rounds*each, `events where type = 'conversion.refunded'`)
	w.wantStats(w.participant, "EUR", stats{conversions: rounds, revenue: 7_000 * rounds, commission: 2_100 * rounds})
	w.wantCount(0, `pg_stat_database where datname = current_database() and deadlocks > 0`)
}

func TestRefundSweep_DeletesRefundsAfterNinetyDays(t *testing.T) {
	w := newWorld(t)
	w.mustRefund("order-1", "refund-1", 4_000)
	w.mustReport(purchase("order-2", w.clickOf(w.participant).ID))
	w.mustRefund("order-2", "refund-2", 4_000)
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{90*24*time.Hour - time.Minute, 1}, {90*24*time.Hour + time.Minute, 0}} {
		w.offset.Store(int64(step.after))
		if _, err := w.service.SweepRefunds(t.Context(), affiliate.ParkedSale{}); err != nil {
			t.Fatal(err)
		}
		w.wantCount(step.left, `refunds where conversion_id is null`)
		w.wantCount(1, `refunds where conversion_id is not null`)
	}
	// The external id of the deleted refund can be used again.
	w.mustRefund("order-1", "refund-1", 4_000)
}

// If one sale fails, the sweep still applies the other refunds and deletes expired ones.
func TestRefundSweep_ContinuesAfterFailedSale(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.mustRefund(fmt.Sprint("order-", i), fmt.Sprint("refund-", i), 0)
	}
	w.Exec(`update refunds set external_transaction_id = 'hidden-' || external_transaction_id`)
	for i := range 3 {
		w.mustReport(purchase(fmt.Sprint("order-", i), w.clickOf(w.participant).ID))
	}
	w.Exec(`update refunds set external_transaction_id = substr(external_transaction_id, 8)`)
	w.Exec(`alter table conversions add constraint broken check (external_transaction_id <> 'order-1' or refunded_amount_cents = 0) not valid`)
	w.mustRefund("order-9", "expired", 0)
	w.Exec(`update refunds set expires_at = created_at where external_refund_id = 'expired'`)
	if _, err := w.service.SweepRefunds(t.Context(), affiliate.ParkedSale{}); err == nil {
		t.Error("the sweep returned no error")
	}
	w.wantCount(2, `conversions where status = 'refunded'`)
	w.wantCount(0, `refunds where external_refund_id = 'expired'`)
	w.wantCount(1, `refunds where conversion_id is null`)
}

// After refunds, a reattribution moves only the rest of the sale: the new participant
// gets the commission and the revenue of the amount that is not refunded.
func TestReattribute_AfterRefunds(t *testing.T) {
	for name, tc := range map[string]struct {
		cents  int64
		status affiliatev1.CommissionStatus
		earns  int64
		types  []string
	}{
		"in part": {5_000, affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING, 1_500, []string{
			"conversion.reattributed", "commission.rejected", "commission.created", "commission.refunded",
		}},
		"in full": {10_000, affiliatev1.CommissionStatus_COMMISSION_STATUS_REFUNDED, 0, []string{
			"conversion.reattributed", "commission.created", "commission.refunded",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			other, _ := w.newParticipant(w.scope, w.program)
			r := w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
			w.mustRefund("order-1", "refund-1", tc.cents)
			after := w.mustReattribute(r.GetId(), other)
			if c := after.GetCommission(); c.GetAmountCents() != tc.earns || c.GetStatus() != tc.status {
				t.Errorf("%v", c)
			}
			w.wantCount(1, `commissions where participant_id = $1 and original_amount_cents = 3000 and amount_cents = $2 and version = 2`, other, tc.earns)
			w.wantCount(2, `commission_history h join commissions m on m.id = h.commission_id where m.participant_id = $1`, other)
			w.wantStats(w.participant, "EUR", stats{})
			w.wantStats(other, "EUR", stats{conversions: 1, revenue: 10_000 - tc.cents, commission: tc.earns})
			types, _ := w.Events()
			if got := types[len(types)-len(tc.types):]; !slices.Equal(got, tc.types) {
				t.Errorf("events: %v", got)
			}
			if tc.cents < 10_000 {
				w.mustRefund("order-1", "refund-2", 2_000)
				w.wantStats(w.participant, "EUR", stats{})
				w.wantStats(other, "EUR", stats{conversions: 1, revenue: 3_000, commission: 900})
			}
		})
	}
}

// A click that arrives after refunds earns a commission on the amount that is left.
func TestLateClick_AfterRefunds(t *testing.T) {
	w := newWorld(t)
	late := w.lateConversion("order-1")
	r := w.mustRefund("order-1", "refund-1", 5_000)
	if r.Commission != nil {
		t.Fatalf("%v", r)
	}
	if err := w.service.AttributeAwaited(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	w.wantRefunded("order-1", 5_000, affiliate.ConversionPartiallyRefunded, 1_500)
	w.wantCount(1, `conversions where version = 3 and attributed`)
	w.wantStats(w.participant, "EUR", stats{conversions: 1, revenue: 5_000, commission: 1_500})
	if object, _ := w.LastEvent(affiliate.EventConversionReattributed); object["refunded_amount_cents"] != 5_000.0 || object["version"] != 3.0 {
		t.Errorf("%v", object)
	}
}

// Refunds, reattributions and late clicks of the same conversions run in parallel. At the
// end only the chosen participant has a commission, on the amount that is not refunded.
func TestRefund_ParallelToReattribution(t *testing.T) {
	w := newWorld(t)
	other, _ := w.newParticipant(w.scope, w.program)
	const conversions = 20
	var wg sync.WaitGroup
	for i := range conversions {
		sale := fmt.Sprint("order-", i)
		late := w.lateConversion(sale)
		id := w.id(`select id from conversions where external_transaction_id = $1`, sale)
		for j := range 2 {
			wg.Go(func() {
				if _, _, err := w.refund(sale, sale+strconv.Itoa(j), 2_500); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if err := w.service.AttributeAwaited(context.Background(), late); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			_, err := w.reattribute(id, other)
			var refusal *affiliate.Error
			if err != nil && !errors.As(err, &refusal) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.wantCount(conversions, `conversions where refunded_amount_cents = 5000 and participant_id = $1`, other)
	w.wantCount(conversions, `commissions m join conversions c on c.decision_id = m.decision_id where m.amount_cents = 1500 and m.status = 'pending'`)
	w.wantCount(conversions, `commissions where status <> 'rejected'`)
	w.wantStats(w.participant, "EUR", stats{})
	w.wantStats(other, "EUR", stats{conversions: conversions, revenue: 5_000 * conversions, commission: 1_500 * conversions})
}

func TestRefundSweep_RunsAsPeriodicJob(t *testing.T) {
	w := newWorld(t)
	w.mustRefund("order-1", "refund-1", 0)
	w.Exec(`update refunds set external_transaction_id = 'order-2'`)
	w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
	w.Exec(`update refunds set external_transaction_id = 'order-1'`)
	w.work(w.service.PeriodicJobs())
	for deadline := time.Now().Add(20 * time.Second); w.count(`refunds where conversion_id is not null`) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the refund is still parked")
		}
	}
	w.wantRefunded("order-1", 10_000, affiliate.ConversionRefunded, 0)
}

// Tiers do not count conversions that were refunded in full. They count partially
// refunded conversions with the rest of the revenue.
func TestTiers_CountAmountsThatAreNotRefunded(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set rules = rules || '{"tiers":[{"min_conversions":2,"rate_bps":4000}]}'`)
	click := w.clickOf(w.participant)
	earned := func(external string) int64 {
		return w.mustReport(purchase(external, click.ID)).GetCommission().GetAmountCents()
	}
	earned("order-1")
	earned("order-2")
	w.mustRefund("order-1", "refund-1", 0)
	w.mustRefund("order-2", "refund-2", 9_999)
	if got := earned("one is left"); got != 3_000 {
		t.Errorf("%d", got)
	}
	if _, err := w.Store.FoldStats(t.Context(), 1_000); err != nil {
		t.Fatal(err)
	}
	if got := earned("two are left"); got != 4_000 {
		t.Errorf("%d", got)
	}
	w.Exec(`update programs set rules = rules || '{"tiers":[{"min_revenue_cents":20002,"rate_bps":5000},{"min_revenue_cents":20001,"rate_bps":4500}]}'`)
	if got := earned("200.01 are left"); got != 4_500 {
		t.Errorf("%d", got)
	}
	w.wantCount(1, `participant_totals where participant_id = $1 and conversions = 3`, w.participant)
}
