package affiliate

import "time"

// Attribution decides to whom a conversion belongs and what it earns.
//
//	 signals, in precedence order      each signal is judged alone; its first
//	                                   failing check is why it is rejected
//	┌────────────┐
//	│ click      │──▶ known ─▶ not after the event ─▶ inside its window ─┐
//	├────────────┤                                                       ├─▶ programme active ─▶ participant not erased ─▶ eligible
//	│ promo code │──▶ known ─────────────────────────────────────────────┘
//	└────────────┘
//	                 the first eligible signal wins; none: not attributed, for
//	                 the reason of the signal that stands first
//
//	winner ─▶ attributed ─▶ participant approved ─▶ rules pay for the event ─▶ calculation ─▶ commission
//	                              └─────────── no ──────────┴──▶ attributed, nothing earned
//
// It is a pure function of what was found: the same inputs give the same
// decision at any time, so a decision can be repeated, explained and simulated.
// It sees the facts as they were when they were read; a participant who is
// suspended in that instant may still earn.

// EngineVersion changes whenever the same inputs could give another decision.
const EngineVersion = "1"

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
	// Brought is what the participant had brought before this conversion. It is
	// read only for rules with tiers.
	Brought Brought
}

// Brought is what a participant has brought to a programme: conversions that
// were not refunded in full, and their revenue in the programme's currency.
type Brought struct {
	Conversions  int64
	RevenueCents int64
}

// FoundClick is a click of the workspace, in either mode, with its earner.
type FoundClick struct {
	Mode       Mode
	ReceivedAt time.Time
	ExpiresAt  time.Time // last instant of the window, inclusive
	Link       LinkID
	Earner     Earner
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
}

// OtherMode reports whether a signal resolves in the mode that the conversion
// does not belong to. A report like that is refused; where refusing is too late
// the signal counts as unknown.
func (in AttributionInputs) OtherMode() bool {
	return in.FoundClick != nil && in.FoundClick.Mode != in.Mode
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
	Fraud       []FraudSignal `json:"fraud"`
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
	// WindowDays is the window that the click was given.
	WindowDays int `json:"window_days"`
	// Model ranks a customer's binding against a later click; without a binding
	// it changes nothing.
	Model      AttributionModel `json:"model"`
	Precedence SignalPrecedence `json:"precedence"`
}

// Candidate is a signal that could have won.
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

// FraudSignal is a fraud rule that fired.
type FraudSignal struct {
	Rule     string `json:"rule"`
	Score    int    `json:"score"`
	Evidence string `json:"evidence"`
}

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
	var signals []signal
	if in.Click != nil {
		signals = append(signals, a.judgeClick())
	}
	if in.PromoCode != nil {
		signals = append(signals, a.judgePromoCode())
	}
	return a.decide(signals)
}

// attribution is one run of Attribute: its inputs and the trace as it grows.
type attribution struct {
	in    AttributionInputs
	trace Trace
}

// signal is a candidate with what it leads to; earner is nil when unknown.
type signal struct {
	Candidate
	earner *Earner
}

// judgeClick judges the click that was reported, found or not.
func (a *attribution) judgeClick() signal {
	s := signal{Candidate: Candidate{Type: ByClick, Click: a.in.Click}}
	click := a.in.FoundClick
	if !a.check("click.known", click != nil && click.Mode == a.in.Mode, "click "+a.in.Click.String()) {
		return s.rejected(WhyClickUnknown)
	}
	s.earner, s.Participant = &click.Earner, &click.Earner.Participant
	s.At, s.ExpiresAt = &click.ReceivedAt, &click.ExpiresAt

	latest := a.in.OccurredAt.Add(ClickAfterConversionSlack)
	if !a.check("click.not_after_event", !click.ReceivedAt.After(latest),
		"click "+FormatTime(click.ReceivedAt)+", event "+FormatTime(a.in.OccurredAt)) {
		return s.rejected(WhyClickAfterConversion)
	}
	if !a.check("click.inside_window", !a.in.OccurredAt.After(click.ExpiresAt),
		"event "+FormatTime(a.in.OccurredAt)+", window ends "+FormatTime(click.ExpiresAt)) {
		return s.rejected(WhyClickExpired)
	}
	return a.judgeEarner(s)
}

// judgePromoCode judges the code that was reported. No programme has promo
// codes, so none is known.
func (a *attribution) judgePromoCode() signal {
	s := signal{Candidate: Candidate{Type: ByPromoCode, PromoCode: a.in.PromoCode}}
	a.check("promo_code.known", false, "promo code "+*a.in.PromoCode)
	return s.rejected(WhyPromoCodeUnknown)
}

// judgeEarner makes the checks that every kind of signal has in common.
func (a *attribution) judgeEarner(s signal) signal {
	if !a.check("program.active", s.earner.ProgramStatus == ProgramActive, "programme is "+string(s.earner.ProgramStatus)) {
		return s.rejected(WhyProgramInactive)
	}
	if !a.check("participant.not_erased", !s.earner.ParticipantErased, "participant "+s.earner.Participant.String()) {
		return s.rejected(WhyParticipantErased)
	}
	s.Eligible = true
	return s
}

// decide takes the first eligible signal, or refuses for the reason of the one
// that stands first.
func (a *attribution) decide(signals []signal) Decision {
	var deciding *signal
	for i := range signals {
		s := &signals[i]
		switch {
		case !s.Eligible:
		case deciding == nil:
			deciding = s
		default:
			*s = s.rejected(whyOutranked)
		}
		a.trace.Candidates = append(a.trace.Candidates, s.Candidate)
	}
	d := Decision{EngineVersion: EngineVersion}
	if deciding == nil {
		if len(signals) == 0 {
			panic("affiliate: a conversion without a signal is refused before it is attributed")
		}
		deciding = &signals[0]
		d.Reason = *deciding.RejectedBecause
	} else {
		d.Attributed = true
		d.Method = &deciding.Type
		d.Program, d.Participant = &deciding.earner.Program, &deciding.earner.Participant
		d.Click, d.PromoCode = deciding.Click, deciding.PromoCode
		d.Reason = a.earn(&d, deciding)
	}
	if deciding.Type == ByClick {
		d.ClickedAt, d.ExpiresAt = deciding.At, deciding.ExpiresAt
	}
	if earner := deciding.earner; earner != nil {
		a.trace.Program = &TraceProgram{ID: earner.Program, Model: earner.Model, Precedence: earner.Precedence}
		if deciding.At != nil && deciding.ExpiresAt != nil {
			a.trace.Program.WindowDays = int(deciding.ExpiresAt.Sub(*deciding.At) / (24 * time.Hour))
		}
	}
	d.Trace = a.trace
	d.Explanation = explain(a.in, d, signals, deciding)
	return d
}

// earn computes what an attributed conversion earns and gives the reason.
func (a *attribution) earn(d *Decision, winner *signal) AttributionReason {
	earner := winner.earner
	if !a.check("participant.approved", earner.ParticipantStatus == ParticipantApproved,
		"participant is "+string(earner.ParticipantStatus)) {
		return WhyParticipantNotApproved
	}
	if !a.check("rules.pay_for_event", earner.Rule.Rules.Pays(a.in.EventType), "event is "+string(a.in.EventType)) {
		return WhyRuleNotApplicable
	}
	calc := earner.Rule.Rules.Compute(a.in.Sale, earner.Currency)
	d.Earns = &Earning{Earner: *earner, Calculation: calc}
	a.trace.Rule, a.trace.Calculation = &earner.Rule, &calc
	return WhyClickMatched
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

func (s signal) rejected(why AttributionReason) signal {
	s.Eligible, s.RejectedBecause = false, &why
	return s
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
