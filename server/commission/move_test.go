package commission_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestReview_EachMoveInEachStatus(t *testing.T) {
	f := newFixture(t, affiliate.ModeTest)
	p := f.Join("Some Body")
	const (
		notPending = affiliate.ReasonCommissionNotPending
		terminal   = affiliate.ReasonCommissionTerminal
		held       = affiliate.ReasonCommissionHoldActive
		notHeld    = affiliate.ReasonCommissionHoldNotActive
		flagged    = affiliate.ReasonCommissionNeedsReview
	)
	for _, tc := range []struct {
		status       commission.Status
		held         bool // the hold period is running
		flagged      bool // the commission needs review
		approve      affiliate.Reason
		approveEarly affiliate.Reason
		reject       affiliate.Reason
	}{
		{commission.Pending, false, false, "", notHeld, ""},
		{commission.Pending, false, true, "", flagged, ""},
		{commission.Pending, true, false, held, "", ""},
		{commission.Pending, true, true, held, flagged, ""},
		{commission.Approved, false, false, notPending, notPending, ""},
		{commission.Approved, true, true, notPending, notPending, ""},
		{commission.Rejected, false, false, notPending, notPending, terminal},
		{commission.Paid, false, true, notPending, notPending, terminal},
		{commission.Refunded, true, false, notPending, notPending, terminal},
	} {
		for _, move := range []struct {
			action string // in the audit log
			call   func(requests) (*affiliatev1.Commission, error)
			to     commission.Status
			reason affiliate.Reason
		}{
			{"commission.approve", requests.approve, commission.Approved, tc.approve},
			{"commission.approve_override", requests.approveEarly, commission.Approved, tc.approveEarly},
			{"commission.reject", requests.reject, commission.Rejected, tc.reject},
		} {
			t.Run(fmt.Sprintf("%s %s held=%v flagged=%v", move.action, tc.status, tc.held, tc.flagged), func(t *testing.T) {
				c := f.NewCommission(p, func(c *commission.Commission) {
					c.Status, c.NeedsReview = tc.status, tc.flagged
					if tc.held {
						c.HoldUntil = new(f.Now().Add(time.Hour))
					}
				})
				got, err := move.call(f.on(c))
				if reason := pgtest.ReasonOf(t, err); reason != move.reason {
					t.Fatalf("the error code is %q, want %q", reason, move.reason)
				}
				wantStatuses, wantActions := string(tc.status), 0
				if move.reason == "" {
					wantStatuses, wantActions = fmt.Sprint(tc.status, " ", move.to), 1
					if want := server.EnumValue[affiliatev1.CommissionStatus](move.to); got.GetStatus() != want || len(got.GetHistory()) != 2 {
						t.Errorf("the response is %v, want the status %s and a history of 2 entries", got, want)
					}
				}
				f.requireStatuses(c, wantStatuses)
				actions := f.Count(`select count(*) from audit_log where resource_id = $1 and action = $2 and actor = $3 and mode = 'test'`,
					c.ID, move.action, f.Owner.String())
				if actions != wantActions {
					t.Errorf("the audit log has %d records %s by the owner, want %d", actions, move.action, wantActions)
				}
			})
		}
	}
}

func TestCommission_IsFoundWithoutItsProgramme(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	approved := f.NewCommission(f.Join("Pat"))
	held := f.NewCommission(f.Join("Paula"), func(c *commission.Commission) {
		c.HoldUntil, c.NeedsReview, c.ReviewReasons = new(f.Now().Add(time.Hour)), true, []string{"fx_rate_missing"}
	})
	onApproved, onHeld := requests{f, "", approved.ID.String()}, requests{f, "", held.ID.String()}
	for _, call := range []struct {
		name string
		send func() (*affiliatev1.Commission, error)
		want affiliatev1.CommissionStatus
	}{
		{"GetCommission", onApproved.get, affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING},
		{"ApproveCommission", onApproved.approve, affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED},
		{"ClearCommissionReview", func() (*affiliatev1.Commission, error) { return onHeld.clearReview(nil) }, affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING},
		{"ApproveCommissionEarly", onHeld.approveEarly, affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED},
		{"RejectCommission", onHeld.reject, affiliatev1.CommissionStatus_COMMISSION_STATUS_REJECTED},
	} {
		got, err := call.send()
		if err != nil || got.GetStatus() != call.want || got.GetProgramId() != f.Program.String() {
			t.Errorf("%s returned %v, %v; want the status %s and the programme", call.name, got, err, call.want)
		}
	}
}

func TestApprove_ClearsReviewFlag(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	c := f.NewCommission(f.Join("Some Body"), func(c *commission.Commission) {
		c.NeedsReview, c.ReviewReasons = true, []string{"fx_rate_missing"}
	})
	got, err := f.on(c).approve()
	if err != nil {
		t.Fatal(err)
	}
	want := proto.CloneOf(got)
	want.NeedsReview, want.ReviewReasons = false, nil
	want.ApprovedBy, want.ApprovedAt = new(f.Owner.String()), server.Timestamp(f.Now())
	if !proto.Equal(got, want) {
		t.Errorf("ApproveCommission returned %v\nwant %v", got, want)
	}
	object, previous := f.LastEvent(affiliate.EventCommissionApproved)
	for field, want := range map[string]any{"status": "approved", "needs_review": false, "version": 2.0} {
		if object[field] != want {
			t.Errorf("the event has %s = %v, want %v", field, object[field], want)
		}
	}
	wantPrevious := map[string]any{"needs_review": true, "review_reasons": []any{"fx_rate_missing"}, "status": "pending"}
	if !reflect.DeepEqual(previous, wantPrevious) {
		t.Errorf("the event has the previous values %v, want %v", previous, wantPrevious)
	}
	var before, after map[string]any
	if err := f.SQL.QueryRow(t.Context(), `select before, after from audit_log where resource_id = $1`, c.ID).Scan(&before, &after); err != nil {
		t.Fatal(err)
	}
	if before["needs_review"] != true || before["status"] != "pending" {
		t.Errorf("the audit log has the previous values %v, want needs_review = true, status = pending", before)
	}
	if after["needs_review"] != false || after["status"] != "approved" {
		t.Errorf("the audit log has the new values %v, want needs_review = false, status = approved", after)
	}
}

func TestApproveEarly_StoresActorAndReason(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	until := f.Now().Add(time.Hour)
	c := f.NewCommission(f.Join("Some Body"), func(c *commission.Commission) { c.HoldUntil, c.AutoApproveAt = &until, &until })
	got, err := f.on(c).approveEarly()
	if err != nil {
		t.Fatal(err)
	}
	want := proto.CloneOf(got)
	want.OverrideReason, want.OverrideBy, want.ApprovedBy = new("an old partner"), new(f.Owner.String()), new(f.Owner.String())
	want.HoldActive, want.HoldUntil = true, server.Timestamp(until)
	if !proto.Equal(got, want) {
		t.Errorf("ApproveCommissionEarly returned %v\nwant %v", got, want)
	}
	if last := got.GetHistory()[1]; last.GetReason() != "an old partner" || last.GetActor() != f.Owner.String() {
		t.Errorf("the history ends with %v, want the reason and the actor %s", last, f.Owner)
	}
	name := f.Texts(`select name from users where id = $1`, f.Owner)[0]
	if last := got.GetHistory()[1]; last.GetActorName() != name || got.GetApprovedByName() != name || got.GetOverrideByName() != name {
		t.Errorf("the commission has the names %q, %q and %q, want %q", last.GetActorName(), got.GetApprovedByName(), got.GetOverrideByName(), name)
	}
	f.Exec(`delete from members where user_id = $1`, f.Owner)
	left, err := f.on(c).get()
	if err != nil || left.GetHistory()[1].ActorName != nil || left.ApprovedByName != nil || left.OverrideByName != nil {
		t.Errorf("after the member has left, the commission is %v, %v; want no name", left, err)
	}
	if object, _ := f.LastEvent(affiliate.EventCommissionApproved); strings.Contains(fmt.Sprint(object), "an old partner") {
		t.Errorf("the event contains the reason, which only the merchant may read: %v", object)
	}
	n := f.Count(`select count(*) from audit_log where action = 'commission.approve_override' and after ->> 'override_reason' = 'an old partner'`)
	if n != 1 {
		t.Errorf("the audit log has %d records with the reason, want 1", n)
	}
}

func TestClearReview_KeepsStatus(t *testing.T) {
	f := newFixture(t, affiliate.ModeTest)
	p := f.Join("Some Body")
	for status, note := range map[commission.Status]*string{
		commission.Pending: new("asked them"), commission.Approved: nil,
	} {
		t.Run(string(status), func(t *testing.T) {
			c := f.NewCommission(p, func(c *commission.Commission) {
				c.Status, c.NeedsReview, c.ReviewReasons = status, true, []string{"a", "b"}
			})
			got, err := f.on(c).clearReview(note)
			if err != nil {
				t.Fatal(err)
			}
			if got.GetNeedsReview() || len(got.GetReviewReasons()) != 0 {
				t.Errorf("ClearCommissionReview returned %v, want no review reasons", got)
			}
			last := got.GetHistory()[1]
			wantLast := proto.CloneOf(last)
			wantLast.Reason, wantLast.Actor = note, f.Owner.String()
			if !proto.Equal(last, wantLast) {
				t.Errorf("the history ends with %v, want %v", last, wantLast)
			}
			f.requireStatuses(c, fmt.Sprint(status, " ", status))
			if object, previous := f.LastEvent(affiliate.EventCommissionUpdated); object["needs_review"] != false || previous["needs_review"] != true {
				t.Errorf("the event has needs_review %v after %v, want false after true", object["needs_review"], previous["needs_review"])
			}
			if got := f.AuditActions("commission", c.ID.String()); !slices.Equal(got, []string{"commission.clear_review"}) {
				t.Errorf("the audit log has %q, want one commission.clear_review", got)
			}
			_, err = f.on(c).clearReview(note)
			pgtest.RequireRefusal(t, err, affiliate.ReasonCommissionNotFlagged)
		})
	}
	for _, status := range []commission.Status{commission.Rejected, commission.Paid, commission.Refunded} {
		c := f.NewCommission(p, func(c *commission.Commission) { c.Status, c.NeedsReview = status, true })
		_, err := f.on(c).clearReview(nil)
		if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonCommissionNotFlagged); metadata["status"] != string(status) {
			t.Errorf("the error has status %q, want %q", metadata["status"], status)
		}
	}
}

func TestReject_StoresReasonAndCode(t *testing.T) {
	f := newFixture(t, affiliate.ModeTest)
	c := f.NewCommission(f.Join("Some Body"), func(c *commission.Commission) {
		c.HoldUntil, c.NeedsReview = new(f.Now().Add(time.Hour)), true
	})
	reason, code := "ordered by the partner", affiliatev1.RejectionCode_REJECTION_CODE_SELF_REFERRAL
	got, err := f.service.RejectCommission(f.asOwner(), &affiliatev1.RejectCommissionRequest{
		ProgramId: c.Program.String(), CommissionId: c.ID.String(), Reason: &reason, Code: code,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := proto.CloneOf(got)
	want.RejectionReason, want.RejectionCode, want.RejectedAt = &reason, code, server.Timestamp(f.Now())
	want.ApprovedAt, want.NeedsReview = nil, false
	if !proto.Equal(got, want) {
		t.Errorf("RejectCommission returned %v\nwant %v", got, want)
	}
	last := got.GetHistory()[1]
	wantLast := proto.CloneOf(last)
	wantLast.Reason, wantLast.Actor, wantLast.From = &reason, f.Owner.String(), affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING
	if !proto.Equal(last, wantLast) {
		t.Errorf("the history ends with %v, want %v", last, wantLast)
	}
	n := f.Count(`select count(*) from audit_log where after ->> 'rejection_code' = 'self_referral' and after ->> 'rejection_reason' = $1`, reason)
	if n != 1 {
		t.Errorf("the audit log has %d records with the reason and the code, want 1", n)
	}
}

func TestHold_EndsExactlyAtHoldUntil(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	end := f.Now()
	c := f.NewCommission(f.Join("Some Body"), func(c *commission.Commission) { c.HoldUntil, c.AutoApproveAt = &end, &end })
	requireHold := func(want bool) {
		t.Helper()
		if got, err := f.on(c).get(); err != nil || got.GetHoldActive() != want {
			t.Errorf("GetCommission returned a commission with hold_active = %v, error %v, want %v", got.GetHoldActive(), err, want)
		}
	}
	sweep := func() {
		t.Helper()
		if err := f.sweep(); err != nil {
			t.Fatal(err)
		}
	}
	f.clock.Advance(-time.Millisecond)
	requireHold(true)
	_, err := f.on(c).approve()
	pgtest.RequireRefusal(t, err, affiliate.ReasonCommissionHoldActive)
	sweep()
	f.requireStatuses(c, "pending")

	f.clock.Advance(time.Millisecond)
	requireHold(false)
	sweep()
	f.requireStatuses(c, "pending approved")
	got, err := f.on(c).get()
	if err != nil {
		t.Fatal(err)
	}
	if got.GetApprovedBy() != "system" || !got.GetApprovedAt().AsTime().Equal(end) {
		t.Errorf("the commission was approved by %s at %v, want by system at %v", got.GetApprovedBy(), got.GetApprovedAt().AsTime(), end)
	}
}

// inParallel makes n parallel calls of each function and counts the error codes of each
// function.
func inParallel(t *testing.T, n int, functions ...func() error) []map[affiliate.Reason]int {
	t.Helper()
	start := make(chan struct{})
	var calls sync.WaitGroup
	results := make([][]error, len(functions))
	for i, function := range functions {
		results[i] = make([]error, n)
		for k := range n {
			calls.Go(func() {
				<-start
				results[i][k] = function()
			})
		}
	}
	close(start)
	calls.Wait()
	outcomes := make([]map[affiliate.Reason]int, len(functions))
	for i := range functions {
		outcomes[i] = map[affiliate.Reason]int{}
		for _, err := range results[i] {
			outcomes[i][pgtest.ReasonOf(t, err)]++
		}
	}
	return outcomes
}

// after returns a function that waits and then calls call.
func after(wait time.Duration, call func() error) func() error {
	return func() error {
		time.Sleep(wait)
		return call()
	}
}

// In each round, either one approval and then one rejection succeed, or only one
// rejection, because a rejected commission cannot be approved.
func TestReview_ParallelApprovalsAndRejections(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	p := f.Join("Some Body")
	seen := map[string]int{}
	for waits := range pgtest.HeadStarts() {
		c := f.NewCommission(p)
		outcomes := inParallel(t, 50,
			after(waits[0], func() error { _, err := f.on(c).approve(); return err }),
			after(waits[1], func() error { _, err := f.on(c).reject(); return err }),
		)
		statuses := f.statuses(c)
		seen[statuses]++
		wantStatuses := "pending rejected"
		if outcomes[0][""] == 1 {
			wantStatuses = "pending approved rejected"
		}
		if statuses != wantStatuses {
			t.Errorf("after %d approvals the commission had the statuses %q, want %q", outcomes[0][""], statuses, wantStatuses)
		}
		if approved := outcomes[0][""]; approved > 1 || outcomes[0][affiliate.ReasonCommissionNotPending] != 50-approved {
			t.Errorf("the error codes of 50 approvals are %v, want at most one success and %s for the others", outcomes[0], affiliate.ReasonCommissionNotPending)
		}
		if outcomes[1][""] != 1 || outcomes[1][affiliate.ReasonCommissionTerminal] != 49 {
			t.Errorf("the error codes of 50 rejections are %v, want one success and %s for the others", outcomes[1], affiliate.ReasonCommissionTerminal)
		}
		if actions, want := f.AuditActions("commission", c.ID.String()), outcomes[0][""]+1; len(actions) != want {
			t.Errorf("the audit log has %q, want %d records", actions, want)
		}
		if len(seen) == 2 {
			return
		}
	}
	t.Errorf("the statuses of the commissions are %v in all rounds, want a rejection with and without an approval", seen)
}

func TestApprove_InParallelWithSweepApprovesOnce(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	p := f.Join("Some Body")
	byOwner, bySystem := 0, 0
	for waits := range pgtest.HeadStarts() {
		c := f.NewCommission(p, func(c *commission.Commission) { c.AutoApproveAt, c.HoldUntil = new(f.Now()), new(f.Now()) })
		outcomes := inParallel(t, 2, after(waits[0], func() error { _, err := f.on(c).approve(); return err }), after(waits[1], f.sweep))
		approved := outcomes[0][""]
		if approved > 1 || outcomes[0][affiliate.ReasonCommissionNotPending] != 2-approved {
			t.Errorf("the error codes of 2 approvals are %v, want at most one success and %s for the others", outcomes[0], affiliate.ReasonCommissionNotPending)
		}
		f.requireStatuses(c, "pending approved")
		if actions := f.AuditActions("commission", c.ID.String()); len(actions) != approved {
			t.Errorf("the audit log has %q, want one record for each of %d approvals by the owner", actions, approved)
		}
		byOwner, bySystem = byOwner+approved, bySystem+1-approved
		if byOwner > 0 && bySystem > 0 {
			return
		}
	}
	t.Errorf("the owner approved %d commissions and the sweep %d, want some of each", byOwner, bySystem)
}

func TestSweep_SkipsCommissionsThatAreNotDue(t *testing.T) {
	f := newFixture(t, affiliate.ModeLive)
	pat, suspended := f.Join("Pat"), f.Join("Suspended", pgtest.Row{"status": participant.Suspended})
	due := func(p pgtest.Participant, change ...func(*commission.Commission)) commission.Commission {
		return f.NewCommission(p, append([]func(*commission.Commission){func(c *commission.Commission) {
			c.AutoApproveAt, c.HoldUntil = new(f.Now()), new(f.Now())
		}}, change...)...)
	}
	approved, ofSuspended := due(pat), due(suspended)
	skipped := map[string]commission.Commission{
		"that needs review":          due(pat, func(c *commission.Commission) { c.NeedsReview = true }),
		"that is disputed":           due(pat, func(c *commission.Commission) { c.Dispute = commission.DisputeOpen }),
		"of a suspended participant": ofSuspended,
		"without automatic approval": due(pat, func(c *commission.Commission) { c.AutoApproveAt = nil }),
		"with a longer hold period":  due(pat, func(c *commission.Commission) { c.HoldUntil = new(f.Now().Add(time.Hour)) }),
	}
	sweep := func() {
		t.Helper()
		if err := f.sweep(); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	sweep()
	f.requireStatuses(approved, "pending approved")
	for name, c := range skipped {
		if got := f.statuses(c); got != "pending" {
			t.Errorf("a commission %s had the statuses %q, want only pending", name, got)
		}
	}
	f.Exec(`update participants set status = 'approved' where id = $1`, suspended.ID)
	sweep()
	f.requireStatuses(ofSuspended, "pending approved")
}
