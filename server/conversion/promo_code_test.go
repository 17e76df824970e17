package conversion_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// code stores a usable promo code and then applies change, which is the set clause of an
// SQL update.
func (w *world) code(scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID, code, change string) affiliate.PromoCodeID {
	w.Helper()
	id := affiliate.NewID[affiliate.PromoCode](w.now())
	w.Exec(`
		insert into promo_codes (workspace_id, id, program_id, participant_id, mode, code, discount_type, discount_value,
			active, sync_to_processor, sync_status, created_at, updated_at)
		values ($1, $2, $3, $4, $5, $6, 'percentage', 1000, true, false, 'none', $7, $7)`,
		scope.Workspace, id, program, participant, scope.Mode, code, w.now())
	if change != "" {
		w.Exec(`update promo_codes set `+change+` where id = $1`, id)
	}
	return id
}

// sale returns a report of 100 EUR without a click or promo code, after change.
func sale(external string, change func(*affiliatev1.ReportConversionRequest)) *affiliatev1.ReportConversionRequest {
	r := purchase(external, affiliate.ClickID{})
	r.ClickId = nil
	change(r)
	return r
}

func withCode(external, code string) *affiliatev1.ReportConversionRequest {
	return sale(external, func(r *affiliatev1.ReportConversionRequest) { r.PromoCode = &code })
}

func (w *world) trace(decision string) (trace affiliate.Trace) {
	w.Helper()
	var stored []byte
	if err := w.SQL.QueryRow(context.Background(), `select trace from attribution_decisions where id = $1`, decision).Scan(&stored); err != nil {
		w.Fatal(err)
	}
	if err := json.Unmarshal(stored, &trace); err != nil {
		w.Fatal(err)
	}
	return trace
}

func TestPromoCode_PrecedenceOfProgramme(t *testing.T) {
	w := newWorld(t)
	other, _ := w.newParticipant(w.scope, w.program)
	w.code(w.scope, w.program, other, "spring10", "")
	for _, tc := range []struct {
		precedence, reason, method string
		winner                     affiliate.ParticipantID
	}{
		{"click_first", "CLICK_MATCHED", "click", w.participant},
		{"promo_code_first", "PROMO_CODE_MATCHED", "promo_code", other},
	} {
		w.Exec(`update programs set signal_precedence = $1`, tc.precedence)
		click := w.storeClick(w.click())
		req := purchase(tc.precedence, click.ID)
		req.PromoCode = ptr("SPRING10")
		r := w.mustReport(req)
		a := r.GetAttribution()
		if a.GetReasonCode() != tc.reason || a.GetMethod() != tc.method || a.GetParticipantId() != tc.winner.String() ||
			a.GetClickId() != click.ID.String() || a.GetPromoCode() != "spring10" || r.GetCommission().GetAmountCents() != 3_000 {
			t.Errorf("%s: %v", tc.precedence, r)
		}
		candidates := w.trace(a.GetDecisionId()).Candidates
		if len(candidates) != 2 || string(candidates[0].Type) != tc.method || !candidates[0].Eligible ||
			candidates[1].Eligible || *candidates[1].RejectedBecause != "OUTRANKED" || *candidates[1].Participant == tc.winner {
			t.Errorf("%s: candidates %+v", tc.precedence, candidates)
		}
	}
	// Both orders redeem the promo code, although the first is attributed to its click.
	w.wantCount(1, `promo_codes where redemptions = 2 and version = 1`)
	w.wantCount(1, `commissions where promo_code = 'spring10' and click_id is null and participant_id = $1`, other)
	w.wantCount(1, `commissions where promo_code is null and click_id is not null and participant_id = $1`, w.participant)
	w.wantCount(0, `audit_log`)
	w.wantCount(0, `river.river_job where kind = 'sync_directory'`)
}

func TestPromoCode_NotUsable(t *testing.T) {
	w := newWorld(t)
	w.Exec(`update programs set signal_precedence = 'promo_code_first'`)
	yesterday := w.now().Add(-24 * time.Hour)
	w.code(w.scope, w.program, w.participant, "expired", fmt.Sprintf(`expires_at = '%s'`, yesterday.Format(time.RFC3339)))
	w.code(w.scope, w.program, w.participant, "inactive", `active = false`)
	w.code(w.scope, w.program, w.participant, "used-up", `max_redemptions = 3, redemptions = 3`)
	for _, code := range []string{"Expired", "INACTIVE", "used-up"} {
		if r := w.mustReport(withCode(code, code)); r.GetAttributed() || r.GetAttribution().GetReasonCode() != "PROMO_CODE_INACTIVE" {
			t.Errorf("%s: %v", code, r)
		}
		req := purchase(code+" and a click", w.storeClick(w.click()).ID)
		req.PromoCode = &code
		if r := w.mustReport(req); r.GetAttribution().GetReasonCode() != "CLICK_MATCHED" {
			t.Errorf("%s and a click: %v", code, r)
		}
	}
	w.wantCount(1, `promo_codes where redemptions > 0`)
	w.wantCount(0, `promo_codes where redemptions > 3`)

	before := withCode("before its end", "expired")
	before.OccurredAt = timestamppb.New(yesterday.Add(-time.Hour))
	if r := w.mustReport(before); r.GetAttribution().GetReasonCode() != "PROMO_CODE_MATCHED" {
		t.Errorf("%v", r)
	}
}

func TestPromoCode_ParallelConversionsRespectMaxRedemptions(t *testing.T) {
	w := newWorld(t)
	w.code(w.scope, w.program, w.participant, "spring10", `max_redemptions = 10`)
	var wg sync.WaitGroup
	var matched, inactive atomic.Int64
	for i := range 50 {
		wg.Go(func() {
			req := withCode(fmt.Sprint("order-", i), "Spring10")
			if i%2 == 0 {
				req.CustomerId = ptr(fmt.Sprint("customer-", i%6))
			}
			r, err := w.report(req)
			switch {
			case err != nil:
				t.Error(err)
			case r.GetAttribution().GetReasonCode() == "PROMO_CODE_MATCHED" && r.GetCommission() != nil:
				matched.Add(1)
			case r.GetAttribution().GetReasonCode() == "PROMO_CODE_INACTIVE":
				inactive.Add(1)
			case r.GetAttribution().GetReasonCode() == "CUSTOMER_BOUND":
				inactive.Add(1) // the code was used up, and an earlier order had bound the customer
			default:
				t.Errorf("%v", r)
			}
		})
	}
	wg.Wait()
	if matched.Load() != 10 || inactive.Load() != 40 {
		t.Errorf("%d matched, %d not", matched.Load(), inactive.Load())
	}
	w.wantCount(1, `promo_codes where redemptions = 10 and max_redemptions = 10`)
	w.wantCount(10, `conversions where reason_code = 'PROMO_CODE_MATCHED'`)
	w.wantCount(1, `river.river_job where kind = 'sync_directory' and args->>'participant' = $1 and queue = 'directory'`, w.participant.String())
}

func TestPromoCode_ParallelConversionsWithoutCustomers(t *testing.T) {
	w := newWorld(t)
	w.code(w.scope, w.program, w.participant, "spring10", `max_redemptions = 10`)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if _, err := w.report(withCode(fmt.Sprint("order-", i), "SPRING10")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.wantCount(10, `conversions where reason_code = 'PROMO_CODE_MATCHED' and attributed`)
	w.wantCount(40, `conversions where reason_code = 'PROMO_CODE_INACTIVE' and not attributed`)
	w.wantCount(10, `commissions`)
	w.wantCount(10, `stats_deltas where conversions = 1 and commission_cents = 3000`)
	w.wantCount(1, `promo_codes where redemptions = 10`)
}

func TestPromoCode_DuplicateReportStoresNothing(t *testing.T) {
	w := newWorld(t)
	w.code(w.scope, w.program, w.participant, "spring10", "")
	req := withCode("order-1", "spring10")
	req.CustomerId = ptr("ann")
	w.mustReport(req)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			again := withCode("order-1", "spring10")
			again.CustomerId = ptr([]string{"ann", "ben", "cem"}[i%3])
			if _, err := w.report(again); !refused(err, affiliate.ReasonConversionDuplicate) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for table, want := range map[string]int{
		"promo_codes where redemptions = 1": 1, "customers": 1, "customer_payments where payments = 1": 1, "customer_payments": 1,
		"stats_deltas": 1, "conversions": 1, "commissions": 1, "attribution_decisions": 1, "events": 2,
	} {
		w.wantCount(want, table)
	}
}

func TestPromoCode_OfOtherModeIsRejected(t *testing.T) {
	w := newWorld(t)
	live := affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeLive}
	program := w.newProgram(live)
	participant, _ := w.newParticipant(live, program)
	w.code(live, program, participant, "live-only", "")
	w.code(live, program, participant, "both", "")
	w.code(w.scope, w.program, w.participant, "both", "")

	w.mustReport(purchase("order-1", w.storeClick(w.click()).ID))
	clicked := purchase("order-2", w.storeClick(w.click()).ID)
	clicked.PromoCode, clicked.CustomerId = ptr("live-only"), ptr("ann")
	for name, req := range map[string]*affiliatev1.ReportConversionRequest{
		"before the duplicate": withCode("order-1", "Live-Only"), "alone": withCode("order-2", "LIVE-ONLY"), "beside a good click": clicked,
	} {
		if _, err := w.report(req); !refused(err, affiliate.ReasonModeMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.wantCount(1, `conversions`)
	w.wantCount(0, `customers`)
	if a := w.mustReport(withCode("order-3", "both")).GetAttribution(); a.GetParticipantId() != w.participant.String() {
		t.Errorf("%v", a)
	}
	if r, err := w.service.ReportConversion(as(live), withCode("order-3", "both")); err != nil || r.GetAttribution().GetParticipantId() != participant.String() {
		t.Errorf("%v, %v", r, err)
	}

	stranger := affiliate.Scope{Workspace: w.NewWorkspace(), Mode: w.scope.Mode}
	if r, err := w.service.ReportConversion(as(stranger), withCode("order-4", "both")); err != nil || r.GetAttribution().GetReasonCode() != "PROMO_CODE_UNKNOWN" {
		t.Errorf("%v, %v", r, err)
	}
	w.wantCount(2, `promo_codes where redemptions = 1`)
}

// Parallel conversions use the same customers and promo codes in different combinations,
// together with reattributions and duplicates. No transactions may deadlock.
func TestReport_MixedLoadDoesNotDeadlock(t *testing.T) {
	w := newWorld(t)
	other, _ := w.newParticipant(w.scope, w.program)
	participants := []affiliate.ParticipantID{w.participant, other}
	const codes, customers = 3, 4
	for i := range codes {
		w.code(w.scope, w.program, participants[i%2], fmt.Sprint("code-", i), `max_redemptions = 40`)
	}
	var wg sync.WaitGroup
	for i := range 120 {
		click := w.storeClick(w.click())
		wg.Go(func() {
			req := withCode(fmt.Sprint("order-", i%100), fmt.Sprint("code-", i%codes))
			req.CustomerId = ptr(fmt.Sprint("customer-", (i/2)%customers))
			if i%4 == 0 {
				req.ClickId = ptr(click.ID.String())
			}
			r, err := w.report(req)
			if refused(err, affiliate.ReasonConversionDuplicate) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			if i%3 != 0 {
				return
			}
			_, err = w.reattribute(r.GetId(), participants[i%2])
			var refusal *affiliate.Error
			if err != nil && !errors.As(err, &refusal) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.wantCount(100, `conversions`)
	w.wantCount(customers, `customers c join conversions v on v.customer_ref = c.ref and v.id = c.conversion_id where c.program_id is not null`)
	w.wantCount(0, `promo_codes where redemptions > max_redemptions`)
	w.wantCount(100, `(select distinct customer_ref, recurring_index from conversions where recurring_index is not null) x`)
	w.wantCount(100, `commissions where status <> 'rejected'`)

	// A session adds its deadlocks to the statistics when it ends. Before that, a deadlock
	// whose transaction was retried might not be counted yet.
	w.Store.Close()
	deadline := time.Now().Add(20 * time.Second)
	for w.count(`pg_stat_activity where datname = current_database() and application_name = 'tributary'`) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the store's sessions have not ended after 20 s")
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.wantCount(0, `pg_stat_database where datname = current_database() and deadlocks > 0`)
}
