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
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/commissiontest"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// operation is the input of one call in the history of calls that the test records. At is
// the time on the clock of the process that makes the transition. The database determines
// the order of the transitions. The clocks of processes differ, so the times need not be
// in this order.
type operation struct {
	Commission affiliate.CommissionID
	Move       commission.Move // empty for a read
	At         time.Time
	Reason     string // review reason, only for MoveFlag
}

// result is the output of one call.
type result struct {
	Refused     affiliate.Reason
	Status      affiliatev1.CommissionStatus
	NeedsReview bool
	Entries     int  // number of history entries
	Approved    bool // only for a sweep: whether the sweep approved this commission
}

func (o operation) transition() commission.Transition {
	t := commission.Transition{Move: o.Move, At: o.At, ParticipantStatus: participant.Approved}
	if o.Reason != "" {
		t.ReviewReasons = []string{o.Reason}
	}
	return t
}

func byCommission(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[affiliate.CommissionID][]porcupine.Operation{}
	for _, o := range history {
		id := o.Input.(operation).Commission
		parts[id] = append(parts[id], o)
	}
	return slices.Collect(maps.Values(parts))
}

// commissionModel returns the model of the commissions in created. In the model, each
// commission makes one transition at a time. The result of each transition comes from package commissiontest. A history is
// linearizable if its calls can be ordered so that the model gives the same results.
func commissionModel(created map[affiliate.CommissionID]commission.Commission) porcupine.Model {
	return porcupine.Model{
		Partition: byCommission,
		Init:      func() any { return commission.Commission{} },
		Step: func(state, input, output any) (bool, any) {
			c, in, out := state.(commission.Commission), input.(operation), output.(result)
			if c.Version == 0 {
				c = created[in.Commission]
			}
			if in.Move == "" {
				return out == resultOf(c), c
			}
			if in.Move == commission.MoveAutoApprove && !out.Approved {
				// The commission was not due, or another transaction had locked it.
				return true, c
			}
			move := commissiontest.Expected(c, in.transition())
			if move.Refusal != "" {
				return out == result{Refused: move.Refusal}, c
			}
			if in.Move == commission.MoveAutoApprove {
				return true, move.After
			}
			return out == resultOf(move.After), move.After
		},
		Equal: reflect.DeepEqual,
		DescribeOperation: func(input, output any) string {
			in := input.(operation)
			return fmt.Sprintf("%s at %s → %+v", cmp.Or(in.Move, "read"), in.At.Format("15:04:05.000"), output)
		},
	}
}

func resultOf(c commission.Commission) result {
	return result{Status: server.EnumValue[affiliatev1.CommissionStatus](c.Status), NeedsReview: c.NeedsReview, Entries: c.Version}
}

// recorder calls the service and records the history of the calls.
type recorder struct {
	*fixture
	start   time.Time // times in the history are relative to start
	holdEnd time.Time // the end of the hold period of all commissions
	sweeps  atomic.Int64
	lock    sync.Mutex
	history []porcupine.Operation
}

func (r *recorder) record(client int, in operation, call func() result) {
	begin := time.Since(r.start)
	out := call()
	end := time.Since(r.start)
	r.lock.Lock()
	defer r.lock.Unlock()
	r.history = append(r.history, porcupine.Operation{
		ClientId: client, Input: in, Call: begin.Nanoseconds(), Output: out, Return: end.Nanoseconds(),
	})
}

// do makes the call that op describes. The clock of the called service shows op.At.
func (r *recorder) do(t *testing.T, op operation) result {
	t.Helper()
	atTime := *r.fixture
	atTime.service = commissionservice.New(r.DB, func() time.Time { return op.At })
	requests := atTime.on(commission.Commission{ID: op.Commission, Program: r.Program})
	var got *affiliatev1.Commission
	var err error
	switch op.Move {
	case commission.MoveApprove:
		got, err = requests.approve()
	case commission.MoveOverride:
		got, err = requests.approveEarly()
	case commission.MoveReject:
		got, err = requests.reject()
	case commission.MoveClearReview:
		got, err = requests.clearReview(nil)
	case commission.MoveFlag:
		flag := op.transition()
		flag.Scope, flag.Program, flag.Commission = r.Scope, r.Program, op.Commission
		var detail commission.Detail
		if detail, err = commissionservice.Move(t.Context(), r.DB, flag); err == nil {
			return resultOf(detail.Commission)
		}
	default:
		got, err = requests.get()
	}
	var refusal *affiliate.Error
	if errors.As(err, &refusal) {
		return result{Refused: refusal.Reason}
	}
	if err != nil {
		t.Errorf("%s: %v", cmp.Or(op.Move, "read"), err)
		return result{}
	}
	return result{Status: got.GetStatus(), NeedsReview: got.GetNeedsReview(), Entries: len(got.GetHistory())}
}

// recordSweep approves the commissions that are due and adds the sweep to the history of
// every commission. Each sweep has a different time, so that settleSweeps can find the
// commissions that each sweep approved.
func (r *recorder) recordSweep(t *testing.T, client int, ids []affiliate.CommissionID) {
	t.Helper()
	at := r.holdEnd.Add(time.Duration(r.sweeps.Add(1)) * time.Millisecond)
	begin := time.Since(r.start)
	if sweep, err := commissionservice.ApproveDue(t.Context(), r.DB, at, 1000); err != nil || sweep.Failed > 0 {
		t.Errorf("ApproveDue returned %+v, error %v, want no failed commission", sweep, err)
	}
	end := time.Since(r.start)
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, id := range ids {
		r.history = append(r.history, porcupine.Operation{
			ClientId: client, Input: operation{Commission: id, Move: commission.MoveAutoApprove, At: at}, Call: begin.Nanoseconds(), Return: end.Nanoseconds(),
		})
	}
}

// settleSweeps completes the history when all calls have ended: it reads from the
// database which commissions each sweep approved.
func (r *recorder) settleSweeps(t *testing.T) {
	t.Helper()
	for i, recorded := range r.history {
		if in := recorded.Input.(operation); in.Move == commission.MoveAutoApprove {
			n := r.Count(`
				select count(*) from commission_history
				where commission_id = $1 and actor = 'system' and to_status = 'approved' and at = $2 and seq > 1`, in.Commission, in.At)
			r.history[i].Output = result{Approved: n > 0}
		}
	}
}

// The test makes calls in parallel and checks that each history is linearizable. This
// means that the same calls, made one after the other in some order, have the same
// results. A call that ended before another call began must come first in this order.
func TestReview_IsLinearizable(t *testing.T) {
	pgtest.Slow(t)
	f := newFixture(t, affiliate.ModeLive)
	p := f.Join("Some Body")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	succeeded := map[commission.Move]int{}
	for round := range uint64(20) {
		r := &recorder{fixture: f, start: time.Now(), holdEnd: f.Now().Add(time.Hour)}
		r.sweeps.Store(int64(round) * 1000)
		created := map[affiliate.CommissionID]commission.Commission{}
		var ids []affiliate.CommissionID
		for i := range 3 {
			c := f.NewCommission(p, func(c *commission.Commission) {
				c.HoldUntil, c.AutoApproveAt = &r.holdEnd, &r.holdEnd
				if i == 0 {
					c.NeedsReview, c.ReviewReasons = true, []string{"fraud"}
				}
			})
			ids, created[c.ID] = append(ids, c.ID), c
		}
		var clients sync.WaitGroup
		for client := range 8 {
			random := rand.New(rand.NewPCG(seed, round*8+uint64(client))) //nolint:gosec // random calls of a test
			clients.Go(func() {
				for range 12 {
					in := operation{Commission: ids[random.IntN(len(ids))], At: r.holdEnd.Add(-time.Minute)}
					if random.IntN(2) == 0 {
						in.At = r.holdEnd.Add(time.Duration(random.IntN(2)) * time.Minute)
					}
					switch n := random.IntN(20); {
					case n < 7: // a read
					case n < 10:
						in.Move = commission.MoveApprove
					case n < 12:
						in.Move = commission.MoveOverride
					case n < 13:
						in.Move = commission.MoveReject
					case n < 15:
						in.Move = commission.MoveClearReview
					case n < 18:
						in.Move, in.Reason = commission.MoveFlag, fmt.Sprintf("reason_%d", random.IntN(4))
					default:
						r.recordSweep(t, client, ids)
						continue
					}
					r.record(client, in, func() result { return r.do(t, in) })
				}
			})
		}
		clients.Wait()
		r.settleSweeps(t)
		model := commissionModel(created)
		for _, part := range byCommission(r.history) {
			if porcupine.CheckOperations(model, part) {
				continue
			}
			slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
			for _, o := range part {
				t.Logf("%d %9d–%9d %s", o.ClientId, o.Call, o.Return, model.DescribeOperation(o.Input, o.Output))
			}
			t.Errorf("the calls of round %d are not linearizable", round)
		}
		for _, o := range r.history {
			if out := o.Output.(result); out.Refused == "" && (out.Approved || out.Entries > 0) {
				succeeded[o.Input.(operation).Move]++
			}
		}
		for _, id := range ids {
			f.statuses(created[id]) // checks the history and the events
		}
	}
	for _, move := range []commission.Move{
		"", commission.MoveApprove, commission.MoveOverride, commission.MoveAutoApprove, commission.MoveReject, commission.MoveFlag, commission.MoveClearReview,
	} {
		if succeeded[move] == 0 {
			t.Errorf("no %s succeeded in any round: %v", cmp.Or(move, "read"), succeeded)
		}
	}
}

// The model must reject histories that are not linearizable and accept the others. In a
// call, the empty move is a read.
func TestModel_RejectsImpossibleHistories(t *testing.T) {
	id := affiliate.CommissionID{UUID: [16]byte{15: 1}}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	model := commissionModel(map[affiliate.CommissionID]commission.Commission{id: {Status: commission.Pending, Version: 1}})
	pending := result{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING, Entries: 1}
	approved := result{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED, Entries: 2}
	rejected := result{Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED, Entries: 2}
	type call struct {
		move       commission.Move
		out        result
		begin, end int64
	}
	for name, tc := range map[string]struct {
		calls []call
		want  bool
	}{
		"read after an approval":          {[]call{{"", pending, 1, 2}, {commission.MoveApprove, approved, 3, 4}, {"", approved, 5, 6}}, true},
		"read of old state in parallel":   {[]call{{commission.MoveApprove, approved, 1, 4}, {"", pending, 2, 3}}, true},
		"read of old state afterwards":    {[]call{{commission.MoveApprove, approved, 1, 2}, {"", pending, 3, 4}}, false},
		"rejection before the approval":   {[]call{{commission.MoveApprove, approved, 1, 4}, {commission.MoveReject, rejected, 2, 3}}, false},
		"two successful approvals":        {[]call{{commission.MoveApprove, approved, 1, 4}, {commission.MoveApprove, approved, 2, 3}}, false},
		"refused without a cause":         {[]call{{commission.MoveApprove, result{Refused: affiliate.ReasonCommissionNotPending}, 1, 2}}, false},
		"refused with another error code": {[]call{{commission.MoveOverride, result{Refused: affiliate.ReasonCommissionNeedsReview}, 1, 2}}, false},
	} {
		var history []porcupine.Operation
		for i, c := range tc.calls {
			history = append(history, porcupine.Operation{
				ClientId: i, Input: operation{Commission: id, Move: c.move, At: at}, Call: c.begin, Output: c.out, Return: c.end,
			})
		}
		if got := porcupine.CheckOperations(model, history); got != tc.want {
			t.Errorf("%s: the model accepts the history: %v, want %v", name, got, tc.want)
		}
	}
}
