package webhook

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestCheckSubscription_AcceptsEventsAndNouns(t *testing.T) {
	subscriptions := []string{"*", "conversion.*", "commission.*", "participant.*", "payout.*", "link.*", "promo_code.*", "program.*", "gdpr.*"}
	for _, kind := range affiliate.Catalogue() {
		subscriptions = append(subscriptions, string(kind.Name), kind.Name.Noun()+".*")
	}
	for _, subscription := range subscriptions {
		if wrong := CheckSubscription(subscription); wrong != "" {
			t.Errorf("CheckSubscription(%q) = %q, want no violation", subscription, wrong)
		}
	}
}

func TestCheckSubscription_Rejects(t *testing.T) {
	const notAnEvent, notANoun = "must be the name of an event", "must begin with the noun of an event"
	for subscription, want := range map[string]string{
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
		if got := CheckSubscription(subscription); got != want {
			t.Errorf("CheckSubscription(%q) = %q, want %q", subscription, got, want)
		}
	}
}
