package attribution

import (
	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// LineItem is one line of an order.
type LineItem struct {
	ProductID   string `json:"product_id"`
	Quantity    int64  `json:"quantity"`
	AmountCents int64  `json:"amount_cents"` // of the whole line
}

// Sale holds the amounts of a conversion: the paid amount, and its parts tax, shipping and
// fee, in the same currency.
type Sale struct {
	affiliate.Money
	TaxCents      int64
	ShippingCents int64
	FeeCents      int64
}

// BaseCents returns the amount of the sale that is left after the deductions of the
// basis. It is never below zero: if the deductions exceed the amount, the sale earns
// nothing, but this is not an error.
func (s Sale) BaseCents(b program.NetBasis) int64 {
	base := s.Cents
	switch b {
	case program.Gross:
	case program.NetOfTax:
		base -= s.TaxCents
	case program.NetOfTaxShipping:
		base -= s.TaxCents + s.ShippingCents
	case program.NetOfTaxShippingAndFee:
		base -= s.TaxCents + s.ShippingCents + s.FeeCents
	}
	return max(0, base)
}
