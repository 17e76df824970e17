// Package attribution decides which partner a conversion is credited to, and computes the
// commission. A decision depends only on its Inputs, and its Trace explains each step.
package attribution

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
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
// The fraud policy of the winner's programme says what happens if the fraud rules suspect
// the conversion: it earns nothing, its commission needs review, or nothing else. A
// conversion that a person assigned is not checked for fraud.
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

// ClickAfterConversionSlack is how much later than the event of the conversion a click
// may have been received. The tolerance is needed because the two times come from the
// clocks of different servers: the merchant's server sets the time of the event, and the
// collector sets the time of the click, even if it first writes the click to its journal.
const ClickAfterConversionSlack = 5 * time.Minute

// Attribute makes a decision from the inputs. The caller sets its id, conversion and
// time.
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
