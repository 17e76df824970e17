// Package conversion has the rules of conversions: how a report, a refund, a dispute, a late
// click and a reattribution change a conversion and its commission.
package conversion

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// A conversion is accepted if its event happened at most MaxConversionAge before the
// report was received, and at most MaxConversionLead after it.
const (
	MaxConversionAge  = 90 * 24 * time.Hour
	MaxConversionLead = 5 * time.Minute
)

// Source is how a conversion was reported.
type Source string

// SourceAPI is the conversion API.
const SourceAPI Source = "api"

// Status says whether a conversion was refunded or is disputed.
type Status string

// The statuses.
const (
	// Recorded means that nothing was refunded.
	Recorded          Status = "recorded"
	PartiallyRefunded Status = "partially_refunded"
	Refunded          Status = "refunded"
	// Disputed means that a dispute about the sale is open, even if a part was refunded.
	Disputed Status = "disputed"
)

// Conversion is one reported event of a buyer. Only keyed hashes of the buyer's data and the domain of
// the e-mail address are stored. The reported amounts, the event type and the time never change.
type Conversion struct {
	ID affiliate.ConversionID
	affiliate.Scope
	ExternalTransactionID string // unique per workspace and mode
	EventType             affiliate.EventType
	attribution.Sale
	DiscountCents       int64
	OccurredAt          time.Time
	CreatedAt           time.Time
	Source              Source
	Status              Status
	RefundedAmountCents int64              // the part of the paid amount that was refunded so far
	Click               *affiliate.ClickID `db:"click_id"` // as reported
	PromoCode           *string            // as reported, case-folded
	CustomerRef         *string            // keyed hash, hexadecimal
	CustomerLabel       *string            `db:"-"` // stored with the customer; nil in a report keeps the label
	CustomerEmailHash   []byte
	CustomerEmailDomain *string
	CustomerIPHash      []byte
	CustomerUAHash      []byte
	SubscriptionID      *string
	ProductIDs          []string               `db:"product_ids"`
	LineItems           []attribution.LineItem `db:"line_items,nullable"`
	IsRecurring         bool
	SubID               *string
	Metadata            []byte            // a JSON object; nil if the report had none
	Processor           *ProcessorIDs     // nil if no payment processor has reported the sale
	Version             int               // increases by one with every change
	Buyer               attribution.Buyer `db:"-"` // only set while a decision is made; never stored
}

// Customer is a merchant's customer, who occurs in a conversion.
type Customer struct {
	Ref       string // keyed hash of the merchant's id, hexadecimal
	Label     *string
	CreatedAt time.Time
}

// CustomerName returns the text under which lists show a customer: the merchant's label, or
// the first 8 characters of the reference. It is nil if there is no customer.
func CustomerName(ref, label *string) *string {
	if ref == nil || label != nil {
		return label
	}
	short := (*ref)[:min(8, len(*ref))]
	return &short
}

// FoldPromoCode returns the form in which promo codes are stored and compared.
func FoldPromoCode(code string) string { return strings.ToLower(code) }

// Event returns a webhook event about the conversion and its decision.
func (c Conversion) Event(name affiliate.EventName, d attribution.Decision, at time.Time) affiliate.Event {
	return affiliate.NewEvent(c.Scope, name, at, Object{
		ID:                    c.ID,
		Program:               d.Program,
		Participant:           d.Participant,
		EventType:             c.EventType,
		ExternalTransactionID: c.ExternalTransactionID,
		AmountCents:           c.Cents,
		Currency:              affiliate.Optional(c.Currency),
		Attributed:            d.Attributed,
		Attribution: attributionObject{
			Decision: d.ID, Method: d.Method, Reason: d.Reason, Explanation: d.Explanation,
			Click: c.Click, PromoCode: c.PromoCode,
			ClickedAt: affiliate.FormatOptionalTime(d.ClickedAt), ExpiresAt: affiliate.FormatOptionalTime(d.ExpiresAt),
		},
		RefundedAmountCents: c.RefundedAmountCents,
		OccurredAt:          affiliate.FormatTime(c.OccurredAt),
		CreatedAt:           affiliate.FormatTime(c.CreatedAt),
		Version:             c.Version,
	}, nil)
}

// RefundedEvent returns the event that c was refunded. before is the conversion before the refund.
func (c Conversion) RefundedEvent(before Conversion, d attribution.Decision, at time.Time) affiliate.Event {
	event := c.Event(affiliate.EventConversionRefunded, d, at)
	if before.RefundedAmountCents != c.RefundedAmountCents {
		event.Previous = struct {
			RefundedAmountCents int64 `json:"refunded_amount_cents"`
		}{before.RefundedAmountCents}
	}
	return event
}

// Object is the JSON object in the webhook events about a conversion, except fraud_detected.
type Object struct {
	ID                    affiliate.ConversionID   `json:"id"`
	Program               *affiliate.ProgramID     `json:"program_id"`     // null if the conversion is not credited to a participant
	Participant           *affiliate.ParticipantID `json:"participant_id"` // null if the conversion is not credited to a participant
	EventType             affiliate.EventType      `json:"event_type"`
	ExternalTransactionID string                   `json:"external_transaction_id"` // as the merchant reported it
	AmountCents           int64                    `json:"amount_cents"`            // amount paid, in minor units of currency
	Currency              *string                  `json:"currency"`                // ISO 4217; null if the event has no amount
	Attributed            bool                     `json:"attributed"`              // whether the conversion is credited to a participant, with or without a commission
	Attribution           attributionObject        `json:"attribution"`             // the decision in force
	RefundedAmountCents   int64                    `json:"refunded_amount_cents"`   // the part of amount_cents that was refunded so far
	OccurredAt            string                   `json:"occurred_at"`
	CreatedAt             string                   `json:"created_at"`
	Version               int                      `json:"version"`
}

type attributionObject struct {
	Decision    affiliate.DecisionID `json:"decision_id"`
	Method      *attribution.Method  `json:"method"`      // the signal that attributed the conversion; null if it is not attributed
	Reason      attribution.Reason   `json:"reason_code"` // code of the reason why the conversion was credited or not
	Explanation string               `json:"explanation"` // the reason in sentences, which may be shown to the partner
	Click       *affiliate.ClickID   `json:"click_id"`    // as reported
	PromoCode   *string              `json:"promo_code"`  // as reported, in lower case
	ClickedAt   *string              `json:"clicked_at"`  // time of the deciding click; null if no click decided
	ExpiresAt   *string              `json:"expires_at"`  // end of the attribution window of the deciding click; null if no click decided
}

// Sale returns the id of the conversion. The erasure of its buyer finds the webhook event by this id.
func (o FraudObject) Sale() affiliate.ConversionID { return o.ID }

// FraudDetectedEvent returns the webhook event for a suspected conversion.
func (c Conversion) FraudDetectedEvent(d attribution.Decision) affiliate.Event {
	return affiliate.NewEvent(c.Scope, affiliate.EventConversionFraudDetected, d.DecidedAt, FraudObject{
		ID: c.ID, FraudEvent: fraud.EventID(d.ID), Program: d.Program, Participant: d.Participant,
		ExternalTransactionID: c.ExternalTransactionID, Score: fraud.Score(d.Trace.Fraud), Signals: d.Trace.Fraud, Action: d.FraudAction, Version: c.Version,
	}, nil)
}

// FraudObject is the object of conversion.fraud_detected.
type FraudObject struct {
	ID                    affiliate.ConversionID   `json:"id"` // id of the conversion
	FraudEvent            fraud.EventID            `json:"fraud_event_id"`
	Program               *affiliate.ProgramID     `json:"program_id"`              // null if the conversion is not credited to a participant
	Participant           *affiliate.ParticipantID `json:"participant_id"`          // null if the conversion is not credited to a participant
	ExternalTransactionID string                   `json:"external_transaction_id"` // as the merchant reported it
	Score                 int                      `json:"score"`                   // sum of the scores of all signals, 0 to 100
	Signals               []fraud.Signal           `json:"signals"`                 // the rules that fired, highest score first
	Action                fraud.Action             `json:"action"`                  // observed: only recorded; flagged: the commission needs review; blocked: the conversion earns nothing
	Version               int                      `json:"version"`                 // version of the conversion
}

// Notice returns the facts for the notifications about the event.
func (o FraudObject) Notice() affiliate.Notice {
	rules := make([]string, len(o.Signals))
	for i, signal := range o.Signals {
		rules[i] = signal.Rule
	}
	return affiliate.Notice{Program: o.Program, Participant: o.Participant, Resource: o.ID.UUID, Facts: map[string]string{
		"score": strconv.Itoa(o.Score), "rules": strings.Join(rules, ", "),
	}}
}

// SourceStripe is the source of conversions that Stripe has reported.
const SourceStripe Source = "stripe"

// ProcessorIDs holds the ids that a processor uses for one sale. An id can be empty.
type ProcessorIDs struct {
	Name          ProcessorName `json:"name"`
	Session       string        `json:"session_id,omitempty"`
	PaymentIntent string        `json:"payment_intent_id,omitempty"`
	Charge        string        `json:"charge_id,omitempty"`
	Invoice       string        `json:"invoice_id,omitempty"`
	Subscription  string        `json:"subscription_id,omitempty"`
	Customer      string        `json:"customer_id,omitempty"`
}

// processorIDPattern matches the ids of the objects that stand for one sale at a processor:
// Stripe's checkout sessions, payment intents, invoices and charges.
var processorIDPattern = regexp.MustCompile(`^(cs|pi|in|ch|py)_[A-Za-z0-9_]+$`)

// IsProcessorID reports whether an external transaction id has the form of an id of a
// payment processor. The processor may report the same sale under this id.
func IsProcessorID(external string) bool { return processorIDPattern.MatchString(external) }

// Sale returns the id of the conversion. The erasure of its buyer finds the webhook event by this id.
func (o Object) Sale() affiliate.ConversionID { return o.ID }

// Notice returns the facts for the notifications about the event.
func (o Object) Notice() affiliate.Notice {
	facts := map[string]string{"event": string(o.EventType)}
	if o.EventType == affiliate.Custom {
		facts["event"] = "custom event"
	}
	if o.Currency != nil && o.AmountCents != 0 {
		facts["amount"] = affiliate.FormatMoney(affiliate.Money{Cents: o.AmountCents, Currency: *o.Currency})
		if o.RefundedAmountCents != 0 {
			facts["refunded"] = affiliate.FormatMoney(affiliate.Money{Cents: o.RefundedAmountCents, Currency: *o.Currency})
		}
	}
	return affiliate.Notice{Program: o.Program, Participant: o.Participant, Resource: o.ID.UUID, Facts: facts}
}

// ProcessorName is the name of a payment processor, in lower case.
type ProcessorName string

// Stripe is https://stripe.com.
const Stripe ProcessorName = "stripe"

// Title returns the name as people write it.
func (n ProcessorName) Title() string { return strings.ToUpper(string(n[:1])) + string(n[1:]) }

// Filter restricts a list of conversions. A conversion must match all fields
// that are set; a zero field matches every conversion.
type Filter struct {
	// Created is the period in which the conversion was recorded.
	Created               affiliate.Period
	Attributed            *bool
	EventType             affiliate.EventType
	ExternalTransactionID string // exact match
	Program               *affiliate.ProgramID
	Participant           *affiliate.ParticipantID
	Status                Status
	Flagged               *bool // as ReportOutcome.Flagged
	Link                  *affiliate.LinkID
	PromoCode             string // exact match, case-folded
	Partner               *affiliate.UserID
	CustomerRef           *string
}

// Item is a conversion with its outcome, as lists show it. Decision is the
// decision in force; only the fields that lists show are loaded.
type Item struct {
	Conversion Conversion
	Decision   attribution.Decision
	// ProgramName and PartnerName are the current names; nil if the conversion is not attributed.
	ProgramName *string
	PartnerName *string
	Commission  *commission.Commission // of the decision in force; nil if nothing is earned
	FraudScore  int                    // 0 to 100
}

// Detail is a conversion with its outcome and its refunds.
type Detail struct {
	Item
	Refunds []Refund // the applied refunds, oldest first
}

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
