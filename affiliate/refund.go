package affiliate

import (
	"math/big"
	"slices"
	"strconv"
	"time"
)

// RefundID identifies a refund.
type RefundID = ID[Refund]

// ParkedRefundLifetime is how long a refund waits for its conversion.
const ParkedRefundLifetime = 90 * 24 * time.Hour

// Refund is money that a merchant gave back to a buyer. If its conversion is not known,
// the refund is parked and applied when the conversion is recorded. Its amount is fixed
// at that time.
type Refund struct {
	ID                    RefundID
	Scope                 Scope
	ExternalRefundID      string        // unique per workspace and mode
	ExternalTransactionID string        // of the conversion
	Conversion            *ConversionID // nil while parked
	RequestedCents        *int64        // requested amount in minor units of the sale's currency; nil means all that is left
	AmountCents           *int64        // refunded amount; nil while parked
	Reason                *string
	CreatedAt             time.Time
	AppliedAt             *time.Time // nil while parked
	ExpiresAt             time.Time  // when a parked refund expires
}

// RefundOutcome is the result of reporting a refund.
type RefundOutcome struct {
	Refund     Refund
	Conversion *Conversion // after the refund; nil if parked
	Commission *Commission // after the refund; nil if parked or if nothing is earned
}

// ParkedSale identifies a sale for which parked refunds are waiting.
type ParkedSale struct {
	Workspace             WorkspaceID
	Mode                  Mode
	ExternalTransactionID string
}

// Refundable returns the amount of the sale that was not refunded, in minor units of
// its currency.
func (c Conversion) Refundable() int64 { return c.Sale.Paid.Cents - c.RefundedAmountCents }

// Refund applies a refund of asked, or of everything that is left if asked is nil. gave
// is the refunded amount. An event without an amount can be refunded once, with amount
// 0. Errors: REFUND_EXCEEDS_AMOUNT if less than asked is left, or if everything was
// refunded before.
func (c Conversion) Refund(asked *int64) (after Conversion, gave int64, refusal *Error) {
	gave = c.Refundable()
	if c.Status == ConversionRefunded || asked != nil && *asked > gave {
		return c, 0, &Error{
			Reason:   ReasonRefundExceedsAmount,
			Metadata: map[string]string{"refundable_cents": strconv.FormatInt(gave, 10)},
		}
	}
	if asked != nil {
		gave = *asked
	}
	c.RefundedAmountCents += gave
	c.Status = ConversionPartiallyRefunded
	if c.Refundable() == 0 {
		c.Status = ConversionRefunded
	}
	c.Version++
	return c, gave, nil
}

// RefundParked applies a parked refund. When it was accepted, the conversion was not
// known, so an amount that was too high could not be rejected. Therefore it refunds at
// most what is left, possibly 0.
func (c Conversion) RefundParked(asked *int64) (after Conversion, gave int64) {
	if asked != nil && *asked > c.Refundable() {
		asked = nil
	}
	after, gave, _ = c.Refund(asked)
	return after, gave
}

// Refunded reports whether the sale was refunded, in full or in part.
func (c Conversion) Refunded() bool {
	return c.Status == ConversionRefunded || c.RefundedAmountCents > 0
}

// AfterRefunds returns the amount of the commission after the refunds of its sale. It
// depends only on the total of the refunds, so their order and number do not matter.
// full says that the whole sale was refunded.
//
//	base × rate × (paid − refunded) ÷ paid, in the commission's currency, rounded
//	once, and then the cap; never above the base, nor above the original
//
// If this formula does not give the original amount for a sale without refunds, for
// example because the lines of the order have different rates, the result is the
// original amount × (paid − refunded) ÷ paid. A flat amount does not change until the
// whole sale is refunded.
func (c Commission) AfterRefunds(sale Conversion) (cents int64, full bool) {
	paid, left := sale.Sale.Paid.Cents, sale.Refundable()
	switch {
	case sale.Status == ConversionRefunded:
		return 0, true
	case c.Type == Flat || paid == 0 || left == paid:
		return c.OriginalAmountCents, false
	}
	if whole, ok := c.percentageOf(paid, paid); ok && whole == c.OriginalAmountCents {
		cents, ok := c.percentageOf(left, paid)
		if ok {
			return min(cents, c.OriginalAmountCents), false
		}
	}
	return mustMulDiv(c.OriginalAmountCents, left, paid), false
}

// percentageOf returns base × rate × left ÷ paid after conversion and cap. ok is false
// if it cannot be computed.
func (c Commission) percentageOf(left, paid int64) (cents int64, ok bool) {
	weighted := c.BaseAmountCents * deref(c.RateBps) // ≤ MaxAmountCents × WholeBps
	if c.FXRate == nil {
		cents, ok = mulDiv(weighted, left, paid*WholeBps)
	} else {
		exact := new(big.Rat).SetFrac(
			new(big.Int).Mul(big.NewInt(weighted), big.NewInt(left)),
			new(big.Int).Mul(big.NewInt(paid), big.NewInt(WholeBps)))
		cents, ok = FXRate{Base: c.SaleCurrency, Quote: c.Currency, Rate: *c.FXRate}.Convert(exact)
	}
	if most := c.Rule.Rules.CapCents; most != nil {
		cents = min(cents, *most)
	}
	return cents, ok
}

// RefundMove returns the move that adjusts the commission to the refunds of its sale.
// It returns false if the commission stays as it is, because its status is final or its
// amount does not change.
func (c Commission) RefundMove(sale Conversion, why RefundReason, at time.Time) (CommissionTransition, bool) {
	cents, full := c.AfterRefunds(sale)
	if !slices.Contains(commissionMoves[MoveRefund].from, c.Status) || !full && cents >= c.AmountCents {
		return CommissionTransition{}, false
	}
	return CommissionTransition{
		Scope: c.Scope, Program: c.Program, Commission: c.ID, Move: MoveRefund, Actor: System, At: at,
		AmountCents: cents, Full: full, RefundReason: why,
	}, true
}
