// Package attribution decides which partner a conversion is credited to, and computes the
// commission. A decision depends only on its Inputs, and its Trace explains each step.
package attribution

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Attribution decides which participant a conversion belongs to, and what it earns.
//
//	 signals, in order of precedence   each signal is checked separately; the first
//	                                   check that fails rejects it
//	┌────────────┐
//	│ click      │──▶ known ─▶ not after the event ─▶ inside its window ─┐
//	├────────────┤                                                       │
//	│ promo code │──▶ known ─▶ active, not expired, not used up ─────────┤
//	├────────────┤                                                       │
//	│ customer   │──▶ bound by an earlier event ─────────────────────────┤
//	└────────────┘                                                       ▼
//	               eligible ◀─ participant not erased ◀─ programme active
//
//	                 the first eligible signal wins, the others are outranked;
//	                 if no signal is eligible, the conversion is not attributed,
//	                 for the reason that rejected the first reported signal
//
//	┌────────────┐
//	│ by hand    │──▶ participant not erased ─▶ wins; signals are not checked
//	└────────────┘
//
//	winner ─▶ attributed
//	            │   if one of these checks fails, nothing is earned:
//	            ├─▶ participant approved
//	            ├─▶ rules pay for the event type
//	            ├─▶ order large enough
//	            ├─▶ within the limits on recurring payments
//	            ├─▶ not blocked as fraud
//	            ▼
//	          rate ─▶ calculation ─▶ commission
//
// The fraud policy of the winner's programme says what happens if the fraud rules
// suspect the conversion: the conversion earns nothing, its commission needs review, or
// the suspicion is only recorded. A conversion that a person assigned is not checked
// for fraud.
//
// Each programme sets its own order of precedence for signals. If the signals lead to
// different programmes, signalOrder decides which order applies. With the model
// FirstClick, a customer's binding whose window is still open comes directly before a
// click that is later than the binding.
//
// Attribute is a pure function: the same inputs always give the same decision, so a
// decision can be repeated, explained and simulated. The caller reads the inputs before
// the call. If a participant is suspended after the inputs were read, the conversion may
// still earn.

// EngineVersion changes whenever the same inputs could lead to a different decision.
const EngineVersion = "3"

// ClickAfterConversionSlack is how much later than the event of the conversion a click
// may have been received. The tolerance is needed because the two times come from the
// clocks of different servers: the merchant's server sets the time of the event, and the
// collector sets the time of the click, even if it first writes the click to its journal.
const ClickAfterConversionSlack = 5 * time.Minute

// Method is the kind of signal that attributed a conversion.
type Method string

// The methods.
const (
	ByClick     Method = "click"
	ByPromoCode Method = "promo_code"
	// ByCustomer means that an earlier event bound the customer to the participant.
	ByCustomer Method = "customer"
	// ByAssignment means that a person assigned the conversion to the participant.
	ByAssignment Method = "manual"
)

// Reason is the code that says why a conversion was, or was not, attributed
// and paid (docs/contract.md#attribution).
type Reason string

// Reasons of conversions that are attributed and earn a commission.
const (
	WhyClickMatched     Reason = "CLICK_MATCHED"
	WhyPromoCodeMatched Reason = "PROMO_CODE_MATCHED"
	WhyCustomerBound    Reason = "CUSTOMER_BOUND"
	WhyReassigned       Reason = "MANUALLY_REASSIGNED"
)

// Reasons of conversions that are attributed but earn nothing.
const (
	WhyParticipantNotApproved Reason = "PARTICIPANT_NOT_APPROVED"
	WhyRuleNotApplicable      Reason = "RULE_NOT_APPLICABLE"
	WhyRecurringLimitReached  Reason = "RECURRING_LIMIT_REACHED"
	// WhySelfReferralBlocked and WhyFraudBlocked mean that the fraud policy of the
	// programme blocked the conversion. WhySelfReferralBlocked is used if the partner
	// and the buyer appear to be the same person or company.
	WhySelfReferralBlocked Reason = "SELF_REFERRAL_BLOCKED"
	WhyFraudBlocked        Reason = "FRAUD_BLOCKED"
)

// Reasons of conversions that are not attributed.
const (
	WhyClickUnknown         Reason = "CLICK_UNKNOWN"
	WhyClickExpired         Reason = "CLICK_EXPIRED"
	WhyClickAfterConversion Reason = "CLICK_AFTER_CONVERSION"
	WhyPromoCodeUnknown     Reason = "PROMO_CODE_UNKNOWN"
	WhyPromoCodeInactive    Reason = "PROMO_CODE_INACTIVE"
	WhyProgramInactive      Reason = "PROGRAM_INACTIVE"
	WhyParticipantErased    Reason = "PARTICIPANT_ERASED"
	// WhyNoSignal means that a payment processor reported a sale without a click and a
	// promo code, and that the customer is not bound. The conversion API rejects such
	// reports.
	WhyNoSignal Reason = "NO_ATTRIBUTION_SIGNAL"
)

// whyOutranked is the rejection reason of an eligible signal if another eligible signal
// comes before it. A decision never has this reason.
const whyOutranked Reason = "OUTRANKED"

// Earner is the participant that a signal leads to, with the settings of its programme
// that decide what a conversion earns.
type Earner struct {
	Program           affiliate.ProgramID
	ProgramName       string
	ProgramStatus     program.Status
	Currency          string
	Model             program.AttributionModel
	Precedence        program.SignalPrecedence
	WindowDays        int
	Rule              RuleSnapshot // Rule.Source is empty until a rate is chosen
	Participant       affiliate.ParticipantID
	Partner           affiliate.UserID
	ParticipantStatus participant.Status
	ParticipantErased bool
	// PartnerEmail is only used by the fraud rules, which compare it with the buyer's
	// e-mail address.
	PartnerEmail  string
	FraudPolicy   fraud.Policy // empty means off
	FraudSettings fraud.Settings
	// PriorTotals holds the totals of the participant before this conversion. It is
	// only loaded if the rules have tiers.
	PriorTotals PriorTotals
}

// PriorTotals holds the number of a participant's earlier conversions and their revenue
// in the programme's currency. Conversions that were refunded in full do not count.
type PriorTotals struct {
	Conversions  int64 `json:"conversions"`
	RevenueCents int64 `json:"revenue_cents"`
}

// FoundClick is a click of the workspace, in either mode, with the participant that it
// leads to.
type FoundClick struct {
	Mode       affiliate.Mode
	ReceivedAt time.Time
	ExpiresAt  time.Time // last instant of the window, inclusive
	Link       affiliate.LinkID
	Earner     Earner
	Traits     ClickTraits
	// ClicksFromAddress is the number of clicks from the same IP address in the hour
	// before this click, including this click. Counting stops at the largest number
	// that the fraud rules need. 0 means that the clicks were not counted.
	ClicksFromAddress int
}

// FoundPromoCode is a promo code of the workspace, in either mode, with the participant
// that it belongs to.
type FoundPromoCode struct {
	ID             affiliate.PromoCodeID
	Mode           affiliate.Mode
	Active         bool
	ExpiresAt      *time.Time // last instant, inclusive; nil if it never expires
	MaxRedemptions *int64     // nil means no limit
	Redemptions    int64
	Earner         Earner
}

// FoundCustomer holds the stored data about the customer that the report names.
type FoundCustomer struct {
	// Binding is nil until the first event of the customer is attributed.
	Binding *Binding
	// Payments counts the customer's attributed payments, by programme.
	Payments map[affiliate.ProgramID]CustomerPayments
}

// Binding ties a customer to the participant who brought the customer.
type Binding struct {
	BoundAt time.Time
	// SignalAt is when the click that bound the customer was received, or BoundAt if
	// another signal bound the customer. A click that was received after SignalAt
	// counts as later than the binding.
	SignalAt time.Time
	// WindowEndsAt is the last instant at which, under FirstClick, the binding outranks
	// a later click. It has no other effect: a binding never ends.
	WindowEndsAt time.Time
	Earner       Earner
}

// CustomerPayments counts a customer's payments in a programme.
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
	// Click is the reported click id, nil if none was reported. FoundClick is the click
	// with that id, nil if no such click is known.
	Click      *affiliate.ClickID
	FoundClick *FoundClick
	// PromoCode is the reported code, case-folded, nil if none was reported.
	// FoundPromoCode is the promo code with that text, nil if there is none.
	PromoCode      *string
	FoundPromoCode *FoundPromoCode
	// Customer is set if the report named the buyer.
	Customer *FoundCustomer
	// Assigned is set if a person assigns the conversion to a participant. In this
	// case, the signals are not checked.
	Assigned *Earner
	// IsRecurring, ProductIDs and LineItems have the reported values.
	IsRecurring bool
	ProductIDs  []string
	LineItems   []LineItem
	// FeeMissing means that the payment processor did not say its fee, so Sale.FeeCents
	// is 0.
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
	return in.Sale.Paid.Currency != "" && (in.EventType.Priced() || in.Sale.Paid.Cents > 0)
}

// HasSignalOfOtherMode reports whether the mode of a signal differs from the mode of the
// conversion. The service rejects a report with such a signal. If the report has already
// been accepted, the signal counts as unknown.
func (in Inputs) HasSignalOfOtherMode() bool {
	return in.FoundClick != nil && in.FoundClick.Mode != in.Mode ||
		in.FoundPromoCode != nil && in.FoundPromoCode.Mode != in.Mode
}

// HasNoSignal reports whether the inputs have neither a click nor a promo code nor the
// binding of a customer. The service rejects such a report.
func (in Inputs) HasNoSignal() bool {
	return in.Click == nil && in.PromoCode == nil && in.binding() == nil
}

// Decision is the outcome of an attribution. A decision is never changed; a later
// decision supersedes it. The audit endpoints show its JSON form.
type Decision struct {
	ID            affiliate.DecisionID   `json:"decision_id"`
	Conversion    affiliate.ConversionID `json:"conversion_id"`
	Attributed    bool                   `json:"attributed"`
	Method        *Method                `json:"method"` // nil when not attributed
	Reason        Reason                 `json:"reason_code"`
	Explanation   string                 `json:"explanation"`
	EngineVersion string                 `json:"engine_version"`
	DecidedAt     time.Time              `json:"decided_at"`
	Supersedes    *affiliate.DecisionID  `json:"supersedes"`

	// Program and Participant are set if the conversion is attributed. Click or
	// PromoCode is set if that signal attributed it.
	Program     *affiliate.ProgramID     `json:"-"`
	Participant *affiliate.ParticipantID `json:"-"`
	Click       *affiliate.ClickID       `json:"-"`
	PromoCode   *string                  `json:"-"`
	// Link is the link of the click. It is set together with Click.
	Link *affiliate.LinkID `json:"-"`
	// Redeems is the promo code whose number of redemptions this conversion increases
	// by one. A reported code that can be used is redeemed even if another signal wins.
	Redeems *affiliate.PromoCodeID `json:"-"`
	// RecurringIndex is the number of this payment among the customer's payments in the
	// programme, starting at 1. It is nil without a customer, and for events that are
	// not payments.
	RecurringIndex *int `json:"-"`
	// DecidedBy is the member or service token that assigned the conversion.
	DecidedBy *affiliate.ActorID `json:"-"`
	// ClickedAt and ExpiresAt are the time and the window end of the click that Reason
	// refers to. They are nil if Reason does not refer to a known click.
	ClickedAt *time.Time `json:"-"`
	ExpiresAt *time.Time `json:"-"`
	// Earning is set if the conversion earns a commission.
	Earning *Earning `json:"-"`
	// FraudAction is the action that the fraud policy required. It is empty if the
	// fraud rules do not suspect the conversion.
	FraudAction fraud.Action `json:"-"`

	Trace
}

// Earning says who earns a commission and how its amount is computed.
type Earning struct {
	Earner      Earner
	Calculation Calculation
}

// Trace records how a decision was made. It contains nothing that identifies the buyer,
// because decisions are kept when a buyer's data is erased.
type Trace struct {
	Inputs TraceInputs `json:"inputs"`
	// Program is the programme that the deciding signal leads to. The deciding signal is
	// the signal that won or, if none won, the first reported signal.
	Program     *TraceProgram  `json:"program"`
	Candidates  []Candidate    `json:"candidates"`
	Steps       []Step         `json:"steps"`
	Rule        *RuleSnapshot  `json:"rule"`        // set when a commission is earned
	Calculation *Calculation   `json:"calculation"` // set when a commission is earned
	Fraud       []fraud.Signal `json:"fraud"`       // the fraud rules that fired
}

// TraceInputs holds the inputs as they were reported.
type TraceInputs struct {
	Mode          affiliate.Mode      `json:"mode"`
	EventType     affiliate.EventType `json:"event_type"`
	OccurredAt    time.Time           `json:"occurred_at"`
	AmountCents   int64               `json:"amount_cents"`
	Currency      *string             `json:"currency"`
	TaxCents      int64               `json:"tax_cents"`
	ShippingCents int64               `json:"shipping_cents"`
	FeeCents      int64               `json:"fee_cents"`
	Click         *affiliate.ClickID  `json:"click_id"`
	PromoCode     *string             `json:"promo_code"`
}

// TraceProgram holds the programme's settings that influenced the decision.
type TraceProgram struct {
	ID affiliate.ProgramID `json:"id"`
	// WindowDays is the attribution window of the deciding click, or the programme's
	// window if no click decides.
	WindowDays int `json:"window_days"`
	// Model decides whether a customer's binding outranks a later click. It has no
	// effect without a binding.
	Model      program.AttributionModel `json:"model"`
	Precedence program.SignalPrecedence `json:"precedence"`
}

// Candidate is a signal of the conversion with the result of its checks. For a
// customer's binding, At is the time of the binding, and ExpiresAt is the last instant
// at which the binding outranks a later click under FirstClick.
type Candidate struct {
	Type            Method                   `json:"type"`
	Click           *affiliate.ClickID       `json:"click_id,omitempty"`
	PromoCode       *string                  `json:"promo_code,omitempty"`
	Participant     *affiliate.ParticipantID `json:"participant_id"`
	At              *time.Time               `json:"at"`
	ExpiresAt       *time.Time               `json:"expires_at"`
	Eligible        bool                     `json:"eligible"`
	RejectedBecause *Reason                  `json:"rejected_because"`
}

// Step is one check. Order is its position in the sequence of checks.
type Step struct {
	Order   int         `json:"order"`
	Check   string      `json:"check"`
	Outcome StepOutcome `json:"outcome"`
	Detail  string      `json:"detail"`
}

// StepOutcome says whether a check passed.
type StepOutcome string

// The outcomes.
const (
	StepPassed StepOutcome = "passed"
	StepFailed StepOutcome = "failed"
)

// Attribute makes a decision from the inputs. The caller sets the id, the conversion
// and the time of the decision.
func Attribute(in Inputs) Decision {
	a := attribution{in: in}
	a.trace = Trace{
		Inputs: TraceInputs{
			Mode: in.Mode, EventType: in.EventType, OccurredAt: in.OccurredAt,
			AmountCents: in.Sale.Paid.Cents, Currency: affiliate.Optional(in.Sale.Paid.Currency),
			TaxCents: in.Sale.TaxCents, ShippingCents: in.Sale.ShippingCents, FeeCents: in.Sale.FeeCents,
			Click: in.Click, PromoCode: in.PromoCode,
		},
		Candidates: []Candidate{},
		Steps:      []Step{},
		Fraud:      []fraud.Signal{},
	}
	if in.Assigned != nil {
		return a.decide([]signal{a.checkAssigned()})
	}
	var signals []signal
	for _, method := range in.signalOrder() {
		signals = append(signals, a.checkSignal(method))
	}
	return a.decide(signals)
}

// attribution is the state of one call of Attribute: the inputs, and the trace that
// each check extends.
type attribution struct {
	in    Inputs
	trace Trace
}

// decide attributes the conversion to the first eligible signal. If no signal is
// eligible, the reason of the decision is the rejection reason of the first reported
// signal.
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
				*s = s.reject(whyOutranked)
			}
		}
		a.trace.Candidates = append(a.trace.Candidates, s.Candidate)
	}
	if len(signals) == 0 {
		d.Reason, d.Trace = WhyNoSignal, a.trace
		d.Explanation = explainNoSignal(a.in)
		return d
	}
	reasonClause := ""
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
		d.Reason, reasonClause = a.computeEarning(&d, deciding)
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
	d.Explanation = explain(a.in, d, signals, deciding, reasonClause)
	return d
}

// computeEarning computes what an attributed conversion earns and returns the reason of
// the decision. If nothing is earned because of the programme's rules or the status of
// the participant, clause is the text that follows "because" in the explanation.
func (a *attribution) computeEarning(d *Decision, winner *signal) (why Reason, clause string) {
	earner := *winner.earner
	if !a.check("participant.approved", earner.ParticipantStatus == participant.Approved,
		"participant is "+string(earner.ParticipantStatus)) {
		return WhyParticipantNotApproved, "the partner's participation in programme " + quotedProgramName(winner) + " is " + string(earner.ParticipantStatus)
	}
	if why, clause = a.checkRules(earner, d.RecurringIndex); why != "" {
		return why, "programme " + quotedProgramName(winner) + " " + clause
	}
	reviews, why := a.applyFraudRules(d, winner)
	if why != "" {
		return why, ""
	}
	calc := earner.calculate(a.in, d.RecurringIndex)
	calc.ReviewReasons = append(calc.ReviewReasons, reviews...)
	earner.Rule.Source = calc.Source
	d.Earning = &Earning{Earner: earner, Calculation: calc}
	a.trace.Rule, a.trace.Calculation = &earner.Rule, &calc
	switch winner.Type {
	case ByPromoCode:
		return WhyPromoCodeMatched, ""
	case ByCustomer:
		return WhyCustomerBound, ""
	case ByAssignment:
		return WhyReassigned, ""
	default:
		return WhyClickMatched, ""
	}
}

// check records a check in the trace and returns whether it passed.
func (a *attribution) check(name string, passed bool, detail string) bool {
	outcome := StepFailed
	if passed {
		outcome = StepPassed
	}
	a.trace.Steps = append(a.trace.Steps, Step{Order: len(a.trace.Steps) + 1, Check: name, Outcome: outcome, Detail: detail})
	return passed
}
