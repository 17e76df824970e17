package partner

import (
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// SaleLookup selects the conversions about which a partner asks. Either ExternalID or Day is set.
type SaleLookup struct {
	Program    *affiliate.ProgramID // set if Day is set
	ExternalID string
	Day        affiliate.Period
}

// RelatedSale is a conversion that concerns a partner: it is or was credited to the partner, or
// its decision names a click, a promo code or a customer of the partner. It contains no data
// about other partners or the buyer, and no amounts.
type RelatedSale struct {
	Program     affiliate.ProgramID `db:"program_id"` // in which the partner takes part
	ProgramName string
	EventType   affiliate.EventType
	OccurredAt  time.Time
	// Credited is true if the decision in force credits the conversion to the partner.
	Credited bool
	// Method and Explanation come from the decision in force.
	Method      *attribution.Method
	Explanation string
	// Candidates are the signals of the partner in the trace of the decision.
	Candidates []attribution.Candidate
	// Commission is the partner's commission of the conversion. It is nil if nothing was earned.
	Commission       *affiliate.CommissionID `db:"commission_id"`
	CommissionStatus *commission.Status
}

// SaleResult says whether the partner is credited with a conversion.
type SaleResult string

// The results of a lookup. SaleNoCommission means that the conversion is credited to the
// partner, but earns nothing.
const (
	SaleCredited     SaleResult = "credited"
	SaleNoCommission SaleResult = "no_commission"
	SaleNotCredited  SaleResult = "not_credited"
)

// SaleReason says why the partner is not credited with a conversion.
type SaleReason string

// The reasons for SaleNotCredited.
const (
	SaleClickExpired      SaleReason = "click_expired"
	SaleClickLater        SaleReason = "click_after_sale"
	SalePromoCodeInactive SaleReason = "promo_code_inactive"
	SaleProgramInactive   SaleReason = "program_inactive"
	// SaleCustomerKnown means that another partner had brought the customer before.
	SaleCustomerKnown SaleReason = "customer_referred_before"
	SaleOutranked     SaleReason = "outranked"
	SaleReassigned    SaleReason = "reassigned"
)

// Answer returns the response to the partner about the conversion. The reason is empty if the
// conversion is credited to the partner. The explanation names no other partner, and neither
// their clicks nor their promo codes.
func (s RelatedSale) Answer() (result SaleResult, reason SaleReason, explanation string) {
	switch {
	case s.Credited && s.Commission == nil:
		return SaleNoCommission, "", s.Explanation
	case s.Credited:
		return SaleCredited, "", s.Explanation
	}
	for _, own := range s.Candidates {
		switch {
		case own.RejectedBecause == nil:
			continue
		case own.Outranked() && s.Method != nil && *s.Method == attribution.ByCustomer:
			return SaleNotCredited, SaleCustomerKnown, "Another partner had already brought the customer."
		case own.Outranked():
			return SaleNotCredited, SaleOutranked, "Another click or promo code comes before yours under the rules of the programme."
		}
		switch *own.RejectedBecause {
		case attribution.WhyClickExpired:
			if own.At != nil && own.ExpiresAt != nil {
				return SaleNotCredited, SaleClickExpired, fmt.Sprintf(
					"Your click was on %s. The attribution window ended on %s, before the sale.", instant(*own.At), instant(*own.ExpiresAt))
			}
		case attribution.WhyClickAfterConversion:
			return SaleNotCredited, SaleClickLater, "Your click was later than the sale."
		case attribution.WhyPromoCodeInactive:
			return SaleNotCredited, SalePromoCodeInactive,
				"Your promo code could not be used at the time of the sale: it was not active, had expired, or had reached its limit of redemptions."
		case attribution.WhyProgramInactive:
			return SaleNotCredited, SaleProgramInactive, "The programme was not active at the time of the sale."
		default: // other reasons say nothing about the partner's click or code
		}
	}
	return SaleNotCredited, SaleReassigned, "The merchant has credited the sale to another partner."
}

func instant(t time.Time) string { return t.UTC().Format("2 January 2006 at 15:04 UTC") }
