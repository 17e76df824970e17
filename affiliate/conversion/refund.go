package conversion

import (
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// RefundID identifies a refund.
type RefundID = affiliate.ID[Refund]

// ParkedRefundLifetime is how long a refund waits for its conversion.
const ParkedRefundLifetime = 90 * 24 * time.Hour

// Refund is money that a merchant gave back to a buyer. If its conversion is not known,
// the refund is parked and applied when the conversion is recorded. Its amount is fixed
// at that time.
type Refund struct {
	ID                    RefundID
	Scope                 affiliate.Scope
	ExternalRefundID      string                  // unique per workspace and mode
	ExternalTransactionID string                  // of the conversion
	Conversion            *affiliate.ConversionID // nil while parked
	RequestedCents        *int64                  // requested amount in minor units of the sale's currency; nil means the whole remaining amount
	AmountCents           *int64                  // refunded amount; nil while parked
	Reason                *string
	CreatedAt             time.Time
	AppliedAt             *time.Time // nil while parked
	ExpiresAt             time.Time  // when a parked refund expires
}

// RefundOutcome is the result of reporting a refund.
type RefundOutcome struct {
	Refund     Refund
	Conversion *Conversion            // after the refund; nil if parked
	Commission *commission.Commission // after the refund; nil if parked or if nothing is earned
}

// ParkedSale identifies a transaction for which parked refunds are waiting. Its
// conversion is not recorded yet.
type ParkedSale struct {
	Workspace             affiliate.WorkspaceID
	Mode                  affiliate.Mode
	ExternalTransactionID string
}

// Refundable returns the amount of the sale that has not been refunded yet, in minor
// units of its currency.
func (c Conversion) Refundable() int64 { return c.Sale.Paid.Cents - c.RefundedAmountCents }

// Refund applies a refund of the requested amount, or of the whole remaining amount if
// requested is nil. refunded is the refunded amount. An event without an amount can be
// refunded once, with amount 0. Errors: REFUND_EXCEEDS_AMOUNT if the requested amount is
// greater than the remaining amount, or if everything has already been refunded.
func (c Conversion) Refund(requested *int64) (after Conversion, refunded int64, refusal *affiliate.Error) {
	refunded = c.Refundable()
	if c.Status == Refunded || requested != nil && *requested > refunded {
		return c, 0, &affiliate.Error{
			Reason:   affiliate.ReasonRefundExceedsAmount,
			Metadata: map[string]string{affiliate.RefundableCents: strconv.FormatInt(refunded, 10)},
		}
	}
	if requested != nil {
		refunded = *requested
	}
	c.RefundedAmountCents += refunded
	c.Status = c.statusAfterRefund(c.Status == Disputed)
	c.Version++
	return c, refunded, nil
}

// statusAfterRefund returns the status of a conversion with a refund. disputed says
// whether a dispute about the sale is open.
func (c Conversion) statusAfterRefund(disputed bool) Status {
	switch {
	case c.Refundable() == 0:
		return Refunded
	case disputed:
		return Disputed
	default:
		return PartiallyRefunded
	}
}

// RefundParked applies a parked refund. When the refund was accepted, the conversion was
// not known, so an amount that was too high could not be rejected. If the requested
// amount is greater than the remaining amount, RefundParked refunds the remaining
// amount, which can be 0.
func (c Conversion) RefundParked(requested *int64) (after Conversion, refunded int64) {
	if requested != nil && *requested > c.Refundable() {
		requested = nil
	}
	after, refunded, _ = c.Refund(requested)
	return after, refunded
}

// Refunded reports whether the sale was refunded, in full or in part.
func (c Conversion) Refunded() bool {
	return c.Status == Refunded || c.RefundedAmountCents > 0
}

// SaleRefunds returns what a commission needs to know about the refunds of the sale.
func (c Conversion) SaleRefunds() commission.SaleRefunds {
	return commission.SaleRefunds{PaidCents: c.Sale.Paid.Cents, LeftCents: c.Refundable(), Complete: c.Status == Refunded}
}
