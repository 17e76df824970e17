package attribution

import (
	"fmt"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// ReviewFraud and ReviewRefundRate are review reasons of commissions. RejectedForFraud
// is the rejection code of a commission that a person found fraudulent.
const (
	ReviewFraud      = "fraud"
	ReviewRefundRate = "refund_rate"
	RejectedForFraud = "fraud"
)

// TraitsOf returns the properties of c that the fraud rules use.
func TraitsOf(c click.Click) ClickTraits {
	return ClickTraits{
		IPHash: c.IPHash, IPPrefix: c.IPPrefix, UAHash: c.UAHash, Bot: c.IsBot,
		Country: c.Country, PaidPlatform: c.PaidPlatform, Referrer: c.ReferrerDomain, UTM: c.UTM,
	}
}

// FraudCandidates returns the participants to which the signals lead and for which the
// caller must load fraud facts. Each participant is returned once.
func (in Inputs) FraudCandidates() []Earner {
	var candidates []Earner
	seen := map[affiliate.ParticipantID]bool{}
	for _, earner := range []*Earner{in.clickEarner(), in.promoCodeEarner(), in.bindingEarner()} {
		if earner == nil || seen[earner.Participant] || !earner.FraudPolicy.IsEnabled() ||
			earner.ProgramStatus != program.Active || earner.ParticipantStatus != participant.Approved || earner.ParticipantErased {
			continue
		}
		seen[earner.Participant] = true
		candidates = append(candidates, *earner)
	}
	return candidates
}

// applyFraudRules applies the fraud rules to the conversion and the winning signal.
// reviews are review reasons. why is set if the conversion is blocked.
func (a *attribution) applyFraudRules(d *Decision, winner *signal) (reviews []string, why Reason) {
	policy := winner.earner.FraudPolicy
	if winner.Type == ByAssignment || !policy.IsEnabled() {
		return nil, ""
	}
	verdict := fraud.Evaluate(a.in.fraudFacts(winner), winner.earner.FraudSettings)
	a.trace.Fraud = verdict.Signals
	d.FraudAction = policy.ActionForScore(verdict.Score)
	harmless := d.FraudAction == "" || d.FraudAction == fraud.Observed
	a.check("fraud.score", harmless, fmt.Sprintf("score %d, policy %s", verdict.Score, policy))
	switch {
	case d.FraudAction == fraud.Blocked && verdict.SelfReferral:
		return nil, WhySelfReferralBlocked
	case d.FraudAction == fraud.Blocked:
		return nil, WhyFraudBlocked
	case d.FraudAction == fraud.Flagged:
		reviews = append(reviews, ReviewFraud)
	}
	if verdict.NeedsReview && policy != fraud.Observe {
		reviews = append(reviews, ReviewRefundRate)
	}
	return reviews, ""
}

// fraudFacts returns the facts about the winner's participant and those of the signal
// itself.
func (in Inputs) fraudFacts(winner *signal) fraud.Facts {
	facts := in.FraudFacts[winner.earner.Participant]
	facts.PromoCodeOnly = winner.Type == ByPromoCode && in.Click == nil
	if winner.Type == ByClick {
		traits := in.FoundClick.ClickTraits
		facts.Click = &fraud.Click{
			TimeToEvent: in.OccurredAt.Sub(in.FoundClick.ReceivedAt), ClicksInHour: in.FoundClick.ClicksFromAddress,
			Bot: traits.Bot, Country: traits.Country, PaidPlatform: traits.PaidPlatform, Referrer: traits.Referrer,
			Source: traits.UTM.Source, Medium: traits.UTM.Medium, Term: traits.UTM.Term,
		}
	}
	return facts
}
