package affiliate

import "slices"

// RoundingHalfUp names the rounding rule in a trace.
const RoundingHalfUp = "half_up"

// ReviewFXRateMissing flags a commission whose sale was in another currency than
// its programme's while no rate between the two was known.
const ReviewFXRateMissing = "fx_rate_missing"

// Calculation says how an amount came about, so that it can be done again by
// hand: base times rate, rounded once, or the flat amount, and then the caps.
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
	Brought  *Brought `json:"brought,omitempty"`
	Rounding string   `json:"rounding"`
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
	// be added to percentages of a sale in another one.
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
// the two are in one currency.
//
// A percentage of a sale in another currency stays in the sale's currency and is
// flagged: converting it would be a guess.
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
	if whole, lines := e.rateFor(in, index); lines != nil {
		calc.payLines(lines, e.Currency)
	} else {
		calc.pay(whole, e.Currency)
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
	if calc.Currency == paid.Currency && calc.AmountCents > calc.BaseAmountCents {
		calc.AmountCents, calc.CappedAtBase = calc.BaseAmountCents, true
	}
	if paid.Currency != e.Currency {
		// A percentage lacks its conversion, a flat amount the comparison with the
		// base: both need a person.
		calc.ReviewReasons = append(calc.ReviewReasons, ReviewFXRateMissing)
	}
	return calc
}

// pay applies one rate to the whole.
func (c *Calculation) pay(rate sourcedRate, currency string) {
	c.Source = rate.source
	if rate.flat() {
		c.FlatCents, c.Currency, c.AmountCents = rate.FlatCents, currency, *rate.FlatCents
		return
	}
	bps := deref(rate.Bps)
	c.RateBps, c.Currency, c.AmountCents = &bps, c.percentageCurrency(currency), Share(c.BaseAmountCents, bps)
}

// percentageCurrency is the sale's; there may be no price at all.
func (c *Calculation) percentageCurrency(currency string) string {
	if c.BaseCurrency == "" {
		return currency
	}
	return c.BaseCurrency
}

// payLines applies each line's rate to its part of the base:
//
//	base × Σ (line amount × rate) ÷ Σ line amounts, rounded once, + the flat amounts
//
// A report has at most 100 lines of at most MaxAmountCents, so that the sums
// stay within 64 bits.
func (c *Calculation) payLines(lines []pricedLine, currency string) {
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
		c.Currency = c.percentageCurrency(currency)
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
		c.AmountCents += mustMulDiv(c.BaseAmountCents, weighted, whole*WholeBps)
		bps := c.effectiveBps(lines)
		c.RateBps = &bps
	}
}

// effectiveBps is the rate that all lines have, or what their rates come to
// together: at most WholeBps, and 0 without a base.
func (c *Calculation) effectiveBps(lines []pricedLine) int64 {
	first := lines[0].rate.Rate
	switch {
	case !slices.ContainsFunc(lines, func(l pricedLine) bool { return !sameRate(l.rate.Rate, first) }):
		return deref(first.Bps)
	case c.BaseAmountCents == 0:
		return 0
	}
	return mustMulDiv(min(c.AmountCents, c.BaseAmountCents), WholeBps, c.BaseAmountCents)
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
