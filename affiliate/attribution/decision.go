package attribution

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
)

// DecisionRecord is a decision as the audit endpoints show it. A stored decision has an
// id and a conversion; a simulated one has neither.
type DecisionRecord struct {
	Decision
	// RuleJSON is Trace.Rule as it was stored. It may contain fields that rules no
	// longer have. It is nil if nothing is earned.
	RuleJSON json.RawMessage
	// CustomerRef is the customer reference of the conversion. It is not part of the
	// trace, because traces are kept when a buyer's data is erased.
	CustomerRef *string
	// SupersededBy is the decision that replaced this one; nil if this decision is in
	// force.
	SupersededBy *affiliate.DecisionID
}

// SimulatedRecord returns the record of a decision that is not stored.
func SimulatedRecord(d Decision) (DecisionRecord, error) {
	record := DecisionRecord{Decision: d}
	if d.Rule == nil {
		return record, nil
	}
	var err error
	record.RuleJSON, err = json.Marshal(d.Rule)
	return record, err
}

// DecisionFilter restricts a list of decisions. A decision must match all fields that
// are set; a zero field matches every decision.
type DecisionFilter struct {
	Attributed *bool
	Reason     Reason
	// Program is the programme that the deciding signal leads to, whether or not the
	// conversion was attributed.
	Program *affiliate.ProgramID
	Decided affiliate.Period
}

// decisionReasons lists the reasons that a decision can have.
var decisionReasons = []Reason{
	WhyClickMatched, WhyPromoCodeMatched, WhyCustomerBound, WhyReassigned,
	WhyParticipantNotApproved, WhyRuleNotApplicable, WhyRecurringLimitReached, WhySelfReferralBlocked, WhyFraudBlocked,
	WhyClickUnknown, WhyClickExpired, WhyClickAfterConversion, WhyPromoCodeUnknown, WhyPromoCodeInactive,
	WhyProgramInactive, WhyParticipantErased, WhyNoSignal,
}

// DecisionReasons returns the reasons that a decision can have.
func DecisionReasons() []Reason { return slices.Clone(decisionReasons) }

// IsDecisionReason reports whether a decision can have the reason.
func (r Reason) IsDecisionReason() bool { return slices.Contains(decisionReasons, r) }

// AttributedClick is a click with the conversions whose reports named it. It has no data
// that identifies the visitor.
type AttributedClick struct {
	click.Click // without hashes and address prefix
	// ConvertedAt is when the first conversion that is now attributed to the click was
	// reported; nil if there is none.
	ConvertedAt *time.Time
	// Conversions holds at most MaxClickConversions, oldest first.
	Conversions []ClickConversion
}

// MaxClickConversions is the greatest number of conversions that are shown for a click.
const MaxClickConversions = 100

// ClickConversion is a conversion whose report named a click. Attributed, Reason and
// Decision describe its decision in force.
type ClickConversion struct {
	ID                    affiliate.ConversionID
	ExternalTransactionID string
	Attributed            bool
	Reason                Reason
	Decision              affiliate.DecisionID
	CreatedAt             time.Time
}
