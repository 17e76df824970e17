package affiliate

import "time"

// Sale is the money side of a conversion. Tax, shipping and fee are parts of
// what was paid, in the same currency.
type Sale struct {
	Paid          Money
	TaxCents      int64
	ShippingCents int64
	FeeCents      int64
}

// Of is what the basis leaves of a sale, never below zero: a report whose parts
// exceed the whole earns nothing and is no error.
func (b NetBasis) Of(s Sale) int64 {
	base := s.Paid.Cents
	switch b {
	case Gross:
	case NetOfTax:
		base -= s.TaxCents
	case NetOfTaxShipping:
		base -= s.TaxCents + s.ShippingCents
	case NetOfTaxShippingAndFee:
		base -= s.TaxCents + s.ShippingCents + s.FeeCents
	}
	return max(0, base)
}

// Pays reports whether the rules pay for an event. Without a list of their own
// they pay for sales.
func (r Rules) Pays(event EventType) bool { return event == Purchase || event == Renewal }

// RoundingHalfUp names the rounding rule in a trace.
const RoundingHalfUp = "half_up"

// ReviewFXRateMissing flags a commission whose sale was in another currency than
// its programme's while no rate between the two was known.
const ReviewFXRateMissing = "fx_rate_missing"

// Calculation says how an amount came about, so that it can be done again by
// hand: base times rate, rounded once, or the flat amount, and then the cap.
type Calculation struct {
	BaseAmountCents int64    `json:"base_amount_cents"`
	BaseCurrency    string   `json:"base_currency"`
	NetBasis        NetBasis `json:"net_basis"`
	RateBps         *int64   `json:"rate_bps"`
	FlatCents       *int64   `json:"flat_amount_cents"`
	Rounding        string   `json:"rounding"`
	// CappedAtBase says that the amount would have exceeded the base.
	CappedAtBase  bool     `json:"capped_at_base"`
	AmountCents   int64    `json:"amount_cents"`
	Currency      string   `json:"currency"`
	ReviewReasons []string `json:"review_reasons"`
}

// Compute is what the rules pay for a sale in a programme of the given currency.
// The rate is chosen first, the cap applied last. The amount is never negative,
// and never above the base wherever the two are in one currency.
//
// A percentage of a sale in another currency stays in the sale's currency and is
// flagged: converting it would be a guess.
func (r Rules) Compute(sale Sale, currency string) Calculation {
	calc := Calculation{
		BaseAmountCents: r.NetBasis.Of(sale),
		BaseCurrency:    sale.Paid.Currency,
		NetBasis:        r.NetBasis,
		Rounding:        RoundingHalfUp,
		ReviewReasons:   []string{},
	}
	if r.Type == Flat {
		calc.FlatCents, calc.Currency = r.FlatCents, currency
		calc.AmountCents = deref(r.FlatCents)
	} else {
		calc.RateBps, calc.Currency = r.RateBps, sale.Paid.Currency
		calc.AmountCents = Share(calc.BaseAmountCents, deref(r.RateBps))
	}
	calc.AmountCents = max(0, calc.AmountCents)

	if sale.Paid.Currency == "" {
		// An event without a price has no base that could bound a flat amount.
		calc.Currency = currency
		return calc
	}
	// Flat amounts are capped as well: a programme that pays 10 per order must not
	// lose money on an order of 5, nor invite partners to place such orders.
	if calc.Currency == sale.Paid.Currency && calc.AmountCents > calc.BaseAmountCents {
		calc.AmountCents, calc.CappedAtBase = calc.BaseAmountCents, true
	}
	if sale.Paid.Currency != currency {
		// A percentage lacks its conversion, a flat amount the comparison with the
		// base: both need a person.
		calc.ReviewReasons = append(calc.ReviewReasons, ReviewFXRateMissing)
	}
	return calc
}

// NewCommission is the commission that a conversion earns by an attributed
// decision, which must carry an Earning. With a hold it waits; without one it is
// approved at once, provided that the rules approve by themselves and nothing
// asks for a person.
func NewCommission(id CommissionID, c Conversion, d Decision, at time.Time) Commission {
	earner, calc := d.Earns.Earner, d.Earns.Calculation
	rules := earner.Rule.Rules
	commission := Commission{
		ID:                    id,
		Scope:                 c.Scope,
		Program:               earner.Program,
		Participant:           earner.Participant,
		Partner:               earner.Partner,
		Conversion:            c.ID,
		Decision:              d.ID,
		ExternalTransactionID: c.ExternalTransactionID,
		Click:                 d.Click,
		PromoCode:             d.PromoCode,
		CustomerRef:           c.CustomerRef,
		Status:                CommissionPending,
		Type:                  rules.Type,
		EventType:             c.EventType,
		RateBps:               calc.RateBps,
		FlatCents:             calc.FlatCents,
		AmountCents:           calc.AmountCents,
		OriginalAmountCents:   calc.AmountCents,
		Currency:              calc.Currency,
		BaseAmountCents:       calc.BaseAmountCents,
		SaleAmountCents:       c.Sale.Paid.Cents,
		SaleCurrency:          c.Sale.Paid.Currency,
		NeedsReview:           len(calc.ReviewReasons) > 0,
		ReviewReasons:         calc.ReviewReasons,
		Dispute:               DisputeNone,
		Rule:                  earner.Rule,
		Version:               1,
		CreatedAt:             at,
		UpdatedAt:             at,
	}
	due := at
	if rules.HoldDays > 0 {
		due = at.Add(time.Duration(rules.HoldDays) * 24 * time.Hour)
		commission.HoldUntil = &due
	}
	if rules.AutoApproval {
		commission.AutoApproveAt = &due
		if rules.HoldDays == 0 && !commission.NeedsReview {
			system := System.String()
			commission.Status = CommissionApproved
			commission.ApprovedAt, commission.ApprovedBy = &at, &system
		}
	}
	return commission
}

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
