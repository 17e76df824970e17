package commission_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// newApproved creates a commission that the owner has approved.
func (f *fixture) newApproved(p pgtest.Participant) commission.Commission {
	f.Helper()
	c := f.NewDue(p)
	if err := f.move(c, commission.Transition{Move: commission.MoveApprove}); err != nil {
		f.Fatal(err)
	}
	return c
}

// moveFunc returns a function that makes a move of a commission. The functions in changes
// modify the transition before the move.
func (f *fixture) moveFunc(c commission.Commission, move commission.Move, changes ...func(*commission.Transition)) func() error {
	step := commission.Transition{Move: move, RefundReason: commission.RefundedSale}
	for _, change := range changes {
		change(&step)
	}
	return func() error { return f.move(c, step) }
}

func fullRefund(t *commission.Transition) { t.Full = true }

// refundLeaving returns a function that makes a transition a partial refund, after which
// the given amount of the commission remains.
func refundLeaving(cents int64) func(*commission.Transition) {
	return func(t *commission.Transition) { t.AmountCents = cents }
}

// race starts n goroutines for each call, all at the same time. For each call, it returns
// how many goroutines got each reason. The reason of a success is "".
func (f *fixture) race(n int, calls ...func() error) []map[affiliate.Reason]int {
	f.Helper()
	start, errs := make(chan struct{}), make([][]error, len(calls))
	var group sync.WaitGroup
	for i, call := range calls {
		errs[i] = make([]error, n)
		for k := range n {
			group.Go(func() {
				<-start
				errs[i][k] = call()
			})
		}
	}
	close(start)
	group.Wait()
	outcomes := make([]map[affiliate.Reason]int, len(calls))
	for i := range calls {
		outcomes[i] = map[affiliate.Reason]int{}
		for _, err := range errs[i] {
			outcomes[i][pgtest.ReasonOf(f, err)]++
		}
	}
	return outcomes
}

// checkOneWinner fails the test if more than one call succeeded, or if a call failed for
// a reason that is not in allowed. It reports whether exactly one call succeeded.
func checkOneWinner(t *testing.T, what string, outcomes map[affiliate.Reason]int, allowed ...affiliate.Reason) bool {
	t.Helper()
	all, expected := 0, outcomes[""]
	for _, n := range outcomes {
		all += n
	}
	for _, reason := range allowed {
		expected += outcomes[reason]
	}
	if outcomes[""] > 1 || expected != all {
		t.Errorf("%s: the outcomes are %v, want at most one success and the reasons %v for the other calls", what, outcomes, allowed)
	}
	return outcomes[""] == 1
}

// checkPath returns the statuses that a commission has had, in order and separated by
// spaces. It checks that each move has one history entry and one event, that each move of
// a user has one entry in the audit log, and that the ledger entries sum to the amount
// that the merchant owes.
func (f *fixture) checkPath(c commission.Commission) string {
	f.Helper()
	type line struct {
		Seq             int
		From, To, Actor string
	}
	rows, _ := f.SQL.Query(f.Context(), `
		select seq, coalesce(from_status, '') as "from", to_status as "to", actor from commission_history where commission_id = $1 order by seq`, c.ID)
	history, err := pgx.CollectRows(rows, pgx.RowToStructByName[line])
	if err != nil {
		f.Fatal(err)
	}
	var path, versions []string
	userMoves := 0
	for i, h := range history {
		if h.Seq != i+1 || i == 0 && h.From != "" || i > 0 && h.From != path[i-1] {
			f.Errorf("commission %s: the history entry %+v does not follow the statuses %q", c.ID, h, path)
		}
		path, versions = append(path, h.To), append(versions, strconv.Itoa(h.Seq))
		if h.Actor != affiliate.System.String() {
			userMoves++
		}
	}
	checkSameElements(f, "versions in events", versions, f.Texts(`
		select b.body #>> '{data,object,version}' from events e, lateral (select convert_from(e.body, 'utf8')::jsonb as body) b
		where b.body #>> '{data,object,id}' = $1`, c.ID.String()))
	if n := f.Count(`select count(*) from audit_log where resource_id = $1`, c.ID); n != userMoves {
		f.Errorf("commission %s: users made %d moves, but the audit log has %d entries", c.ID, userMoves, n)
	}
	if n := f.Count(`
		select count(*) from commissions c where id = $1 and version = $2 and status = $3 and
			case when status in ('approved', 'paid') then amount_cents else 0 end =
			(select coalesce(sum(amount_cents), 0) from ledger_entries e where e.workspace_id = c.workspace_id and e.commission_id = c.id)`,
		c.ID, len(path), path[len(path)-1]); n != 1 {
		f.Errorf("commission %s does not match its last history entry, or its ledger entries do not sum to the owed amount", c.ID)
	}
	return strings.Join(path, " ")
}

// pathTo returns the statuses of a commission whose last status is lastStatus.
// approvedFirst reports whether the commission was approved before it got this status.
func pathTo(lastStatus string, approvedFirst bool) string {
	if approvedFirst {
		return "pending approved " + lastStatus
	}
	return "pending " + lastStatus
}

func TestMove_RacingMovesHaveOneWinner(t *testing.T) {
	t.Parallel()
	const (
		notPending, holdActive = affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionHoldActive
		terminal               = affiliate.ReasonCommissionTerminal
	)
	f := newFixture(t)
	p := f.Join("Jane")
	held := func(c *commission.Commission) { c.HoldUntil = new(f.Now().Add(time.Hour)) }
	for range 5 {
		c := f.NewDue(p)
		o := f.race(50, f.moveFunc(c, commission.MoveApprove), f.moveFunc(c, commission.MoveReject))
		first := checkOneWinner(t, "approve", o[0], notPending)
		if path := f.checkPath(c); !checkOneWinner(t, "reject", o[1], terminal) || path != pathTo("rejected", first) {
			t.Errorf("approvals and rejections at the same time: the statuses are %q, want %q", path, pathTo("rejected", first))
		}

		c = f.NewDue(p, held)
		o = f.race(8, f.moveFunc(c, commission.MoveOverride), f.moveFunc(c, commission.MoveReject), f.moveFunc(c, commission.MoveApprove))
		first = checkOneWinner(t, "override", o[0], notPending)
		if checkOneWinner(t, "approve during the hold", o[2], holdActive, notPending) {
			t.Error("a commission was approved during its hold period")
		}
		if path := f.checkPath(c); !checkOneWinner(t, "reject", o[1], terminal) || path != pathTo("rejected", first) {
			t.Errorf("overrides and rejections at the same time: the statuses are %q, want %q", path, pathTo("rejected", first))
		}

		c = f.NewDue(p)
		o = f.race(5, f.moveFunc(c, commission.MoveApprove), f.moveFunc(c, commission.MoveRefund, fullRefund))
		first = checkOneWinner(t, "approve", o[0], notPending)
		if path := f.checkPath(c); !checkOneWinner(t, "refund", o[1], terminal) || path != pathTo("refunded", first) {
			t.Errorf("approvals and refunds at the same time: the statuses are %q, want %q", path, pathTo("refunded", first))
		}

		c = f.NewDue(p)
		// A sweep is one call of ApproveDue, which approves commissions that are due.
		sweeps := make(chan commission.ApprovalCounts, 2)
		o = f.race(2, f.moveFunc(c, commission.MoveApprove), func() error {
			sweep, err := commissionservice.ApproveDue(t.Context(), f.DB, f.Now(), 10)
			sweeps <- sweep
			return err
		})
		sweep1, sweep2 := <-sweeps, <-sweeps
		if first = checkOneWinner(t, "approve", o[0], notPending); first == (sweep1.Approved+sweep2.Approved == 1) || sweep1.Failed+sweep2.Failed > 0 {
			t.Errorf("approvals by users and sweeps at the same time: approved by a user %t, results of the sweeps %+v and %+v, want one approval and no failure", first, sweep1, sweep2)
		}
		if path := f.checkPath(c); path != "pending approved" {
			t.Errorf("approvals by users and sweeps at the same time: the statuses are %q, want pending approved", path)
		}

		c = f.NewDue(p, func(c *commission.Commission) { c.NeedsReview, c.ReviewReasons = true, []string{"x"} })
		o = f.race(10, f.moveFunc(c, commission.MoveClearReview), f.moveFunc(c, commission.MoveApprove))
		moves := 1
		if checkOneWinner(t, "clear the flag", o[0], notPending, affiliate.ReasonCommissionNotFlagged) {
			moves = 2
		}
		events := f.Count(`select count(*) from events where convert_from(body, 'utf8')::jsonb #>> '{data,object,id}' = $1
			and type in ('commission.updated', 'commission.approved')`, c.ID.String())
		if !checkOneWinner(t, "approve a flagged commission", o[1], notPending) || events != moves {
			t.Errorf("%d moves of a flagged commission created %d events, want one per move; the outcomes are %v", moves, events, o)
		}
	}
	f.CheckTotals()
}

func TestMove_RefundsRacingPayments(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Jane")
	payout := affiliate.NewID[affiliate.PayoutID](f.Now())
	pay := func(t *commission.Transition) { t.Payout, t.PaidAt = &payout, f.Now() }
	for range 6 {
		c := f.newApproved(p)
		o := f.race(5, f.moveFunc(c, commission.MovePay, pay), f.moveFunc(c, commission.MoveRefund, fullRefund), f.moveFunc(c, commission.MoveReject))
		paid, refunded := checkOneWinner(t, "pay", o[0], affiliate.ReasonCommissionTerminal), checkOneWinner(t, "refund", o[1], affiliate.ReasonCommissionTerminal)
		rejected := checkOneWinner(t, "reject", o[2], affiliate.ReasonCommissionTerminal)
		path, entry := "pending approved rejected", "commission_reversed -200"
		switch {
		case paid:
			path, entry = "pending approved paid refunded", "clawback -200"
		case refunded:
			path = "pending approved refunded"
		}
		if got := f.checkPath(c); got != path || refunded == rejected {
			t.Errorf("the statuses are %q, want %q; refunded is %t and rejected is %t, want exactly one to be true", got, path, refunded, rejected)
		}
		checkSameElements(f, "entries", []string{"commission_approved 200", entry}, f.Texts(`select type || ' ' || amount_cents from ledger_entries where commission_id = $1`, c.ID))

		// A refund contains the amount that remains, not the amount that is taken back.
		// The result must be the smallest remaining amount, in whatever order the refunds
		// are processed.
		c = f.newApproved(p)
		for i, outcome := range f.race(1, f.moveFunc(c, commission.MoveRefund, refundLeaving(150)), f.moveFunc(c, commission.MoveRefund, refundLeaving(90)),
			f.moveFunc(c, commission.MoveRefund, refundLeaving(20)), f.moveFunc(c, commission.MovePay, pay)) {
			if !checkOneWinner(t, "partial refunds and a payment", outcome) {
				t.Errorf("call %d has the outcomes %v, want one success", i, outcome)
			}
		}
		if n := f.Count(`select sum(amount_cents) from ledger_entries where commission_id = $1`, c.ID); n != 20 || len(strings.Fields(f.checkPath(c))) != 6 {
			t.Errorf("the ledger entries sum to %d, want 20; the statuses are %q, want 6", n, f.checkPath(c))
		}
	}
	f.CheckTotals()
}

// Several users approve and reject the same commissions one by one, each user in a
// different order. At the same time, transactions change several commissions at once. No
// call may fail because of a deadlock.
func TestMove_OverlappingSelectionsDoNotDeadlock(t *testing.T) {
	f := newFixture(t)
	participants := []pgtest.Participant{f.Join("Jane"), f.Join("Jane")}
	var all []commission.Commission
	for i := range 12 {
		all = append(all, f.NewDue(participants[i%2]))
	}
	random := func(n int) []commission.Commission {
		chosen := make([]commission.Commission, n)
		for i, k := range rand.Perm(len(all))[:n] {
			chosen[i] = all[k]
		}
		return chosen
	}
	type madeMove struct {
		affiliate.CommissionID
		commission.Move
	}
	moves := make(chan madeMove, 100)
	oneByOne := func(move commission.Move, refused affiliate.Reason) func() error {
		return func() error {
			for _, c := range random(9) {
				switch err := f.moveFunc(c, move)(); pgtest.ReasonOf(t, err) {
				case "":
					moves <- madeMove{c.ID, move}
				case refused:
				default:
					return err
				}
			}
			return nil
		}
	}
	reasons := make(chan string, 4)
	for i := range cap(reasons) {
		reasons <- fmt.Sprintf("reason_%d", i)
	}
	atOnce := func() error {
		reason := <-reasons
		var steps []commission.Transition
		for _, c := range random(6) {
			steps = append(steps, commission.Transition{
				Scope: c.Scope, Program: c.Program, Commission: c.ID, Move: commission.MoveFlag, At: f.Now(), ReviewReasons: []string{reason},
			})
		}
		return pgtest.MoveTogether(t.Context(), f.DB, steps...)
	}
	o := f.race(4, oneByOne(commission.MoveApprove, affiliate.ReasonCommissionNotPending), oneByOne(commission.MoveReject, affiliate.ReasonCommissionTerminal), atOnce)
	if o[0][""] != 4 || o[1][""] != 4 || o[2][""]+o[2][affiliate.ReasonCommissionTerminal] != 4 {
		t.Errorf("the outcomes of the three calls are %v, want only successes, or for the third call also the reason %s", o, affiliate.ReasonCommissionTerminal)
	}
	close(moves)
	count := map[madeMove]int{}
	for m := range moves {
		count[m]++
	}
	for _, c := range all {
		path := f.checkPath(c)
		for move, status := range map[commission.Move]string{commission.MoveApprove: "approved", commission.MoveReject: "rejected"} {
			if n := count[madeMove{c.ID, move}]; n > 1 || strings.Contains(path, status) != (n == 1) {
				t.Errorf("%d calls succeeded with the move to %s, and the statuses are %q, want at most one call and the matching status", n, status, path)
			}
		}
	}
	f.CheckTotals()
}
