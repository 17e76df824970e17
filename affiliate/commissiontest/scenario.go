package commissiontest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Scenario is a commission in its initial state and a sequence of moves that a test
// tries to apply. Not all of the moves are legal. The test sets ids and scope.
type Scenario struct {
	Initial commission.Commission
	Steps   []commission.Transition // in the order of their instants
}

// reviewReasons is a short list, so that the same reasons are often added and removed.
var reviewReasons = []string{"fraud", "fx_rate_missing", "participant_suspended"}

// Scenarios generates random scenarios with at most the given number of steps. The steps
// of some scenarios are on both sides of the end of a day or a month in UTC.
func Scenarios(steps int) *rapid.Generator[Scenario] {
	return rapid.Custom(func(t *rapid.T) Scenario {
		now := time.Date(2026, 2, 28, 20, 0, 0, 0, time.UTC).Add(rapid.SampledFrom(timeSteps).Draw(t, "created after"))
		scenario := Scenario{Initial: initialCommission(t, now)}
		for range rapid.IntRange(0, steps).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom(timeSteps).Draw(t, "time passes"))
			scenario.Steps = append(scenario.Steps, drawStep(t, now))
		}
		return scenario
	})
}

// timeSteps are the durations between steps. Some of them are longer than a hold
// period, or long enough to reach the next month.
var timeSteps = []time.Duration{0, time.Millisecond, time.Minute, time.Hour, 5 * time.Hour, 26 * time.Hour}

func initialCommission(t *rapid.T, now time.Time) commission.Commission {
	rate := int64(2000)
	amount := rapid.SampledFrom([]int64{0, 1, 500, 99_999}).Draw(t, "amount")
	c := commission.Commission{
		Status: pending, Type: program.Percentage, EventType: affiliate.Purchase, RateBps: &rate, AmountCents: amount,
		OriginalAmountCents: amount, Currency: rapid.SampledFrom([]string{"EUR", "JPY"}).Draw(t, "currency"),
		BaseAmountCents: 5 * amount, SaleAmountCents: 5 * amount, SaleCurrency: "EUR", ReviewReasons: []string{},
		Dispute: commission.DisputeNone, Rule: attribution.RuleSnapshot{Version: 1, Rules: program.DefaultRules()},
		Version: 1, CreatedAt: now, UpdatedAt: now,
	}
	due := now
	if hold := rapid.SampledFrom([]time.Duration{0, time.Hour, 30 * time.Hour}).Draw(t, "hold"); hold > 0 {
		due = now.Add(hold)
		c.HoldUntil = &due
	}
	if rapid.IntRange(0, 3).Draw(t, "auto-approval") > 0 {
		c.AutoApproveAt = &due
	}
	if rapid.IntRange(0, 2).Draw(t, "flagged") == 0 {
		c.NeedsReview, c.ReviewReasons = true, reviewReasons[:rapid.IntRange(1, 2).Draw(t, "flags")]
	}
	if rapid.IntRange(0, 4).Draw(t, "disputed") == 0 {
		c.Dispute = rapid.SampledFrom([]commission.DisputeStatus{commission.DisputeOpen, commission.DisputeWon, commission.DisputeLost}).Draw(t, "dispute")
	}
	if c.HoldUntil == nil && c.AutoApproveAt != nil && !c.NeedsReview && rapid.Bool().Draw(t, "approved at once") {
		by := affiliate.System.String()
		c.Status, c.ApprovedAt, c.ApprovedBy = approved, &now, &by
	}
	return c
}

func drawStep(t *rapid.T, now time.Time) commission.Transition {
	text := func(label string) *string {
		return rapid.Ptr(rapid.SampledFrom([]string{"because", "=1+1"}), true).Draw(t, label)
	}
	s := commission.Transition{
		Move: rapid.SampledFrom(Moves).Draw(t, "move"), Actor: affiliate.System, At: now, Note: text("note"), ParticipantStatus: participant.Approved,
	}
	switch s.Move {
	case commission.MoveApprove, commission.MoveOverride, commission.MoveReject, commission.MoveClearReview:
		user := affiliate.UserID{}
		user.UUID[15] = byte(rapid.IntRange(1, 3).Draw(t, "person"))
		s.Actor.User, s.Reason = &user, text("reason")
		if s.Move == commission.MoveReject {
			s.Code = rapid.Ptr(rapid.SampledFrom([]string{"fraud", "other"}), true).Draw(t, "code")
		}
	case commission.MoveAutoApprove:
		s.ParticipantStatus = rapid.SampledFrom([]participant.Status{
			participant.Approved, participant.Approved, participant.Suspended, participant.Pending, participant.Rejected,
		}).Draw(t, "participant status")
		s.ParticipantErased = rapid.IntRange(0, 7).Draw(t, "erased") == 0
	case commission.MoveRefund:
		s.Full = rapid.IntRange(0, 3).Draw(t, "full") == 0
		s.AmountCents = rapid.SampledFrom([]int64{-1, 0, 1, 250, 499, 500, 100_000}).Draw(t, "remaining amount")
		s.RefundReason = rapid.SampledFrom([]commission.RefundReason{commission.RefundedSale, commission.DisputedSale}).Draw(t, "why")
	case commission.MoveRestore:
		s.AmountCents = rapid.SampledFrom([]int64{0, 1, 250, 499, 500, 100_000}).Draw(t, "restored amount")
	case commission.MoveResolveDispute:
		s.Dispute = rapid.SampledFrom([]commission.DisputeStatus{commission.DisputeWon, commission.DisputeLost}).Draw(t, "outcome")
	case commission.MoveClawBack:
		s.RefundReason = commission.ReassignedSale
	case commission.MovePay:
		payout := affiliate.PayoutID{}
		payout.UUID[15] = byte(rapid.IntRange(1, 3).Draw(t, "payout"))
		s.Payout, s.PaidAt = &payout, now.Add(-time.Hour)
	default:
	}
	if s.Move == commission.MoveFlag || s.Move == commission.MoveClearReview {
		s.ReviewReasons = rapid.SliceOfN(rapid.SampledFrom(reviewReasons), 0, 3).Draw(t, "review reasons")
	}
	return s
}
