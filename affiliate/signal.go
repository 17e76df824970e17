package affiliate

import (
	"slices"
	"strconv"
)

// signal is a candidate with what it leads to; earner is nil when unknown.
type signal struct {
	Candidate
	earner *Earner
}

func (s signal) rejected(why AttributionReason) signal {
	s.Eligible, s.RejectedBecause = false, &why
	return s
}

// order is the order in which the signals of a conversion are judged.
//
// Every signal leads to a programme of its own, and each programme may want
// another order: the one to which the first resolvable signal leads decides, of
// click, promo code and customer. The customer's binding comes last, or directly
// before the click that it beats.
func (in AttributionInputs) order() []Method {
	order := make([]Method, 0, 3)
	if in.Click != nil {
		order = append(order, ByClick)
	}
	if in.PromoCode != nil {
		order = append(order, ByPromoCode)
	}
	if in.precedence() == PromoCodeFirst {
		slices.Reverse(order)
	}
	if in.binding() == nil {
		return order
	}
	if click := slices.Index(order, ByClick); click >= 0 && in.bindingBeatsClick() {
		return slices.Insert(order, click, ByCustomer)
	}
	return append(order, ByCustomer)
}

func (in AttributionInputs) precedence() SignalPrecedence {
	for _, earner := range []*Earner{in.clickEarner(), in.promoCodeEarner(), in.bindingEarner()} {
		if earner != nil {
			return earner.Precedence
		}
	}
	return DefaultPrecedence
}

// bindingBeatsClick reports whether the click came after the one that bound the
// customer, in a programme where the first click earns, and its window still runs.
func (in AttributionInputs) bindingBeatsClick() bool {
	binding := in.binding()
	return binding.Earner.Model == FirstClick && !in.OccurredAt.After(binding.WindowEndsAt) &&
		in.clickEarner() != nil && in.FoundClick.ReceivedAt.After(binding.SignalAt)
}

// clickEarner is what the reported click leads to; nil when it does not resolve.
func (in AttributionInputs) clickEarner() *Earner {
	if in.Click == nil || in.FoundClick == nil || in.FoundClick.Mode != in.Mode {
		return nil
	}
	return &in.FoundClick.Earner
}

// promoCodeEarner is what the reported code leads to; nil when it does not
// resolve.
func (in AttributionInputs) promoCodeEarner() *Earner {
	if in.PromoCode == nil || in.FoundPromoCode == nil || in.FoundPromoCode.Mode != in.Mode {
		return nil
	}
	return &in.FoundPromoCode.Earner
}

// bindingEarner is what the customer's binding leads to; nil without one.
func (in AttributionInputs) bindingEarner() *Earner {
	if binding := in.binding(); binding != nil {
		return &binding.Earner
	}
	return nil
}

func (in AttributionInputs) binding() *Binding {
	if in.Customer == nil {
		return nil
	}
	return in.Customer.Binding
}

// firstReported is the signal whose reason a refusal gives: the first that the
// report named. A binding speaks only where nothing was named.
func firstReported(signals []signal) *signal {
	if len(signals) == 0 {
		panic("affiliate: a conversion without a signal is refused before it is attributed")
	}
	for i := range signals {
		if signals[i].Type != ByCustomer {
			return &signals[i]
		}
	}
	return &signals[0]
}

// judge judges one signal that is there.
func (a *attribution) judge(method Method) signal {
	switch method {
	case ByPromoCode:
		return a.judgePromoCode()
	case ByCustomer:
		return a.judgeBinding()
	default:
		return a.judgeClick()
	}
}

// judgeClick judges the click that was reported, found or not.
func (a *attribution) judgeClick() signal {
	s := signal{Candidate: Candidate{Type: ByClick, Click: a.in.Click}, earner: a.in.clickEarner()}
	if !a.check("click.known", s.earner != nil, "click "+a.in.Click.String()) {
		return s.rejected(WhyClickUnknown)
	}
	click := a.in.FoundClick
	s.Participant = &s.earner.Participant
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

// judgePromoCode judges the code that was reported, found or not, as it stood
// when the event happened.
func (a *attribution) judgePromoCode() signal {
	s := signal{Candidate: Candidate{Type: ByPromoCode, PromoCode: a.in.PromoCode}, earner: a.in.promoCodeEarner()}
	if !a.check("promo_code.known", s.earner != nil, "promo code "+*a.in.PromoCode) {
		return s.rejected(WhyPromoCodeUnknown)
	}
	code := a.in.FoundPromoCode
	s.Participant, s.ExpiresAt = &s.earner.Participant, code.ExpiresAt
	if !a.check("promo_code.usable", Usable(code.Active, code.ExpiresAt, code.Redemptions, code.MaxRedemptions, a.in.OccurredAt), code.state()) {
		return s.rejected(WhyPromoCodeInactive)
	}
	return a.judgeEarner(s)
}

// state is how far the code can be used, for the trace.
func (c *FoundPromoCode) state() string {
	state := "inactive"
	if c.Active {
		state = "active"
	}
	if c.ExpiresAt != nil {
		state += ", ends " + FormatTime(*c.ExpiresAt)
	}
	if c.MaxRedemptions != nil {
		state += ", used " + strconv.FormatInt(c.Redemptions, 10) + " of " + strconv.FormatInt(*c.MaxRedemptions, 10) + " times"
	}
	return state
}

// judgeBinding judges the customer's binding. It has no window of its own: whom
// an event has bound stays bound.
func (a *attribution) judgeBinding() signal {
	binding := a.in.binding()
	a.check("customer.bound", true, "bound "+FormatTime(binding.BoundAt))
	return a.judgeEarner(signal{
		Candidate: Candidate{
			Type: ByCustomer, Participant: &binding.Earner.Participant, At: &binding.BoundAt, ExpiresAt: &binding.WindowEndsAt,
		},
		earner: &binding.Earner,
	})
}

// judgeAssigned judges what a person decided. The programme may rest by now: a
// merchant repairs the past.
func (a *attribution) judgeAssigned() signal {
	earner := a.in.Assigned
	return a.judgeParticipant(signal{Candidate: Candidate{Type: ByHand, Participant: &earner.Participant}, earner: earner})
}

// judgeEarner makes the checks that every reported signal has in common.
func (a *attribution) judgeEarner(s signal) signal {
	if !a.check("program.active", s.earner.ProgramStatus == ProgramActive, "programme is "+string(s.earner.ProgramStatus)) {
		return s.rejected(WhyProgramInactive)
	}
	return a.judgeParticipant(s)
}

func (a *attribution) judgeParticipant(s signal) signal {
	if !a.check("participant.not_erased", !s.earner.ParticipantErased, "participant "+s.earner.Participant.String()) {
		return s.rejected(WhyParticipantErased)
	}
	s.Eligible = true
	return s
}
