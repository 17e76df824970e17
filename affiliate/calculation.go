package affiliate

import (
	"math/big"
	"slices"
	"time"
)

// RoundingHalfUp names the rounding rule in a trace.
const RoundingHalfUp = "half_up"

// ReviewFXRateMissing flags a commission whose sale was in another currency than
// its programme's while no rate between the two was known.
const ReviewFXRateMissing = "fx_rate_missing"

// Calculation says how an amount came about, so that it can be done again by
// hand: base times rate, converted where the sale was in another currency than
// the programme is, rounded once, or the flat amount, and then the caps.
type Calculation struct {
	BaseAmountCents int64    `json:"base_amount_cents"`
	BaseCurrency    string   `json:"base_currency"`
	NetBasis        NetBasis `json:"net_basis"`
	// Source is what gave the rate.
	Source RateSource `json:"source"`
	// RateBps is set for a percentage, FlatCents for a flat amount, never both.
	// Where Parts have different rates RateBps is what they come to together,
	// rounded; the amount was not computed from it.
	RateBps   *int64 `json:"rate_bps"`
	FlatCents *int64 `json:"flat_amount_cents"`
	// Parts are the lines of the order where the rates of products decided.
	Parts []CalculationPart `json:"parts,omitempty"`
	// Brought is what the partner had brought before; set where tiers exist.
	Brought *Brought `json:"brought,omitempty"`
	// FXRate is what the base is multiplied by, in major units, to be compared with
	// the programme's amounts, and FXDate its day, YYYY-MM-DD; nil when the currency
	// is the same or no rate is known.
	FXRate   *string `json:"fx_rate"`
	FXDate   *string `json:"fx_date"`
	Rounding string  `json:"rounding"`
	// CappedAtOrderCap says that the amount would have exceeded what the rules pay
	// for one order at most, CappedAtBase that it would then have exceeded the base.
	CappedAtOrderCap bool     `json:"capped_at_order_cap"`
	CappedAtBase     bool     `json:"capped_at_base"`
	AmountCents      int64    `json:"amount_cents"`
	Currency         string   `json:"currency"`
	ReviewReasons    []string `json:"review_reasons"`
}

// CalculationPart is a line of an order with its rate. The base is divided
// between the lines in proportion to their amounts, equally when all are zero.
type CalculationPart struct {
	ProductID   string `json:"product_id"`
	AmountCents int64  `json:"amount_cents"` // of the whole line, as reported
	Quantity    int64  `json:"quantity"`
	RateBps     *int64 `json:"rate_bps"`
	// FlatCents of a product is paid for each unit; from any other source it is
	// paid once for all the lines that have it.
	FlatCents *int64     `json:"flat_amount_cents"`
	Source    RateSource `json:"source"`
	// LeftOut: the part pays a flat amount in the programme's currency and cannot
	// be added to percentages of a sale in another one, for want of a rate.
	LeftOut bool `json:"left_out,omitempty"`
}

// Type is how the amount was computed.
func (c *Calculation) Type() CommissionType {
	if c.RateBps != nil {
		return Percentage
	}
	return Flat
}

// calculate is what a conversion pays. The rate is chosen first, the caps are
// applied last. The amount is never negative, and never above the base wherever
// the two can be compared.
//
// Without a rate of exchange a percentage of a sale in another currency stays in
// the sale's currency and is flagged: converting it would be a guess.
func (e Earner) calculate(in AttributionInputs, index *int) Calculation {
	rules, paid := e.Rule.Rules, in.Sale.Paid
	if !in.priced() {
		paid = Money{}
	}
	calc := Calculation{
		BaseAmountCents: rules.NetBasis.Of(in.Sale),
		BaseCurrency:    paid.Currency,
		NetBasis:        rules.NetBasis,
		Rounding:        RoundingHalfUp,
		ReviewReasons:   []string{},
	}
	if len(rules.Tiers) > 0 {
		calc.Brought = &e.Brought
	}
	scale := calc.scaleOf(in, e.Currency)
	if whole, lines := e.rateFor(in, index); lines != nil {
		calc.payLines(lines, e.Currency, scale)
	} else {
		calc.pay(whole, e.Currency, scale)
	}
	calc.AmountCents = max(0, calc.AmountCents)

	if most := rules.CapCents; most != nil && calc.Currency == e.Currency && calc.AmountCents > *most {
		calc.AmountCents, calc.CappedAtOrderCap = *most, true
	}
	if paid.Currency == "" {
		// An event without a price has no base that could bound a flat amount.
		return calc
	}
	// Flat amounts are capped as well: a programme that pays 10 per order must not
	// lose money on an order of 5, nor invite partners to place such orders.
	if calc.Currency == scale.currency && calc.AmountCents > scale.base {
		calc.AmountCents, calc.CappedAtBase = scale.base, true
	}
	if scale.currency != e.Currency {
		// A percentage lacks its conversion, a flat amount the comparison with the
		// base: both need a person.
		calc.ReviewReasons = append(calc.ReviewReasons, ReviewFXRateMissing)
	}
	return calc
}

// scale is the base as it can be compared with amounts of the programme: in the
// programme's currency if there is a rate, else in its own.
type scale struct {
	base     int64
	currency string // empty without a price
	rate     *FXRate
}

// scaleOf notes the rate in the calculation, if it takes one.
func (c *Calculation) scaleOf(in AttributionInputs, currency string) scale {
	own := Money{c.BaseAmountCents, c.BaseCurrency}
	base, ok := in.convert(own, currency)
	if own.Currency == "" || own.Currency == currency || !ok {
		return scale{base: own.Cents, currency: own.Currency}
	}
	rate := in.Rates[currency]
	date := rate.Date.Format(time.DateOnly)
	c.FXRate, c.FXDate = &rate.Rate, &date
	return scale{base: base, currency: currency, rate: &rate}
}

// share is a part of the base, numerator ÷ denominator of it, as an amount of
// the scale's currency, rounded once. It is never above the base there.
func (c *Calculation) share(numerator, denominator int64, s scale) int64 {
	if s.rate == nil {
		return mustMulDiv(c.BaseAmountCents, numerator, denominator)
	}
	exact := new(big.Rat).SetInt64(c.BaseAmountCents)
	cents, _ := s.rate.Convert(exact.Mul(exact, big.NewRat(numerator, denominator)))
	return cents
}

// pay applies one rate to the whole.
func (c *Calculation) pay(rate sourcedRate, currency string, s scale) {
	c.Source = rate.source
	if rate.flat() {
		c.FlatCents, c.Currency, c.AmountCents = rate.FlatCents, currency, *rate.FlatCents
		return
	}
	bps := deref(rate.Bps)
	c.RateBps, c.Currency, c.AmountCents = &bps, s.percentageCurrency(currency), c.share(bps, WholeBps, s)
}

// percentageCurrency is the scale's; there may be no price at all.
func (s scale) percentageCurrency(currency string) string {
	if s.currency == "" {
		return currency
	}
	return s.currency
}

// payLines applies each line's rate to its part of the base:
//
//	base × Σ (line amount × rate) ÷ Σ line amounts, converted, rounded once, + the flat amounts
//
// A report has at most 100 lines of at most MaxAmountCents, so that the sums
// stay within 64 bits.
func (c *Calculation) payLines(lines []pricedLine, currency string, s scale) {
	weightless := !slices.ContainsFunc(lines, func(l pricedLine) bool { return l.AmountCents > 0 })
	var weighted, whole, flats int64
	orderPaid, anyBps := false, false
	c.Source = lines[0].rate.source
	for _, line := range lines {
		if line.rate.source != c.Source {
			c.Source = FromMixed
		}
		weight := line.AmountCents
		if weightless {
			weight = 1
		}
		whole += weight
		switch {
		case !line.rate.flat():
			weighted += weight * deref(line.rate.Bps)
			anyBps = true
		case line.rate.source == FromProduct:
			flats = addFlat(flats, *line.rate.FlatCents, line.Quantity)
		case !orderPaid:
			flats, orderPaid = addFlat(flats, *line.rate.FlatCents, 1), true
		}
	}
	if anyBps {
		c.Currency = s.percentageCurrency(currency)
	} else {
		c.Currency, c.FlatCents = currency, &flats
	}
	leavesOut := c.Currency != currency
	for _, line := range lines {
		c.Parts = append(c.Parts, CalculationPart{
			ProductID: line.ProductID, AmountCents: line.AmountCents, Quantity: line.Quantity,
			RateBps: line.rate.Bps, FlatCents: line.rate.FlatCents, Source: line.rate.source,
			LeftOut: leavesOut && line.rate.flat(),
		})
	}
	if !leavesOut {
		c.AmountCents = flats
	}
	if anyBps {
		c.AmountCents += c.share(weighted, whole*WholeBps, s)
		bps := c.effectiveBps(lines, s)
		c.RateBps = &bps
	}
}

// effectiveBps is the rate that all lines have, or what their rates come to
// together: at most WholeBps, and 0 without a base.
func (c *Calculation) effectiveBps(lines []pricedLine, s scale) int64 {
	first := lines[0].rate.Rate
	switch {
	case !slices.ContainsFunc(lines, func(l pricedLine) bool { return !sameRate(l.rate.Rate, first) }):
		return deref(first.Bps)
	case s.base == 0:
		return 0
	}
	return mustMulDiv(min(c.AmountCents, s.base), WholeBps, s.base)
}

// addFlat adds a flat amount for each of some units. No order earns more than
// MaxAmountCents by flat amounts.
func addFlat(total, cents, units int64) int64 {
	product, ok := mulDiv(cents, units, 1)
	if !ok {
		return MaxAmountCents
	}
	return min(MaxAmountCents, total+min(MaxAmountCents, product))
}
