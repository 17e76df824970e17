package affiliate

// LineItem is one line of an order.
type LineItem struct {
	ProductID   string `json:"product_id"`
	Quantity    int64  `json:"quantity"`
	AmountCents int64  `json:"amount_cents"` // of the whole line
}

// Sale holds the amounts of a conversion. Tax, shipping and fee are parts of the paid
// amount, in the same currency.
type Sale struct {
	Paid          Money
	TaxCents      int64
	ShippingCents int64
	FeeCents      int64
}
