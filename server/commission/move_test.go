package commission_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (m *merchant) approve(program affiliate.ProgramID, id affiliate.CommissionID) (*affiliatev1.Commission, error) {
	return m.w.service.ApproveCommission(m.call(), &affiliatev1.ApproveCommissionRequest{ProgramId: program.String(), CommissionId: id.String()})
}

func (m *merchant) reject(program affiliate.ProgramID, id affiliate.CommissionID) (*affiliatev1.Commission, error) {
	return m.w.service.RejectCommission(m.call(), &affiliatev1.RejectCommissionRequest{ProgramId: program.String(), CommissionId: id.String()})
}

func (m *merchant) approveEarly(program affiliate.ProgramID, id affiliate.CommissionID) (*affiliatev1.Commission, error) {
	return m.w.service.ApproveCommissionEarly(m.call(), &affiliatev1.ApproveCommissionEarlyRequest{ProgramId: program.String(), CommissionId: id.String(), Reason: "an old partner"})
}

func (m *merchant) sweep(t *testing.T) {
	t.Helper()
	if err := commission.NewSweepWorker(stores.Commission(m.w.Store), slog.New(slog.DiscardHandler), m.w.now).Work(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestReview_EachMoveInEachStatus(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeTest)
	p := m.somePartner()
	running := w.now().Add(time.Hour)
	for _, c := range []struct {
		status  string
		hold    *time.Time
		flagged bool
		approve affiliate.Reason
		early   affiliate.Reason
		reject  affiliate.Reason
	}{
		{"pending", nil, false, "", affiliate.ReasonCommissionHoldNotActive, ""},
		{"pending", nil, true, "", affiliate.ReasonCommissionNeedsReview, ""},
		{"pending", &running, false, affiliate.ReasonCommissionHoldActive, "", ""},
		{"pending", &running, true, affiliate.ReasonCommissionHoldActive, affiliate.ReasonCommissionNeedsReview, ""},
		{"approved", nil, false, affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionNotPending, ""},
		{"approved", &running, true, affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionNotPending, ""},
		{"rejected", nil, false, affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionTerminal},
		{"paid", nil, true, affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionTerminal},
		{"refunded", &running, false, affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionNotPending, affiliate.ReasonCommissionTerminal},
	} {
		for _, move := range []struct {
			name string
			make func(affiliate.ProgramID, affiliate.CommissionID) (*affiliatev1.Commission, error)
			to   string
			want affiliate.Reason
		}{
			{"approve", m.approve, "approved", c.approve},
			{"approve_override", m.approveEarly, "approved", c.early},
			{"reject", m.reject, "rejected", c.reject},
		} {
			t.Run(fmt.Sprintf("%s %s hold=%v flagged=%v", move.name, c.status, c.hold != nil, c.flagged), func(t *testing.T) {
				id := m.commission(p, map[string]any{"status": c.status, "hold_until": c.hold, "needs_review": c.flagged})
				got, err := move.make(m.program, id)
				if reason := pgtest.ReasonOf(t, err); reason != move.want {
					t.Fatalf("%q, want %q", reason, move.want)
				}
				audited := w.Count(`select count(*) from audit_log where resource_id = $1 and action = $2 and actor = $3 and mode = 'test'`,
					id, "commission."+move.name, m.user.String())
				if move.want != "" {
					if path := w.path(id); path != c.status || audited != 0 {
						t.Errorf("rejected, but the path is %s with %d audit lines", path, audited)
					}
					return
				}
				if path := w.path(id); path != c.status+" "+move.to || audited != 1 {
					t.Errorf("%s with %d audit lines", path, audited)
				}
				if want := "COMMISSION_STATUS_" + strings.ToUpper(move.to); got.GetStatus().String() != want || len(got.GetHistory()) != 2 {
					t.Errorf("response %v", got)
				}
			})
		}
	}
}

func TestApprove_ClearsReviewFlag(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	id := m.commission(m.somePartner(), map[string]any{"needs_review": true, "review_reasons": []string{"fx_rate_missing"}})
	got, err := m.approve(m.program, id)
	if err != nil {
		t.Fatal(err)
	}
	if got.GetNeedsReview() || len(got.GetReviewReasons()) != 0 || got.GetApprovedBy() != m.user.String() || !got.GetApprovedAt().AsTime().Equal(w.now()) {
		t.Errorf("response %v", got)
	}
	o, previous := w.LastEvent(affiliate.EventCommissionApproved)
	if o["status"] != "approved" || o["needs_review"] != false || o["version"] != 2.0 {
		t.Errorf("object %v", o)
	}
	if p := fmt.Sprint(previous); p != "map[needs_review:true review_reasons:[fx_rate_missing] status:pending]" {
		t.Errorf("previous %v", p)
	}
	var before, after map[string]any
	if err := w.SQL.QueryRow(t.Context(), `select before, after from audit_log where resource_id = $1`, id).Scan(&before, &after); err != nil {
		t.Fatal(err)
	}
	if before["needs_review"] != true || after["needs_review"] != false || before["status"] != "pending" || after["status"] != "approved" {
		t.Errorf("audited %v → %v", before, after)
	}
}

func TestApproveEarly_StoresActorAndReason(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	until := w.now().Add(time.Hour)
	id := m.commission(m.somePartner(), map[string]any{"hold_until": until, "auto_approve_at": until})
	got, err := m.approveEarly(m.program, id)
	if err != nil {
		t.Fatal(err)
	}
	if got.GetOverrideReason() != "an old partner" || got.GetOverrideBy() != m.user.String() || got.GetApprovedBy() != m.user.String() ||
		!got.GetHoldActive() || !got.GetHoldUntil().AsTime().Equal(until) {
		t.Errorf("response %v", got)
	}
	if last := got.GetHistory()[1]; last.GetReason() != "an old partner" || last.GetActor() != m.user.String() {
		t.Errorf("history ends with %v", last)
	}
	if object, _ := w.LastEvent(affiliate.EventCommissionApproved); strings.Contains(fmt.Sprint(object), "an old partner") {
		t.Errorf("the event contains the reason: %v", object)
	}
	if n := w.Count(`select count(*) from audit_log where action = 'commission.approve_override' and after ->> 'override_reason' = 'an old partner'`); n != 1 {
		t.Error("the audit log does not contain the reason")
	}
}

func TestClearReview_KeepsStatus(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeTest)
	p := m.somePartner()
	note := "asked them"
	clearReview := func(id affiliate.CommissionID, note *string) (*affiliatev1.Commission, error) {
		return w.service.ClearCommissionReview(m.call(), &affiliatev1.ClearCommissionReviewRequest{ProgramId: m.program.String(), CommissionId: id.String(), Note: note})
	}
	for status, note := range map[string]*string{"pending": &note, "approved": nil} {
		id := m.commission(p, map[string]any{"status": status, "needs_review": true, "review_reasons": []string{"a", "b"}})
		got, err := clearReview(id, note)
		if err != nil {
			t.Fatal(err)
		}
		last := got.GetHistory()[1]
		if got.GetNeedsReview() || len(got.GetReviewReasons()) != 0 || (last.Reason == nil) != (note == nil) || note != nil && last.GetReason() != *note || last.GetActor() != m.user.String() {
			t.Errorf("response %v", got)
		}
		if path := w.path(id); path != status+" "+status {
			t.Error(path)
		}
		if o, previous := w.LastEvent(affiliate.EventCommissionUpdated); o["needs_review"] != false || previous["needs_review"] != true {
			t.Errorf("event %v, previous values %v", o, previous)
		}
		if n := w.Count(`select count(*) from audit_log where resource_id = $1 and action = 'commission.clear_review'`, id); n != 1 {
			t.Errorf("%d audit lines", n)
		}
		_, err = clearReview(id, note)
		if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonCommissionNotFlagged {
			t.Errorf("again: %q", reason)
		}
	}
	for _, status := range []string{"rejected", "paid", "refunded"} {
		_, err := clearReview(m.commission(p, map[string]any{"status": status, "needs_review": true}), nil)
		if meta := pgtest.RequireRefusal(t, err, affiliate.ReasonCommissionNotFlagged); meta["status"] != status {
			t.Errorf("%s: %v", status, meta)
		}
	}
}

func TestReject_StoresReasonAndCode(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeTest)
	id := m.commission(m.somePartner(), map[string]any{"hold_until": w.now().Add(time.Hour), "needs_review": true})
	reason := "ordered by the partner"
	got, err := w.service.RejectCommission(m.call(), &affiliatev1.RejectCommissionRequest{
		ProgramId: m.program.String(), CommissionId: id.String(), Reason: &reason, Code: affiliatev1.RejectionCode_REJECTION_CODE_SELF_REFERRAL,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetRejectionReason() != reason || got.GetRejectionCode() != affiliatev1.RejectionCode_REJECTION_CODE_SELF_REFERRAL ||
		!got.GetRejectedAt().AsTime().Equal(w.now()) || got.ApprovedAt != nil || got.GetNeedsReview() {
		t.Errorf("response %v", got)
	}
	if last := got.GetHistory()[1]; last.GetReason() != reason || last.GetActor() != m.user.String() || last.GetFrom() != affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING {
		t.Errorf("history ends with %v", last)
	}
	if n := w.Count(`select count(*) from audit_log where after ->> 'rejection_code' = 'self_referral' and after ->> 'rejection_reason' = $1`, reason); n != 1 {
		t.Error("the audit log does not contain the reason")
	}
}

func TestHold_EndsToTheMillisecond(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	end := w.now()
	id := m.commission(m.somePartner(), map[string]any{"hold_until": end, "auto_approve_at": end})
	get := func() *affiliatev1.Commission {
		got, err := w.service.GetCommission(m.call(), &affiliatev1.GetCommissionRequest{ProgramId: m.program.String(), CommissionId: id.String()})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	w.clock.Add(-1)
	if !get().GetHoldActive() {
		t.Error("the hold is not active a millisecond before its end")
	}
	_, err := m.approve(m.program, id)
	if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonCommissionHoldActive {
		t.Errorf("a millisecond before: %q", reason)
	}
	m.sweep(t)
	if path := w.path(id); path != "pending" {
		t.Errorf("a millisecond before: %s", path)
	}
	w.clock.Add(1)
	if get().GetHoldActive() {
		t.Error("the hold is active when it should have ended")
	}
	m.sweep(t)
	if path := w.path(id); path != "pending approved" {
		t.Errorf("at the end: %s", path)
	}
	if got := get(); got.GetApprovedBy() != "system" || !got.GetApprovedAt().AsTime().Equal(end) {
		t.Errorf("approved by %s at %v", got.GetApprovedBy(), got.GetApprovedAt().AsTime())
	}
}

// race makes n parallel calls of each function and counts the error codes of each.
func race(t *testing.T, n int, calls ...func() error) []map[affiliate.Reason]int {
	t.Helper()
	start, outcomes := make(chan struct{}), make([]map[affiliate.Reason]int, len(calls))
	var group sync.WaitGroup
	var lock sync.Mutex
	for i, call := range calls {
		outcomes[i] = map[affiliate.Reason]int{}
		for range n {
			group.Go(func() {
				<-start
				err := call()
				lock.Lock()
				defer lock.Unlock()
				outcomes[i][pgtest.ReasonOf(t, err)]++
			})
		}
	}
	close(start)
	group.Wait()
	return outcomes
}

func TestReview_ParallelApprovesAndRejects(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	p := m.somePartner()
	for range 4 {
		id := m.commission(p, nil)
		outcomes := race(t, 50,
			func() error { _, err := m.approve(m.program, id); return err },
			func() error { _, err := m.reject(m.program, id); return err },
		)
		approved, rejected := outcomes[0][""], outcomes[1][""]
		if approved+outcomes[0][affiliate.ReasonCommissionNotPending] != 50 || approved > 1 {
			t.Errorf("approves: %v", outcomes[0])
		}
		// An approved commission may still be rejected, so a reject always wins in the end.
		if rejected+outcomes[1][affiliate.ReasonCommissionTerminal] != 50 || rejected != 1 {
			t.Errorf("rejects: %v", outcomes[1])
		}
		want := "pending rejected"
		if approved == 1 {
			want = "pending approved rejected"
		}
		if path := w.path(id); path != want {
			t.Errorf("%s, want %s", path, want)
		}
		if n := w.Count(`select count(*) from audit_log where resource_id = $1`, id); n != approved+rejected {
			t.Errorf("%d audit lines for %d moves", n, approved+rejected)
		}
	}
}

func TestApprove_ParallelToSweepMovesOnce(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	p := m.somePartner()
	people := 0
	for range 20 {
		id := m.commission(p, map[string]any{"auto_approve_at": w.now(), "hold_until": w.now()})
		var won atomic.Int32
		race(t, 2,
			func() error {
				_, err := m.approve(m.program, id)
				if err == nil {
					won.Add(1)
				}
				return err
			},
			func() error { m.sweep(t); return nil },
		)
		if path := w.path(id); path != "pending approved" {
			t.Fatal(path)
		}
		if n := w.Count(`select count(*) from audit_log where resource_id = $1`, id); n != int(won.Load()) || n > 1 {
			t.Errorf("%d audit lines, %d approvals by the merchant", n, won.Load())
		}
		people += int(won.Load())
	}
	t.Logf("the merchant's call approved %d of 20", people)
}

func TestSweep_SkipsCommissionsThatNeedReview(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(affiliate.ModeLive)
	good, suspended := m.somePartner(), m.somePartner()
	w.Exec(`update participants set status = 'suspended' where id = $1`, suspended.participant)
	due := func(p partner, column string, value any) affiliate.CommissionID {
		columns := map[string]any{"auto_approve_at": w.now(), "hold_until": w.now()}
		if column != "" {
			columns[column] = value
		}
		return m.commission(p, columns)
	}
	plain := due(good, "", nil)
	left := map[string]affiliate.CommissionID{
		"flagged":                        due(good, "needs_review", true),
		"disputed":                       due(good, "dispute_status", "open"),
		"of a suspended participant":     due(suspended, "", nil),
		"with auto-approval off":         due(good, "auto_approve_at", nil),
		"with a hold that was prolonged": due(good, "hold_until", w.now().Add(time.Hour)),
	}
	m.sweep(t)
	m.sweep(t)
	if path := w.path(plain); path != "pending approved" {
		t.Errorf("a due commission: %s", path)
	}
	for name, id := range left {
		if path := w.path(id); path != "pending" {
			t.Errorf("commission %s: %s", name, path)
		}
	}
	w.Exec(`update participants set status = 'approved' where id = $1`, suspended.participant)
	m.sweep(t)
	if path := w.path(left["of a suspended participant"]); path != "pending approved" {
		t.Errorf("after the participant was reinstated: %s", path)
	}
}
