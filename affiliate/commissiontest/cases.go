package commissiontest

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/payout"
)

// Commissions returns a commission for every combination of status, hold period, due
// date, review reasons and dispute.
func Commissions() (all []commission.Commission) {
	instants := []*time.Time{nil, new(affiliatetest.Noon.Add(-time.Millisecond)), &affiliatetest.Noon, new(affiliatetest.Noon.Add(time.Millisecond))}
	for _, status := range Statuses {
		for _, hold := range instants {
			for _, due := range instants {
				// The array of a slice that is not empty has a spare element, which a move must not overwrite.
				for _, reasons := range [][]string{{}, []string{"fraud", "spare"}[:1], []string{"fx_rate_missing", "fraud", "spare"}[:2]} {
					for _, dispute := range []commission.DisputeStatus{commission.DisputeNone, commission.DisputeOpen, commission.DisputeWon, commission.DisputeLost} {
						all = append(all, commission.Commission{
							Status: status, HoldUntil: hold, AutoApproveAt: due, NeedsReview: len(reasons) > 0, ReviewReasons: reasons,
							Dispute: dispute, AmountCents: 300, OriginalAmountCents: 500, Currency: "EUR", Version: 4,
							ApprovedAt: new(affiliatetest.Noon.Add(-time.Hour)), ApprovedBy: new("system"), PaidAt: new(affiliatetest.Noon.Add(-time.Hour)),
							CreatedAt: affiliatetest.Noon.Add(-48 * time.Hour), UpdatedAt: affiliatetest.Noon.Add(-time.Hour),
						})
					}
				}
			}
		}
	}
	return all
}

// Transitions returns every move, with combinations of values for its parameters.
func Transitions() (all []commission.Transition) {
	person := affiliate.Actor{User: &affiliate.UserID{UUID: [16]byte{15: 9}}}
	for _, move := range Moves {
		t := commission.Transition{Move: move, Actor: person, At: affiliatetest.Noon, Reason: new("because"), Code: new("other"), RefundReason: commission.RefundedSale}
		switch move {
		case commission.MoveAutoApprove:
			t.Actor, t.Reason = affiliate.System, nil
			for _, status := range []participant.Status{
				participant.Approved, participant.Pending, participant.Rejected, participant.Suspended,
			} {
				for _, erased := range []bool{false, true} {
					t.ParticipantStatus, t.ParticipantErased = status, erased
					all = append(all, t)
				}
			}
		case commission.MoveFlag, commission.MoveClearReview:
			for _, reasons := range [][]string{nil, {"fraud"}, {"fx_rate_missing"}, {"new", "fraud", "new"}, {"fraud", "fx_rate_missing"}} {
				t.ReviewReasons = reasons
				all = append(all, t)
			}
		case commission.MoveRefund:
			for _, remaining := range []int64{-1, 0, 299, 300, 301} {
				for _, full := range []bool{false, true} {
					t.AmountCents, t.Full = remaining, full
					all = append(all, t)
				}
			}
		case commission.MoveRestore:
			for _, amount := range []int64{0, 299, 300, 301, 1000} {
				for _, status := range []payout.Status{"", payout.Paid} {
					t.AmountCents, t.PayoutStatus = amount, status
					all = append(all, t)
				}
			}
		case commission.MoveResolveDispute:
			for _, outcome := range []commission.DisputeStatus{commission.DisputeWon, commission.DisputeLost} {
				t.Dispute = outcome
				all = append(all, t)
			}
		case commission.MovePay:
			t.PaidAt, t.Payout = affiliatetest.Noon.Add(-time.Minute), &affiliate.PayoutID{UUID: [16]byte{15: 7}}
			all = append(all, t)
		default:
			all = append(all, t)
		}
	}
	return all
}
