package commission_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commissiontest"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/commission"
)

// operation is the input of one call in the history. It includes the time of the caller's
// clock, because the clocks of processes differ. The database determines the order of the
// transitions.
type operation struct {
	Commission affiliate.CommissionID
	Move       affiliate.CommissionMove // empty: a read
	At         time.Time
	Reason     string // of MoveFlag
}

// result is the output of one call.
type result struct {
	Refused     affiliate.Reason
	Status      affiliatev1.CommissionStatus
	NeedsReview bool
	Moves       int  // number of history lines
	Approved    bool // for a sweep: whether it approved this commission
}

func (a operation) transition() affiliate.CommissionTransition {
	t := affiliate.CommissionTransition{Move: a.Move, At: a.At, ParticipantStatus: affiliate.ParticipantApproved}
	if a.Reason != "" {
		t.ReviewReasons = []string{a.Reason}
	}
	return t
}

func byCommission(history []porcupine.Operation) [][]porcupine.Operation {
	of := map[affiliate.CommissionID][]porcupine.Operation{}
	for _, o := range history {
		id := o.Input.(operation).Commission
		of[id] = append(of[id], o)
	}
	return slices.Collect(maps.Values(of))
}

// sequential returns the model of one commission that makes one transition at a time. The
// result of each transition comes from package commissiontest. A history is linearizable
// if its calls can be ordered so that the model gives the same results.
func sequential(born map[affiliate.CommissionID]affiliate.Commission) porcupine.Model {
	return porcupine.Model{
		Partition: byCommission,
		Init:      func() any { return affiliate.Commission{} },
		Step: func(state, input, output any) (bool, any) {
			c, in, out := state.(affiliate.Commission), input.(operation), output.(result)
			if c.Version == 0 {
				c = born[in.Commission]
			}
			if in.Move == "" {
				return out == shown(c), c
			}
			if in.Move == affiliate.MoveAutoApprove && !out.Approved {
				// The commission was not due, or another transaction had locked it.
				return true, c
			}
			move := commissiontest.Expected(c, in.transition())
			if move.Refused != "" {
				return out == result{Refused: move.Refused}, c
			}
			if in.Move == affiliate.MoveAutoApprove {
				return true, move.After
			}
			return out == shown(move.After), move.After
		},
		Equal: reflect.DeepEqual,
		DescribeOperation: func(input, output any) string {
			in := input.(operation)
			return fmt.Sprintf("%s at %s → %+v", cmp.Or(in.Move, "read"), in.At.Format("15:04:05.000"), output)
		},
	}
}

func shown(c affiliate.Commission) result {
	return result{Status: server.EnumValue[affiliatev1.CommissionStatus](c.Status), NeedsReview: c.NeedsReview, Moves: c.Version}
}

// recorder calls the service and records the history of the calls.
type recorder struct {
	*merchant
	began   time.Time // times in the history are relative to this
	hold    time.Time // the end of the hold period of all commissions
	sweeps  atomic.Int64
	lock    sync.Mutex
	history []porcupine.Operation
}

func (r *recorder) record(client int, in operation, call func() result) {
	called := time.Since(r.began)
	out := call()
	returned := time.Since(r.began)
	r.lock.Lock()
	defer r.lock.Unlock()
	r.history = append(r.history, porcupine.Operation{
		ClientId: client, Input: in, Call: called.Nanoseconds(), Output: out, Return: returned.Nanoseconds(),
	})
}

// do makes a call to a service whose clock is at in.At.
func (r *recorder) do(t *testing.T, in operation) result {
	t.Helper()
	service := commission.New(stores.Commission(r.w.Store), func() time.Time { return in.At })
	program, id := r.program.String(), in.Commission.String()
	var got *affiliatev1.Commission
	var err error
	switch in.Move {
	case affiliate.MoveApprove:
		got, err = service.ApproveCommission(r.call(), &affiliatev1.ApproveCommissionRequest{ProgramId: program, CommissionId: id})
	case affiliate.MoveOverride:
		got, err = service.ApproveCommissionEarly(r.call(), &affiliatev1.ApproveCommissionEarlyRequest{ProgramId: program, CommissionId: id, Reason: "trusted"})
	case affiliate.MoveReject:
		got, err = service.RejectCommission(r.call(), &affiliatev1.RejectCommissionRequest{ProgramId: program, CommissionId: id})
	case affiliate.MoveClearReview:
		got, err = service.ClearCommissionReview(r.call(), &affiliatev1.ClearCommissionReviewRequest{ProgramId: program, CommissionId: id})
	case affiliate.MoveFlag:
		step := in.transition()
		step.Scope, step.Program, step.Commission = r.scope, r.program, in.Commission
		var detail affiliate.CommissionDetail
		if detail, err = commission.Move(t.Context(), stores.Commission(r.w.Store), step); err == nil {
			return shown(detail.Commission)
		}
	default:
		got, err = service.GetCommission(r.call(), &affiliatev1.GetCommissionRequest{ProgramId: program, CommissionId: id})
	}
	var refusal *affiliate.Error
	if errors.As(err, &refusal) {
		return result{Refused: refusal.Reason}
	}
	if err != nil {
		t.Error(err)
		return result{}
	}
	return result{Status: got.GetStatus(), NeedsReview: got.GetNeedsReview(), Moves: len(got.GetHistory())}
}

// sweep approves the commissions that are due and adds the sweep to the history of every
// commission. Each sweep has a different time, so that settleSweeps can find the
// commissions that it approved.
func (r *recorder) sweep(t *testing.T, client int, ids []affiliate.CommissionID) {
	t.Helper()
	at := r.hold.Add(time.Duration(r.sweeps.Add(1)) * time.Millisecond)
	called := time.Since(r.began)
	if sweep, err := commission.ApproveDue(t.Context(), stores.Commission(r.w.Store), at, 1000); err != nil || sweep.Failed > 0 {
		t.Errorf("%+v %v", sweep, err)
	}
	returned := time.Since(r.began)
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, id := range ids {
		r.history = append(r.history, porcupine.Operation{
			ClientId: client, Input: operation{Commission: id, Move: affiliate.MoveAutoApprove, At: at}, Call: called.Nanoseconds(), Return: returned.Nanoseconds(),
		})
	}
}

// settleSweeps reads from the database, after all calls, which commissions each sweep
// approved, and adds this to the history.
func (r *recorder) settleSweeps(t *testing.T) {
	t.Helper()
	for i, recorded := range r.history {
		if in := recorded.Input.(operation); in.Move == affiliate.MoveAutoApprove {
			n := r.w.Count(`select count(*) from commission_history where commission_id = $1 and actor = 'system' and to_status = 'approved' and at = $2 and seq > 1`,
				in.Commission, in.At)
			r.history[i].Output = result{Approved: n > 0}
		}
	}
}

// The test makes calls in parallel and checks that each history is linearizable. This
// means that the same calls, made one after the other in some order, have the same
// results. A call that ended before another call began must come first in this order.
func TestReview_IsLinearizable(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	p := m.somePartner()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	seen := map[affiliate.CommissionMove]int{}
	for round := range uint64(20) {
		r := &recorder{merchant: m, began: time.Now(), hold: w.now().Add(time.Hour)}
		r.sweeps.Store(int64(round) * 1000)
		born := map[affiliate.CommissionID]affiliate.Commission{}
		var ids []affiliate.CommissionID
		for i := range 3 {
			c := affiliate.Commission{
				Status: affiliate.CommissionPending, HoldUntil: &r.hold, AutoApproveAt: &r.hold, NeedsReview: i == 0, ReviewReasons: []string{},
				Dispute: affiliate.DisputeNone, AmountCents: 200, OriginalAmountCents: 200, Version: 1,
			}
			if c.NeedsReview {
				c.ReviewReasons = []string{"fraud"}
			}
			id := m.commission(p, map[string]any{
				"hold_until": r.hold, "auto_approve_at": r.hold, "needs_review": c.NeedsReview, "review_reasons": c.ReviewReasons,
			})
			ids, born[id] = append(ids, id), c
		}
		var group sync.WaitGroup
		for client := range 8 {
			dice := rand.New(rand.NewPCG(seed, round*8+uint64(client))) //nolint:gosec // a test's dice
			group.Go(func() {
				for range 12 {
					in := operation{Commission: ids[dice.IntN(len(ids))], At: r.hold.Add(-time.Minute)}
					if dice.IntN(2) == 0 {
						in.At = r.hold.Add(time.Duration(dice.IntN(2)) * time.Minute)
					}
					switch n := dice.IntN(20); {
					case n < 7: // a read
					case n < 10:
						in.Move = affiliate.MoveApprove
					case n < 12:
						in.Move = affiliate.MoveOverride
					case n < 13:
						in.Move = affiliate.MoveReject
					case n < 15:
						in.Move = affiliate.MoveClearReview
					case n < 18:
						in.Move, in.Reason = affiliate.MoveFlag, fmt.Sprintf("reason_%d", dice.IntN(4))
					default:
						r.sweep(t, client, ids)
						continue
					}
					r.record(client, in, func() result { return r.do(t, in) })
				}
			})
		}
		group.Wait()
		r.settleSweeps(t)
		model := sequential(born)
		for _, part := range byCommission(r.history) {
			if porcupine.CheckOperations(model, part) {
				continue
			}
			slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
			for _, o := range part {
				t.Logf("%d %9d–%9d %s", o.ClientId, o.Call, o.Return, model.DescribeOperation(o.Input, o.Output))
			}
			t.Errorf("round %d is not linearizable", round)
		}
		for _, o := range r.history {
			if out := o.Output.(result); out.Refused == "" && (out.Approved || out.Moves > 0) {
				seen[o.Input.(operation).Move]++
			}
		}
		for _, id := range ids {
			w.path(id)
		}
	}
	t.Logf("made %v", seen)
	for _, move := range []affiliate.CommissionMove{
		"", affiliate.MoveApprove, affiliate.MoveOverride, affiliate.MoveAutoApprove, affiliate.MoveReject, affiliate.MoveFlag, affiliate.MoveClearReview,
	} {
		if seen[move] == 0 {
			t.Errorf("%q never happened", move)
		}
	}
}

// The model must reject histories that are not linearizable.
func TestModel_RejectsImpossibleHistories(t *testing.T) {
	id := affiliate.CommissionID{UUID: [16]byte{15: 1}}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	model := sequential(map[affiliate.CommissionID]affiliate.Commission{id: {Status: affiliate.CommissionPending, Version: 1}})
	pending := result{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING, Moves: 1}
	approved := result{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED, Moves: 2}
	rejected := result{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED, Moves: 2}
	type call struct {
		move             affiliate.CommissionMove
		out              result
		called, returned int64
	}
	for name, tc := range map[string]struct {
		calls []call
		want  bool
	}{
		"one after the other":             {[]call{{"", pending, 1, 2}, {affiliate.MoveApprove, approved, 3, 4}, {"", approved, 5, 6}}, true},
		"a read beside a move, before it": {[]call{{affiliate.MoveApprove, approved, 1, 4}, {"", pending, 2, 3}}, true},
		"a read of an old state":          {[]call{{affiliate.MoveApprove, approved, 1, 2}, {"", pending, 3, 4}}, false},
		"both succeed":                    {[]call{{affiliate.MoveApprove, approved, 1, 4}, {affiliate.MoveReject, rejected, 2, 3}}, false},
		"two approvals":                   {[]call{{affiliate.MoveApprove, approved, 1, 4}, {affiliate.MoveApprove, approved, 2, 3}}, false},
		"rejected without a cause":        {[]call{{affiliate.MoveApprove, result{Refused: affiliate.ReasonCommissionNotPending}, 1, 2}}, false},
		"rejected with another code":      {[]call{{affiliate.MoveOverride, result{Refused: affiliate.ReasonCommissionNeedsReview}, 1, 2}}, false},
	} {
		var history []porcupine.Operation
		for i, c := range tc.calls {
			history = append(history, porcupine.Operation{
				ClientId: i, Input: operation{Commission: id, Move: c.move, At: at}, Call: c.called, Output: c.out, Return: c.returned,
			})
		}
		if got := porcupine.CheckOperations(model, history); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
