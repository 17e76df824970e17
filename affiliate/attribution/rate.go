package attribution

import (
	"slices"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// A rate can be set at several levels. The most specific rate that is set applies
// (docs/merchant/programmes.md#create-a-programme):
//
//	participant ─▶ product ─▶ group ─▶ tier ─▶ event ─▶ later payments ─▶ programme
//	                               └────────── the order's rate ──────────────────┘
//
// Product rates apply to the lines of an order. Lines whose product has no rate get the order's
// rate. A percentage of an event without a price is 0. For such an event, a percentage is
// skipped if a less specific rate is a flat amount.

// sourcedRate is a rate with the setting that it comes from.
type sourcedRate struct {
	program.Rate
	source RateSource
}

func (r sourcedRate) flat() bool { return r.FlatCents != nil }

// pricedLine is a line of an order with its rate.
type pricedLine struct {
	LineItem
	rate sourcedRate
}

// rateFor returns the rate of the whole order, or the lines with their rates if product rates apply.
func (e Earner) rateFor(in Inputs, index *int) (whole sourcedRate, lines []pricedLine) {
	priced := in.hasPrice()
	whole = chooseRate(e.orderRates(in, index), priced)
	lines = priceLines(e.Rule.Rules, in.LineItems, whole, priced)
	if len(in.LineItems) == 0 {
		if product, ok := commonProductRate(e.Rule.Rules, in.ProductIDs); ok {
			whole = chooseRate([]sourcedRate{product, whole}, priced)
		}
	}
	if override := e.Rule.Override; override != nil {
		own := sourcedRate{*override, FromParticipant}
		hasFlatAmount := whole.flat() || slices.ContainsFunc(lines, func(l pricedLine) bool { return l.rate.flat() })
		if priced || own.flat() || !hasFlatAmount {
			return own, nil
		}
	}
	return whole, lines
}

// chooseRate returns the first of the given rates, which are ordered from most to least
// specific. For an event without a price it returns the first flat amount, if there is one.
func chooseRate(rates []sourcedRate, priced bool) sourcedRate {
	if !priced {
		if flat := slices.IndexFunc(rates, sourcedRate.flat); flat >= 0 {
			return rates[flat]
		}
	}
	return rates[0]
}

// orderRates returns the rates that apply to the order as a whole, the most specific
// first. Rates of the participant and of products are not included. The last rate is the
// programme's general rate, so the result is never empty.
func (e Earner) orderRates(in Inputs, index *int) []sourcedRate {
	rules := e.Rule.Rules
	var rates []sourcedRate
	if group := e.Rule.Group; group != nil {
		rates = append(rates, sourcedRate{group.Rate, FromGroup})
	}
	if tier := reachedTier(rules, e.PriorTotals); tier != nil {
		rates = append(rates, sourcedRate{program.Rate{Bps: &tier.RateBps}, FromTier})
	}
	for _, event := range rules.Events {
		if event.EventType == in.EventType && event.Rate != (program.Rate{}) {
			rates = append(rates, sourcedRate{event.Rate, FromEvent})
		}
	}
	if rules.LaterRateBps != nil && in.isLaterPayment(index) {
		rates = append(rates, sourcedRate{program.Rate{Bps: rules.LaterRateBps}, FromLaterPayments})
	}
	own := program.Rate{Bps: rules.RateBps}
	if rules.Type == program.Flat {
		own = program.Rate{FlatCents: rules.FlatCents}
	}
	return append(rates, sourcedRate{own, FromProgram})
}

// reachedTier returns the highest tier that the given totals have reached; nil for none.
func reachedTier(r program.Rules, totals PriorTotals) *program.Tier {
	var reached *program.Tier
	for i := range r.Tiers {
		tier := &r.Tiers[i]
		if tier.MinConversions != nil && *tier.MinConversions <= totals.Conversions ||
			tier.MinRevenueCents != nil && *tier.MinRevenueCents <= totals.RevenueCents {
			reached = tier
		}
	}
	return reached
}

func productRate(r program.Rules, product string) (rate sourcedRate, ok bool) {
	i := slices.IndexFunc(r.Products, func(p program.ProductRate) bool { return p.ProductID == product })
	if i < 0 {
		return sourcedRate{}, false
	}
	return sourcedRate{r.Products[i].Rate, FromProduct}, true
}

// priceLines returns the lines with the rates of their products. A line whose product has no
// rate gets the rate orderRate. priceLines returns nil if no line has a product rate.
func priceLines(r program.Rules, items []LineItem, orderRate sourcedRate, priced bool) []pricedLine {
	lines := make([]pricedLine, len(items))
	hasProductRate := false
	for i, item := range items {
		lines[i] = pricedLine{item, orderRate}
		if product, ok := productRate(r, item.ProductID); ok {
			lines[i].rate = chooseRate([]sourcedRate{product, orderRate}, priced)
			hasProductRate = hasProductRate || lines[i].rate.source == FromProduct
		}
	}
	if !hasProductRate {
		return nil
	}
	return lines
}

// commonProductRate returns the rate that all products have in common. It is used for
// reports without order lines, which do not say which part of the amount belongs to
// which product. ok is false if the rates differ or a product has no rate.
func commonProductRate(r program.Rules, products []string) (common sourcedRate, ok bool) {
	for i, id := range products {
		rate, listed := productRate(r, id)
		if !listed || i > 0 && !sameRate(rate.Rate, common.Rate) {
			return sourcedRate{}, false
		}
		common = rate
	}
	return common, len(products) > 0
}

func sameRate(a, b program.Rate) bool {
	equal := func(x, y *int64) bool { return (x == nil) == (y == nil) && affiliate.OrZero(x) == affiliate.OrZero(y) }
	return equal(a.Bps, b.Bps) && equal(a.FlatCents, b.FlatCents)
}

// RoundingHalfUp names the rounding rule in a trace.
const RoundingHalfUp = "half_up"

// ReviewFXRateMissing is the review reason of a commission if the sale was not in the
// currency of the programme and no exchange rate between the two currencies was known.
const ReviewFXRateMissing = "fx_rate_missing"

// ReviewFeeMissing is the review reason of a commission if the rules subtract fees but the fee is unknown.
const ReviewFeeMissing = "fee_missing"

// calculate computes the amount that a conversion earns. The rate is chosen first, and
// the caps are applied last. The amount is never negative. It is never above the base if
// the amount and the base are in one currency or can be converted to one currency.
//
// If the sale is in another currency than the programme and no exchange rate is known, a
// percentage stays in the currency of the sale, and the commission is flagged for review.
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

// convertedBase is the base in the programme's currency, or in the currency of the sale if no
// exchange rate is known.
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
