package affiliate

import (
	"encoding/json"
	"slices"
	"time"
)

// DecisionRecord is a decision as the audit shows it: stored, or simulated, when
// it has neither id nor conversion.
type DecisionRecord struct {
	Decision
	// RuleJSON is Trace.Rule as it was stored, with whatever the rules had at the
	// time; nil when nothing is earned.
	RuleJSON json.RawMessage
	// CustomerRef is the conversion's. It is not in the trace, which outlives an
	// erasure of the buyer.
	CustomerRef *string
	// SupersededBy is the decision that replaced this one; nil: it is in force.
	SupersededBy *DecisionID
}

// Simulated is the record of a decision that is not stored.
func Simulated(d Decision) (DecisionRecord, error) {
	record := DecisionRecord{Decision: d}
	if d.Rule == nil {
		return record, nil
	}
	var err error
	record.RuleJSON, err = json.Marshal(d.Rule)
	return record, err
}

// DecisionFilter narrows a list of decisions. The zero value of each field
// narrows nothing; what is given has to hold all at once.
type DecisionFilter struct {
	Attributed *bool
	Reason     AttributionReason
	// Program is the one that the deciding signal leads to, attributed or not.
	Program *ProgramID
	Decided Period
}

// decisionReasons are the reasons that a decision can have.
var decisionReasons = []AttributionReason{
	WhyClickMatched, WhyPromoCodeMatched, WhyCustomerBound, WhyReassigned,
	WhyParticipantNotApproved, WhyRuleNotApplicable, WhyRecurringLimitReached, WhySelfReferralBlocked, WhyFraudBlocked,
	WhyClickUnknown, WhyClickExpired, WhyClickAfterConversion, WhyPromoCodeUnknown, WhyPromoCodeInactive,
	WhyProgramInactive, WhyParticipantErased,
}

// OfDecision reports whether a decision can have the reason.
func (r AttributionReason) OfDecision() bool { return slices.Contains(decisionReasons, r) }

// AttributedClick is a click without anything that identifies its visitor, and
// the conversions that name it.
type AttributedClick struct {
	Click // without hashes and prefix
	// ConvertedAt is when the first conversion was reported that is attributed to
	// the click now; nil while there is none.
	ConvertedAt *time.Time
	// Conversions are oldest first, at most MaxClickConversions.
	Conversions []ClickConversion
}

// MaxClickConversions is how many of the conversions that name a click are shown.
const MaxClickConversions = 100

// ClickConversion is a conversion that names a click, with the decision in force
// about it.
type ClickConversion struct {
	ID                    ConversionID
	ExternalTransactionID string
	Attributed            bool
	Reason                AttributionReason
	Decision              DecisionID
	CreatedAt             time.Time
}
