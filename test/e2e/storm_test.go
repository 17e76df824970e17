package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres"
)

// TestLedger_ConsistentUnderConcurrency runs all calls that move money concurrently for
// the same few partners. Afterwards the ledger check must find no violation.
func TestLedger_ConsistentUnderConcurrency(t *testing.T) {
	t.Parallel()
	const (
		sellers = 6
		rounds  = 12
	)
	sys := start(t, setup{})
	w := sys.world(t, "live", rules(object{"holdPeriodDays": 0}))
	held := sys.worldOf(t, w.merchant, w.partner, rules(nil))
	w.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com"}).want(http.StatusOK)
	clicks := []string{w.click(t), held.click(t)}
	worlds := []world{w, held}

	// refused contains the errors that a call may get because another call was faster.
	refused := map[string]bool{
		"409 COMMISSION_NOT_PENDING": true, "409 COMMISSION_TERMINAL": true, "409 COMMISSION_HOLD_ACTIVE": true, "409 COMMISSION_HOLD_NOT_ACTIVE": true,
		"409 PAYOUT_STATE_INVALID": true, "422 REFUND_EXCEEDS_AMOUNT": true, "409 CONVERSION_DUPLICATE": true,
	}
	fits := func(a response) {
		if a.status >= http.StatusBadRequest {
			for outcome := range countStatuses([]response{a}) {
				if !refused[outcome] {
					t.Errorf("%s: %s", a.request, a.body)
				}
			}
		}
	}
	var storm sync.WaitGroup
	for seller := range sellers {
		random := rand.New(rand.NewPCG(1, uint64(seller))) //nolint:gosec // the test must be repeatable
		storm.Go(func() {
			for round := range rounds {
				which := random.IntN(2)
				in, click := worlds[which], clicks[which]
				external := fmt.Sprintf("storm-%d-%d", seller, round)
				if random.IntN(4) == 0 {
					fits(in.refund(t, external, object{"amount_cents": 1 + random.IntN(5000)}))
				}
				sale := purchase(click)
				sale["external_transaction_id"], sale["amount_cents"] = external, 5000+random.IntN(9000)
				made := in.report(t, sale)
				fits(made)
				id := made.text("commission.id")
				part := 1 + random.IntN(5000)
				var moves sync.WaitGroup
				for _, move := range []func(){
					func() { fits(in.refund(t, external, object{"amount_cents": part})) },
					func() { fits(in.merchant.patch(t, in.commissionPath(id)+"/reject", nil)) },
					func() { fits(in.merchant.patch(t, in.commissionPath(id)+"/approve", nil)) },
					func() {
						fits(in.merchant.patch(t, in.commissionPath(id)+"/approve-override", object{"reason": "Storm"}))
					},
					func() { fits(in.refund(t, external, nil)) },
				} {
					if random.IntN(2) == 0 {
						moves.Go(move)
					}
				}
				moves.Wait()
			}
		})
	}
	for payer := range 2 {
		random := rand.New(rand.NewPCG(2, uint64(payer))) //nolint:gosec // the test must be repeatable
		storm.Go(func() {
			for range rounds {
				made := w.batch(t, object{})
				fits(made)
				if made.status != http.StatusCreated {
					continue
				}
				path := batchesPath + "/" + made.text("id")
				fits(w.merchant.post(t, path+"/confirm", nil))
				if random.IntN(2) == 0 {
					fits(w.merchant.get(t, path+"/export"))
				}
				payouts := w.merchant.get(t, "/api/v1/payouts?batchId="+made.text("id")).want(http.StatusOK)
				for i := range payouts.length("data") {
					payout := "/api/v1/payouts/" + payouts.text(fmt.Sprintf("data.%d.id", i))
					switch random.IntN(4) {
					case 0:
						fits(w.merchant.patch(t, payout+"/mark-failed", object{"reason": "Storm"}))
						fits(w.merchant.patch(t, payout+"/retry", nil))
					case 1:
						fits(w.merchant.patch(t, payout+"/cancel", nil))
					default:
						fits(w.merchant.patch(t, payout+"/mark-paid", object{"reference": "storm"}))
					}
				}
			}
		})
	}
	storm.Wait()

	store, err := postgres.Open(t.Context(), postgres.Config{URL: sys.database, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	// Jobs may still add counts and apply refunds that arrived before their sale. The
	// checks hold before and after these jobs.
	eventually(t, waitTimeout, "the ledger check finds no violation", func() error {
		results, err := store.CheckAccounts(t.Context(), time.Now)
		for _, result := range results {
			if result.Violated > 0 {
				return fmt.Errorf("%s: %v", result.Name, result.Violations)
			}
		}
		return err
	})
	if n := w.merchant.get(t, "/api/v1/conversions").number("total"); n != sellers*rounds {
		t.Errorf("%d conversions", n)
	}
}
