package affiliate

import (
	"strings"
	"time"
)

// EventType is what a conversion reports.
type EventType string

// The event types (DECISIONS.md section 3). Purchase and Renewal carry an amount.
const (
	Purchase EventType = "purchase"
	Renewal  EventType = "renewal"
	Signup   EventType = "signup"
	Lead     EventType = "lead"
	Trial    EventType = "trial"
	Custom   EventType = "custom"
)

// Priced reports whether the event must carry an amount.
func (e EventType) Priced() bool { return e == Purchase || e == Renewal }

// Bounds of when a conversion may have happened, seen from its receipt.
const (
	MaxConversionAge  = 90 * 24 * time.Hour
	MaxConversionLead = 5 * time.Minute
)

// ConversionSource is where a conversion was reported.
type ConversionSource string

// SourceAPI is the conversion API.
const SourceAPI ConversionSource = "api"

// ConversionStatus is what became of the sale.
type ConversionStatus string

// The statuses.
const (
	// ConversionRecorded is a sale to which nothing has happened since.
	ConversionRecorded          ConversionStatus = "recorded"
	ConversionPartiallyRefunded ConversionStatus = "partially_refunded"
	ConversionRefunded          ConversionStatus = "refunded"
)

// Conversion is one reported event of a buyer. Of the buyer only keyed hashes
// are kept; amounts, event and times never change.
type Conversion struct {
	ID                    ConversionID
	Scope                 Scope
	ExternalTransactionID string // unique per workspace and mode
	EventType             EventType
	Sale                  Sale
	DiscountCents         int64
	OccurredAt            time.Time
	CreatedAt             time.Time
	Source                ConversionSource
	Status                ConversionStatus
	RefundedAmountCents   int64    // of Sale.Paid, by all refunds together
	Click                 *ClickID // as reported
	PromoCode             *string  // as reported, case-folded
	CustomerRef           *string  // keyed hash, hexadecimal
	CustomerEmailHash     []byte
	CustomerEmailDomain   *string
	CustomerIPHash        []byte
	CustomerUAHash        []byte
	SubscriptionID        *string
	ProductIDs            []string
	LineItems             []LineItem
	IsRecurring           bool
	SubID                 *string
	Metadata              []byte // a JSON object; nil when none was given
	Version               int    // one more with every change
	Buyer                 Buyer  // known while a decision is made, never stored
}

// LineItem is one line of an order.
type LineItem struct {
	ProductID   string `json:"product_id"`
	Quantity    int64  `json:"quantity"`
	AmountCents int64  `json:"amount_cents"` // of the whole line
}

// FoldPromoCode is the form in which promo codes are stored and compared.
func FoldPromoCode(code string) string { return strings.ToLower(code) }

// FoldEmail is the form in which addresses of buyers and partners are compared:
// lower case, without what follows a plus sign, and without dots where the
// provider ignores them. ok is false when s is no address.
func FoldEmail(s string) (local, domain string, ok bool) {
	at := strings.LastIndexByte(s, '@')
	if at <= 0 || at == len(s)-1 {
		return "", "", false
	}
	local, domain = strings.ToLower(s[:at]), strings.ToLower(s[at+1:])
	if plus := strings.IndexByte(local, '+'); plus > 0 {
		local = local[:plus]
	}
	if domain == "googlemail.com" {
		domain = "gmail.com"
	}
	if domain == "gmail.com" {
		local = strings.ReplaceAll(local, ".", "")
	}
	return local, domain, true
}

// Event tells the world about the conversion and its decision.
func (c Conversion) Event(name EventName, d Decision, at time.Time) Event {
	return NewEvent(c.Scope, name, at, conversionObject{
		ID:                    c.ID,
		Program:               d.Program,
		Participant:           d.Participant,
		EventType:             c.EventType,
		ExternalTransactionID: c.ExternalTransactionID,
		AmountCents:           c.Sale.Paid.Cents,
		Currency:              optional(c.Sale.Paid.Currency),
		Attributed:            d.Attributed,
		Attribution: attributionObject{
			Decision: d.ID, Method: d.Method, Reason: d.Reason, Explanation: d.Explanation,
			Click: c.Click, PromoCode: c.PromoCode,
			ClickedAt: optionalTime(d.ClickedAt), ExpiresAt: optionalTime(d.ExpiresAt),
		},
		RefundedAmountCents: c.RefundedAmountCents,
		OccurredAt:          FormatTime(c.OccurredAt),
		CreatedAt:           FormatTime(c.CreatedAt),
		Version:             c.Version,
	}, nil)
}

// RefundedEvent tells the world that the sale was refunded, after it was as
// before says.
func (c Conversion) RefundedEvent(before Conversion, d Decision, at time.Time) Event {
	event := c.Event(EventConversionRefunded, d, at)
	if before.RefundedAmountCents != c.RefundedAmountCents {
		event.Previous = struct {
			RefundedAmountCents int64 `json:"refunded_amount_cents"`
		}{before.RefundedAmountCents}
	}
	return event
}

type conversionObject struct {
	ID                    ConversionID      `json:"id"`
	Program               *ProgramID        `json:"program_id"`     // null when it is credited to nobody
	Participant           *ParticipantID    `json:"participant_id"` // null when it is credited to nobody
	EventType             EventType         `json:"event_type"`
	ExternalTransactionID string            `json:"external_transaction_id"` // as the merchant reported it
	AmountCents           int64             `json:"amount_cents"`            // paid, in minor units of currency
	Currency              *string           `json:"currency"`                // ISO 4217; null when the event carries no amount
	Attributed            bool              `json:"attributed"`              // whether it is credited to a participant, whether or not that earns
	Attribution           attributionObject `json:"attribution"`             // the decision in force
	RefundedAmountCents   int64             `json:"refunded_amount_cents"`   // of amount_cents, by all refunds together
	OccurredAt            string            `json:"occurred_at"`
	CreatedAt             string            `json:"created_at"`
	Version               int               `json:"version"`
}

type attributionObject struct {
	Decision    DecisionID        `json:"decision_id"`
	Method      *Method           `json:"method"`      // the signal that decided; null when none did
	Reason      AttributionReason `json:"reason_code"` // the one word for why it was credited, or was not
	Explanation string            `json:"explanation"` // the same in sentences, which a partner may read
	Click       *ClickID          `json:"click_id"`    // as reported
	PromoCode   *string           `json:"promo_code"`  // as reported, in lower case
	ClickedAt   *string           `json:"clicked_at"`  // of the click that decided; null without one
	ExpiresAt   *string           `json:"expires_at"`  // end of its attribution window; null without one
}

func optionalTime(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := FormatTime(*t)
	return &s
}
