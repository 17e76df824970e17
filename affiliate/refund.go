package affiliate

import (
	"math/big"
	"slices"
	"strconv"
	"time"
)

// RefundID identifies a refund.
type RefundID = ID[Refund]

// RefundParkedFor is how long a refund waits for its conversion.
const RefundParkedFor = 90 * 24 * time.Hour

// Refund is money that a merchant gave back. One whose conversion is not known is
// parked, and applied when the conversion comes. What it gave back is fixed then.
type Refund struct {
	ID                    RefundID
	Scope                 Scope
	ExternalRefundID      string        // unique per workspace and mode
	ExternalTransactionID string        // of the conversion
	Conversion            *ConversionID // nil: parked
	AskedCents            *int64        // minor units of the sale's currency; nil: all that is left
	AmountCents           *int64        // what it gave back; nil: parked
	Reason                *string
	CreatedAt             time.Time
	AppliedAt             *time.Time // nil: parked
	ExpiresAt             time.Time  // of a parked one
}

// RefundOutcome is what became of a refund.
type RefundOutcome struct {
	Refund     Refund
	Conversion *Conversion // as the refund left it; nil: parked
	Commission *Commission // as the refund left it; nil: parked, or nothing is earned
}

// ParkedSale names a sale that parked refunds wait for.
type ParkedSale struct {
	Workspace             WorkspaceID
	Mode                  Mode
	ExternalTransactionID string
}

// Refundable is what is left of the sale, minor units of its currency.
func (c Conversion) Refundable() int64 { return c.Sale.Paid.Cents - c.RefundedAmountCents }

// Refund gives back asked, or without it all that is left, and says how much that
// is. REFUND_EXCEEDS_AMOUNT: less than asked is left, or nothing at all. An event
// without an amount is refunded once, with 0.
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

// RefundParked is Refund for one that was taken before anybody could say what it
// would exceed: it gives back what is left at most, maybe nothing.
func (c Conversion) RefundParked(asked *int64) (after Conversion, gave int64) {
	if asked != nil && *asked > c.Refundable() {
		asked = nil
	}
	after, gave, _ = c.Refund(asked)
	return after, gave
}

// Refunded reports whether anything of the sale was given back.
func (c Conversion) Refunded() bool {
	return c.Status == ConversionRefunded || c.RefundedAmountCents > 0
}

// AfterRefunds is what the commission earns of its sale when so much of it was
// given back as the conversion says: by the total, so that neither the order of
// refunds nor their number matters. full says that nothing is left of the sale.
//
//	base × rate × (paid − refunded) ÷ paid, in the commission's currency, rounded
//	once, and then the cap; never above the base, nor above the original
//
// Where that does not give the original amount for a sale without refunds, as in
// an order whose lines have different rates, it is the original's share instead. A
// flat amount is earned whole until nothing is left.
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

// percentageOf is what the rate gives of the part of the base that is left; ok is
// false when that cannot be said.
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

// RefundMove is the move by which the commission follows the refunds of its sale;
// false: it stays as it is, because it has ended or earns the same.
func (c Commission) RefundMove(sale Conversion, why RefundReason, at time.Time) (CommissionTransition, bool) {
	cents, full := c.AfterRefunds(sale)
	if !slices.Contains(commissionMoves[MoveRefund].from, c.Status) || !full && cents >= c.AmountCents {
		return CommissionTransition{}, false
	}
	return CommissionTransition{
		Scope: c.Scope, Program: c.Program, Commission: c.ID, Move: MoveRefund, Actor: System, At: at,
		AmountCents: cents, Full: full, Why: why,
	}, true
}
