package attribution

import "slices"

// Method is the kind of signal that attributed a conversion.
type Method string

// The methods.
const (
	ByClick     Method = "click"
	ByPromoCode Method = "promo_code"
	// ByCustomer means that an earlier event bound the customer to the participant.
	ByCustomer Method = "customer"
	// ByAssignment means that a person assigned the conversion to the participant.
	ByAssignment Method = "manual"
)

// Reason is the code of the reason why a conversion is attributed or not, and why it earns a
// commission or nothing (docs/contract.md#attribution).
type Reason string

// Reasons of conversions that are attributed and earn a commission.
const (
	WhyClickMatched     Reason = "CLICK_MATCHED"
	WhyPromoCodeMatched Reason = "PROMO_CODE_MATCHED"
	WhyCustomerBound    Reason = "CUSTOMER_BOUND"
	WhyReassigned       Reason = "MANUALLY_REASSIGNED"
)

// Reasons of conversions that are attributed but earn nothing.
const (
	WhyParticipantNotApproved Reason = "PARTICIPANT_NOT_APPROVED"
	WhyRuleNotApplicable      Reason = "RULE_NOT_APPLICABLE"
	WhyRecurringLimitReached  Reason = "RECURRING_LIMIT_REACHED"
	// WhySelfReferralBlocked and WhyFraudBlocked mean that the fraud policy of the
	// programme blocked the conversion. WhySelfReferralBlocked is used if the partner
	// and the buyer appear to be the same person or company.
	WhySelfReferralBlocked Reason = "SELF_REFERRAL_BLOCKED"
	WhyFraudBlocked        Reason = "FRAUD_BLOCKED"
)

// Reasons of conversions that are not attributed.
const (
	WhyClickUnknown         Reason = "CLICK_UNKNOWN"
	WhyClickExpired         Reason = "CLICK_EXPIRED"
	WhyClickAfterConversion Reason = "CLICK_AFTER_CONVERSION"
	WhyPromoCodeUnknown     Reason = "PROMO_CODE_UNKNOWN"
	WhyPromoCodeInactive    Reason = "PROMO_CODE_INACTIVE"
	WhyProgramInactive      Reason = "PROGRAM_INACTIVE"
	WhyParticipantErased    Reason = "PARTICIPANT_ERASED"
	// WhyNoSignal means that a payment processor reported a sale without click, promo
	// code and bound customer. The conversion API rejects such reports.
	WhyNoSignal Reason = "NO_ATTRIBUTION_SIGNAL"
)

// whyOutranked is the rejection reason of an eligible signal if another eligible signal
// comes before it. A decision never has this reason.
const whyOutranked Reason = "OUTRANKED"

// IsDecisionReason reports whether a decision can have the reason.
func (r Reason) IsDecisionReason() bool { return slices.Contains(decisionReasons, r) }

// decisionReasons lists the reasons that a decision can have.
var decisionReasons = []Reason{
	WhyClickMatched, WhyPromoCodeMatched, WhyCustomerBound, WhyReassigned,
	WhyParticipantNotApproved, WhyRuleNotApplicable, WhyRecurringLimitReached, WhySelfReferralBlocked, WhyFraudBlocked,
	WhyClickUnknown, WhyClickExpired, WhyClickAfterConversion, WhyPromoCodeUnknown, WhyPromoCodeInactive,
	WhyProgramInactive, WhyParticipantErased, WhyNoSignal,
}

// DecisionReasons returns the reasons that a decision can have.
func DecisionReasons() []Reason { return slices.Clone(decisionReasons) }
