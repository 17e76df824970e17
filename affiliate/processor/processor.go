// Package processor has the rules of connected payment processors: their events, their
// connections, and the sales and promo codes that they know.
package processor

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
)

// A payment processor, such as Stripe, charges the buyers of a merchant. After a merchant
// has connected an account of a processor, the processor reports sales, refunds and
// disputes by events. An event only says that something changed. The service reads the
// current state of the changed object, which is described by the types of this file, and
// applies it. The result therefore does not depend on the order and the number of the
// events.

// Facts is what a processor says about the object of an event.
type Facts struct {
	// Sales contains the sale of the event. If the sale has a customer, it also contains
	// the earlier sales of the customer, because the event of an earlier sale may arrive
	// later. The sales have the order in which they happened.
	Sales []Sale
	// Charge is the charge that was refunded or disputed; nil for other events.
	Charge *Charge
	// Ignored says why the event has no effect. It is empty if the event has an effect.
	Ignored Ignored
}

// Ignored is a code that says why an event of a processor was ignored, is parked or has failed.
type Ignored string

// The reasons for which an event is ignored because of its type or the state of its object.
const (
	// IgnoredType means that the service does not use events of this type.
	IgnoredType Ignored = "event_type"
	// IgnoredUnfinished means that the checkout is not complete or its payment has failed.
	IgnoredUnfinished Ignored = "not_completed"
	// IgnoredOutOfBand means that an invoice was paid outside of the processor, and the
	// connection does not include such payments.
	IgnoredOutOfBand Ignored = "paid_out_of_band"
	// IgnoredZeroAmount means that an invoice of 0 does not begin a subscription. An
	// example is a change of the plan that costs nothing now.
	IgnoredZeroAmount Ignored = "zero_amount"
	// IgnoredSetup means that a checkout only stores a payment method and names neither a
	// click nor a promotion code.
	IgnoredSetup Ignored = "no_sale"
	// IgnoredCurrency means that the currency is not an active currency of ISO 4217.
	IgnoredCurrency Ignored = "currency"
)

// Sale is a sale, or the start of a subscription, as the processor describes it.
type Sale struct {
	// ID is the external transaction id of the conversion: the id of the invoice, else of
	// the payment intent, else of the session.
	ID string
	// Binds means that the sale makes no conversion. It only binds the customer to the
	// participant. It is set for the checkout of a subscription, whose payments arrive as
	// invoices, and for a checkout whose payment is not complete yet.
	Binds bool
	// IDs has the processor's ids of the sale. Aliases are the ids that belong to this sale
	// only (session, payment intents, charge, invoice). They include ID.
	IDs     conversion.ProcessorIDs
	Aliases []string

	EventType affiliate.EventType // Purchase, Renewal or Trial
	// OccurredAt is when the checkout was started or the invoice was paid. It is the same
	// in every event about the sale.
	OccurredAt    time.Time
	Sale          attribution.Sale // in minor units of ISO 4217
	DiscountCents int64
	// FeeKnown is false if the fee was requested but the processor does not know it yet.
	// Sale.FeeCents is 0 then.
	FeeKnown bool
	// IsRecurring is true for payments of a subscription.
	IsRecurring bool
	// First is true for the invoice that begins a subscription. Its checkout may not be
	// visible yet.
	First bool

	// Click is the value of the metadata aff_click_id, and Reference is the merchant's
	// reference (client_reference_id). Both may contain anything.
	Click     string
	Reference string
	// PromotionCodes are the promotion codes that the buyer used.
	PromotionCodes []PromotionCode
	// CustomerEmail is the buyer's address; empty if unknown.
	CustomerEmail string
}

// IsPayment reports whether the buyer has paid an amount for the sale.
func (s Sale) IsPayment() bool { return !s.Binds && s.Sale.Cents > 0 }

// PromotionCode is a promotion code at the processor. Text is what buyers enter.
// It is empty if it is not known.
type PromotionCode struct {
	ID   string
	Text string
}

// Charge is a charge with its refunds and disputes.
type Charge struct {
	ID string
	// Aliases has all ids by which the sale of the charge may be known: the ids of the
	// charge, of its payment intent, of its invoices and of its session.
	Aliases  []string
	Currency string // ISO 4217
	// AmountCents is the amount of the charge in minor units of ISO 4217; 0 if unknown.
	AmountCents int64
	// RefundedCents is the sum of the refunds that are neither failed nor canceled, in minor
	// units of ISO 4217. It is nil if the event and the processor do not say it.
	RefundedCents *int64
	// Disputes has the disputes of the charge. A dispute that is missing is unchanged.
	Disputes []conversion.ProcessorDispute
	// HappenedAt is when the event that shows this state happened, as the processor says.
	HappenedAt time.Time
}

// Event is the envelope of an event of a processor.
type Event struct {
	ID   string
	Type string
	// Live is false for events of the processor's test mode.
	Live bool
	// Account is the connected account of a platform to which the event belongs. It is
	// empty for events of the merchant's own account.
	Account   string
	CreatedAt time.Time
}

// PromoCode has the ids of a promo code that exists at the processor.
type PromoCode struct {
	Coupon        string
	PromotionCode string
	// Terms is the result of promocode.PromoCode.ProcessorTerms when the promotion code was created.
	Terms string
}

// RecordedSale is the result of recording a sale of a processor.
type RecordedSale struct {
	// Conversion is the conversion of the sale; nil if the sale makes none.
	Conversion *affiliate.ConversionID
	// New is true if the conversion was recorded now.
	New bool
	// Reported is true if the merchant's server has reported the conversion.
	Reported bool
	// Erased is true if the data of the buyer was erased.
	Erased bool
	// Waits is true if the sale was not recorded, because it waits for its checkout.
	Waits bool
}
