package affiliate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// explain puts a decision into sentences that a merchant's support can send on
// to a partner as they are: no internal words, no other partner, nobody's name.
// because ends the sentence where the rules of the programme pay nothing.
func explain(in AttributionInputs, d Decision, signals []signal, deciding *signal, because string) string {
	event := "The " + eventNoun(in.EventType) + " on " + spoken(in.OccurredAt)
	var sentence string
	switch {
	case d.Earns != nil:
		sentence = event + credited(deciding) + "." + entitled(in, deciding)
	case d.Attributed:
		sentence = event + credited(deciding) + ", but earns no commission, because " + unpaid(d.Reason, deciding, because) + "."
	default:
		sentence = event + " is not credited to a partner, because " + refused(in, deciding) + "."
	}
	return sentence + others(signals, deciding)
}

// credited says by what the conversion belongs to the partner.
func credited(winner *signal) string {
	switch winner.Type {
	case ByPromoCode:
		return fmt.Sprintf(" is credited to the partner whose promo code %q was used", *winner.PromoCode)
	case ByCustomer:
		return " is credited to the partner who brought the customer on " + spoken(*winner.At)
	case ByHand:
		return " has been assigned by hand to a partner of programme " + quoted(winner)
	default:
		return " is credited to the partner whose link was clicked on " + spoken(*winner.At)
	}
}

// entitled says why that is enough for a commission.
func entitled(in AttributionInputs, winner *signal) string {
	switch winner.Type {
	case ByPromoCode:
		return " The promo code belongs to programme " + quoted(winner) + "."
	case ByCustomer:
		rule := "in programme " + quoted(winner) + " a customer's later events are credited to the partner who brought the customer."
		if in.OccurredAt.After(*winner.ExpiresAt) {
			return " The attribution window ended on " + spoken(*winner.ExpiresAt) + ", but " + rule
		}
		return " I" + rule[1:]
	case ByHand:
		return ""
	default:
		return " It lies within the attribution window of programme " + quoted(winner) + ", which ends on " + spoken(*winner.ExpiresAt) + "."
	}
}

// unpaid says why nothing is earned. What exactly fired is for the merchant's
// eyes, in the trace: the partner would learn how to get around it.
func unpaid(why AttributionReason, winner *signal, because string) string {
	switch why {
	case WhySelfReferralBlocked:
		return "it appears to come from the partner, and programme " + quoted(winner) + " does not pay for what partners bring by themselves"
	case WhyFraudBlocked:
		return "it did not pass the checks of programme " + quoted(winner) + " against abuse"
	default:
		return because
	}
}

// refused says why the signal that stands first attributes nothing.
func refused(in AttributionInputs, first *signal) string {
	switch *first.RejectedBecause {
	case WhyClickUnknown:
		return "no click with the id " + first.Click.String() + " has been recorded here"
	case WhyClickExpired:
		return fmt.Sprintf("it lies after the attribution window of programme %s: the click was on %s and its window ended on %s",
			quoted(first), spoken(*first.At), spoken(*first.ExpiresAt))
	case WhyClickAfterConversion:
		return "the click was later: on " + spoken(*first.At)
	case WhyPromoCodeUnknown:
		return fmt.Sprintf("no programme has the promo code %q", *first.PromoCode)
	case WhyPromoCodeInactive:
		return fmt.Sprintf("the promo code %q %s", *first.PromoCode, unusable(in.FoundPromoCode, in.OccurredAt))
	case WhyProgramInactive:
		return "programme " + quoted(first) + " is not active"
	case WhyParticipantErased:
		return "the partner's data has been erased"
	default:
		panic("affiliate: no signal is refused for " + string(*first.RejectedBecause))
	}
}

// unusable says why a promo code cannot be used.
func unusable(code *FoundPromoCode, at time.Time) string {
	switch {
	case !code.Active:
		return "is not active"
	case code.ExpiresAt != nil && at.After(*code.ExpiresAt):
		return "was valid until " + spoken(*code.ExpiresAt) + " only"
	default:
		return "has been used as often as it may be"
	}
}

// others says what became of the signals that did not decide.
func others(signals []signal, deciding *signal) string {
	var b strings.Builder
	for i := range signals {
		s := &signals[i]
		if s == deciding {
			continue
		}
		what := "The " + strings.ReplaceAll(string(s.Type), "_", " ") + " that was reported with it"
		if s.Type == ByCustomer {
			what = "An earlier event of the customer"
		}
		switch *s.RejectedBecause {
		case WhyPromoCodeUnknown:
			fmt.Fprintf(&b, " No programme has the promo code %q that was reported with it.", *s.PromoCode)
		case WhyClickUnknown:
			b.WriteString(" " + what + " has not been recorded here.")
		case WhyClickExpired:
			b.WriteString(" " + what + " lies outside its attribution window.")
		case whyOutranked:
			b.WriteString(" " + what + " ranks lower.")
		default:
			b.WriteString(" " + what + " could not be used.")
		}
	}
	return b.String()
}

func eventNoun(e EventType) string {
	if e == Custom {
		return "event"
	}
	return string(e)
}

func quoted(s *signal) string { return strconv.Quote(s.earner.ProgramName) }

// spoken is an instant as a person reads it, with the milliseconds that decide
// at the edge of a window.
func spoken(t time.Time) string { return t.UTC().Format("2 January 2006 at 15:04:05.000 UTC") }

// spokenMoney is an amount as a person reads it, 49.00 EUR.
func spokenMoney(m Money) string {
	decimals := CurrencyExponent(m.Currency)
	digits := fmt.Sprintf("%0*d", decimals+1, m.Cents)
	if decimals > 0 {
		point := len(digits) - decimals
		digits = digits[:point] + "." + digits[point:]
	}
	return digits + " " + m.Currency
}
