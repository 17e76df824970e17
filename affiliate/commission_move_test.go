package affiliate_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commissiontest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// commissions returns a commission for every combination of status, hold period, due
// date, review reasons and dispute.
func commissions() (all []affiliate.Commission) {
	instants := []*time.Time{nil, ptr(noon.Add(-time.Millisecond)), &noon, ptr(noon.Add(time.Millisecond))}
	for _, status := range commissiontest.Statuses {
		for _, hold := range instants {
			for _, due := range instants {
				// Each slice has a spare element, which a move must not overwrite.
				for _, reasons := range [][]string{{}, []string{"fraud", "spare"}[:1], []string{"fx_rate_missing", "fraud", "spare"}[:2]} {
					for _, dispute := range []affiliate.DisputeStatus{affiliate.DisputeNone, affiliate.DisputeOpen, affiliate.DisputeWon, affiliate.DisputeLost} {
						all = append(all, affiliate.Commission{
							Status: status, HoldUntil: hold, AutoApproveAt: due, NeedsReview: len(reasons) > 0, ReviewReasons: reasons,
							Dispute: dispute, AmountCents: 300, OriginalAmountCents: 500, Currency: "EUR", Version: 4,
							ApprovedAt: ptr(noon.Add(-time.Hour)), ApprovedBy: ptr("system"), PaidAt: ptr(noon.Add(-time.Hour)),
							CreatedAt: noon.Add(-48 * time.Hour), UpdatedAt: noon.Add(-time.Hour),
						})
					}
				}
			}
		}
	}
	return all
}

// transitions returns every move with every combination of its parameters.
func transitions() (all []affiliate.CommissionTransition) {
	person := affiliate.Actor{User: &affiliate.UserID{UUID: [16]byte{15: 9}}}
	for _, move := range commissiontest.Moves {
		t := affiliate.CommissionTransition{Move: move, Actor: person, At: noon, Reason: ptr("because"), Code: ptr("other"), RefundReason: affiliate.RefundedSale}
		switch move {
		case affiliate.MoveAutoApprove:
			t.Actor, t.Reason = affiliate.System, nil
			for _, status := range []affiliate.ParticipantStatus{
				affiliate.ParticipantApproved, affiliate.ParticipantPending, affiliate.ParticipantRejected, affiliate.ParticipantSuspended,
			} {
				for _, erased := range []bool{false, true} {
					t.ParticipantStatus, t.ParticipantErased = status, erased
					all = append(all, t)
				}
			}
		case affiliate.MoveFlag, affiliate.MoveClearReview:
			for _, reasons := range [][]string{nil, {"fraud"}, {"fx_rate_missing"}, {"new", "fraud", "new"}, {"fraud", "fx_rate_missing"}} {
				t.ReviewReasons = reasons
				all = append(all, t)
			}
		case affiliate.MoveRefund:
			for _, remaining := range []int64{-1, 0, 299, 300, 301} {
				for _, full := range []bool{false, true} {
					t.AmountCents, t.Full = remaining, full
					all = append(all, t)
				}
			}
		case affiliate.MoveRestore:
			for _, amount := range []int64{0, 299, 300, 301, 1000} {
				for _, status := range []affiliate.PayoutStatus{"", affiliate.PayoutPaid} {
					t.AmountCents, t.PayoutStatus = amount, status
					all = append(all, t)
				}
			}
		case affiliate.MoveResolveDispute:
			for _, outcome := range []affiliate.DisputeStatus{affiliate.DisputeWon, affiliate.DisputeLost} {
				t.Dispute = outcome
				all = append(all, t)
			}
		case affiliate.MovePay:
			t.PaidAt, t.Payout = noon.Add(-time.Minute), &affiliate.PayoutID{UUID: [16]byte{15: 7}}
			all = append(all, t)
		default:
			all = append(all, t)
		}
	}
	return all
}

func TestApply_MatchesModel(t *testing.T) {
	made, refused := map[affiliate.CommissionMove]int{}, map[affiliate.Reason]int{}
	for _, c := range commissions() {
		before, reasons := clone(c), slices.Clone(c.ReviewReasons[:cap(c.ReviewReasons)])
		for _, move := range transitions() {
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
func clone(c affiliate.Commission) affiliate.Commission {
	c.ReviewReasons = slices.Clone(c.ReviewReasons)
	for _, field := range []**time.Time{&c.HoldUntil, &c.AutoApproveAt, &c.ApprovedAt, &c.RejectedAt, &c.PaidAt, &c.RefundedAt} {
		if *field != nil {
			*field = ptr(**field)
		}
	}
	return c
}

// If several checks fail, the first one decides, so that a caller always gets the same code.
// This test lists the expected codes.
func TestApply_FirstFailedCheckDecides(t *testing.T) {
	running, over := ptr(noon.Add(time.Millisecond)), &noon
	for name, tc := range map[string]struct {
		move    affiliate.CommissionMove
		status  affiliate.CommissionStatus
		hold    *time.Time
		flagged bool
		want    affiliate.Reason
	}{
		"approve: status is checked before hold":           {affiliate.MoveApprove, affiliate.CommissionApproved, running, true, affiliate.ReasonCommissionNotPending},
		"approve: hold":                                    {affiliate.MoveApprove, affiliate.CommissionPending, running, true, affiliate.ReasonCommissionHoldActive},
		"approve: at the end of the hold period":           {affiliate.MoveApprove, affiliate.CommissionPending, over, false, ""},
		"approve: a flag does not matter":                  {affiliate.MoveApprove, affiliate.CommissionPending, over, true, ""},
		"override: status is checked before flag and hold": {affiliate.MoveOverride, affiliate.CommissionRejected, over, true, affiliate.ReasonCommissionNotPending},
		"override: flag is checked before hold":            {affiliate.MoveOverride, affiliate.CommissionPending, over, true, affiliate.ReasonCommissionNeedsReview},
		"override: flag":                                   {affiliate.MoveOverride, affiliate.CommissionPending, running, true, affiliate.ReasonCommissionNeedsReview},
		"override: no hold":                                {affiliate.MoveOverride, affiliate.CommissionPending, nil, false, affiliate.ReasonCommissionHoldNotActive},
		"override: at the end of the hold period":          {affiliate.MoveOverride, affiliate.CommissionPending, over, false, affiliate.ReasonCommissionHoldNotActive},
		"override":                              {affiliate.MoveOverride, affiliate.CommissionPending, running, false, ""},
		"reject: neither hold nor flag matters": {affiliate.MoveReject, affiliate.CommissionPending, running, true, ""},
		"reject: approved":                      {affiliate.MoveReject, affiliate.CommissionApproved, nil, false, ""},
		"reject: paid":                          {affiliate.MoveReject, affiliate.CommissionPaid, nil, false, affiliate.ReasonCommissionTerminal},
		"clear review: not flagged":             {affiliate.MoveClearReview, affiliate.CommissionPending, nil, false, affiliate.ReasonCommissionNotFlagged},
		"clear review: flagged, but rejected":   {affiliate.MoveClearReview, affiliate.CommissionRejected, nil, true, affiliate.ReasonCommissionNotFlagged},
		"pay: not approved":                     {affiliate.MovePay, affiliate.CommissionPending, nil, false, affiliate.ReasonCommissionTerminal},
		"pay: already paid":                     {affiliate.MovePay, affiliate.CommissionPaid, nil, false, affiliate.ReasonCommissionTerminal},
		"refund: paid":                          {affiliate.MoveRefund, affiliate.CommissionPaid, nil, false, ""},
		"refund: rejected":                      {affiliate.MoveRefund, affiliate.CommissionRejected, nil, false, affiliate.ReasonCommissionTerminal},
		"claw back: not paid":                   {affiliate.MoveClawBack, affiliate.CommissionApproved, nil, false, affiliate.ReasonCommissionTerminal},
	} {
		c := affiliate.Commission{Status: tc.status, HoldUntil: tc.hold, NeedsReview: tc.flagged}
		_, refusal := affiliate.CommissionTransition{Move: tc.move, At: noon}.Apply(c)
		if got := refusal; (got == nil) != (tc.want == "") || got != nil && got.Reason != tc.want {
			t.Errorf("%s: error %v, want %q", name, got, tc.want)
		}
	}
}

func TestCommissionMove_From(t *testing.T) {
	for _, move := range commissiontest.Moves {
		legal := []affiliate.CommissionStatus{}
		for _, c := range commissions() {
			for _, transition := range transitions() {
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
	if from := affiliate.MoveCreate.From(); len(from) != 0 {
		t.Errorf("MoveCreate.From() = %v, want none", from)
	}
}

func TestDueForApproval(t *testing.T) {
	later := noon.Add(time.Millisecond)
	due := affiliate.Commission{Status: affiliate.CommissionPending, AutoApproveAt: &noon, HoldUntil: &noon, Dispute: affiliate.DisputeNone}
	if !due.DueForApproval(noon, affiliate.ParticipantApproved, false) {
		t.Error("not due at the end of the hold period")
	}
	if due.DueForApproval(noon.Add(-time.Millisecond), affiliate.ParticipantApproved, false) {
		t.Error("due a millisecond before the end of the hold period")
	}
	if due.DueForApproval(noon, affiliate.ParticipantApproved, true) {
		t.Error("due although the participant is erased")
	}
	for _, status := range []affiliate.ParticipantStatus{affiliate.ParticipantPending, affiliate.ParticipantRejected, affiliate.ParticipantSuspended} {
		if due.DueForApproval(noon, status, false) {
			t.Errorf("due although the participant is %s", status)
		}
	}
	for name, change := range map[string]func(*affiliate.Commission){
		"already approved":          func(c *affiliate.Commission) { c.Status = affiliate.CommissionApproved },
		"left to a person":          func(c *affiliate.Commission) { c.AutoApproveAt = nil },
		"due later":                 func(c *affiliate.Commission) { c.AutoApproveAt = &later },
		"hold period still running": func(c *affiliate.Commission) { c.HoldUntil = &later },
		"flagged":                   func(c *affiliate.Commission) { c.NeedsReview = true },
		"disputed":                  func(c *affiliate.Commission) { c.Dispute = affiliate.DisputeOpen },
	} {
		c := due
		change(&c)
		if c.DueForApproval(noon, affiliate.ParticipantApproved, false) {
			t.Errorf("%s: DueForApproval() = true", name)
		}
	}
	for _, closed := range []affiliate.DisputeStatus{affiliate.DisputeWon, affiliate.DisputeLost} {
		c := due
		c.Dispute = closed
		if !c.DueForApproval(noon, affiliate.ParticipantApproved, false) {
			t.Errorf("not due although the dispute is %s", closed)
		}
	}
}
