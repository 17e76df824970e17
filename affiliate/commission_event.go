package affiliate

import (
	"slices"
	"time"
)

// CommissionEvent is what the outbox keeps of a commission's change. before is
// nil for a commission that has just come into being.
func CommissionEvent(name EventName, now time.Time, before *Commission, after Commission) Event {
	var previous any
	if before != nil {
		previous = before.changes(after)
	}
	return NewEvent(after.Scope, name, now, after.payload(), previous)
}

// commissionPayload is the object of every commission.* event. Its keys, their
// order and their meaning are public.
type commissionPayload struct {
	ID                  CommissionID     `json:"id"`
	Program             ProgramID        `json:"program_id"`
	Status              CommissionStatus `json:"status"`
	AmountCents         int64            `json:"amount_cents"`          // earned now, in minor units of currency
	OriginalAmountCents int64            `json:"original_amount_cents"` // earned before any refund
	Currency            string           `json:"currency"`
	Conversion          ConversionID     `json:"conversion_id"`
	External            string           `json:"external_transaction_id"` // the merchant's id of the sale
	Participant         ParticipantID    `json:"participant_id"`
	HoldUntil           *string          `json:"hold_until"`     // end of the refund hold; null without one
	NeedsReview         bool             `json:"needs_review"`   // a person has to decide: nothing approves it by itself
	ReviewReasons       []string         `json:"review_reasons"` // why it needs review, in words such as fraud; empty when it does not
	Version             int              `json:"version"`
}

func (c Commission) payload() commissionPayload {
	p := commissionPayload{
		ID: c.ID, Program: c.Program, External: c.ExternalTransactionID, Status: c.Status, AmountCents: c.AmountCents, OriginalAmountCents: c.OriginalAmountCents,
		Currency: c.Currency, Conversion: c.Conversion, Participant: c.Participant, NeedsReview: c.NeedsReview,
		ReviewReasons: c.ReviewReasons, Version: c.Version,
	}
	if c.HoldUntil != nil {
		until := FormatTime(*c.HoldUntil)
		p.HoldUntil = &until
	}
	if p.ReviewReasons == nil {
		p.ReviewReasons = []string{}
	}
	return p
}

// commissionChanges are those of a commission's public fields that a move
// changed, as they were before it.
type commissionChanges struct {
	Status        *CommissionStatus `json:"status,omitempty"`
	AmountCents   *int64            `json:"amount_cents,omitempty"`
	NeedsReview   *bool             `json:"needs_review,omitempty"`
	ReviewReasons *[]string         `json:"review_reasons,omitempty"`
}

// changes are the public fields of c that after has otherwise; nil when there
// are none.
func (c Commission) changes(after Commission) any {
	var changed commissionChanges
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
		reasons := append([]string{}, c.ReviewReasons...) // none are an empty list, too
		changed.ReviewReasons = &reasons
	}
	if changed == (commissionChanges{}) {
		return nil
	}
	return changed
}
