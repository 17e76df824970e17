package payout_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	checks "github.com/tributary-hq/tributary/storage/postgres/check"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// checkConsistency runs the checks of `core check` and fails if one reports a
// violation.
func (f *fixture) checkConsistency() {
	f.Helper()
	results, err := checks.Run(f.Context(), f.DB, time.Now)
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range results {
		if r.Violated > 0 {
			f.Errorf("check %s reports %d violations in %d items: %v", r.Name, r.Violated, r.Compared, r.Violations)
		}
	}
}

// A transaction can make several moves of one commission. The row must have the state
// after the last move, and the history must have an entry for each move.
func TestMoveTogether_StoresSeveralMovesOfOneCommission(t *testing.T) {
	f := newFixture(t)
	p := f.Join("Jane")
	all := make([]commission.Commission, 40)
	for i := range all {
		all[i] = f.NewCommission(p, func(c *commission.Commission) { c.Status = commission.Approved })
	}
	var moves []commission.Transition
	for _, move := range []commission.Transition{
		{Move: commission.MoveFlag, ReviewReasons: []string{"one", "two"}},
		{Move: commission.MoveClearReview, ReviewReasons: []string{"one"}},
		{Move: commission.MoveReject},
	} {
		for _, c := range all {
			move.Scope, move.Program, move.Commission, move.Actor, move.At = c.Scope, c.Program, c.ID, affiliate.System, f.Now()
			moves = append(moves, move)
		}
	}
	if err := pgtest.MoveTogether(t.Context(), f.DB, moves...); err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`select count(*) from commissions where status = 'rejected' and version = 4 and review_reasons = '{two}'`); n != len(all) {
		t.Errorf("%d commissions are rejected in version 4, want %d", n, len(all))
	}
	if n := f.Count(`select count(*) from commission_history`); n != 4*len(all) {
		t.Errorf("the commissions have %d history entries, want %d", n, 4*len(all))
	}
	f.checkConsistency()
}
