package commission

import (
	"slices"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// NewEvent returns the event of a change of a commission. The parameter before is nil for a new commission.
func NewEvent(name affiliate.EventName, now time.Time, before *Commission, after Commission) affiliate.Event {
	var previous any
	if before != nil {
		previous = before.previousFields(after)
	}
	event := affiliate.NewEvent(after.Scope, name, now, after.payload(), previous)
	event.Partner = &after.Partner
	return event
}

// Object is the object of every commission.* event. Its keys, their
// order and their meaning are public.
type Object struct {
	ID                  affiliate.CommissionID  `json:"id"`
	Program             affiliate.ProgramID     `json:"program_id"`
	Status              Status                  `json:"status"`
	AmountCents         int64                   `json:"amount_cents"`          // earned now, in minor units of currency
	OriginalAmountCents int64                   `json:"original_amount_cents"` // earned before any refund
	Currency            string                  `json:"currency"`
	Conversion          affiliate.ConversionID  `json:"conversion_id"`
	External            string                  `json:"external_transaction_id"` // the merchant's id of the transaction
	Participant         affiliate.ParticipantID `json:"participant_id"`
	HoldUntil           *string                 `json:"hold_until"`     // end of the hold period; null if there is none
	NeedsReview         bool                    `json:"needs_review"`   // a person has to decide; the commission is not approved automatically
	ReviewReasons       []string                `json:"review_reasons"` // codes that say why a review is needed, for example fraud; empty if none is needed
	DisputeStatus       DisputeStatus           `json:"dispute_status"` // status of the dispute about the payment: none, open, won or lost
	Version             int                     `json:"version"`
}

func (c Commission) payload() Object {
	p := Object{
		ID: c.ID, Program: c.Program, External: c.ExternalTransactionID, Status: c.Status, AmountCents: c.AmountCents, OriginalAmountCents: c.OriginalAmountCents,
		Currency: c.Currency, Conversion: c.Conversion, Participant: c.Participant, NeedsReview: c.NeedsReview,
		ReviewReasons: c.ReviewReasons, DisputeStatus: c.Dispute, Version: c.Version,
	}
	if c.HoldUntil != nil {
		until := affiliate.FormatTime(*c.HoldUntil)
		p.HoldUntil = &until
	}
	if p.ReviewReasons == nil {
		p.ReviewReasons = []string{}
	}
	return p
}

// commissionPreviousFields holds the old values of the public fields that a move changed.
type commissionPreviousFields struct {
	Status        *Status        `json:"status,omitempty"`
	AmountCents   *int64         `json:"amount_cents,omitempty"`
	NeedsReview   *bool          `json:"needs_review,omitempty"`
	ReviewReasons *[]string      `json:"review_reasons,omitempty"`
	DisputeStatus *DisputeStatus `json:"dispute_status,omitempty"`
}

// previousFields returns the values in c of the public fields that differ in after; nil if no field differs.
func (c Commission) previousFields(after Commission) any {
	var changed commissionPreviousFields
	if c.Status != after.Status {
		changed.Status = &c.Status
	}
	if c.AmountCents != after.AmountCents {
		changed.AmountCents = &c.AmountCents
	}
	if c.NeedsReview != after.NeedsReview {
		changed.NeedsReview = &c.NeedsReview
	}
	if !slices.Equal(c.ReviewReasons, after.ReviewReasons) {
		reasons := append([]string{}, c.ReviewReasons...) // an empty list is encoded as [], not as null
		changed.ReviewReasons = &reasons
	}
	if c.Dispute != after.Dispute {
		changed.DisputeStatus = &c.Dispute
	}
	if changed == (commissionPreviousFields{}) {
		return nil
	}
	return changed
}

// Sale returns the conversion whose external id the object contains.
func (o Object) Sale() affiliate.ConversionID { return o.Conversion }

// Notice returns the facts for the notifications about the event.
func (o Object) Notice() affiliate.Notice {
	facts := map[string]string{"amount": affiliate.FormatMoney(affiliate.Money{Cents: o.AmountCents, Currency: o.Currency})}
	if o.AmountCents != o.OriginalAmountCents {
		facts["original"] = affiliate.FormatMoney(affiliate.Money{Cents: o.OriginalAmountCents, Currency: o.Currency})
	}
	if len(o.ReviewReasons) > 0 {
		facts["reasons"] = strings.Join(o.ReviewReasons, ", ")
	}
	return affiliate.Notice{Program: &o.Program, Participant: &o.Participant, Resource: o.ID.UUID, Facts: facts}
}
