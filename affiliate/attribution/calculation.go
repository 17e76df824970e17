package attribution

import (
	"math/big"
	"slices"
	"time"

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

// Calculation records how an amount was computed, so that a person can repeat the
// computation. A percentage is base times rate, converted if the sale is in another
// currency than the programme, and rounded once. A flat amount is used as it is. The
// caps are applied last.
type Calculation struct {
	BaseAmountCents int64            `json:"base_amount_cents"`
	BaseCurrency    string           `json:"base_currency"`
	NetBasis        program.NetBasis `json:"net_basis"`
	// Source says which setting the rate comes from.
	Source RateSource `json:"source"`
	// RateBps is set for a percentage, and FlatCents for a flat amount. They are never
	// both set. If the Parts have different rates, RateBps is the rounded effective
	// rate, and the amount was computed from the rates of the Parts.
	RateBps   *int64 `json:"rate_bps"`
	FlatCents *int64 `json:"flat_amount_cents"`
	// Parts holds the lines of the order if rates of products were used.
	Parts []CalculationPart `json:"parts,omitempty"`
	// PriorTotals holds the totals of the participant before this conversion. It is set
	// if the rules have tiers.
	PriorTotals *PriorTotals `json:"brought,omitempty"`
	// FXRate is the factor that converts the base to the programme's currency, in major
	// units. FXDate is the day of that rate, YYYY-MM-DD. Both are nil if the currencies
	// are the same or no rate is known.
	FXRate   *string `json:"fx_rate"`
	FXDate   *string `json:"fx_date"`
	Rounding string  `json:"rounding"`
	// CappedAtOrderCap says that the amount was lowered to the maximum that the rules
	// set for one order. CappedAtBase says that the amount was still higher than the
	// base, and was lowered to the base.
	CappedAtOrderCap bool     `json:"capped_at_order_cap"`
	CappedAtBase     bool     `json:"capped_at_base"`
	AmountCents      int64    `json:"amount_cents"`
	Currency         string   `json:"currency"`
	ReviewReasons    []string `json:"review_reasons"`
}

// CalculationPart is a line of an order with its rate. The base is divided between the
// lines in proportion to their amounts, or equally if all amounts are zero.
type CalculationPart struct {
	ProductID   string `json:"product_id"`
	AmountCents int64  `json:"amount_cents"` // of the whole line, as reported
	Quantity    int64  `json:"quantity"`
	RateBps     *int64 `json:"rate_bps"`
	// FlatCents is paid for each unit if Source is FromProduct. A flat amount from any
	// other source is paid once for all lines that have it.
	FlatCents *int64     `json:"flat_amount_cents"`
	Source    RateSource `json:"source"`
	// LeftOut says that this part is not included in the amount. It pays a flat amount
	// in the programme's currency, which cannot be added to percentages of a sale in
	// another currency when no exchange rate is known.
	LeftOut bool `json:"left_out,omitempty"`
}

// Type returns Percentage or Flat, according to the rate that was used.
func (c *Calculation) Type() program.CommissionType {
	if c.RateBps != nil {
		return program.Percentage
	}
	return program.Flat
}

// calculate computes the amount that a conversion earns. The rate is chosen first, and
// the caps are applied last. The amount is never negative. It is never above the base if
// the amount and the base are in one currency or can be converted to one currency.
//
// If the sale is in another currency than the programme and no exchange rate is known, a
// percentage stays in the currency of the sale, and the commission is flagged for
// review.
func (e Earner) calculate(in Inputs, index *int) Calculation {
	rules, paid := e.Rule.Rules, in.Sale.Paid
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

// convertBase converts the base to the given currency, if an exchange rate is known. It
// records the rate in the calculation.
func (c *Calculation) convertBase(in Inputs, currency string) convertedBase {
	own := affiliate.Money{Cents: c.BaseAmountCents, Currency: c.BaseCurrency}
	base, ok := in.convert(own, currency)
	if own.Currency == "" || own.Currency == currency || !ok {
		return convertedBase{cents: own.Cents, currency: own.Currency}
	}
	rate := in.Rates[currency]
	date := rate.Date.Format(time.DateOnly)
	c.FXRate, c.FXDate = &rate.Rate, &date
	return convertedBase{cents: base, currency: currency, rate: &rate}
}

// shareOfBase returns base × numerator ÷ denominator, converted to the currency of s
// and rounded once. The numerator must not be greater than the denominator, so the
// result is never above the converted base.
func (c *Calculation) shareOfBase(numerator, denominator int64, s convertedBase) int64 {
	if s.rate == nil {
		return affiliate.MustMulDiv(c.BaseAmountCents, numerator, denominator)
	}
	exact := new(big.Rat).SetInt64(c.BaseAmountCents)
	cents, _ := s.rate.Convert(exact.Mul(exact, big.NewRat(numerator, denominator)))
	return cents
}

// pay applies one rate to the whole base.
func (c *Calculation) pay(rate sourcedRate, programCurrency string, s convertedBase) {
	c.Source = rate.source
	if rate.flat() {
		c.FlatCents, c.Currency, c.AmountCents = rate.FlatCents, programCurrency, *rate.FlatCents
		return
	}
	bps := affiliate.OrZero(rate.Bps)
	c.RateBps, c.Currency, c.AmountCents = &bps, s.percentageCurrency(programCurrency), c.shareOfBase(bps, affiliate.WholeBps, s)
}

// percentageCurrency returns the currency of an amount that is a percentage of the base.
// It is the currency of the base, or the programme's currency if the event has no price.
func (s convertedBase) percentageCurrency(programCurrency string) string {
	if s.currency == "" {
		return programCurrency
	}
	return s.currency
}

// payLines applies each line's rate to its part of the base:
//
//	base × Σ (line amount × rate) ÷ Σ line amounts, converted and rounded once
//	+ the flat amounts
//
// A report has at most 100 lines, and the amount of a line is at most MaxAmountCents, so
// the sums fit into 64 bits.
func (c *Calculation) payLines(lines []pricedLine, programCurrency string, s convertedBase) {
	allZero := !slices.ContainsFunc(lines, func(l pricedLine) bool { return l.AmountCents > 0 })
	var weighted, totalWeight, flatTotal int64
	orderFlatPaid, hasPercentage := false, false
	c.Source = lines[0].rate.source
	for _, line := range lines {
		if line.rate.source != c.Source {
			c.Source = FromMixed
		}
		weight := line.AmountCents
		if allZero {
			weight = 1
		}
		totalWeight += weight
		switch {
		case !line.rate.flat():
			weighted += weight * affiliate.OrZero(line.rate.Bps)
			hasPercentage = true
		case line.rate.source == FromProduct:
			flatTotal = addFlat(flatTotal, *line.rate.FlatCents, line.Quantity)
		case !orderFlatPaid:
			flatTotal, orderFlatPaid = addFlat(flatTotal, *line.rate.FlatCents, 1), true
		}
	}
	if hasPercentage {
		c.Currency = s.percentageCurrency(programCurrency)
	} else {
		c.Currency, c.FlatCents = programCurrency, &flatTotal
	}
	excludesFlat := c.Currency != programCurrency
	for _, line := range lines {
		c.Parts = append(c.Parts, CalculationPart{
			ProductID: line.ProductID, AmountCents: line.AmountCents, Quantity: line.Quantity,
			RateBps: line.rate.Bps, FlatCents: line.rate.FlatCents, Source: line.rate.source,
			LeftOut: excludesFlat && line.rate.flat(),
		})
	}
	if !excludesFlat {
		c.AmountCents = flatTotal
	}
	if hasPercentage {
		c.AmountCents += c.shareOfBase(weighted, totalWeight*affiliate.WholeBps, s)
		bps := c.effectiveBps(lines, s)
		c.RateBps = &bps
	}
}

// effectiveBps returns the rate of the lines if all lines have the same rate. Otherwise
// it returns the quotient of the amount and the base, in basis points. The quotient is
// limited to WholeBps, and it is 0 if the base is 0.
func (c *Calculation) effectiveBps(lines []pricedLine, s convertedBase) int64 {
	first := lines[0].rate.Rate
	switch {
	case !slices.ContainsFunc(lines, func(l pricedLine) bool { return !sameRate(l.rate.Rate, first) }):
		return affiliate.OrZero(first.Bps)
	case s.cents == 0:
		return 0
	}
	return affiliate.MustMulDiv(min(c.AmountCents, s.cents), affiliate.WholeBps, s.cents)
}

// addFlat returns total + cents × units, or MaxAmountCents if the sum is greater.
func addFlat(total, cents, units int64) int64 {
	product, ok := affiliate.MulDiv(cents, units, 1)
	if !ok {
		return affiliate.MaxAmountCents
	}
	return min(affiliate.MaxAmountCents, total+min(affiliate.MaxAmountCents, product))
}
