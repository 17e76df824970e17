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

// pendingOne is a commission of 200 cents, due now unless a hold runs.
func (l *lives) pendingOne(of pgtest.Participant, hold time.Duration) *life {
	l.t.Helper()
	rate, until := int64(2000), l.now.Add(hold)
	return l.bear(affiliate.Commission{
		Status: affiliate.CommissionPending, Type: affiliate.Percentage, EventType: affiliate.Purchase, RateBps: &rate, AmountCents: 200,
		OriginalAmountCents: 200, Currency: "EUR", BaseAmountCents: 1000, SaleAmountCents: 1000, SaleCurrency: "EUR", ReviewReasons: []string{},
		Dispute: affiliate.DisputeNone, HoldUntil: &until, AutoApproveAt: &until, Rule: affiliate.RuleSnapshot{Version: 1, Rules: affiliate.DefaultRules()},
		Version: 1, CreatedAt: l.now, UpdatedAt: l.now,
	}, of)
}

func (l *lives) approvedOne(of pgtest.Participant) *life {
	l.t.Helper()
	c := l.pendingOne(of, 0)
	if err := l.try(c, affiliate.MoveApprove)(); err != nil {
		l.t.Fatal(err)
	}
	return c
}

// try is a call that makes a move: by a person, where it is a person's.
func (l *lives) try(c *life, move affiliate.CommissionMove, changes ...func(*affiliate.CommissionTransition)) func() error {
	step := c.transition(affiliate.CommissionTransition{Move: move, At: l.now, Why: affiliate.RefundedSale})
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

func inFull(t *affiliate.CommissionTransition) { t.Full = true }

func leaving(cents int64) func(*affiliate.CommissionTransition) {
	return func(t *affiliate.CommissionTransition) { t.AmountCents = cents }
}

// race starts n of each call at once and counts how each ended.
func (l *lives) race(n int, calls ...func() error) []map[affiliate.Reason]int {
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

// won holds outcomes to one winner at most, and all others to one of the
// reasons; it tells whether there was a winner.
func won(t *testing.T, what string, outcomes map[affiliate.Reason]int, refused ...affiliate.Reason) bool {
	t.Helper()
	all, expected := 0, outcomes[""]
	for _, n := range outcomes {
		all += n
	}
	for _, reason := range refused {
		expected += outcomes[reason]
	}
	if outcomes[""] > 1 || expected != all {
		t.Errorf("%s: %v, want one to win and %v for the rest", what, outcomes, refused)
	}
	return outcomes[""] == 1
}

// passed is the statuses that a commission went through. Of each move there is
// one line of history and one event, of each person's one line in the audit log,
// and the ledger holds what is owed.
func (l *lives) passed(c *life) string {
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
	same(l, "versions told", versions, l.Texts(`
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
		l.t.Errorf("%s is not where its history ends, or the ledger holds something else than is owed", c.ID)
	}
	return strings.Join(path, " ")
}

// checkSums holds the sums that transactions keep to what they are sums of.
func (l *lives) checkSums() {
	l.t.Helper()
	same(l, "balances", l.Texts(`select participant_id || currency || sum(amount_cents) from ledger_entries group by participant_id, currency`),
		l.Texts(`select participant_id || currency || sum(balance_cents) from ledger_balances group by participant_id, currency`))
	same(l, "counts", l.Texts(`select status || needs_review || count(*) || ' ' || sum(amount_cents) from commissions group by status, needs_review`),
		l.Texts(`select status || needs_review || sum(n) || ' ' || sum(amount_cents) from commission_counts where grain = 'ever'
			group by status, needs_review having sum(n) <> 0`))
}

// approved is the path of what a race may have approved before it ended.
func approved(first bool, end string) string {
	if first {
		return "pending approved " + end
	}
	return "pending " + end
}

func TestRefusalsOfMovesThatRace(t *testing.T) {
	t.Parallel()
	const (
		notPending, holdActive = affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionHoldActive
		terminal               = affiliate.ReasonCommissionTerminal
	)
	l := newLives(t)
	of := l.participant()
	for range 5 {
		c := l.pendingOne(of, 0)
		o := l.race(50, l.try(c, affiliate.MoveApprove), l.try(c, affiliate.MoveReject))
		first := won(t, "approve", o[0], notPending)
		if path := l.passed(c); !won(t, "reject", o[1], terminal) || path != approved(first, "rejected") {
			t.Errorf("approves racing rejects: %s", path)
		}

		c = l.pendingOne(of, time.Hour)
		o = l.race(8, l.try(c, affiliate.MoveOverride), l.try(c, affiliate.MoveReject), l.try(c, affiliate.MoveApprove))
		first = won(t, "override", o[0], notPending)
		if won(t, "approve during the hold", o[2], holdActive, notPending) {
			t.Error("approved during the hold")
		}
		if path := l.passed(c); !won(t, "reject", o[1], terminal) || path != approved(first, "rejected") {
			t.Errorf("overrides racing rejects: %s", path)
		}

		c = l.pendingOne(of, 0)
		o = l.race(5, l.try(c, affiliate.MoveApprove), l.try(c, affiliate.MoveRefund, inFull))
		first = won(t, "approve", o[0], notPending)
		if path := l.passed(c); !won(t, "refund", o[1], terminal) || path != approved(first, "refunded") {
			t.Errorf("approves racing refunds: %s", path)
		}

		c = l.pendingOne(of, 0)
		swept := make(chan affiliate.CommissionSweep, 2)
		o = l.race(2, l.try(c, affiliate.MoveApprove), func() error {
			sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(l.Store), l.now, 10)
			swept <- sweep
			return err
		})
		one, other := <-swept, <-swept
		if first = won(t, "approve", o[0], notPending); first == (one.Approved+other.Approved == 1) || one.Failed+other.Failed > 0 {
			t.Errorf("approves racing the end of the hold: a person %v, sweeps %+v %+v", first, one, other)
		}
		if path := l.passed(c); path != "pending approved" {
			t.Errorf("approves racing the end of the hold: %s", path)
		}
	}
	l.checkSums()
}

func TestRefundsRacingPayments(t *testing.T) {
	l := newLives(t)
	of := l.participant()
	payout := affiliate.NewID[affiliate.Payout](l.now)
	pay := func(t *affiliate.CommissionTransition) { t.Payout, t.PaidAt = &payout, l.now }
	for range 6 {
		c := l.approvedOne(of)
		o := l.race(5, l.try(c, affiliate.MovePay, pay), l.try(c, affiliate.MoveRefund, inFull), l.try(c, affiliate.MoveReject))
		paid, refunded := won(t, "pay", o[0], affiliate.ReasonCommissionTerminal), won(t, "refund", o[1], affiliate.ReasonCommissionTerminal)
		rejected := won(t, "reject", o[2], affiliate.ReasonCommissionTerminal)
		path, entry := "pending approved rejected", "commission_reversed -200"
		switch {
		case paid:
			path, entry = "pending approved paid refunded", "clawback -200"
		case refunded:
			path = "pending approved refunded"
		}
		if got := l.passed(c); got != path || refunded == rejected {
			t.Errorf("%s, want %s; refunded %v, rejected %v", got, path, refunded, rejected)
		}
		same(l, "entries", []string{"commission_approved 200", entry}, l.Texts(`select type || ' ' || amount_cents from ledger_entries where commission_id = $1`, c.ID))

		// A refund says what is left, not what goes: whichever comes last, the least
		// remains.
		c = l.approvedOne(of)
		for i, outcome := range l.race(1, l.try(c, affiliate.MoveRefund, leaving(150)), l.try(c, affiliate.MoveRefund, leaving(90)),
			l.try(c, affiliate.MoveRefund, leaving(20)), l.try(c, affiliate.MovePay, pay)) {
			if !won(t, "partial refunds and a payment", outcome) {
				t.Errorf("call %d: %v", i, outcome)
			}
		}
		if n := l.Count(`select sum(amount_cents) from ledger_entries where commission_id = $1`, c.ID); n != 20 || len(strings.Fields(l.passed(c))) != 6 {
			t.Errorf("%d are owed, want 20, after %s", n, l.passed(c))
		}
	}
	l.checkSums()
}

// People work through overlapping selections, each in an order of its own, while
// transactions take several commissions at once: all get through.
func TestOverlappingSelections(t *testing.T) {
	l := newLives(t)
	participants := []pgtest.Participant{l.participant(), l.participant()}
	var all []*life
	for i := range 12 {
		all = append(all, l.pendingOne(participants[i%2], 0))
	}
	some := func(n int) []*life {
		chosen := make([]*life, n)
		for i, k := range rand.Perm(len(all))[:n] {
			chosen[i] = all[k]
		}
		return chosen
	}
	type made struct {
		affiliate.CommissionID
		affiliate.CommissionMove
	}
	moves := make(chan made, 100)
	oneByOne := func(move affiliate.CommissionMove, refused affiliate.Reason) func() error {
		return func() error {
			for _, c := range some(9) {
				switch err := l.try(c, move)(); pgtest.ReasonOf(t, err) {
				case "":
					moves <- made{c.ID, move}
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
		for _, c := range some(6) {
			steps = append(steps, c.transition(affiliate.CommissionTransition{Move: affiliate.MoveFlag, At: l.now, ReviewReasons: []string{reason}}))
		}
		return l.Store.MoveTogether(t.Context(), steps...)
	}
	o := l.race(4, oneByOne(affiliate.MoveApprove, affiliate.ReasonCommissionNotPending), oneByOne(affiliate.MoveReject, affiliate.ReasonCommissionTerminal), atOnce)
	if o[0][""] != 4 || o[1][""] != 4 || o[2][""]+o[2][affiliate.ReasonCommissionTerminal] != 4 {
		t.Error(o)
	}
	close(moves)
	count := map[made]int{}
	for m := range moves {
		count[m]++
	}
	for _, c := range all {
		path := l.passed(c)
		for move, status := range map[affiliate.CommissionMove]string{affiliate.MoveApprove: "approved", affiliate.MoveReject: "rejected"} {
			if n := count[made{c.ID, move}]; n > 1 || strings.Contains(path, status) != (n == 1) {
				t.Errorf("%s: %s %d times", path, status, n)
			}
		}
	}
	l.checkSums()
}
