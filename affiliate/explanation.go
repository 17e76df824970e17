package affiliate

import (
	"fmt"
	"strings"
	"time"
)

// explain puts a decision into sentences that a merchant's support can send on
// to a partner as they are: no internal words, no other partner, nobody's name.
func explain(in AttributionInputs, d Decision, signals []signal, deciding *signal) string {
	event := "The " + eventNoun(in.EventType)
	when := "on " + spoken(in.OccurredAt)
	sentence := ""
	switch d.Reason {
	case WhyClickMatched:
		sentence = fmt.Sprintf("%s %s is credited to the partner whose link was clicked on %s. It lies within the attribution window of programme %s, which ends on %s.",
			event, when, spoken(*d.ClickedAt), quoted(deciding), spoken(*d.ExpiresAt))
	case WhyParticipantNotApproved:
		sentence = fmt.Sprintf("%s %s is credited to the partner whose link was clicked on %s, but earns no commission, because the partner's participation in programme %s is %s.",
			event, when, spoken(*d.ClickedAt), quoted(deciding), deciding.earner.ParticipantStatus)
	case WhyRuleNotApplicable:
		sentence = fmt.Sprintf("%s %s is credited to the partner whose link was clicked on %s, but earns no commission, because programme %s pays for purchases and renewals only.",
			event, when, spoken(*d.ClickedAt), quoted(deciding))
	case WhyClickUnknown:
		sentence = fmt.Sprintf("%s %s is not credited to a partner, because no click with the id %s has been recorded here.", event, when, deciding.Click)
	case WhyClickExpired:
		sentence = fmt.Sprintf("%s %s is not credited to a partner, because it lies after the attribution window of programme %s: the click was on %s and its window ended on %s.",
			event, when, quoted(deciding), spoken(*d.ClickedAt), spoken(*d.ExpiresAt))
	case WhyClickAfterConversion:
		sentence = fmt.Sprintf("%s %s is not credited to a partner, because the click was later: on %s.", event, when, spoken(*d.ClickedAt))
	case WhyPromoCodeUnknown:
		sentence = fmt.Sprintf("%s %s is not credited to a partner, because no programme has the promo code %q.", event, when, *deciding.PromoCode)
	case WhyProgramInactive:
		sentence = fmt.Sprintf("%s %s is not credited to a partner, because programme %s is not active.", event, when, quoted(deciding))
	case WhyParticipantErased:
		sentence = fmt.Sprintf("%s %s is not credited to a partner, because the data of the participant behind the signal has been erased.", event, when)
	case whyOutranked:
		panic("affiliate: a losing signal does not decide")
	}
	return sentence + others(signals, deciding)
}

// others says what became of the signals that did not decide.
func others(signals []signal, deciding *signal) string {
	var b strings.Builder
	for i := range signals {
		s := &signals[i]
		if s == deciding || s.RejectedBecause == nil {
			continue
		}
		switch *s.RejectedBecause {
		case WhyPromoCodeUnknown:
			fmt.Fprintf(&b, " No programme has the promo code %q that was reported with it.", *s.PromoCode)
		case whyOutranked:
			b.WriteString(" A second signal was reported with it and ranks lower.")
		default:
			fmt.Fprintf(&b, " The %s that was reported with it could not be used.", strings.ReplaceAll(string(s.Type), "_", " "))
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

func quoted(s *signal) string { return fmt.Sprintf("%q", s.earner.ProgramName) }

// spoken is an instant as a person reads it, with the milliseconds that decide
// at the edge of a window.
func spoken(t time.Time) string { return t.UTC().Format("2 January 2006 at 15:04:05.000 UTC") }
