package postgres_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/cmd/stores"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
)

// checkTotals compares the stored counters, ledger entries and balances with the
// commissions.
func (f *fixture) checkTotals() {
	f.Helper()
	const counts = `
		with stored as (
			select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, sum(n) as n, sum(amount_cents) as cents
			from commission_counts
			group by 1, 2, 3, 4, 5, 6, 7, 8 having sum(n) <> 0 or sum(amount_cents) <> 0
		), real as (
			select workspace_id, mode, grain, starts, program_id, status, needs_review, currency, count(*)::numeric as n, sum(amount_cents) as cents
			from commissions c
			cross join lateral (values
				('ever', date '0001-01-01'),
				('month', date_trunc('month', c.created_at at time zone 'UTC')::date),
				('day', (c.created_at at time zone 'UTC')::date)) as g (grain, starts)
			group by 1, 2, 3, 4, 5, 6, 7, 8
		)
		select count(*) from ((table stored except table real) union all (table real except table stored)) d`
	if n := f.Count(counts); n != 0 {
		f.Errorf("%d counters differ from the numbers of commissions, want 0", n)
	}
	const ledger = `
		with owed as (
			select participant_id, currency, sum(amount_cents) as cents from commissions
			where status in ('approved', 'paid') group by 1, 2 having sum(amount_cents) <> 0
		), entries as (
			select participant_id, currency, sum(amount_cents) as cents from ledger_entries group by 1, 2 having sum(amount_cents) <> 0
		), balances as (
			select participant_id, currency, sum(balance_cents) as cents from ledger_balances group by 1, 2 having sum(balance_cents) <> 0
		)
		select count(*) from (
			(table owed except table entries) union all (table entries except table owed)
			union all (table entries except table balances) union all (table balances except table entries)) d`
	if n := f.Count(ledger); n != 0 {
		f.Errorf("%d sums of ledger entries or balances differ from the owed amounts, want 0", n)
	}
	const commissions = `
		select count(*) from commissions c
		where (case when status in ('approved', 'paid') then amount_cents else 0 end) <>
			(select coalesce(sum(amount_cents), 0) from ledger_entries e where e.workspace_id = c.workspace_id and e.commission_id = c.id)`
	if n := f.Count(commissions); n != 0 {
		f.Errorf("%d commissions have ledger entries that do not sum to the owed amount, want 0", n)
	}
}

// move makes a move of a commission. The actor is the owner for the moves that users can
// make, and the system for other moves.
func (f *fixture) move(c commission.Commission, t commission.Transition) error {
	t.Scope, t.Program, t.Commission, t.At = c.Scope, c.Program, c.ID, f.Now()
	switch t.Move {
	case commission.MoveApprove, commission.MoveOverride, commission.MoveReject, commission.MoveClearReview:
		t.Actor = by(f.Owner)
	default:
	}
	_, err := commissionservice.Move(f.Context(), stores.Commission(f.Store), t)
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
			all = append(all, f.newDue(p, func(c *commission.Commission) {
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
	f.checkTotals()
	var current []commission.Commission
	for _, c := range all {
		detail, err := f.Store.Commission(t.Context(), f.Scope, f.Program, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		current = append(current, detail.Commission)
	}
	f.checkStats("after all moves", commission.Filter{}, current)
}
