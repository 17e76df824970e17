package affiliate

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// Attribution decides to whom a conversion belongs and what it earns.
//
//	 signals, in precedence order      each signal is judged alone; its first
//	                                   failing check is why it is rejected
//	┌────────────┐
//	│ click      │──▶ known ─▶ not after the event ─▶ inside its window ─┐
//	├────────────┤                                                       │
//	│ promo code │──▶ known ─▶ active, not ended, not used up ───────────┼──▶ programme active ─▶ participant not erased ─▶ eligible
//	├────────────┤                                                       │
//	│ customer   │──▶ bound by an earlier event ─────────────────────────┘
//	└────────────┘
//	                 the first eligible signal wins, the others are outranked;
//	                 none: not attributed, for the reason of the reported signal
//	                 that stands first
//
//	┌────────────┐
//	│ by hand    │──▶ participant not erased ─▶ wins; no signal is looked at
//	└────────────┘
//
//	winner ─▶ attributed ─▶ participant approved ─▶ rules pay for the event ─▶ order large enough ─▶ within recurring bounds ─▶ not blocked as fraud ─▶ rate ─▶ calculation ─▶ commission
//	                                │                         │                       │                       │                        │
//	                                └────────── no ───────────┴───────────────────────┴───────────────────────┴────────────────────────┴──▶ attributed, nothing earned
//
// What fraud rules find is judged by the policy of the winner's programme; short
// of blocking it makes a commission that needs review, or only a note. What a
// person decides by hand they do not judge.
//
// The order of the signals is that of the programme to which the first
// resolvable one leads, see order. Under FirstClick a live binding stands
// directly before a click that came after it.
//
// It is a pure function of what was found: the same inputs give the same
// decision at any time, so a decision can be repeated, explained and simulated.
// It sees the facts as they were when they were read; a participant who is
// suspended in that instant may still earn.

// EngineVersion changes whenever the same inputs could give another decision.
const EngineVersion = "3"

// ClickAfterConversionSlack is how much later than the event a click may have
// been received: clocks differ, and a click from a journal is stamped by its edge.
const ClickAfterConversionSlack = 5 * time.Minute

// Method is the kind of signal that attributed a conversion.
type Method string

// The signals.
const (
	ByClick     Method = "click"
	ByPromoCode Method = "promo_code"
	// ByCustomer: an earlier event bound the customer.
	ByCustomer Method = "customer"
	// ByHand: a person gave the conversion to the participant.
	ByHand Method = "manual"
)

// AttributionReason is the one word for why a conversion was, or was not,
// attributed and paid (DECISIONS.md section 3).
type AttributionReason string

// Attributed, and it earns.
const (
	WhyClickMatched     AttributionReason = "CLICK_MATCHED"
	WhyPromoCodeMatched AttributionReason = "PROMO_CODE_MATCHED"
	WhyCustomerBound    AttributionReason = "CUSTOMER_BOUND"
	WhyReassigned       AttributionReason = "MANUALLY_REASSIGNED"
)

// Attributed, but nothing is earned.
const (
	WhyParticipantNotApproved AttributionReason = "PARTICIPANT_NOT_APPROVED"
	WhyRuleNotApplicable      AttributionReason = "RULE_NOT_APPLICABLE"
	WhyRecurringLimitReached  AttributionReason = "RECURRING_LIMIT_REACHED"
	// The partner bought from themselves, or fraud rules fired otherwise, under a
	// policy that blocks.
	WhySelfReferralBlocked AttributionReason = "SELF_REFERRAL_BLOCKED"
	WhyFraudBlocked        AttributionReason = "FRAUD_BLOCKED"
)

// Not attributed.
const (
	WhyClickUnknown         AttributionReason = "CLICK_UNKNOWN"
	WhyClickExpired         AttributionReason = "CLICK_EXPIRED"
	WhyClickAfterConversion AttributionReason = "CLICK_AFTER_CONVERSION"
	WhyPromoCodeUnknown     AttributionReason = "PROMO_CODE_UNKNOWN"
	WhyPromoCodeInactive    AttributionReason = "PROMO_CODE_INACTIVE"
	WhyProgramInactive      AttributionReason = "PROGRAM_INACTIVE"
	WhyParticipantErased    AttributionReason = "PARTICIPANT_ERASED"
)

// whyOutranked is why an eligible signal is a losing candidate; it is never the
// reason of a decision.
const whyOutranked AttributionReason = "OUTRANKED"

// Earner is the participation that a signal leads to, and what its programme
// says about earning.
type Earner struct {
	Program           ProgramID
	ProgramName       string
	ProgramStatus     ProgramStatus
	Currency          string
	Model             AttributionModel
	Precedence        SignalPrecedence
	WindowDays        int
	Rule              RuleSnapshot // its Source is still empty
	Participant       ParticipantID
	Partner           UserID
	ParticipantStatus ParticipantStatus
	ParticipantErased bool
	// PartnerEmail is what fraud rules compare the buyer's with; it goes nowhere else.
	PartnerEmail  string
	FraudPolicy   FraudPolicy // empty: off
	FraudSettings FraudSettings
	// Brought is what the participant had brought before this conversion. It is
	// read only for rules with tiers.
	Brought Brought
}

// Brought is what a participant has brought to a programme: conversions that
// were not refunded in full, and their revenue in the programme's currency.
type Brought struct {
	Conversions  int64 `json:"conversions"`
	RevenueCents int64 `json:"revenue_cents"`
}

// FoundClick is a click of the workspace, in either mode, with its earner.
type FoundClick struct {
	Mode       Mode
	ReceivedAt time.Time
	ExpiresAt  time.Time // last instant of the window, inclusive
	Link       LinkID
	Earner     Earner
	Traits     ClickTraits
	// FromAddress are the clicks from its address within the hour before it, itself
	// included, counted no further than fraud rules need; 0: not counted.
	FromAddress int
}

// FoundPromoCode is a promo code of the workspace, in either mode, with its
// earner.
type FoundPromoCode struct {
	ID             PromoCodeID
	Mode           Mode
	Active         bool
	ExpiresAt      *time.Time // last instant, inclusive; nil: no end
	MaxRedemptions *int64     // nil: no limit
	Redemptions    int64
	Earner         Earner
}

// FoundCustomer is what is known of the buyer whom the merchant named.
type FoundCustomer struct {
	// Binding is nil until an event of the customer was attributed.
	Binding *Binding
	// Payments are those that were attributed so far, by programme.
	Payments map[ProgramID]CustomerPayments
}

// Binding ties a customer to the participant who brought it.
type Binding struct {
	BoundAt time.Time
	// SignalAt is when the click came that bound, or else BoundAt: a click is later
	// than the binding when it came after that.
	SignalAt time.Time
	// WindowEndsAt is the last instant in which, under FirstClick, the binding
	// beats a later click. It never ends otherwise.
	WindowEndsAt time.Time
	Earner       Earner
}

// CustomerPayments counts a customer's payments in a programme.
type CustomerPayments struct {
	Count   int
	FirstAt time.Time // when the first of them happened
}

// AttributionInputs is all that a decision depends on.
type AttributionInputs struct {
	Mode       Mode
	EventType  EventType
	OccurredAt time.Time
	Sale       Sale
	// Click is the click id that was reported, FoundClick what it is; nil when no
	// id was reported, or no such click is known.
	Click      *ClickID
	FoundClick *FoundClick
	// PromoCode is the code that was reported, case-folded, FoundPromoCode what it
	// is; nil when there is none.
	PromoCode      *string
	FoundPromoCode *FoundPromoCode
	// Customer is set when the buyer was named.
	Customer *FoundCustomer
	// Assigned is set when a person gives the conversion to a participant; the
	// signals are not looked at then.
	Assigned *Earner
	// IsRecurring, ProductIDs and LineItems are as reported.
	IsRecurring bool
	ProductIDs  []string
	LineItems   []LineItem
	// Rates are from the sale's currency to that of a candidate's programme, keyed
	// by the programme's; there is none where the two are the same, or none is known.
	Rates map[string]FXRate
	// FraudFacts are what was learned about those who may earn (MayEarn); what the
	// signals themselves say is not among it.
	FraudFacts map[ParticipantID]fraud.Facts
}

// priced reports whether there is a price that a percentage could be taken of. A
// lead of 0.00 has none, like a lead without an amount; a free order has one.
func (in AttributionInputs) priced() bool {
	return in.Sale.Paid.Currency != "" && (in.EventType.Priced() || in.Sale.Paid.Cents > 0)
}

// OtherMode reports whether a signal resolves in the mode that the conversion
// does not belong to. A report like that is refused; where refusing is too late
// the signal counts as unknown.
func (in AttributionInputs) OtherMode() bool {
	return in.FoundClick != nil && in.FoundClick.Mode != in.Mode ||
		in.FoundPromoCode != nil && in.FoundPromoCode.Mode != in.Mode
}

// Decision is the outcome of an attribution. Decisions are never changed: a
// later one supersedes. Its JSON is what the audit endpoints show.
type Decision struct {
	ID            DecisionID        `json:"decision_id"`
	Conversion    ConversionID      `json:"conversion_id"`
	Attributed    bool              `json:"attributed"`
	Method        *Method           `json:"method"` // nil when not attributed
	Reason        AttributionReason `json:"reason_code"`
	Explanation   string            `json:"explanation"`
	EngineVersion string            `json:"engine_version"`
	DecidedAt     time.Time         `json:"decided_at"`
	Supersedes    *DecisionID       `json:"supersedes"`

	// Program and Participant are set when attributed; Click and PromoCode when
	// they are what attributed it.
	Program     *ProgramID     `json:"-"`
	Participant *ParticipantID `json:"-"`
	Click       *ClickID       `json:"-"`
	PromoCode   *string        `json:"-"`
	// Link is the click's, set with Click.
	Link *LinkID `json:"-"`
	// Redeems is the promo code that this conversion uses up one redemption of:
	// one that could be used, whether or not it won.
	Redeems *PromoCodeID `json:"-"`
	// RecurringIndex is which payment of the customer in the programme this is,
	// from 1; nil without a customer, and for events that are no payments.
	RecurringIndex *int `json:"-"`
	// DecidedBy is the person who assigned it.
	DecidedBy *UserID `json:"-"`
	// ClickedAt and ExpiresAt belong to the click that Reason is about.
	ClickedAt *time.Time `json:"-"`
	ExpiresAt *time.Time `json:"-"`
	// Earns is set when a commission is earned.
	Earns *Earning `json:"-"`
	// FraudAction is what was done about a suspicion; empty without one.
	FraudAction FraudAction `json:"-"`

	Trace
}

// Earning is who earns and how much.
type Earning struct {
	Earner      Earner
	Calculation Calculation
}

// Trace is how a decision came about. It holds nothing that identifies the
// buyer, because decisions outlive an erasure.
type Trace struct {
	Inputs TraceInputs `json:"inputs"`
	// Program is the one that the deciding signal leads to.
	Program     *TraceProgram `json:"program"`
	Candidates  []Candidate   `json:"candidates"`
	Steps       []Step        `json:"steps"`
	Rule        *RuleSnapshot `json:"rule"`        // set when a commission is earned
	Calculation *Calculation  `json:"calculation"` // set when a commission is earned
	Fraud       []FraudSignal `json:"fraud"`       // the rules that fired
}

// TraceInputs are the inputs as reported.
type TraceInputs struct {
	Mode          Mode      `json:"mode"`
	EventType     EventType `json:"event_type"`
	OccurredAt    time.Time `json:"occurred_at"`
	AmountCents   int64     `json:"amount_cents"`
	Currency      *string   `json:"currency"`
	TaxCents      int64     `json:"tax_cents"`
	ShippingCents int64     `json:"shipping_cents"`
	FeeCents      int64     `json:"fee_cents"`
	Click         *ClickID  `json:"click_id"`
	PromoCode     *string   `json:"promo_code"`
}

// TraceProgram is what of the programme entered the decision.
type TraceProgram struct {
	ID ProgramID `json:"id"`
	// WindowDays is the window that the click was given; the programme's where no
	// click decides.
	WindowDays int `json:"window_days"`
	// Model ranks a customer's binding against a later click; without a binding
	// it changes nothing.
	Model      AttributionModel `json:"model"`
	Precedence SignalPrecedence `json:"precedence"`
}

// Candidate is a signal that could have won. Of a customer's binding At is when
// it was made and ExpiresAt until when it beats a later click under FirstClick.
type Candidate struct {
	Type            Method             `json:"type"`
	Click           *ClickID           `json:"click_id,omitempty"`
	PromoCode       *string            `json:"promo_code,omitempty"`
	Participant     *ParticipantID     `json:"participant_id"`
	At              *time.Time         `json:"at"`
	ExpiresAt       *time.Time         `json:"expires_at"`
	Eligible        bool               `json:"eligible"`
	RejectedBecause *AttributionReason `json:"rejected_because"`
}

// Step is one check, in the order in which it was made.
type Step struct {
	Order   int         `json:"order"`
	Check   string      `json:"check"`
	Outcome StepOutcome `json:"outcome"`
	Detail  string      `json:"detail"`
}

// StepOutcome is how a check ended.
type StepOutcome string

// The outcomes.
const (
	StepPassed StepOutcome = "passed"
	StepFailed StepOutcome = "failed"
)

// Attribute decides. The caller gives the decision its id, conversion and time.
func Attribute(in AttributionInputs) Decision {
	a := attribution{in: in}
	a.trace = Trace{
		Inputs: TraceInputs{
			Mode: in.Mode, EventType: in.EventType, OccurredAt: in.OccurredAt,
			AmountCents: in.Sale.Paid.Cents, Currency: optional(in.Sale.Paid.Currency),
			TaxCents: in.Sale.TaxCents, ShippingCents: in.Sale.ShippingCents, FeeCents: in.Sale.FeeCents,
			Click: in.Click, PromoCode: in.PromoCode,
		},
		Candidates: []Candidate{},
		Steps:      []Step{},
		Fraud:      []FraudSignal{},
	}
	if in.Assigned != nil {
		return a.decide([]signal{a.judgeAssigned()})
	}
	var signals []signal
	for _, method := range in.order() {
		signals = append(signals, a.judge(method))
	}
	return a.decide(signals)
}

// attribution is one run of Attribute: its inputs and the trace as it grows.
type attribution struct {
	in    AttributionInputs
	trace Trace
}

// decide takes the first eligible signal, or refuses for the reason of the
// reported one that stands first.
func (a *attribution) decide(signals []signal) Decision {
	d := Decision{EngineVersion: EngineVersion}
	var deciding *signal
	for i := range signals {
		s := &signals[i]
		if s.Eligible {
			if s.Type == ByPromoCode {
				d.Redeems = &a.in.FoundPromoCode.ID
			}
			if deciding == nil {
				deciding = s
			} else {
				*s = s.rejected(whyOutranked)
			}
		}
		a.trace.Candidates = append(a.trace.Candidates, s.Candidate)
	}
	because := ""
	if deciding == nil {
		deciding = firstReported(signals)
		d.Reason = *deciding.RejectedBecause
	} else {
		d.Attributed = true
		d.Method = &deciding.Type
		d.Program, d.Participant = &deciding.earner.Program, &deciding.earner.Participant
		d.Click, d.PromoCode = deciding.Click, deciding.PromoCode
		if deciding.Type == ByClick && !a.in.FoundClick.Link.IsZero() {
			d.Link = &a.in.FoundClick.Link
		}
		d.RecurringIndex = a.in.recurringIndex(deciding.earner.Program)
		d.Reason, because = a.earn(&d, deciding)
	}
	if deciding.Type == ByClick {
		d.ClickedAt, d.ExpiresAt = deciding.At, deciding.ExpiresAt
	}
	if earner := deciding.earner; earner != nil {
		a.trace.Program = &TraceProgram{
			ID: earner.Program, WindowDays: earner.WindowDays, Model: earner.Model, Precedence: earner.Precedence,
		}
		if deciding.Type == ByClick {
			a.trace.Program.WindowDays = int(deciding.ExpiresAt.Sub(*deciding.At) / (24 * time.Hour))
		}
	}
	d.Trace = a.trace
	d.Explanation = explain(a.in, d, signals, deciding, because)
	return d
}

// earn computes what an attributed conversion earns and gives the reason. Where
// nothing is earned, because ends the sentence that says so.
func (a *attribution) earn(d *Decision, winner *signal) (why AttributionReason, because string) {
	earner := *winner.earner
	if !a.check("participant.approved", earner.ParticipantStatus == ParticipantApproved,
		"participant is "+string(earner.ParticipantStatus)) {
		return WhyParticipantNotApproved, "the partner's participation in programme " + quoted(winner) + " is " + string(earner.ParticipantStatus)
	}
	if why, because = a.judgeRules(earner, d.RecurringIndex); why != "" {
		return why, "programme " + quoted(winner) + " " + because
	}
	reviews, why := a.judgeFraud(d, winner)
	if why != "" {
		return why, ""
	}
	calc := earner.calculate(a.in, d.RecurringIndex)
	calc.ReviewReasons = append(calc.ReviewReasons, reviews...)
	earner.Rule.Source = calc.Source
	d.Earns = &Earning{Earner: earner, Calculation: calc}
	a.trace.Rule, a.trace.Calculation = &earner.Rule, &calc
	switch winner.Type {
	case ByPromoCode:
		return WhyPromoCodeMatched, ""
	case ByCustomer:
		return WhyCustomerBound, ""
	case ByHand:
		return WhyReassigned, ""
	default:
		return WhyClickMatched, ""
	}
}

// check notes a check and gives its result.
func (a *attribution) check(name string, passed bool, detail string) bool {
	outcome := StepFailed
	if passed {
		outcome = StepPassed
	}
	a.trace.Steps = append(a.trace.Steps, Step{Order: len(a.trace.Steps) + 1, Check: name, Outcome: outcome, Detail: detail})
	return passed
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
