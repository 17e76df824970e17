package postgres_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
)

func isRefusal(err error, reason affiliate.Reason) bool {
	var refusal *affiliate.Error
	return errors.As(err, &refusal) && refusal.Reason == reason
}

// checkTotals compares the stored counters, ledger entries and balances with the
// commissions.
func (f *commissionFixture) checkTotals() {
	f.t.Helper()
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
	if n := f.count(counts); n != 0 {
		f.t.Errorf("%d counters differ from the numbers of commissions, want 0", n)
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
	if n := f.count(ledger); n != 0 {
		f.t.Errorf("%d sums of ledger entries or balances differ from the owed amounts, want 0", n)
	}
	const commissions = `
		select count(*) from commissions c
		where (case when status in ('approved', 'paid') then amount_cents else 0 end) <>
			(select coalesce(sum(amount_cents), 0) from ledger_entries e where e.workspace_id = c.workspace_id and e.commission_id = c.id)`
	if n := f.count(commissions); n != 0 {
		f.t.Errorf("%d commissions have ledger entries that do not sum to the owed amount, want 0", n)
	}
}

// move makes a move of a commission. The actor is a new user.
func (f *commissionFixture) move(c affiliate.Commission, t affiliate.CommissionTransition) error {
	by := affiliate.NewID[affiliate.User](f.now)
	t.Scope, t.Program, t.Commission, t.At, t.Actor = c.Scope, c.Program, c.ID, f.now, affiliate.Actor{User: &by}
	_, err := commissionservice.Move(f.t.Context(), stores.Commission(f.store), t)
	return err
}

// race runs each attempt n times, all at the same time. It returns for each attempt how
// often it succeeded. The test fails if an attempt fails for a reason that is not in
// reasons.
func (f *commissionFixture) race(n int, reasons []affiliate.Reason, attempts ...func() error) []int {
	f.t.Helper()
	start, successes := make(chan struct{}), make([]int, len(attempts))
	var lock sync.Mutex
	var group sync.WaitGroup
	for i, attempt := range attempts {
		for range n {
			group.Go(func() {
				<-start
				err := attempt()
				lock.Lock()
				defer lock.Unlock()
				if err == nil {
					successes[i]++
					return
				}
				for _, reason := range reasons {
					if isRefusal(err, reason) {
						return
					}
				}
				f.t.Errorf("attempt %d failed with %v, want one of the reasons %v", i, err, reasons)
			})
		}
	}
	close(start)
	group.Wait()
	return successes
}

// checkTrace checks that a commission has one history entry, one event and one version
// per move.
func (f *commissionFixture) checkTrace(c affiliate.Commission, moves int) {
	f.t.Helper()
	for what, n := range map[string]int{
		"history entries": f.count(`select count(*) from commission_history where commission_id = $1 and seq > 1`, c.ID),
		"events":          f.count(`select count(*) from events where convert_from(body, 'utf8')::jsonb #>> '{data,object,id}' = $1::text`, c.ID.String()),
		"versions":        f.count(`select version - 1 from commissions where id = $1`, c.ID),
	} {
		if n != moves {
			f.t.Errorf("after %d moves, the commission has %d %s", moves, n, what)
		}
	}
}

func TestMove_ConcurrentMovesHaveOneWinner(t *testing.T) {
	t.Parallel()
	f := newCommissionFixture(t)
	participant, partner := f.participant(affiliate.ParticipantApproved, false)
	later, reason := f.now.Add(time.Hour), "trusted"
	held := func(c *affiliate.Commission) { c.HoldUntil, c.AutoApproveAt = &later, &later }
	endedReasons := []affiliate.Reason{affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionTerminal}
	approve := affiliate.CommissionTransition{Move: affiliate.MoveApprove}
	override := affiliate.CommissionTransition{Move: affiliate.MoveOverride, Reason: &reason}
	reject := affiliate.CommissionTransition{Move: affiliate.MoveReject}
	clearFlag := affiliate.CommissionTransition{Move: affiliate.MoveClearReview}

	for _, c := range []struct {
		name   string
		n      int
		change func(*affiliate.Commission)
		first  affiliate.CommissionTransition
	}{
		{"approve and reject", 50, nil, approve},
		{"override and reject", 25, held, override},
	} {
		t.Run(c.name, func(t *testing.T) {
			commission := f.commission(participant, partner, c.change)
			successes := f.race(c.n, endedReasons,
				func() error { return f.move(commission, c.first) },
				func() error { return f.move(commission, reject) })
			// An approved commission can still be rejected, so exactly one rejection
			// succeeds.
			if successes[0] > 1 || successes[1] != 1 {
				t.Errorf("the numbers of successes are %v, want at most 1 and exactly 1", successes)
			}
			f.checkTrace(commission, successes[0]+successes[1])
		})
	}
	t.Run("approve and approve", func(t *testing.T) {
		commission := f.commission(participant, partner, nil)
		if successes := f.race(50, endedReasons, func() error { return f.move(commission, approve) }); successes[0] != 1 {
			t.Errorf("%d approvals succeeded, want 1", successes[0])
		}
		f.checkTrace(commission, 1)
		if n := f.count(`select count(*) from ledger_entries where commission_id = $1 and amount_cents = 200`, commission.ID); n != 1 {
			t.Errorf("the commission has %d ledger entries of 200 cents, want 1", n)
		}
	})
	t.Run("approve and sweep", func(t *testing.T) {
		for range 10 {
			commission := f.commission(participant, partner, nil)
			f.race(3, endedReasons,
				func() error { return f.move(commission, approve) },
				func() error {
					sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(f.store), f.now, 10)
					return errors.Join(err, sweep.FirstFailure)
				})
			f.checkTrace(commission, 1)
		}
	})
	t.Run("clear the flag and approve", func(t *testing.T) {
		commission := f.commission(participant, partner, func(c *affiliate.Commission) { c.NeedsReview, c.ReviewReasons = true, []string{"x"} })
		successes := f.race(10, append(endedReasons, affiliate.ReasonCommissionNotFlagged),
			func() error { return f.move(commission, clearFlag) },
			func() error { return f.move(commission, approve) })
		if successes[0] > 1 || successes[1] != 1 {
			t.Errorf("the numbers of successes are %v, want at most 1 and exactly 1", successes)
		}
		events := f.count(`select count(*) from events where convert_from(body, 'utf8')::jsonb #>> '{data,object,id}' = $1::text and type in ('commission.updated', 'commission.approved')`, commission.ID.String())
		if events != successes[0]+successes[1] {
			t.Errorf("%d events were created for the moves %v, want one per move", events, successes)
		}
	})
	f.checkTotals()
}

// After random moves by several goroutines, the counters and balances must match the
// commissions.
func TestMove_KeepsCountsAndBalancesConsistent(t *testing.T) {
	t.Parallel()
	f := newCommissionFixture(t)
	r := rand.New(rand.NewPCG(11, 12))
	later := f.now.Add(time.Hour)
	var all []affiliate.Commission
	for range 3 {
		participant, partner := f.participant(affiliate.ParticipantApproved, false)
		for range 12 {
			all = append(all, f.commission(participant, partner, func(c *affiliate.Commission) {
				c.CreatedAt = f.now.Add(-time.Duration(r.Int64N(int64(60 * 24 * time.Hour))))
				c.Currency = []string{"EUR", "USD"}[r.IntN(2)]
				if r.IntN(2) == 0 {
					c.HoldUntil = &later
				}
				if r.IntN(4) == 0 {
					c.Status = affiliate.CommissionApproved
				}
			}))
		}
	}
	reason := "because"
	moves := []affiliate.CommissionMove{
		affiliate.MoveApprove, affiliate.MoveOverride, affiliate.MoveAutoApprove, affiliate.MoveReject, affiliate.MoveFlag,
		affiliate.MoveClearReview, affiliate.MoveRefund, affiliate.MoveRefund, affiliate.MovePay, affiliate.MovePay, affiliate.MoveClawBack,
	}
	made := map[affiliate.CommissionMove]int{}
	var lock sync.Mutex
	var group sync.WaitGroup
	for i := range 5 {
		group.Go(func() {
			r := rand.New(rand.NewPCG(13, uint64(i)))
			for range 120 {
				move := affiliate.CommissionTransition{
					Move: moves[r.IntN(len(moves))], Reason: &reason, ReviewReasons: []string{[]string{"a", "b"}[r.IntN(2)]},
					AmountCents: r.Int64N(200), Full: r.IntN(4) == 0, RefundReason: affiliate.RefundedSale, PaidAt: f.now, Payout: payoutRef(f.now),
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
	var now []affiliate.Commission
	for _, c := range all {
		detail, err := f.store.Commission(t.Context(), f.scope, f.program, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		now = append(now, detail.Commission)
	}
	f.checkStats("after all moves", affiliate.CommissionFilter{}, now)
}
