package analytics

import (
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// Conversion holds everything about a conversion that the analytics use. The stored copy has the values
// that were added to the sums, so that a change of the conversion can be applied to the sums.
type Conversion struct {
	ID    affiliate.ConversionID `db:"conversion_id,fixed"`
	Owner                        // zero if the conversion is not attributed
	// OccurredAt is when the conversion happened. All numbers of the conversion belong to the
	// quarter of this time, also later refunds and changes of its commission.
	OccurredAt time.Time
	EventType  affiliate.EventType
	Values     Values `db:"dimension_values"`
	Customer   string `db:"customer_ref,nullable"` // empty if not attributed, or if not reported
	// Click is the click that attributed the conversion; zero if no click did.
	Click affiliate.ClickID `db:"click_id,nullable"`
	// ClickDeleted says that this click was deleted, so that its values are unknown.
	ClickDeleted bool `db:"-"`
	// ParticipantErased says that the participant was erased, and AllErased that the buyer or
	// the whole workspace was erased. The values of ErasedDimensions must then not be kept.
	ParticipantErased bool `db:"-"`
	AllErased         bool `db:"-"`
	// FirstOfCustomer says that this is the first attributed conversion of its customer.
	FirstOfCustomer bool `db:"-"`
	// WithoutCustomer says that the conversion is attributed, and that its report did not name
	// the customer. It is false if the buyer was erased.
	WithoutCustomer bool

	Currency           string // of the sale; empty if the report has no amount
	AmountCents        int64
	RefundedCents      int64
	Commission         commission.Status `db:"commission_status"` // empty if there is no commission
	CommissionCents    int64
	CommissionCurrency string
}

// Figures returns the counts of the conversion.
func (c *Conversion) Figures() Figures {
	var f Figures
	plain := Counts{Conversions: 1}
	if c.EventType == affiliate.Signup || c.EventType == affiliate.Lead {
		plain[Signups] = 1
	}
	if c.FirstOfCustomer || c.WithoutCustomer {
		plain[NewCustomers] = 1
	}
	earned := false
	switch c.Commission {
	case commission.Paid:
		plain[Paid], plain[Approved], earned = 1, 1, true
	case commission.Approved:
		plain[Approved], earned = 1, true
	case commission.Pending:
		earned = true
	case commission.Rejected, commission.Refunded:
	}
	f.Add("", plain)
	if c.EventType.Priced() {
		f.Add(c.Currency, Counts{Orders: 1, RevenueCents: c.AmountCents, RefundedCents: c.RefundedCents})
	}
	if earned {
		f.Add(c.CommissionCurrency, Counts{CommissionCents: c.CommissionCents})
	}
	return f
}

// SetValues sets the values of the dimensions. The parameter click has the values of the click that
// attributed the conversion. It is nil without such a click, or if the click was deleted. A sub id
// of the conversion replaces the sub id of the click. The parameter promoCode is empty unless the
// promo code attributed the conversion, because a partner must not see the codes of other partners.
func (c *Conversion) SetValues(click *Values, subID, promoCode string) {
	c.Values = Values{}
	if click != nil {
		c.Values = *click
	}
	if subID != "" {
		c.Values[subIDIndex] = cut(subID)
	}
	c.Values[promoCodeIndex] = cut(promoCode)
	c.Values[eventTypeIndex] = string(c.EventType)
}

// KeepClickValues copies the values of a deleted click from counted, the stored copy of the
// conversion, except the values that an erasure has removed.
func (c *Conversion) KeepClickValues(counted *Conversion) {
	if !c.ClickDeleted || c.Click != counted.Click {
		return
	}
	var erased []Dimension
	if c.ParticipantErased || c.AllErased {
		erased = ErasedDimensions(c.AllErased)
	}
	for i, dimension := range clickDimensions {
		if c.Values[i] == "" && !slices.Contains(erased, dimension) { // c.Values[i] can be the sub id of the conversion
			c.Values[i] = counted.Values[i]
		}
	}
}

// AddConversion adds a conversion to the sums. The parameter sign is 1, or -1 to subtract it.
func (s Sums) AddConversion(c *Conversion, sign int64) {
	add := func(currency string, counts Counts) {
		if sign < 0 {
			counts = counts.Negated()
		}
		s.addAll(c.Owner, QuarterOf(c.OccurredAt), c.Values[:], currency, counts)
	}
	figures := c.Figures()
	add("", figures.Plain)
	for currency, counts := range figures.Amounts {
		add(currency, counts)
	}
}
