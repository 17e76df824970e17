package webhook

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestCheckSubscription_AcceptsEventsAndNouns(t *testing.T) {
	words := []string{"*", "conversion.*", "commission.*", "participant.*", "payout.*", "link.*", "promo_code.*", "program.*", "gdpr.*"}
	for _, kind := range affiliate.Catalogue() {
		words = append(words, string(kind.Name), kind.Name.Noun()+".*")
	}
	for _, word := range words {
		if wrong := CheckSubscription(word); wrong != "" {
			t.Errorf("%q %s", word, wrong)
		}
	}
}

func TestCheckSubscription_Rejects(t *testing.T) {
	const notAnEvent, notANoun = "must be the name of an event", "must begin with the noun of an event"
	for word, want := range map[string]string{
		"":                     notAnEvent,
		"commission":           notAnEvent,
		"commission.":          notAnEvent,
		"commission.create":    notAnEvent,
		"commission.created ":  notAnEvent,
		"Commission.created":   notAnEvent,
		"commission.created.*": notANoun,
		"commission.**":        notAnEvent,
		"commission.cr*":       notAnEvent,
		"**":                   notAnEvent,
		".*":                   notANoun,
		"*.*":                  notANoun,
		"*.created":            notAnEvent,
		"click.*":              notANoun,
		"promo.*":              notANoun,
		"webhook.*":            notANoun,
		"webhook.ping":         "must not be webhook.ping, which only a test sends",
	} {
		if got := CheckSubscription(word); got != want {
			t.Errorf("%q %s, want %q", word, got, want)
		}
	}
}
