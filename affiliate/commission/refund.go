package commission

import (
	"math/big"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// SaleRefunds says how much of a sale is left after its refunds, in minor units of the
// sale's currency.
type SaleRefunds struct {
	PaidCents int64
	LeftCents int64
	// Complete says that the whole sale was refunded. A sale without an amount can be
	// refunded too.
	Complete bool
}

// AfterRefunds returns the amount of the commission after the refunds of its
// conversion. full says that the whole sale was refunded; the amount is 0 then. The
// result depends only on the total of the refunds, so their order and number do not
// matter.
//
// A percentage is computed again for the part of the sale that is left:
//
//	base × rate × (paid − refunded) ÷ paid
//
// The result is converted to the commission's currency and rounded once. Then the cap
// is applied. The result is never above the original amount. With refunded = 0, the
// formula must give the original amount. If it does not, for example because the lines
// of the order have different rates, the result is instead
//
//	original amount × (paid − refunded) ÷ paid
//
// A flat amount does not change until the whole sale is refunded.
func (c Commission) AfterRefunds(sale SaleRefunds) (cents int64, full bool) {
	paid, left := sale.PaidCents, sale.LeftCents
	switch {
	case sale.Complete:
		return 0, true
	case c.Type == program.Flat || paid == 0 || left == paid:
		return c.OriginalAmountCents, false
	}
	if whole, ok := c.percentageOf(paid, paid); ok && whole == c.OriginalAmountCents {
		cents, ok := c.percentageOf(left, paid)
		if ok {
			return min(cents, c.OriginalAmountCents), false
		}
	}
	return affiliate.MustMulDiv(c.OriginalAmountCents, left, paid), false
}

// percentageOf returns base × rate × left ÷ paid, converted, rounded and capped. ok is
// false if the amount does not fit into 64 bits or the exchange rate is not valid.
func (c Commission) percentageOf(left, paid int64) (cents int64, ok bool) {
	weighted := c.BaseAmountCents * affiliate.OrZero(c.RateBps) // ≤ MaxAmountCents × WholeBps
	if c.FXRate == nil {
		cents, ok = affiliate.MulDiv(weighted, left, paid*affiliate.WholeBps)
	} else {
		exact := new(big.Rat).SetFrac(
			new(big.Int).Mul(big.NewInt(weighted), big.NewInt(left)),
			new(big.Int).Mul(big.NewInt(paid), big.NewInt(affiliate.WholeBps)))
		cents, ok = attribution.FXRate{Base: c.SaleCurrency, Quote: c.Currency, Rate: *c.FXRate}.Convert(exact)
	}
	if most := c.Rule.Rules.CapCents; most != nil {
		cents = min(cents, *most)
	}
	return cents, ok
}

// RefundMove returns the move that adjusts the commission to the refunds of its
// conversion: MoveRefund if it earns less, or MoveRestore if refunds have failed after they
// were applied. It returns false if there is no move, because a person has rejected the
// commission or its amount does not change.
func (c Commission) RefundMove(sale SaleRefunds, why RefundReason, at time.Time) (Transition, bool) {
	cents, full := c.AfterRefunds(sale)
	t := Transition{
		Scope: c.Scope, Program: c.Program, Commission: c.ID, Actor: affiliate.System, At: at,
		AmountCents: cents, Full: full, RefundReason: why,
	}
	switch refunded := c.Status == Refunded; {
	case full != refunded && full || cents < c.AmountCents:
		t.Move = MoveRefund
	case full != refunded || cents > c.AmountCents:
		t.Move = MoveRestore
	default:
		return Transition{}, false
	}
	return t, slices.Contains(commissionMoves[t.Move].from, c.Status)
}
