package conversion_test

import (
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func maxRedemptions(n int64) func(*promocode.PromoCode) {
	return func(c *promocode.PromoCode) { c.MaxRedemptions = &n }
}

func TestPromoCode_PrecedenceOfProgramme(t *testing.T) {
	for _, tc := range []struct {
		precedence, reason, method string
		codeWins                   bool
	}{
		{"click_first", "CLICK_MATCHED", "click", false},
		{"promo_code_first", "PROMO_CODE_MATCHED", "promo_code", true},
	} {
		t.Run(tc.precedence, func(t *testing.T) {
			f := newFixture(t, pgtest.Row{"signal_precedence": tc.precedence})
			other := f.Join("Olga")
			f.NewPromoCode(other, "spring10")
			audits, jobs := f.Count(`select count(*) from audit_log`), f.CountJobs("sync_directory")
			winner := f.pat
			if tc.codeWins {
				winner = other
			}
			click := f.NewClick(f.pat)
			req := purchase("order-1", click.ID)
			req.PromoCode = new("SPRING10")
			r := f.mustReport(req)
			servertest.WantFields(t, "response", r, &affiliatev1.ReportConversionResponse{
				Attribution: &affiliatev1.ConversionAttribution{
					ReasonCode: tc.reason, Method: &tc.method, ParticipantId: new(winner.ID.String()),
					ClickId: new(click.ID.String()), PromoCode: new("spring10"),
				},
				Commission: &affiliatev1.ConversionCommission{AmountCents: 3_000},
			})
			candidates := f.trace(r.GetAttribution().GetDecisionId()).Candidates
			if len(candidates) != 2 || string(candidates[0].Type) != tc.method || !candidates[0].Eligible ||
				candidates[1].Eligible || *candidates[1].RejectedBecause != "OUTRANKED" || *candidates[1].Participant == winner.ID {
				t.Errorf("the candidates are %+v, want an eligible %s and an outranked signal of the other participant", candidates, tc.method)
			}
			f.wantRows(1, `commissions where participant_id = $1 and (promo_code is not null) = $2 and (click_id is not null) = not $2`,
				winner.ID, tc.codeWins)
			// The order redeems the promo code, even if the order is attributed to
			// its click.
			f.wantRows(1, `promo_codes where redemptions = 1 and version = 1`)
			f.wantRows(audits, `audit_log`)
			if got := f.CountJobs("sync_directory") - jobs; got != 0 {
				t.Errorf("the redemption enqueued %d jobs that update the edge directory, want none", got)
			}
		})
	}
}

func TestPromoCode_NotUsable(t *testing.T) {
	f := newFixture(t, pgtest.Row{"signal_precedence": "promo_code_first"})
	yesterday := f.clock.Now().Add(-day)
	f.NewPromoCode(f.pat, "expired", func(c *promocode.PromoCode) { c.ExpiresAt = &yesterday })
	f.NewPromoCode(f.pat, "inactive")
	f.Exec(`update promo_codes set active = false where code = 'inactive'`)
	f.NewPromoCode(f.pat, "used-up", maxRedemptions(1))
	f.wantReason(f.mustReport(purchaseWithCode("last redemption", "used-up")), "PROMO_CODE_MATCHED")
	for _, code := range []string{"Expired", "INACTIVE", "used-up"} {
		f.wantReason(f.reportUnattributed(purchaseWithCode(code, code)), "PROMO_CODE_INACTIVE")
		withClick := purchase(code+" and a click", f.NewClick(f.pat).ID)
		withClick.PromoCode = &code
		f.wantReason(f.mustReport(withClick), "CLICK_MATCHED")
	}
	f.wantRows(1, `promo_codes where redemptions > 0`)
	f.wantRows(0, `promo_codes where redemptions > 1`)

	earlier := purchaseWithCode("before the code expired", "expired")
	earlier.OccurredAt = timestamppb.New(yesterday.Add(-time.Hour))
	f.wantReason(f.mustReport(earlier), "PROMO_CODE_MATCHED")
}

func TestPromoCode_ParallelConversionsRespectMaxRedemptions(t *testing.T) {
	const orders, limit = 50, 10
	for name, customers := range map[string]int{"no customers": 0, "half of the orders have one of 3 customers": 3} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.NewPromoCode(f.pat, "spring10", maxRedemptions(limit))
			f.Exec(`delete from river.river_job`)
			var matched, inactive, bound atomic.Int64
			calls := f.parallelCalls()
			for i := range orders {
				calls.start("report", func() error {
					req := purchaseWithCode(fmt.Sprint("order-", i), "Spring10")
					if customers > 0 && i%2 == 0 {
						req.CustomerId = new(fmt.Sprint("customer-", i/2%customers))
					}
					r, err := f.report(req)
					if err != nil {
						return err
					}
					counter, earns := &inactive, false
					switch r.GetAttribution().GetReasonCode() {
					case "PROMO_CODE_MATCHED":
						counter, earns = &matched, true
					case "CUSTOMER_BOUND": // the code was used up, and an earlier order had bound the customer
						counter, earns = &bound, true
					default:
						f.wantReason(r, "PROMO_CODE_INACTIVE")
					}
					counter.Add(1)
					if got := r.GetCommission() != nil; got != earns || r.GetAttributed() != earns {
						t.Errorf("%v: attributed is %t and there is a commission: %t, want %t for both", r, r.GetAttributed(), got, earns)
					}
					return nil
				})
			}
			calls.want(map[string]int{"report": orders})
			if matched.Load() != limit || matched.Load()+inactive.Load()+bound.Load() != orders || customers == 0 && bound.Load() > 0 {
				t.Errorf("%d of %d orders are attributed to the code, %d to a customer and %d to nothing, want %d to the code",
					matched.Load(), orders, bound.Load(), inactive.Load(), limit)
			}
			f.wantRows(1, `promo_codes where redemptions = $1`, limit)
			f.wantRows(limit, `conversions where reason_code = 'PROMO_CODE_MATCHED' and attributed`)
			f.wantRows(int(inactive.Load()), `conversions where reason_code = 'PROMO_CODE_INACTIVE' and not attributed`)
			commissions := matched.Load() + bound.Load()
			f.wantRows(int(commissions), `commissions`)
			f.wantStats(f.pat, "EUR", stats{conversions: commissions, revenue: 10_000 * commissions, commission: 3_000 * commissions})
			f.wantRows(1, `river.river_job where kind = 'sync_directory' and args->>'participant' = $1 and queue = 'directory'`, f.pat.ID.String())
		})
	}
}

func TestPromoCode_DuplicateReportStoresNothing(t *testing.T) {
	f := newFixture(t)
	f.NewPromoCode(f.pat, "spring10")
	before := f.Count(`select count(*) from events`)
	withCustomer := func(customer string) *reportRequest {
		r := purchaseWithCode("order-1", "spring10")
		r.CustomerId = &customer
		return r
	}
	f.mustReport(withCustomer("ann"))
	calls := f.parallelCalls()
	for i := range 20 {
		calls.start("report", func() error {
			_, err := f.report(withCustomer([]string{"ann", "ben", "cem"}[i%3]))
			return err
		})
	}
	calls.want(map[string]int{"report CONVERSION_DUPLICATE": 20})
	for fromClause, want := range map[string]int{
		"promo_codes where redemptions = 1": 1, "customers": 1, "customer_payments where payments = 1": 1, "customer_payments": 1,
		"stats_deltas": 1, "conversions": 1, "commissions": 1, "attribution_decisions": 1, "events": before + 2,
	} {
		f.wantRows(want, fromClause)
	}
}

func TestPromoCode_OfOtherModeIsRejected(t *testing.T) {
	f := newFixture(t)
	live := f.InOtherMode(pgtest.Rules())
	lia := live.Join("Lia")
	f.NewPromoCode(lia, "live-only")
	f.NewPromoCode(lia, "both")
	f.NewPromoCode(f.pat, "both")

	f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	withClick := purchaseBy("ann", "order-2", f.NewClick(f.pat).ID)
	withClick.PromoCode = new("live-only")
	for name, req := range map[string]*reportRequest{
		"duplicate":      purchaseWithCode("order-1", "Live-Only"),
		"only the code":  purchaseWithCode("order-2", "LIVE-ONLY"),
		"code and click": withClick,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.report(req)
			pgtest.RequireRefusal(t, err, affiliate.ReasonModeMismatch)
		})
	}
	f.wantRows(1, `conversions`)
	f.wantRows(0, `customers`)
	f.wantAttribution(f.mustReport(purchaseWithCode("order-3", "both")), "PROMO_CODE_MATCHED", f.pat)
	r, err := f.service.ReportConversion(servertest.AsSecretKey(t, live.Scope), purchaseWithCode("order-3", "both"))
	if err != nil {
		t.Fatalf("ReportConversion in live mode: %v", err)
	}
	f.wantAttribution(r, "PROMO_CODE_MATCHED", lia)

	elsewhere := f.NewShop(affiliate.ModeTest)
	r, err = f.service.ReportConversion(servertest.AsSecretKey(t, elsewhere.Scope), purchaseWithCode("order-4", "both"))
	if err != nil {
		t.Fatalf("ReportConversion in another workspace: %v", err)
	}
	f.wantReason(r, "PROMO_CODE_UNKNOWN")
	f.wantRows(2, `promo_codes where redemptions = 1`)
}

// Parallel conversions use the same customers and promo codes in different combinations,
// together with reattributions and duplicates. No transaction may deadlock.
func TestReport_MixedLoadDoesNotDeadlock(t *testing.T) {
	f := newFixture(t)
	participants := []pgtest.Participant{f.pat, f.Join("Olga")}
	const codes, customers, orders, duplicates = 3, 4, 100, 20
	for i := range codes {
		f.NewPromoCode(participants[i%2], fmt.Sprint("code-", i), maxRedemptions(40))
	}
	calls := f.parallelCalls()
	for i := range orders + duplicates {
		click := f.NewClick(f.pat)
		calls.start("report", func() error {
			req := purchaseWithCode(fmt.Sprint("order-", i%orders), fmt.Sprint("code-", i%codes))
			req.CustomerId = new(fmt.Sprint("customer-", (i/2)%customers))
			if i%4 == 0 {
				req.ClickId = new(click.ID.String())
			}
			r, err := f.report(req)
			if err == nil && i%3 == 0 {
				calls.start("reattribute", func() error {
					_, err := f.reattribute(r.GetId(), participants[i%2])
					return err
				})
			}
			return err
		})
	}
	// A reattribution to the current participant is rejected.
	results := calls.wait()
	succeeded, rejected := results["reattribute"], results["reattribute VALIDATION_ERROR"]
	want := map[string]int{
		"report": orders, "report CONVERSION_DUPLICATE": duplicates, "reattribute": succeeded, "reattribute VALIDATION_ERROR": rejected,
	}
	if !maps.Equal(results, want) || succeeded == 0 || rejected == 0 {
		t.Errorf("the calls had the results %v, want %v and at least one of each result of a reattribution", results, want)
	}
	f.wantRows(orders, `conversions`)
	f.wantRows(customers, `customers c join conversions v on v.customer_ref = c.ref and v.id = c.conversion_id where c.program_id is not null`)
	f.wantRows(0, `promo_codes where redemptions > max_redemptions`)
	f.wantRows(orders, `(select distinct customer_ref, recurring_index from conversions where recurring_index is not null) x`)
	f.wantRows(orders, `commissions where status <> 'rejected'`)
	f.wantNoDeadlocks()
}

// wantNoDeadlocks closes the database and checks that no transaction has deadlocked.
func (f *fixture) wantNoDeadlocks() {
	f.Helper()
	// A session adds its deadlocks to the statistics when it ends. Before that, a
	// deadlock whose transaction was retried might not be counted yet.
	f.DB.Close()
	pgtest.Eventually(f, "the sessions of the service have ended", func() bool {
		return f.Count(`select count(*) from pg_stat_activity where datname = current_database() and application_name = 'tributary'`) == 0
	})
	f.wantRows(0, `pg_stat_database where datname = current_database() and deadlocks > 0`)
}
