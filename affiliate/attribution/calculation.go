package attribution

import (
	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// RoundingHalfUp names the rounding rule in a trace.
const RoundingHalfUp = "half_up"

// ReviewFXRateMissing is the review reason of a commission if the sale was not in the
// currency of the programme and no exchange rate between the two currencies was known.
const ReviewFXRateMissing = "fx_rate_missing"

// ReviewFeeMissing is the review reason of a commission if the programme subtracts fees and
// the payment processor did not say its fee.
const ReviewFeeMissing = "fee_missing"

// calculate computes the amount that a conversion earns. The rate is chosen first, and
// the caps are applied last. The amount is never negative. It is never above the base if
// the amount and the base are in one currency or can be converted to one currency.
//
// If the sale is in another currency than the programme and no exchange rate is known, a
// percentage stays in the currency of the sale, and the commission is flagged for
// review.
func (e Earner) calculate(in Inputs, index *int) Calculation {
	rules, paid := e.Rule.Rules, in.Sale.Money
	if !in.hasPrice() {
		paid = affiliate.Money{}
	}
	calc := Calculation{
		BaseAmountCents: in.Sale.BaseCents(rules.NetBasis),
		BaseCurrency:    paid.Currency,
		NetBasis:        rules.NetBasis,
		Rounding:        RoundingHalfUp,
		ReviewReasons:   []string{},
	}
	if in.FeeMissing && rules.NetBasis == program.NetOfTaxShippingAndFee {
		calc.ReviewReasons = append(calc.ReviewReasons, ReviewFeeMissing)
	}
	if len(rules.Tiers) > 0 {
		calc.PriorTotals = &e.PriorTotals
	}
	base := calc.convertBase(in, e.Currency)
	if whole, lines := e.rateFor(in, index); lines != nil {
		calc.payLines(lines, e.Currency, base)
	} else {
		calc.pay(whole, e.Currency, base)
	}
	calc.AmountCents = max(0, calc.AmountCents)

	if most := rules.CapCents; most != nil && calc.Currency == e.Currency && calc.AmountCents > *most {
		calc.AmountCents, calc.CappedAtOrderCap = *most, true
	}
	if paid.Currency == "" {
		// An event without a price has no base that could limit a flat amount.
		return calc
	}
	// Flat amounts are capped as well. A programme that pays 10 per order must not lose
	// money on an order of 5, and partners must have no reason to place such orders.
	if calc.Currency == base.currency && calc.AmountCents > base.cents {
		calc.AmountCents, calc.CappedAtBase = base.cents, true
	}
	if base.currency != e.Currency {
		// The percentage could not be converted, or the flat amount could not be
		// compared with the base. In both cases, a person has to review the commission.
		calc.ReviewReasons = append(calc.ReviewReasons, ReviewFXRateMissing)
	}
	return calc
}

// convertedBase is the base amount in the programme's currency if an exchange rate is
// known, otherwise in the currency of the sale.
type convertedBase struct {
	cents    int64
	currency string // empty if the event has no price
	rate     *FXRate
}

// percentageCurrency returns the currency of an amount that is a percentage of the base.
// It is the currency of the base, or the programme's currency if the event has no price.
func (s convertedBase) percentageCurrency(programCurrency string) string {
	if s.currency == "" {
		return programCurrency
	}
	return s.currency
}

// addFlat returns total + cents × units, or MaxAmountCents if the sum is greater.
func addFlat(total, cents, units int64) int64 {
	product, ok := affiliate.MulDiv(cents, units, 1)
	if !ok {
		return affiliate.MaxAmountCents
	}
	return min(affiliate.MaxAmountCents, total+min(affiliate.MaxAmountCents, product))
}
