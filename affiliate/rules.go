package affiliate

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

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
