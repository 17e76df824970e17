package webhook

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestSubscriptionsThatAreWell(t *testing.T) {
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

func TestSubscriptionsThatAreNot(t *testing.T) {
	const none, noNoun = "must be the name of an event", "must begin with the noun of an event"
	for word, want := range map[string]string{
		"":                     none,
		"commission":           none,
		"commission.":          none,
		"commission.create":    none,
		"commission.created ":  none,
		"Commission.created":   none,
		"commission.created.*": noNoun,
		"commission.**":        none,
		"commission.cr*":       none,
		"**":                   none,
		".*":                   noNoun,
		"*.*":                  noNoun,
		"*.created":            none,
		"click.*":              noNoun,
		"promo.*":              noNoun,
		"webhook.*":            noNoun,
		"webhook.ping":         "must not be webhook.ping, which only a test sends",
	} {
		if got := CheckSubscription(word); got != want {
			t.Errorf("%q %s, want %q", word, got, want)
		}
	}
}
