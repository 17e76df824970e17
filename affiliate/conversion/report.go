package conversion

import (
	"encoding/json"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// ReportOutcome is the response to a report. It is stored under the Idempotency-Key of
// the report, so that a repeated report gets the same response, even if the conversion
// has changed since then. Stored outcomes are kept for IdempotencyTTL, so a new version
// of the service must be able to read the field names of the previous one.
type ReportOutcome struct {
	Conversion  ReportedConversion  `json:"conversion"`
	Attribution ReportedAttribution `json:"attribution"`
	Commission  *ReportedCommission `json:"commission"` // nil if nothing is earned
	// Flagged reports whether the fraud rules flagged or blocked the conversion.
	Flagged bool           `json:"flagged"`
	Fraud   []fraud.Signal `json:"fraud"`
}

// ReportedConversion is the conversion in a ReportOutcome.
type ReportedConversion struct {
	ID                    affiliate.ConversionID `json:"id"`
	EventType             affiliate.EventType    `json:"event_type"`
	ExternalTransactionID string                 `json:"external_transaction_id"`
	AmountCents           int64                  `json:"amount_cents"`
	Currency              string                 `json:"currency"` // empty without an amount
	Mode                  affiliate.Mode         `json:"mode"`
	OccurredAt            time.Time              `json:"occurred_at"`
	CreatedAt             time.Time              `json:"created_at"`
	Click                 *affiliate.ClickID     `json:"click"`
	PromoCode             *string                `json:"promo_code"`
}

// ReportedAttribution is the decision in a ReportOutcome.
type ReportedAttribution struct {
	Decision    affiliate.DecisionID     `json:"decision"`
	Attributed  bool                     `json:"attributed"`
	Method      *attribution.Method      `json:"method"`
	Reason      attribution.Reason       `json:"reason"`
	Explanation string                   `json:"explanation"`
	Program     *affiliate.ProgramID     `json:"program"`
	Participant *affiliate.ParticipantID `json:"participant"`
	ClickedAt   *time.Time               `json:"clicked_at"`
	ExpiresAt   *time.Time               `json:"expires_at"`
}

// ReportedCommission is the commission in a ReportOutcome.
type ReportedCommission struct {
	ID          affiliate.CommissionID `json:"id"`
	Status      commission.Status      `json:"status"`
	AmountCents int64                  `json:"amount_cents"`
	Currency    string                 `json:"currency"`
	HoldUntil   *time.Time             `json:"hold_until"`
	NeedsReview bool                   `json:"needs_review"`
}

// OutcomeOf returns the outcome of a report. commission is nil if nothing is earned.
func OutcomeOf(c Conversion, d attribution.Decision, commission *commission.Commission) ReportOutcome {
	o := ReportOutcome{
		Conversion: ReportedConversion{
			ID: c.ID, EventType: c.EventType, ExternalTransactionID: c.ExternalTransactionID,
			AmountCents: c.Cents, Currency: c.Currency, Mode: c.Mode,
			OccurredAt: c.OccurredAt, CreatedAt: c.CreatedAt, Click: c.Click, PromoCode: c.PromoCode,
		},
		Attribution: ReportedAttribution{
			Decision: d.ID, Attributed: d.Attributed, Method: d.Method, Reason: d.Reason, Explanation: d.Explanation,
			Program: d.Program, Participant: d.Participant, ClickedAt: d.ClickedAt, ExpiresAt: d.ExpiresAt,
		},
		Flagged: d.FraudAction == fraud.Flagged || d.FraudAction == fraud.Blocked,
		Fraud:   d.Trace.Fraud,
	}
	if commission != nil {
		o.Commission = &ReportedCommission{
			ID: commission.ID, Status: commission.Status, AmountCents: commission.AmountCents, Currency: commission.Currency,
			HoldUntil: commission.HoldUntil, NeedsReview: commission.NeedsReview,
		}
	}
	return o
}

// Encode returns the outcome in the form in which it is stored: a JSON object.
func (o ReportOutcome) Encode() ([]byte, error) { return json.Marshal(o) }

// DecodeReportOutcome parses the result of Encode.
func DecodeReportOutcome(stored []byte) (ReportOutcome, error) {
	var o ReportOutcome
	err := json.Unmarshal(stored, &o)
	return o, err
}
