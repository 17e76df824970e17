package attribution

import (
	"math/big"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Earner is the participant of a signal, with the settings of the participant's programme on
// which a decision depends.
type Earner struct {
	Program           affiliate.ProgramID `db:"program_id"`
	ProgramName       string
	ProgramStatus     program.Status
	Currency          string
	Model             program.AttributionModel
	Precedence        program.SignalPrecedence
	WindowDays        int
	Rule              RuleSnapshot            // Rule.Source is empty until a rate is chosen
	Participant       affiliate.ParticipantID `db:"participant_id"`
	Partner           affiliate.UserID        `db:"partner_id"`
	ParticipantStatus participant.Status
	ParticipantErased bool
	// PartnerEmail is only used by the fraud rules, which compare it with the buyer's address.
	PartnerEmail  string
	FraudPolicy   fraud.Policy // empty means off
	FraudSettings fraud.Settings
	// PriorTotals holds the earlier totals of the participant. They are 0 unless the rules have
	// tiers.
	PriorTotals PriorTotals
}

// FoundClick is a click of the workspace, in either mode, with its participant.
type FoundClick struct {
	Mode       affiliate.Mode
	ReceivedAt time.Time
	ExpiresAt  time.Time        // last instant of the window, inclusive
	Link       affiliate.LinkID `db:"link_id"`
	Earner
	ClickTraits
	// ClicksFromAddress is the number of clicks from the same IP address in the hour
	// before this click, including this click. Counting stops at the largest number
	// that the fraud rules need. 0 means that the clicks were not counted.
	ClicksFromAddress int `db:"-"`
}

// FoundPromoCode is a promo code of the workspace, in either mode, with its participant.
type FoundPromoCode struct {
	ID             affiliate.PromoCodeID
	Mode           affiliate.Mode
	Active         bool
	ExpiresAt      *time.Time // last instant, inclusive; nil if it never expires
	MaxRedemptions *int64     // nil means no limit
	Redemptions    int64
	Earner
}

// FoundCustomer holds the stored data about the customer that the report names.
type FoundCustomer struct {
	// Binding is nil until the first event of the customer is attributed.
	Binding *Binding
	// Payments has the number of the customer's attributed payments in each programme.
	Payments map[affiliate.ProgramID]CustomerPayments
}

// Binding ties a customer to the participant who brought the customer.
type Binding struct {
	BoundAt time.Time
	// SignalAt is when the click that bound the customer was received, or BoundAt without a
	// click. A click is later than the binding if it was received after SignalAt.
	SignalAt time.Time
	// WindowEndsAt is the last instant at which, under FirstClick, the binding outranks
	// a later click. It has no other effect: a binding never ends.
	WindowEndsAt time.Time
	Earner
}

// CustomerPayments is the number of a customer's payments in a programme, and the time of the first payment.
type CustomerPayments struct {
	Count   int
	FirstAt time.Time // when the first payment happened
}

// Inputs holds everything that a decision depends on.
type Inputs struct {
	Mode       affiliate.Mode
	EventType  affiliate.EventType
	OccurredAt time.Time
	Sale       Sale
	// Click is the reported click id, and FoundClick is the click with this id; nil for none.
	Click      *affiliate.ClickID
	FoundClick *FoundClick
	// PromoCode is the reported code, case-folded, nil if none was reported.
	// FoundPromoCode is the promo code with that text. It is nil if there is none.
	PromoCode      *string
	FoundPromoCode *FoundPromoCode
	// Customer is set if the report named the buyer.
	Customer *FoundCustomer
	// Assigned is set if a person assigns the conversion. Signals are not checked then.
	Assigned *Earner
	// IsRecurring, ProductIDs and LineItems have the reported values.
	IsRecurring bool
	ProductIDs  []string
	LineItems   []LineItem
	// FeeMissing means that the processor did not report its fee, so Sale.FeeCents is 0.
	FeeMissing bool
	// Rates holds exchange rates from the currency of the sale to the currencies of the
	// programmes to which the signals lead. The keys are the target currencies. A
	// currency has no entry if it is the currency of the sale, or if no rate is known.
	Rates map[string]FXRate
	// FraudFacts holds facts about the participants that FraudCandidates returns. It
	// does not hold facts that the signals themselves contain.
	FraudFacts map[affiliate.ParticipantID]fraud.Facts
}

// hasPrice reports whether the event has a price, so that a percentage of the price can
// be computed. A lead without an amount, or with an amount of 0, has no price. A purchase
// or renewal always has a price, which can be 0.
func (in Inputs) hasPrice() bool {
	return in.Sale.Currency != "" && (in.EventType.Priced() || in.Sale.Cents > 0)
}

// HasSignalOfOtherMode reports whether a signal has another mode than the conversion. The
// service rejects such a report. In a decision, the signal counts as unknown.
func (in Inputs) HasSignalOfOtherMode() bool {
	return in.FoundClick != nil && in.FoundClick.Mode != in.Mode ||
		in.FoundPromoCode != nil && in.FoundPromoCode.Mode != in.Mode
}

// HasNoSignal reports whether the inputs have neither a click nor a promo code nor the binding
// of a customer. The conversion API rejects such a report.
func (in Inputs) HasNoSignal() bool {
	return in.Click == nil && in.PromoCode == nil && in.binding() == nil
}

// Buyer holds data about the buyer for one decision. A conversion stores only hashes of this data.
type Buyer struct {
	// OwnsEmail reports whether an e-mail address belongs to the buyer's mailbox. It
	// is nil if the buyer's e-mail address is unknown.
	OwnsEmail func(email string) bool
	// IPPrefix is the /24 or /48 of the buyer's IP address; empty if unknown.
	IPPrefix string
	// EarlierEmailHashes holds hashes of the buyer's e-mail address under the older hash keys (all
	// but the first). Earlier conversions can have one of these hashes.
	EarlierEmailHashes [][]byte
	// EmailDigests are the digests of the buyer's e-mail address that are compared with former
	// addresses of partners (FormerEmailDigests). They are nil if the address is unknown. They
	// are also nil for a stored conversion, which has other hashes of the address.
	EmailDigests affiliate.Digests
	// AgentHashes holds hashes of the buyer's user agent (see AgentHash) of this month and of the
	// previous one, because the key changes every month.
	AgentHashes [][]byte
}

// ClickTraits holds the properties of a click that the fraud rules use. The keys of the hashes change every month.
type ClickTraits struct {
	IPHash   []byte
	IPPrefix string `db:"ip_prefix,nullable"`
	UAHash   []byte
	Bot      bool `db:"is_bot"`
	// Country is an ISO 3166-1 alpha-2 code; empty if unknown.
	Country string `db:"country,nullable"`
	// PaidPlatform is the ad platform of the click (see click.Click).
	PaidPlatform string `db:"paid_platform,nullable"`
	Referrer     string `db:"referrer_domain,nullable"` // domain
	click.UTM
}

// FXRate is the amount of Quote that one unit of Base is worth on a day, in major units.
type FXRate struct {
	Base, Quote string    // ISO 4217
	Date        time.Time // 00:00 UTC
	Rate        string    // decimal, positive
}

// Convert converts an amount from minor units of Base to minor units of Quote. The amount may
// be a fraction of a minor unit. Convert rounds only the result, half away from zero. ok is
// false if Rate is not a positive decimal number or if the result does not fit into 64 bits.
func (r FXRate) Convert(amount *big.Rat) (cents int64, ok bool) {
	rate, ok := r.ratio()
	if !ok {
		return 0, false
	}
	exact := new(big.Rat).Mul(amount, rate)
	scale := big.NewInt(1)
	shift := affiliate.CurrencyExponent(r.Quote) - affiliate.CurrencyExponent(r.Base)
	scale.Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil)
	if shift >= 0 {
		exact.Mul(exact, new(big.Rat).SetInt(scale))
	} else {
		exact.Quo(exact, new(big.Rat).SetInt(scale))
	}
	return roundRat(exact)
}

func (r FXRate) ratio() (rate *big.Rat, ok bool) {
	rate, ok = new(big.Rat).SetString(r.Rate)
	return rate, ok && rate.Sign() > 0
}

// RuleSnapshot is a copy of the rules that produced a commission. It never changes.
type RuleSnapshot struct {
	Version int           `json:"version"`
	Rules   program.Rules `json:"rules"`
	// Override is the participant's own rate, and Group is the rate of the participant's group; nil for none.
	Override *program.Rate `json:"override,omitempty"`
	Group    *GroupRate    `json:"group,omitempty"`
	// Source says which setting the rate comes from.
	Source RateSource `json:"source,omitempty"`
}

// GroupRate is a group and its rate, as stored in a snapshot.
type GroupRate struct {
	ID   affiliate.GroupID `json:"id"`
	Name string            `json:"name"`
	program.Rate
}

// PriorTotals holds the number of a participant's earlier conversions and their revenue
// in the programme's currency. Conversions that were refunded in full do not count.
type PriorTotals struct {
	Conversions  int64 `json:"conversions"`
	RevenueCents int64 `json:"revenue_cents"`
}

// RateSource is the setting that a commission's rate comes from.
type RateSource string

// The sources, the most specific first. FromEvent, FromLaterPayments and FromProgram are the
// programme's rates for the event type, for payments after a customer's first, and in general.
const (
	FromParticipant   RateSource = "participant"
	FromProduct       RateSource = "product"
	FromGroup         RateSource = "group"
	FromTier          RateSource = "tier"
	FromEvent         RateSource = "event"
	FromLaterPayments RateSource = "later"
	FromProgram       RateSource = "program"
	// FromMixed means that the lines of one order have rates of different sources.
	FromMixed RateSource = "mixed"
)

// LineItem is one line of an order.
type LineItem struct {
	ProductID   string `json:"product_id"`
	Quantity    int64  `json:"quantity"`
	AmountCents int64  `json:"amount_cents"` // of the whole line
}

// Sale holds the amounts of a conversion: the paid amount, and the tax, shipping and fee that it contains.
type Sale struct {
	affiliate.Money
	TaxCents      int64
	ShippingCents int64
	FeeCents      int64
}

// BaseCents returns the amount after the deductions of the given basis. It is 0 if the
// deductions exceed the amount, which is not an error.
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
