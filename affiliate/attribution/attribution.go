// Package attribution decides which partner a conversion is credited to, and computes the
// commission. A decision depends only on its Inputs, and its Trace explains each step.
package attribution

import (
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Attribution decides which participant a conversion belongs to, and what it earns.
//
//	 signals, in order of precedence   each signal is checked separately; the first
//	                                   check that fails rejects it
//	┌────────────┐
//	│ click      │──▶ known ─▶ not after the event ─▶ inside its window ─┐
//	├────────────┤                                                       │
//	│ promo code │──▶ known ─▶ active, not expired, not used up ─────────┤
//	├────────────┤                                                       │
//	│ customer   │──▶ bound by an earlier event ─────────────────────────┤
//	└────────────┘                                                       ▼
//	               eligible ◀─ participant not erased ◀─ programme active
//
//	                 the first eligible signal wins, the others are outranked;
//	                 if no signal is eligible, the conversion is not attributed,
//	                 for the reason that rejected the first reported signal
//
//	┌────────────┐
//	│ by hand    │──▶ participant not erased ─▶ wins; signals are not checked
//	└────────────┘
//
//	winner ─▶ attributed
//	            │   if one of these checks fails, nothing is earned:
//	            ├─▶ participant approved
//	            ├─▶ rules pay for the event type
//	            ├─▶ order large enough
//	            ├─▶ within the limits on recurring payments
//	            ├─▶ not blocked as fraud
//	            ▼
//	          rate ─▶ calculation ─▶ commission
//
// The fraud policy of the winner's programme says what happens if the fraud rules suspect the
// conversion: it earns nothing, its commission needs review, or the suspicion is only recorded.
// A conversion that a person assigned is not checked for fraud.
//
// Each programme sets its own order of precedence for signals. signalOrder decides
// between different programmes. With the model FirstClick, a customer's binding whose
// window is still open comes directly before a click that is later than the binding.
//
// Attribute is a pure function: the same inputs always give the same decision, so a
// decision can be repeated, explained and simulated. If a participant is suspended after
// the inputs were read, the conversion may still earn.

// EngineVersion changes whenever the same inputs could lead to a different decision.
const EngineVersion = "3"

// ClickAfterConversionSlack is the longest time after the event of a conversion at which the
// click can be received. The tolerance is needed because the two times come from the clocks of
// different servers: the merchant's server sets the time of the event, and the collector sets
// the time of the click, even if it first writes the click to its journal.
const ClickAfterConversionSlack = 5 * time.Minute

// Attribute makes a decision from the inputs. The caller sets the id, the conversion and the
// time of the decision.
func Attribute(in Inputs) Decision {
	a := attribution{in: in}
	a.trace = Trace{
		Inputs: TraceInputs{
			Mode: in.Mode, EventType: in.EventType, OccurredAt: in.OccurredAt,
			AmountCents: in.Sale.Cents, Currency: affiliate.Optional(in.Sale.Currency),
			TaxCents: in.Sale.TaxCents, ShippingCents: in.Sale.ShippingCents, FeeCents: in.Sale.FeeCents,
			Click: in.Click, PromoCode: in.PromoCode,
		},
		Candidates: []Candidate{},
		Steps:      []Step{},
		Fraud:      []fraud.Signal{},
	}
	if in.Assigned != nil {
		return a.decide([]signal{a.checkAssigned()})
	}
	var signals []signal
	for _, method := range in.signalOrder() {
		signals = append(signals, a.checkSignal(method))
	}
	return a.decide(signals)
}

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

// applyFraudRules applies the fraud rules to the conversion and the winning signal. The result
// reviews has the review reasons. The result why is empty unless the conversion is blocked.
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

// fraudFacts returns the facts about the winner's participant and the facts that the signal
// contains.
func (in Inputs) fraudFacts(winner *signal) fraud.Facts {
	facts := in.FraudFacts[winner.earner.Participant]
	facts.PromoCodeOnly = winner.Type == ByPromoCode && in.Click == nil
	if winner.Type == ByClick {
		traits := in.FoundClick.ClickTraits
		facts.Click = &fraud.Click{
			TimeToEvent: in.OccurredAt.Sub(in.FoundClick.ReceivedAt), ClicksInHour: in.FoundClick.ClicksFromAddress,
			Bot: traits.Bot, Country: traits.Country, PaidPlatform: traits.PaidPlatform, Referrer: traits.Referrer,
			Source: traits.Source, Medium: traits.Medium, Term: traits.Term,
		}
	}
	return facts
}
