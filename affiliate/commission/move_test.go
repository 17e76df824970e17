package commission_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/commissiontest"
	"github.com/tributary-hq/tributary/affiliate/participant"
)

func TestApply_MatchesModel(t *testing.T) {
	made, refused := map[commission.Move]int{}, map[affiliate.Reason]int{}
	for _, c := range commissiontest.Commissions() {
		before, reasons := clone(c), slices.Clone(c.ReviewReasons[:cap(c.ReviewReasons)])
		for _, move := range commissiontest.Transitions() {
			want := commissiontest.Expected(c, move)
			got, refusal := move.Apply(c)
			if !reflect.DeepEqual(got, want.After) {
				t.Fatalf("applying %+v\nto %+v\nreturns %+v\nwant    %+v", move, c, got, want.After)
			}
			if refusal == nil {
				made[move.Move]++
				if want.Refusal != "" {
					t.Fatalf("applying %+v\nto %+v\nsucceeded, want the error %s", move, c, want.Refusal)
				}
				continue
			}
			refused[refusal.Reason]++
			metadata := map[string]string{"status": string(c.Status)}
			if refusal.Reason == affiliate.ReasonCommissionHoldActive && c.HoldUntil != nil {
				metadata["hold_until"] = affiliate.FormatTime(*c.HoldUntil)
			}
			if refusal.Reason != want.Refusal || !reflect.DeepEqual(refusal.Metadata, metadata) {
				t.Fatalf("applying %+v\nto %+v\nreturns the error %s with metadata %v, want %q with %v",
					move, c, refusal.Reason, refusal.Metadata, want.Refusal, metadata)
			}
		}
		if !reflect.DeepEqual(c, before) || !slices.Equal(reasons, c.ReviewReasons[:cap(c.ReviewReasons)]) {
			t.Fatalf("a move changed its argument: %+v, before %+v", c, before)
		}
	}
	if len(made) != len(commissiontest.Moves) || len(refused) != 6 {
		t.Errorf("successful moves %v, error codes %v; want all %d moves and 6 error codes", made, refused, len(commissiontest.Moves))
	}
}

// clone returns a copy that shares no memory with c that a move could change.
func clone(c commission.Commission) commission.Commission {
	c.ReviewReasons = slices.Clone(c.ReviewReasons)
	for _, field := range []**time.Time{&c.HoldUntil, &c.AutoApproveAt, &c.ApprovedAt, &c.RejectedAt, &c.PaidAt, &c.RefundedAt} {
		if *field != nil {
			*field = new(**field)
		}
	}
	return c
}

// If several checks fail, the first one decides, so that a caller always gets the same code.
// This test lists the expected codes.
func TestApply_FirstFailedCheckDecides(t *testing.T) {
	running, over := new(affiliatetest.Noon.Add(time.Millisecond)), &affiliatetest.Noon
	for name, tc := range map[string]struct {
		move    commission.Move
		status  commission.Status
		hold    *time.Time
		flagged bool
		want    affiliate.Reason
	}{
		"approve: status is checked before hold":           {commission.MoveApprove, commission.Approved, running, true, affiliate.ReasonCommissionNotPending},
		"approve: hold":                                    {commission.MoveApprove, commission.Pending, running, true, affiliate.ReasonCommissionHoldActive},
		"approve: at the end of the hold period":           {commission.MoveApprove, commission.Pending, over, false, ""},
		"approve: a flag does not matter":                  {commission.MoveApprove, commission.Pending, over, true, ""},
		"override: status is checked before flag and hold": {commission.MoveOverride, commission.Rejected, over, true, affiliate.ReasonCommissionNotPending},
		"override: flag is checked before hold":            {commission.MoveOverride, commission.Pending, over, true, affiliate.ReasonCommissionNeedsReview},
		"override: flag":                                   {commission.MoveOverride, commission.Pending, running, true, affiliate.ReasonCommissionNeedsReview},
		"override: no hold":                                {commission.MoveOverride, commission.Pending, nil, false, affiliate.ReasonCommissionHoldNotActive},
		"override: at the end of the hold period":          {commission.MoveOverride, commission.Pending, over, false, affiliate.ReasonCommissionHoldNotActive},
		"override":                              {commission.MoveOverride, commission.Pending, running, false, ""},
		"reject: neither hold nor flag matters": {commission.MoveReject, commission.Pending, running, true, ""},
		"reject: approved":                      {commission.MoveReject, commission.Approved, nil, false, ""},
		"reject: paid":                          {commission.MoveReject, commission.Paid, nil, false, affiliate.ReasonCommissionTerminal},
		"clear review: not flagged":             {commission.MoveClearReview, commission.Pending, nil, false, affiliate.ReasonCommissionNotFlagged},
		"clear review: flagged, but rejected":   {commission.MoveClearReview, commission.Rejected, nil, true, affiliate.ReasonCommissionNotFlagged},
		"pay: not approved":                     {commission.MovePay, commission.Pending, nil, false, affiliate.ReasonCommissionTerminal},
		"pay: already paid":                     {commission.MovePay, commission.Paid, nil, false, affiliate.ReasonCommissionTerminal},
		"refund: paid":                          {commission.MoveRefund, commission.Paid, nil, false, ""},
		"refund: rejected":                      {commission.MoveRefund, commission.Rejected, nil, false, affiliate.ReasonCommissionTerminal},
		"claw back: not paid":                   {commission.MoveClawBack, commission.Approved, nil, false, affiliate.ReasonCommissionTerminal},
	} {
		c := commission.Commission{Status: tc.status, HoldUntil: tc.hold, NeedsReview: tc.flagged}
		_, refusal := commission.Transition{Move: tc.move, At: affiliatetest.Noon}.Apply(c)
		if got := refusal; (got == nil) != (tc.want == "") || got != nil && got.Reason != tc.want {
			t.Errorf("%s: error %v, want %q", name, got, tc.want)
		}
	}
}

func TestCommissionMove_From(t *testing.T) {
	for _, move := range commissiontest.Moves {
		legal := []commission.Status{}
		for _, c := range commissiontest.Commissions() {
			for _, transition := range commissiontest.Transitions() {
				if transition.Move != move || slices.Contains(legal, c.Status) {
					continue
				}
				if _, refusal := transition.Apply(c); refusal == nil {
					legal = append(legal, c.Status)
				}
			}
		}
		from := move.From()
		if !slices.Equal(from, legal) {
			t.Errorf("%s succeeds in the statuses %v, but From returns %v", move, legal, from)
		}
		from[0] = "modified"
		if move.From()[0] == "modified" {
			t.Errorf("the result of From for %s shares memory with the table", move)
		}
	}
	if from := commission.MoveCreate.From(); len(from) != 0 {
		t.Errorf("MoveCreate.From() = %v, want none", from)
	}
}

func TestDueForApproval(t *testing.T) {
	later := affiliatetest.Noon.Add(time.Millisecond)
	due := commission.Commission{Status: commission.Pending, AutoApproveAt: &affiliatetest.Noon, HoldUntil: &affiliatetest.Noon, Dispute: commission.DisputeNone}
	if !due.DueForApproval(affiliatetest.Noon, participant.Approved, false) {
		t.Error("not due at the end of the hold period")
	}
	if due.DueForApproval(affiliatetest.Noon.Add(-time.Millisecond), participant.Approved, false) {
		t.Error("due a millisecond before the end of the hold period")
	}
	if due.DueForApproval(affiliatetest.Noon, participant.Approved, true) {
		t.Error("due although the participant is erased")
	}
	for _, status := range []participant.Status{participant.Pending, participant.Rejected, participant.Suspended} {
		if due.DueForApproval(affiliatetest.Noon, status, false) {
			t.Errorf("due although the participant is %s", status)
		}
	}
	for name, change := range map[string]func(*commission.Commission){
		"already approved":          func(c *commission.Commission) { c.Status = commission.Approved },
		"left to a person":          func(c *commission.Commission) { c.AutoApproveAt = nil },
		"due later":                 func(c *commission.Commission) { c.AutoApproveAt = &later },
		"hold period still running": func(c *commission.Commission) { c.HoldUntil = &later },
		"flagged":                   func(c *commission.Commission) { c.NeedsReview = true },
		"disputed":                  func(c *commission.Commission) { c.Dispute = commission.DisputeOpen },
	} {
		c := due
		change(&c)
		if c.DueForApproval(affiliatetest.Noon, participant.Approved, false) {
			t.Errorf("%s: DueForApproval() = true", name)
		}
	}
	for _, closed := range []commission.DisputeStatus{commission.DisputeWon, commission.DisputeLost} {
		c := due
		c.Dispute = closed
		if !c.DueForApproval(affiliatetest.Noon, participant.Approved, false) {
			t.Errorf("not due although the dispute is %s", closed)
		}
	}
}
