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

// asked is one call as the history has it. What the caller's clock said is part
// of it: clocks of processes differ, and the order of moves is the database's.
type asked struct {
	Commission affiliate.CommissionID
	Move       affiliate.CommissionMove // empty: a read
	At         time.Time
	Reason     string // of MoveFlag
}

// answered is what a call came back with.
type answered struct {
	Refused     affiliate.Reason
	Status      affiliatev1.CommissionStatus
	NeedsReview bool
	Moves       int  // lines of history
	Approved    bool // of a sweep: whether it approved this commission
}

func (a asked) transition() affiliate.CommissionTransition {
	t := affiliate.CommissionTransition{Move: a.Move, At: a.At, ParticipantStatus: affiliate.ParticipantApproved}
	if a.Reason != "" {
		t.ReviewReasons = []string{a.Reason}
	}
	return t
}

func byCommission(history []porcupine.Operation) [][]porcupine.Operation {
	of := map[affiliate.CommissionID][]porcupine.Operation{}
	for _, o := range history {
		id := o.Input.(asked).Commission
		of[id] = append(of[id], o)
	}
	return slices.Collect(maps.Values(of))
}

// sequential is the model that every history has to be a shuffle of: one
// commission that makes one move at a time, as package commissiontest says.
func sequential(born map[affiliate.CommissionID]affiliate.Commission) porcupine.Model {
	return porcupine.Model{
		Partition: byCommission,
		Init:      func() any { return affiliate.Commission{} },
		Step: func(state, input, output any) (bool, any) {
			c, in, out := state.(affiliate.Commission), input.(asked), output.(answered)
			if c.Version == 0 {
				c = born[in.Commission]
			}
			if in.Move == "" {
				return out == shown(c), c
			}
			if in.Move == affiliate.MoveAutoApprove && !out.Approved {
				// Not due, or in somebody's hands.
				return true, c
			}
			move := commissiontest.Expected(c, in.transition())
			if move.Refused != "" {
				return out == answered{Refused: move.Refused}, c
			}
			if in.Move == affiliate.MoveAutoApprove {
				return true, move.After
			}
			return out == shown(move.After), move.After
		},
		Equal: reflect.DeepEqual,
		DescribeOperation: func(input, output any) string {
			in := input.(asked)
			return fmt.Sprintf("%s at %s → %+v", cmp.Or(in.Move, "read"), in.At.Format("15:04:05.000"), output)
		},
	}
}

func shown(c affiliate.Commission) answered {
	return answered{Status: server.FromWord[affiliatev1.CommissionStatus](c.Status), NeedsReview: c.NeedsReview, Moves: c.Version}
}

// recorder makes calls of the service and keeps their history.
type recorder struct {
	*merchant
	began   time.Time // what the instants of the history are counted from
	hold    time.Time // ends every hold
	sweeps  atomic.Int64
	lock    sync.Mutex
	history []porcupine.Operation
}

func (r *recorder) record(client int, in asked, call func() answered) {
	called := time.Since(r.began)
	out := call()
	returned := time.Since(r.began)
	r.lock.Lock()
	defer r.lock.Unlock()
	r.history = append(r.history, porcupine.Operation{
		ClientId: client, Input: in, Call: called.Nanoseconds(), Output: out, Return: returned.Nanoseconds(),
	})
}

// do makes a call as the service of a process does whose clock says in.At.
func (r *recorder) do(t *testing.T, in asked) answered {
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
		return answered{Refused: refusal.Reason}
	}
	if err != nil {
		t.Error(err)
		return answered{}
	}
	return answered{Status: got.GetStatus(), NeedsReview: got.GetNeedsReview(), Moves: len(got.GetHistory())}
}

// sweep approves what is due, and is in the history of every commission. Its
// instant is its own, so that what it approved can be told.
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
			ClientId: client, Input: asked{Commission: id, Move: affiliate.MoveAutoApprove, At: at}, Call: called.Nanoseconds(), Return: returned.Nanoseconds(),
		})
	}
}

// settleSweeps notes for each sweep and commission whether the one approved the
// other, which the database tells afterwards.
func (r *recorder) settleSweeps(t *testing.T) {
	t.Helper()
	for i, operation := range r.history {
		if in := operation.Input.(asked); in.Move == affiliate.MoveAutoApprove {
			n := r.w.Count(`select count(*) from commission_history where commission_id = $1 and actor = 'system' and to_status = 'approved' and at = $2 and seq > 1`,
				in.Commission, in.At)
			r.history[i].Output = answered{Approved: n > 0}
		}
	}
}

// Short histories of everything that people and the service do at once: each is
// what the calls would have done one after the other, in an order in which none
// that had ended comes behind one that had not begun.
func TestReviewIsLinearizable(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	p := m.somebody()
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
					in := asked{Commission: ids[dice.IntN(len(ids))], At: r.hold.Add(-time.Minute)}
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
					r.record(client, in, func() answered { return r.do(t, in) })
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
			if out := o.Output.(answered); out.Refused == "" && (out.Approved || out.Moves > 0) {
				seen[o.Input.(asked).Move]++
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

// The checker is worth nothing if it finds nothing wrong.
func TestTheModelRefusesWhatCannotHaveBeen(t *testing.T) {
	id := affiliate.CommissionID{UUID: [16]byte{15: 1}}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	model := sequential(map[affiliate.CommissionID]affiliate.Commission{id: {Status: affiliate.CommissionPending, Version: 1}})
	pending := answered{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING, Moves: 1}
	approved := answered{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED, Moves: 2}
	rejected := answered{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED, Moves: 2}
	type call struct {
		move             affiliate.CommissionMove
		out              answered
		called, returned int64
	}
	for name, tc := range map[string]struct {
		calls []call
		want  bool
	}{
		"one after the other":             {[]call{{"", pending, 1, 2}, {affiliate.MoveApprove, approved, 3, 4}, {"", approved, 5, 6}}, true},
		"a read beside a move, before it": {[]call{{affiliate.MoveApprove, approved, 1, 4}, {"", pending, 2, 3}}, true},
		"a read of what is over":          {[]call{{affiliate.MoveApprove, approved, 1, 2}, {"", pending, 3, 4}}, false},
		"both win":                        {[]call{{affiliate.MoveApprove, approved, 1, 4}, {affiliate.MoveReject, rejected, 2, 3}}, false},
		"two approvals":                   {[]call{{affiliate.MoveApprove, approved, 1, 4}, {affiliate.MoveApprove, approved, 2, 3}}, false},
		"refused without a reason to":     {[]call{{affiliate.MoveApprove, answered{Refused: affiliate.ReasonCommissionNotPending}, 1, 2}}, false},
		"refused for another reason":      {[]call{{affiliate.MoveOverride, answered{Refused: affiliate.ReasonCommissionNeedsReview}, 1, 2}}, false},
	} {
		var history []porcupine.Operation
		for i, c := range tc.calls {
			history = append(history, porcupine.Operation{
				ClientId: i, Input: asked{Commission: id, Move: c.move, At: at}, Call: c.called, Output: c.out, Return: c.returned,
			})
		}
		if got := porcupine.CheckOperations(model, history); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
