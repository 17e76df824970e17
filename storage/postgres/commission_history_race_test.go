package postgres_test

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
	"github.com/tributary-hq/tributary/cmd/stores"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// newPending creates a pending commission of 200 cents that can be approved once the
// hold period ends.
func (l *modelFixture) newPending(of pgtest.Participant, hold time.Duration) *modelCommission {
	l.t.Helper()
	rate, until := int64(2000), l.now.Add(hold)
	return l.create(affiliate.Commission{
		Status: affiliate.CommissionPending, Type: affiliate.Percentage, EventType: affiliate.Purchase, RateBps: &rate, AmountCents: 200,
		OriginalAmountCents: 200, Currency: "EUR", BaseAmountCents: 1000, SaleAmountCents: 1000, SaleCurrency: "EUR", ReviewReasons: []string{},
		Dispute: affiliate.DisputeNone, HoldUntil: &until, AutoApproveAt: &until, Rule: affiliate.RuleSnapshot{Version: 1, Rules: affiliate.DefaultRules()},
		Version: 1, CreatedAt: l.now, UpdatedAt: l.now,
	}, of)
}

func (l *modelFixture) newApproved(of pgtest.Participant) *modelCommission {
	l.t.Helper()
	c := l.newPending(of, 0)
	if err := l.moveFunc(c, affiliate.MoveApprove)(); err != nil {
		l.t.Fatal(err)
	}
	return c
}

// moveFunc returns a function that makes a move. The actor is a user if the move is one
// that users make, otherwise the system.
func (l *modelFixture) moveFunc(c *modelCommission, move affiliate.CommissionMove, changes ...func(*affiliate.CommissionTransition)) func() error {
	step := c.transition(affiliate.CommissionTransition{Move: move, At: l.now, RefundReason: affiliate.RefundedSale})
	switch move {
	case affiliate.MoveApprove, affiliate.MoveOverride, affiliate.MoveReject, affiliate.MoveClearReview:
		user := affiliate.NewID[affiliate.User](l.now)
		step.Actor.User = &user
	default:
	}
	for _, change := range changes {
		change(&step)
	}
	return func() error {
		_, err := commissionservice.Move(l.t.Context(), stores.Commission(l.Store), step)
		return err
	}
}

func fullRefund(t *affiliate.CommissionTransition) { t.Full = true }

func refundLeaving(cents int64) func(*affiliate.CommissionTransition) {
	return func(t *affiliate.CommissionTransition) { t.AmountCents = cents }
}

// race starts n goroutines per call at the same time. It returns, for each call, how
// often each outcome occurred. The reason of a success is "".
func (l *modelFixture) race(n int, calls ...func() error) []map[affiliate.Reason]int {
	l.t.Helper()
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
			outcomes[i][pgtest.ReasonOf(l.t, err)]++
		}
	}
	return outcomes
}

// checkOneWinner fails the test if more than one call succeeded, or if a call failed
// for another than the given reasons. It reports whether a call succeeded.
func checkOneWinner(t *testing.T, what string, outcomes map[affiliate.Reason]int, refused ...affiliate.Reason) bool {
	t.Helper()
	all, expected := 0, outcomes[""]
	for _, n := range outcomes {
		all += n
	}
	for _, reason := range refused {
		expected += outcomes[reason]
	}
	if outcomes[""] > 1 || expected != all {
		t.Errorf("%s: %v, want at most one success, and %v for the others", what, outcomes, refused)
	}
	return outcomes[""] == 1
}

// checkPath returns the statuses that a commission went through, separated by spaces.
// It checks that each move has one history entry and one event, that each move of a
// user has one entry in the audit log, and that the ledger has the amount owed.
func (l *modelFixture) checkPath(c *modelCommission) string {
	l.t.Helper()
	type line struct {
		Seq             int
		From, To, Actor string
	}
	rows, _ := l.SQL.Query(l.t.Context(), `
		select seq, coalesce(from_status, '') as "from", to_status as "to", actor from commission_history where commission_id = $1 order by seq`, c.ID)
	history, err := pgx.CollectRows(rows, pgx.RowToStructByName[line])
	if err != nil {
		l.t.Fatal(err)
	}
	var path, versions []string
	people := 0
	for i, h := range history {
		if h.Seq != i+1 || i == 0 && h.From != "" || i > 0 && h.From != path[i-1] {
			l.t.Errorf("%s: %+v does not follow %q", c.ID, h, path)
		}
		path, versions = append(path, h.To), append(versions, strconv.Itoa(h.Seq))
		if h.Actor != affiliate.System.String() {
			people++
		}
	}
	checkSameElements(l, "versions in events", versions, l.Texts(`
		select b.body #>> '{data,object,version}' from events e, lateral (select convert_from(e.body, 'utf8')::jsonb as body) b
		where b.body #>> '{data,object,id}' = $1`, c.ID.String()))
	if n := l.Count(`select count(*) from audit_log where resource_id = $1`, c.ID); n != people {
		l.t.Errorf("%s: people made %d moves, %d are in the audit log", c.ID, people, n)
	}
	if n := l.Count(`
		select count(*) from commissions c where id = $1 and version = $2 and status = $3 and
			case when status in ('approved', 'paid') then amount_cents else 0 end =
			(select coalesce(sum(amount_cents), 0) from ledger_entries e where e.workspace_id = c.workspace_id and e.commission_id = c.id)`,
		c.ID, len(path), path[len(path)-1]); n != 1 {
		l.t.Errorf("%s does not match its last history entry, or its ledger entries do not sum to the amount owed", c.ID)
	}
	return strings.Join(path, " ")
}

// checkSums compares the stored sums with the rows that they summarize.
func (l *modelFixture) checkSums() {
	l.t.Helper()
	checkSameElements(l, "balances", l.Texts(`select participant_id || currency || sum(amount_cents) from ledger_entries group by participant_id, currency`),
		l.Texts(`select participant_id || currency || sum(balance_cents) from ledger_balances group by participant_id, currency`))
	checkSameElements(l, "counts", l.Texts(`select status || needs_review || count(*) || ' ' || sum(amount_cents) from commissions group by status, needs_review`),
		l.Texts(`select status || needs_review || sum(n) || ' ' || sum(amount_cents) from commission_counts where grain = 'ever'
			group by status, needs_review having sum(n) <> 0`))
}

// pathTo returns the expected statuses of a commission that ends in end. approvedFirst
// tells whether it was approved before.
func pathTo(end string, approvedFirst bool) string {
	if approvedFirst {
		return "pending approved " + end
	}
	return "pending " + end
}

func TestMove_RacingMovesHaveOneWinner(t *testing.T) {
	t.Parallel()
	const (
		notPending, holdActive = affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionHoldActive
		terminal               = affiliate.ReasonCommissionTerminal
	)
	l := newModelFixture(t)
	of := l.participant()
	for range 5 {
		c := l.newPending(of, 0)
		o := l.race(50, l.moveFunc(c, affiliate.MoveApprove), l.moveFunc(c, affiliate.MoveReject))
		first := checkOneWinner(t, "approve", o[0], notPending)
		if path := l.checkPath(c); !checkOneWinner(t, "reject", o[1], terminal) || path != pathTo("rejected", first) {
			t.Errorf("approves racing rejects: %s", path)
		}

		c = l.newPending(of, time.Hour)
		o = l.race(8, l.moveFunc(c, affiliate.MoveOverride), l.moveFunc(c, affiliate.MoveReject), l.moveFunc(c, affiliate.MoveApprove))
		first = checkOneWinner(t, "override", o[0], notPending)
		if checkOneWinner(t, "approve during the hold", o[2], holdActive, notPending) {
			t.Error("approved during the hold")
		}
		if path := l.checkPath(c); !checkOneWinner(t, "reject", o[1], terminal) || path != pathTo("rejected", first) {
			t.Errorf("overrides racing rejects: %s", path)
		}

		c = l.newPending(of, 0)
		o = l.race(5, l.moveFunc(c, affiliate.MoveApprove), l.moveFunc(c, affiliate.MoveRefund, fullRefund))
		first = checkOneWinner(t, "approve", o[0], notPending)
		if path := l.checkPath(c); !checkOneWinner(t, "refund", o[1], terminal) || path != pathTo("refunded", first) {
			t.Errorf("approves racing refunds: %s", path)
		}

		c = l.newPending(of, 0)
		swept := make(chan affiliate.CommissionSweep, 2)
		o = l.race(2, l.moveFunc(c, affiliate.MoveApprove), func() error {
			sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(l.Store), l.now, 10)
			swept <- sweep
			return err
		})
		one, other := <-swept, <-swept
		if first = checkOneWinner(t, "approve", o[0], notPending); first == (one.Approved+other.Approved == 1) || one.Failed+other.Failed > 0 {
			t.Errorf("approves racing the end of the hold: approved by a user %v, by sweeps %+v %+v", first, one, other)
		}
		if path := l.checkPath(c); path != "pending approved" {
			t.Errorf("approves racing the end of the hold: %s", path)
		}
	}
	l.checkSums()
}

func TestMove_RefundsRacingPayments(t *testing.T) {
	l := newModelFixture(t)
	of := l.participant()
	payout := affiliate.NewID[affiliate.Payout](l.now)
	pay := func(t *affiliate.CommissionTransition) { t.Payout, t.PaidAt = &payout, l.now }
	for range 6 {
		c := l.newApproved(of)
		o := l.race(5, l.moveFunc(c, affiliate.MovePay, pay), l.moveFunc(c, affiliate.MoveRefund, fullRefund), l.moveFunc(c, affiliate.MoveReject))
		paid, refunded := checkOneWinner(t, "pay", o[0], affiliate.ReasonCommissionTerminal), checkOneWinner(t, "refund", o[1], affiliate.ReasonCommissionTerminal)
		rejected := checkOneWinner(t, "reject", o[2], affiliate.ReasonCommissionTerminal)
		path, entry := "pending approved rejected", "commission_reversed -200"
		switch {
		case paid:
			path, entry = "pending approved paid refunded", "clawback -200"
		case refunded:
			path = "pending approved refunded"
		}
		if got := l.checkPath(c); got != path || refunded == rejected {
			t.Errorf("%s, want %s; refunded %v, rejected %v", got, path, refunded, rejected)
		}
		checkSameElements(l, "entries", []string{"commission_approved 200", entry}, l.Texts(`select type || ' ' || amount_cents from ledger_entries where commission_id = $1`, c.ID))

		// A refund names the amount that remains, not the amount that is taken back.
		// The smallest remaining amount wins, in whatever order the refunds run.
		c = l.newApproved(of)
		for i, outcome := range l.race(1, l.moveFunc(c, affiliate.MoveRefund, refundLeaving(150)), l.moveFunc(c, affiliate.MoveRefund, refundLeaving(90)),
			l.moveFunc(c, affiliate.MoveRefund, refundLeaving(20)), l.moveFunc(c, affiliate.MovePay, pay)) {
			if !checkOneWinner(t, "partial refunds and a payment", outcome) {
				t.Errorf("call %d: %v", i, outcome)
			}
		}
		if n := l.Count(`select sum(amount_cents) from ledger_entries where commission_id = $1`, c.ID); n != 20 || len(strings.Fields(l.checkPath(c))) != 6 {
			t.Errorf("%d are owed, want 20, after %s", n, l.checkPath(c))
		}
	}
	l.checkSums()
}

// Users approve and reject overlapping selections one by one, each in a different
// order, while transactions change several commissions at once. None of them must fail.
func TestMove_OverlappingSelectionsDoNotDeadlock(t *testing.T) {
	l := newModelFixture(t)
	participants := []pgtest.Participant{l.participant(), l.participant()}
	var all []*modelCommission
	for i := range 12 {
		all = append(all, l.newPending(participants[i%2], 0))
	}
	random := func(n int) []*modelCommission {
		chosen := make([]*modelCommission, n)
		for i, k := range rand.Perm(len(all))[:n] {
			chosen[i] = all[k]
		}
		return chosen
	}
	type madeMove struct {
		affiliate.CommissionID
		affiliate.CommissionMove
	}
	moves := make(chan madeMove, 100)
	oneByOne := func(move affiliate.CommissionMove, refused affiliate.Reason) func() error {
		return func() error {
			for _, c := range random(9) {
				switch err := l.moveFunc(c, move)(); pgtest.ReasonOf(t, err) {
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
		var steps []affiliate.CommissionTransition
		for _, c := range random(6) {
			steps = append(steps, c.transition(affiliate.CommissionTransition{Move: affiliate.MoveFlag, At: l.now, ReviewReasons: []string{reason}}))
		}
		return l.Store.MoveTogether(t.Context(), steps...)
	}
	o := l.race(4, oneByOne(affiliate.MoveApprove, affiliate.ReasonCommissionNotPending), oneByOne(affiliate.MoveReject, affiliate.ReasonCommissionTerminal), atOnce)
	if o[0][""] != 4 || o[1][""] != 4 || o[2][""]+o[2][affiliate.ReasonCommissionTerminal] != 4 {
		t.Error(o)
	}
	close(moves)
	count := map[madeMove]int{}
	for m := range moves {
		count[m]++
	}
	for _, c := range all {
		path := l.checkPath(c)
		for move, status := range map[affiliate.CommissionMove]string{affiliate.MoveApprove: "approved", affiliate.MoveReject: "rejected"} {
			if n := count[madeMove{c.ID, move}]; n > 1 || strings.Contains(path, status) != (n == 1) {
				t.Errorf("%s: %s %d times", path, status, n)
			}
		}
	}
	l.checkSums()
}
