package attribution

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// explain describes a decision in sentences that a merchant's support can forward to a partner
// unchanged. The sentences contain no internal terms, no data about other partners and no names
// of people. The parameter clause is the clause that computeEarning returns. It says why the
// conversion earns nothing.
func explain(in Inputs, d Decision, signals []signal, deciding *signal, clause string) string {
	event := eventSubject(in)
	var sentence string
	switch {
	case d.Earning != nil:
		sentence = event + creditPhrase(deciding) + "." + entitlementSentence(in, deciding)
	case d.Attributed:
		sentence = event + creditPhrase(deciding) + ", but earns no commission, because " + noCommissionReason(d.Reason, deciding, clause) + "."
	default:
		sentence = event + " is not credited to a partner, because " + notCreditedReason(in, deciding) + "."
	}
	return sentence + otherSignals(signals, deciding)
}

// explainNoSignal explains why a sale that names no signal is not attributed.
func explainNoSignal(in Inputs) string {
	return eventSubject(in) + " is not credited to a partner, because it names neither a click nor a promo code, and no partner has brought the customer."
}

func eventSubject(in Inputs) string {
	return "The " + eventNoun(in.EventType) + " on " + formatInstant(in.OccurredAt)
}

// creditPhrase says which signal credits the conversion to the partner.
func creditPhrase(winner *signal) string {
	switch winner.Type {
	case ByPromoCode:
		return fmt.Sprintf(" is credited to the partner whose promo code %q was used", *winner.PromoCode)
	case ByCustomer:
		return " is credited to the partner who brought the customer on " + formatInstant(*winner.At)
	case ByAssignment:
		return " has been assigned by hand to a partner of programme " + quotedProgramName(winner)
	default:
		return " is credited to the partner whose link was clicked on " + formatInstant(*winner.At)
	}
}

// entitlementSentence says why the signal is sufficient for a commission.
func entitlementSentence(in Inputs, winner *signal) string {
	switch winner.Type {
	case ByPromoCode:
		return " The promo code belongs to programme " + quotedProgramName(winner) + "."
	case ByCustomer:
		rule := "in programme " + quotedProgramName(winner) + " a customer's later events are credited to the partner who brought the customer."
		if in.OccurredAt.After(*winner.ExpiresAt) {
			return " The attribution window ended on " + formatInstant(*winner.ExpiresAt) + ", but " + rule
		}
		return " I" + rule[1:]
	case ByAssignment:
		return ""
	default:
		return " The " + eventNoun(in.EventType) + " happened within the attribution window of programme " + quotedProgramName(winner) +
			", which ends on " + formatInstant(*winner.ExpiresAt) + "."
	}
}

// noCommissionReason says why nothing is earned, but not which fraud rules fired, because
// partners could learn how to avoid them. Merchants see the rules in the trace.
func noCommissionReason(why Reason, winner *signal, clause string) string {
	switch why {
	case WhySelfReferralBlocked:
		return "it appears to come from the partner, and programme " + quotedProgramName(winner) + " does not pay partners for their own conversions"
	case WhyFraudBlocked:
		return "it did not pass the checks of programme " + quotedProgramName(winner) + " against abuse"
	default:
		return clause
	}
}

// notCreditedReason says why the partner of the first reported signal is not credited.
func notCreditedReason(in Inputs, first *signal) string {
	switch *first.RejectedBecause {
	case WhyClickUnknown:
		return "no click with the id " + first.Click.String() + " has been recorded here"
	case WhyClickExpired:
		return fmt.Sprintf("it happened after the end of the attribution window of programme %s: the click was on %s, and the window ended on %s",
			quotedProgramName(first), formatInstant(*first.At), formatInstant(*first.ExpiresAt))
	case WhyClickAfterConversion:
		return "the click was later: on " + formatInstant(*first.At)
	case WhyPromoCodeUnknown:
		return fmt.Sprintf("no programme has the promo code %q", *first.PromoCode)
	case WhyPromoCodeInactive:
		return fmt.Sprintf("the promo code %q %s", *first.PromoCode, promoCodeProblem(in.FoundPromoCode, in.OccurredAt))
	case WhyProgramInactive:
		return "programme " + quotedProgramName(first) + " is not active"
	case WhyParticipantErased:
		return "the partner's data has been erased"
	default:
		panic("affiliate: a signal cannot be rejected with the reason " + string(*first.RejectedBecause))
	}
}

// promoCodeProblem says why a promo code cannot be used.
func promoCodeProblem(code *FoundPromoCode, at time.Time) string {
	switch {
	case !code.Active:
		return "is not active"
	case code.ExpiresAt != nil && at.After(*code.ExpiresAt):
		return "was only valid until " + formatInstant(*code.ExpiresAt)
	default:
		return "has reached its limit of redemptions"
	}
}

// otherSignals says what happened to the signals that did not decide.
func otherSignals(signals []signal, deciding *signal) string {
	var b strings.Builder
	for i := range signals {
		s := &signals[i]
		if s == deciding {
			continue
		}
		subject := "The reported " + strings.ReplaceAll(string(s.Type), "_", " ")
		if s.Type == ByCustomer {
			subject = "An earlier event of the customer"
		}
		switch *s.RejectedBecause {
		case WhyPromoCodeUnknown:
			fmt.Fprintf(&b, " No programme has the reported promo code %q.", *s.PromoCode)
		case WhyClickUnknown:
			b.WriteString(" " + subject + " has not been recorded here.")
		case WhyClickExpired:
			b.WriteString(" The attribution window of the reported click had ended.")
		case whyOutranked:
			b.WriteString(" " + subject + " has a lower precedence.")
		default:
			b.WriteString(" " + subject + " could not be used.")
		}
	}
	return b.String()
}

func eventNoun(e affiliate.EventType) string {
	if e == affiliate.Custom {
		return "event"
	}
	return string(e)
}

func quotedProgramName(s *signal) string { return strconv.Quote(s.earner.ProgramName) }

// formatInstant formats an instant for people. It includes milliseconds, because they
// can decide whether an event is inside an attribution window.
func formatInstant(t time.Time) string { return t.UTC().Format("2 January 2006 at 15:04:05.000 UTC") }
