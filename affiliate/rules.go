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
		Type:                  calc.Type(),
		EventType:             c.EventType,
		RateBps:               calc.RateBps,
		FlatCents:             calc.FlatCents,
		AmountCents:           calc.AmountCents,
		OriginalAmountCents:   calc.AmountCents,
		Currency:              calc.Currency,
		BaseAmountCents:       calc.BaseAmountCents,
		SaleAmountCents:       c.Sale.Paid.Cents,
		SaleCurrency:          c.Sale.Paid.Currency,
		RecurringIndex:        d.RecurringIndex,
		NeedsReview:           len(calc.ReviewReasons) > 0,
		ReviewReasons:         calc.ReviewReasons,
		Dispute:               DisputeNone,
		Rule:                  earner.Rule,
		Version:               1,
		CreatedAt:             at,
		UpdatedAt:             at,
	}
	if calc.FXRate != nil {
		date, err := time.Parse(time.DateOnly, *calc.FXDate)
		if err != nil {
			panic("affiliate: a calculation of the day " + *calc.FXDate)
		}
		commission.FXRate, commission.FXDate = calc.FXRate, &date
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
