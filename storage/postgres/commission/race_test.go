package commission_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// move makes a move of a commission. The actor is the owner for the moves that users can
// make, and the system for other moves.
func (f *fixture) move(c commission.Commission, t commission.Transition) error {
	t.Scope, t.Program, t.Commission, t.At = c.Scope, c.Program, c.ID, f.Now()
	switch t.Move {
	case commission.MoveApprove, commission.MoveOverride, commission.MoveReject, commission.MoveClearReview:
		t.Actor = pgtest.By(f.Owner)
	default:
	}
	_, err := commissionservice.Move(f.Context(), f.DB, t)
	return err
}

// After random moves by several goroutines, the counters and balances must match the
// commissions.
func TestMove_KeepsCountsAndBalancesConsistent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := rand.New(rand.NewPCG(11, 12))
	later := f.Now().Add(time.Hour)
	var all []commission.Commission
	for range 3 {
		p := f.Join("Paula")
		for range 12 {
			all = append(all, f.NewDue(p, func(c *commission.Commission) {
				c.CreatedAt = f.Now().Add(-time.Duration(r.Int64N(int64(60 * 24 * time.Hour))))
				c.Currency = []string{"EUR", "USD"}[r.IntN(2)]
				if r.IntN(2) == 0 {
					c.HoldUntil = &later
				}
				if r.IntN(4) == 0 {
					c.Status = commission.Approved
				}
			}))
		}
	}
	reason := "because"
	moves := []commission.Move{
		commission.MoveApprove, commission.MoveOverride, commission.MoveAutoApprove, commission.MoveReject, commission.MoveFlag,
		commission.MoveClearReview, commission.MoveRefund, commission.MoveRefund, commission.MovePay, commission.MovePay, commission.MoveClawBack,
	}
	made := map[commission.Move]int{}
	var lock sync.Mutex
	var group sync.WaitGroup
	for i := range 5 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(13, uint64(i)))
			for range 120 {
				move := commission.Transition{
					Move: moves[r.IntN(len(moves))], Reason: &reason, ReviewReasons: []string{[]string{"a", "b"}[r.IntN(2)]},
					AmountCents: r.Int64N(200), Full: r.IntN(4) == 0, RefundReason: commission.RefundedSale, PaidAt: f.Now(), Payout: new(affiliate.NewID[affiliate.PayoutID](f.Now())),
				}
				err := f.move(all[r.IntN(len(all))], move)
				var refusal *affiliate.Error
				switch {
				case err == nil:
					lock.Lock()
					made[move.Move]++
					lock.Unlock()
				case !errors.As(err, &refusal):
					t.Errorf("the move %s failed with %v, want success or a refusal", move.Move, err)
				}
			}
		})
	}
	group.Wait()
	for _, move := range moves {
		if made[move] == 0 {
			t.Errorf("the move %s was never made", move)
		}
	}
	f.CheckTotals()
	var current []commission.Commission
	for _, c := range all {
		detail, err := commissions.Get(t.Context(), f.DB, f.Scope, f.Program, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		current = append(current, detail.Commission)
	}
	f.checkStats("after all moves", commission.Filter{}, current)
}
