package conversion

import (
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// RefundID identifies a refund.
type RefundID = affiliate.ID[Refund]

// ParkedRefundLifetime is how long a refund waits for its conversion.
const ParkedRefundLifetime = 90 * 24 * time.Hour

// Refund is money that a merchant gave back to a buyer. If its conversion is not known, the refund is parked
// and applied when the conversion is recorded. The amount of a refund is fixed when the refund is applied.
type Refund struct {
	ID RefundID
	affiliate.Scope
	ExternalRefundID      string                  // unique per workspace and mode
	ExternalTransactionID string                  // of the conversion
	Conversion            *affiliate.ConversionID `db:"conversion_id"` // nil while parked
	RequestedCents        *int64                  `db:"asked_cents"`   // requested amount in minor units of the sale's currency; nil means the whole remaining amount
	AmountCents           *int64                  // refunded amount; nil while parked
	Reason                *string
	CreatedAt             time.Time
	AppliedAt             *time.Time // nil while parked
	ExpiresAt             time.Time  // when a parked refund expires
}

// AuditLine returns the audit log entry for a refund that a member reported, without the
// merchant's ids and texts, which can contain data of the buyer.
func (r Refund) AuditLine(by affiliate.Actor) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: r.Workspace, Mode: &r.Mode, Actor: by, At: r.CreatedAt,
		Action: "conversion.refund", ResourceType: "refund", ResourceID: r.ID,
		After: refundAuditFields{Conversion: r.Conversion, AmountCents: r.AmountCents},
	}
}

// refundAuditFields holds the fields of a refund that the audit log shows. Both are null while
// the refund is parked.
type refundAuditFields struct {
	Conversion  *affiliate.ConversionID `json:"conversion_id"`
	AmountCents *int64                  `json:"amount_cents"`
}

// ParkedSale identifies a transaction with parked refunds, which is not recorded yet.
type ParkedSale struct {
	affiliate.Scope
	ExternalTransactionID string
}

// Refunds are refunds that one transaction applies to a conversion, and their effect. The
// commission depends on the total of all refunds, so its change is not part of the effect.
type Refunds struct {
	Conversion Conversion           // after the refunds in Applied
	Decision   attribution.Decision // the decision in force
	At         time.Time

	Applied []Refund
	Deltas  []analytics.StatsDelta
	Events  []affiliate.Event
}

// Apply applies a new refund. Errors: REFUND_EXCEEDS_AMOUNT if too little is left.
func (r *Refunds) Apply(refund Refund) error {
	after, cents, refusal := r.Conversion.Refund(refund.RequestedCents)
	if refusal != nil {
		return refusal
	}
	r.add(refund, after, cents)
	return nil
}

// ApplyParked applies parked refunds, each at most up to the remaining amount.
func (r *Refunds) ApplyParked(parked ...Refund) {
	for _, refund := range parked {
		after, cents := r.Conversion.RefundParked(refund.RequestedCents)
		r.add(refund, after, cents)
	}
}

// add adds an applied refund. The refunded revenue is subtracted from the stats at the time of
// the refund. The number of conversions in the stats does not change.
func (r *Refunds) add(refund Refund, after Conversion, cents int64) {
	before := r.Conversion
	r.Conversion = after
	refund.Conversion, refund.AmountCents, refund.AppliedAt = &after.ID, &cents, &r.At
	r.Applied = append(r.Applied, refund)
	if after.Version == before.Version {
		return
	}
	r.Events = append(r.Events, after.RefundedEvent(before, r.Decision, r.At))
	if d := r.Decision; d.Attributed && after.EventType.Priced() && cents > 0 {
		r.Deltas = append(r.Deltas, analytics.StatsDelta{
			Scope: after.Scope, Program: *d.Program, Participant: *d.Participant, Link: d.Link, At: r.At,
			Currency: after.Currency, RevenueCents: -cents,
		})
	}
}

// Refundable returns the amount that is not refunded yet, in minor units of the currency.
func (c Conversion) Refundable() int64 { return c.Cents - c.RefundedAmountCents }

// Refund applies a refund of the requested amount, or of the whole remaining amount if
// requested is nil. The result refunded is the refunded amount. An event without an amount can
// be refunded once, with amount 0. Errors: REFUND_EXCEEDS_AMOUNT if the requested amount is
// greater than the remaining amount, or if everything has already been refunded.
func (c Conversion) Refund(requested *int64) (after Conversion, refunded int64, refusal *affiliate.Error) {
	refunded = c.Refundable()
	if c.Status == Refunded || requested != nil && *requested > refunded {
		return c, 0, &affiliate.Error{
			Reason:   affiliate.ReasonRefundExceedsAmount,
			Metadata: map[string]string{affiliate.RefundableCents: strconv.FormatInt(refunded, 10)},
		}
	}
	if requested != nil {
		refunded = *requested
	}
	c.RefundedAmountCents += refunded
	c.Status = c.statusAfterRefund(c.Status == Disputed)
	c.Version++
	return c, refunded, nil
}

// statusAfterRefund returns the status after a refund. The parameter disputed says that a
// dispute is open.
func (c Conversion) statusAfterRefund(disputed bool) Status {
	switch {
	case c.Refundable() == 0:
		return Refunded
	case disputed:
		return Disputed
	default:
		return PartiallyRefunded
	}
}

// RefundParked applies a parked refund. When it was accepted, the conversion was not known, so
// an amount that was too high could not be rejected. If the amount is too high, the remaining
// amount is refunded, which can be 0.
func (c Conversion) RefundParked(requested *int64) (after Conversion, refunded int64) {
	if requested != nil && *requested > c.Refundable() {
		requested = nil
	}
	after, refunded, _ = c.Refund(requested)
	return after, refunded
}

// Refunded reports whether the sale was refunded, in full or in part.
func (c Conversion) Refunded() bool {
	return c.Status == Refunded || c.RefundedAmountCents > 0
}

// SaleRefunds returns the facts about the refunds of the sale from which a commission is adjusted.
func (c Conversion) SaleRefunds() commission.SaleRefunds {
	return commission.SaleRefunds{PaidCents: c.Cents, LeftCents: c.Refundable(), Complete: c.Status == Refunded}
}
