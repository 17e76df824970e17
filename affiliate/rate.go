package affiliate

import "slices"

// Which rate applies (DECISIONS.md section 6): the most specific one that there
// is.
//
//	participant ─▶ product ─▶ group ─▶ tier ─▶ event ─▶ later payments ─▶ programme
//	                               └────────── the order's rate ──────────────────┘
//
// Products are decided line by line; the lines without a rate of their own have
// the order's. An event without a price has nothing to take a percentage of: a
// rate in percent steps aside for a flat one behind it, if there is any.

// sourcedRate is a rate with what gave it.
type sourcedRate struct {
	Rate
	source RateSource
}

func (r sourcedRate) flat() bool { return r.FlatCents != nil }

// pricedLine is a line of an order with its rate.
type pricedLine struct {
	LineItem
	rate sourcedRate
}

// rateFor is what a conversion pays in the programme: the rate of the whole, or
// of each line where products decide it.
func (e Earner) rateFor(in AttributionInputs, index *int) (whole sourcedRate, lines []pricedLine) {
	priced := in.priced()
	whole = firstPaying(e.orderRates(in, index), priced)
	lines = e.Rule.Rules.linesOf(in.LineItems, whole, priced)
	if len(in.LineItems) == 0 {
		if product, ok := e.Rule.Rules.commonProductRate(in.ProductIDs); ok {
			whole = firstPaying([]sourcedRate{product, whole}, priced)
		}
	}
	if override := e.Rule.Override; override != nil {
		own := sourcedRate{*override, FromParticipant}
		behind := whole.flat() || slices.ContainsFunc(lines, func(l pricedLine) bool { return l.rate.flat() })
		if priced || own.flat() || !behind {
			return own, nil
		}
	}
	return whole, lines
}

// firstPaying is the first of some rates, the most specific one first, or for
// an event without a price the first that is flat, if any is.
func firstPaying(rates []sourcedRate, priced bool) sourcedRate {
	if !priced {
		if flat := slices.IndexFunc(rates, sourcedRate.flat); flat >= 0 {
			return rates[flat]
		}
	}
	return rates[0]
}

// orderRates are the rates behind those of participant and products that the
// conversion could have. The programme's own is always among them.
func (e Earner) orderRates(in AttributionInputs, index *int) []sourcedRate {
	rules := e.Rule.Rules
	var rates []sourcedRate
	if group := e.Rule.Group; group != nil {
		rates = append(rates, sourcedRate{group.Rate, FromGroup})
	}
	if tier := rules.tierOf(e.Brought); tier != nil {
		rates = append(rates, sourcedRate{Rate{Bps: &tier.RateBps}, FromTier})
	}
	for _, event := range rules.Events {
		if event.EventType == in.EventType && event.Rate != (Rate{}) {
			rates = append(rates, sourcedRate{event.Rate, FromEvent})
		}
	}
	if rules.LaterRateBps != nil && in.later(index) {
		rates = append(rates, sourcedRate{Rate{Bps: rules.LaterRateBps}, FromLater})
	}
	own := Rate{Bps: rules.RateBps}
	if rules.Type == Flat {
		own = Rate{FlatCents: rules.FlatCents}
	}
	return append(rates, sourcedRate{own, FromProgram})
}

// tierOf is the highest tier that a partner has reached; nil: none.
func (r Rules) tierOf(brought Brought) *Tier {
	var reached *Tier
	for i := range r.Tiers {
		tier := &r.Tiers[i]
		if tier.MinConversions != nil && *tier.MinConversions <= brought.Conversions ||
			tier.MinRevenueCents != nil && *tier.MinRevenueCents <= brought.RevenueCents {
			reached = tier
		}
	}
	return reached
}

func (r Rules) productRate(product string) (rate sourcedRate, ok bool) {
	i := slices.IndexFunc(r.Products, func(p ProductRate) bool { return p.ProductID == product })
	if i < 0 {
		return sourcedRate{}, false
	}
	return sourcedRate{r.Products[i].Rate, FromProduct}, true
}

// linesOf gives every line its product's rate, and those whose product has none
// the order's. nil: no product has a rate, so the order is one.
func (r Rules) linesOf(items []LineItem, order sourcedRate, priced bool) []pricedLine {
	lines := make([]pricedLine, len(items))
	decided := false
	for i, item := range items {
		lines[i] = pricedLine{item, order}
		if product, ok := r.productRate(item.ProductID); ok {
			lines[i].rate = firstPaying([]sourcedRate{product, order}, priced)
			decided = decided || lines[i].rate.source == FromProduct
		}
	}
	if !decided {
		return nil
	}
	return lines
}

// commonProductRate is the rate that all of some products have. Products of
// different rates decide nothing without lines: how the amount divides between
// them is unknown.
func (r Rules) commonProductRate(products []string) (common sourcedRate, ok bool) {
	for i, id := range products {
		rate, listed := r.productRate(id)
		if !listed || i > 0 && !sameRate(rate.Rate, common.Rate) {
			return sourcedRate{}, false
		}
		common = rate
	}
	return common, len(products) > 0
}

func sameRate(a, b Rate) bool {
	same := func(x, y *int64) bool { return (x == nil) == (y == nil) && deref(x) == deref(y) }
	return same(a.Bps, b.Bps) && same(a.FlatCents, b.FlatCents)
}
