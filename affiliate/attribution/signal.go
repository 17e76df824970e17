package attribution

import (
	"slices"
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

// signal is a candidate with its participant. It has no earner if the participant is unknown.
type signal struct {
	Candidate
	earner *Earner
}

func (s signal) reject(why Reason) signal {
	s.Eligible, s.RejectedBecause = false, &why
	return s
}

// signalOrder returns the order in which the signals of a conversion are checked.
//
// The signals can lead to different programmes, and each programme sets its own order of
// precedence. The order of the click's programme applies. If no participant of the click is
// known, it is the order of the promo code's programme, or else of the programme of the
// customer's binding. The binding comes last, or directly before the click that it outranks.
func (in Inputs) signalOrder() []Method {
	order := make([]Method, 0, 3)
	if in.Click != nil {
		order = append(order, ByClick)
	}
	if in.PromoCode != nil {
		order = append(order, ByPromoCode)
	}
	if in.precedence() == program.PromoCodeFirst {
		slices.Reverse(order)
	}
	if in.binding() == nil {
		return order
	}
	if click := slices.Index(order, ByClick); click >= 0 && in.bindingOutranksClick() {
		return slices.Insert(order, click, ByCustomer)
	}
	return append(order, ByCustomer)
}

func (in Inputs) precedence() program.SignalPrecedence {
	for _, earner := range []*Earner{in.clickEarner(), in.promoCodeEarner(), in.bindingEarner()} {
		if earner != nil {
			return earner.Precedence
		}
	}
	return program.DefaultPrecedence
}

// bindingOutranksClick reports whether the customer's binding comes before the click.
// It does if the binding's programme uses FirstClick, the binding's window is still
// open, and the click was received after the click that bound the customer.
func (in Inputs) bindingOutranksClick() bool {
	binding := in.binding()
	return binding.Model == program.FirstClick && !in.OccurredAt.After(binding.WindowEndsAt) &&
		in.clickEarner() != nil && in.FoundClick.ReceivedAt.After(binding.SignalAt)
}

// clickEarner returns the participant of the reported click; nil if the mode has no such click.
func (in Inputs) clickEarner() *Earner {
	if in.Click == nil || in.FoundClick == nil || in.FoundClick.Mode != in.Mode {
		return nil
	}
	return &in.FoundClick.Earner
}

// promoCodeEarner returns the participant of the promo code; nil if the mode has no such code.
func (in Inputs) promoCodeEarner() *Earner {
	if in.PromoCode == nil || in.FoundPromoCode == nil || in.FoundPromoCode.Mode != in.Mode {
		return nil
	}
	return &in.FoundPromoCode.Earner
}

// bindingEarner returns the participant to whom the customer is bound, or nil.
func (in Inputs) bindingEarner() *Earner {
	if binding := in.binding(); binding != nil {
		return &binding.Earner
	}
	return nil
}

func (in Inputs) binding() *Binding {
	if in.Customer == nil {
		return nil
	}
	return in.Customer.Binding
}

// firstReported returns the first signal that the report named. If no signal is
// eligible, its rejection reason becomes the reason of the decision. The customer's
// binding is only returned if the report named no other signal.
func firstReported(signals []signal) *signal {
	for i := range signals {
		if signals[i].Type != ByCustomer {
			return &signals[i]
		}
	}
	return &signals[0]
}

// checkSignal checks one signal of the conversion.
func (a *attribution) checkSignal(method Method) signal {
	switch method {
	case ByPromoCode:
		return a.checkPromoCode()
	case ByCustomer:
		return a.checkBinding()
	default:
		return a.checkClick()
	}
}

// checkClick checks the reported click.
func (a *attribution) checkClick() signal {
	s := signal{Candidate: Candidate{Type: ByClick, Click: a.in.Click}, earner: a.in.clickEarner()}
	if !a.check("click.known", s.earner != nil, "click "+a.in.Click.String()) {
		return s.reject(WhyClickUnknown)
	}
	click := a.in.FoundClick
	s.Participant = &s.earner.Participant
	s.At, s.ExpiresAt = &click.ReceivedAt, &click.ExpiresAt

	latest := a.in.OccurredAt.Add(ClickAfterConversionSlack)
	if !a.check("click.not_after_event", !click.ReceivedAt.After(latest),
		"click "+affiliate.FormatTime(click.ReceivedAt)+", event "+affiliate.FormatTime(a.in.OccurredAt)) {
		return s.reject(WhyClickAfterConversion)
	}
	if !a.check("click.inside_window", !a.in.OccurredAt.After(click.ExpiresAt),
		"event "+affiliate.FormatTime(a.in.OccurredAt)+", window ends "+affiliate.FormatTime(click.ExpiresAt)) {
		return s.reject(WhyClickExpired)
	}
	return a.checkEarner(s)
}

// checkPromoCode checks the reported promo code, at the time of the event.
func (a *attribution) checkPromoCode() signal {
	s := signal{Candidate: Candidate{Type: ByPromoCode, PromoCode: a.in.PromoCode}, earner: a.in.promoCodeEarner()}
	if !a.check("promo_code.known", s.earner != nil, "promo code "+*a.in.PromoCode) {
		return s.reject(WhyPromoCodeUnknown)
	}
	code := a.in.FoundPromoCode
	s.Participant, s.ExpiresAt = &s.earner.Participant, code.ExpiresAt
	if !a.check("promo_code.usable", promocode.Usable(code.Active, code.ExpiresAt, code.Redemptions, code.MaxRedemptions, a.in.OccurredAt), code.state()) {
		return s.reject(WhyPromoCodeInactive)
	}
	return a.checkEarner(s)
}

// state describes for the trace whether the code can be used.
func (c *FoundPromoCode) state() string {
	state := "inactive"
	if c.Active {
		state = "active"
	}
	if c.ExpiresAt != nil {
		state += ", ends " + affiliate.FormatTime(*c.ExpiresAt)
	}
	if c.MaxRedemptions != nil {
		state += ", used " + strconv.FormatInt(c.Redemptions, 10) + " of " + strconv.FormatInt(*c.MaxRedemptions, 10) + " times"
	}
	return state
}

// checkBinding checks the customer's binding, which has no time limit.
func (a *attribution) checkBinding() signal {
	binding := a.in.binding()
	a.check("customer.bound", true, "bound "+affiliate.FormatTime(binding.BoundAt))
	return a.checkEarner(signal{
		Candidate: Candidate{
			Type: ByCustomer, Participant: &binding.Participant, At: &binding.BoundAt, ExpiresAt: &binding.WindowEndsAt,
		},
		earner: &binding.Earner,
	})
}

// checkAssigned checks the assignment by a person. It does not require an active
// programme, because merchants also correct old conversions.
func (a *attribution) checkAssigned() signal {
	earner := a.in.Assigned
	return a.checkParticipant(signal{Candidate: Candidate{Type: ByAssignment, Participant: &earner.Participant}, earner: earner})
}

// checkEarner makes the checks that all signals have in common.
func (a *attribution) checkEarner(s signal) signal {
	if !a.check("program.active", s.earner.ProgramStatus == program.Active, "programme is "+string(s.earner.ProgramStatus)) {
		return s.reject(WhyProgramInactive)
	}
	return a.checkParticipant(s)
}

func (a *attribution) checkParticipant(s signal) signal {
	if !a.check("participant.not_erased", !s.earner.ParticipantErased, "participant "+s.earner.Participant.String()) {
		return s.reject(WhyParticipantErased)
	}
	s.Eligible = true
	return s
}

// attribution holds the inputs of one call of Attribute, and the trace of its checks.
type attribution struct {
	in    Inputs
	trace Trace
}

// decide attributes the conversion to the first eligible signal. Without an eligible signal,
// the reason is the rejection reason of the first reported signal.
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

// computeEarning computes what an attributed conversion earns and returns the reason of the
// decision. If nothing is earned because of the programme's rules or the status of the
// participant, the result clause is the text after "because" in the explanation.
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
