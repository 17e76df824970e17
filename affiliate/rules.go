package affiliate

import "time"

// Sale holds the amounts of a conversion. Tax, shipping and fee are parts of the paid
// amount, in the same currency.
type Sale struct {
	Paid          Money
	TaxCents      int64
	ShippingCents int64
	FeeCents      int64
}

// BaseCents returns the amount of the sale that is left after the deductions of the
// basis. It is never below zero: if the deductions exceed the amount, the sale earns
// nothing, but this is not an error.
func (b NetBasis) BaseCents(s Sale) int64 {
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

// NewCommission returns the commission that a conversion earns. The decision must have
// an Earning. The commission is pending during its hold period. Without a hold period
// it is approved at once if the rules approve automatically and no review is needed.
func NewCommission(id CommissionID, c Conversion, d Decision, at time.Time) Commission {
	earner, calc := d.Earning.Earner, d.Earning.Calculation
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
			panic("affiliate: a calculation has an invalid rate date: " + *calc.FXDate)
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
