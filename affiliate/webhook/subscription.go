package webhook

import (
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// everything is the subscription to all events.
	everything = "*"
	// allOf ends the subscription to all events of a noun.
	allOf = ".*"
)

// CheckSubscription says what is wrong with one word of an endpoint's subscriptions:
// it must be *, a name of the catalogue, or noun.* for a noun that the catalogue has.
// Empty: nothing.
func CheckSubscription(word string) string {
	if word == everything {
		return ""
	}
	if word == string(affiliate.EventWebhookPing) {
		return "must not be webhook.ping, which only a test sends"
	}
	noun, all := strings.CutSuffix(word, allOf)
	for _, kind := range affiliate.Catalogue() {
		if all && kind.Name.Noun() == noun || string(kind.Name) == word {
			return ""
		}
	}
	if all {
		return "must begin with the noun of an event"
	}
	return "must be the name of an event"
}
