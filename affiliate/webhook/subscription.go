package webhook

import (
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// allEvents is the subscription to all events.
	allEvents = "*"
	// nounSuffix is the end of a subscription to all events of a noun.
	nounSuffix = ".*"
)

// CheckSubscription returns the message of a violation if a subscription of an endpoint
// is not valid; empty if it is valid. A subscription must be *, the name of an event in
// the catalogue, or noun.* for a noun of the catalogue.
func CheckSubscription(subscription string) string {
	if subscription == allEvents {
		return ""
	}
	if subscription == string(affiliate.EventWebhookPing) {
		return "must not be webhook.ping, which only a test sends"
	}
	noun, all := strings.CutSuffix(subscription, nounSuffix)
	for _, kind := range affiliate.Catalogue() {
		if all && kind.Name.Noun() == noun || string(kind.Name) == subscription {
			return ""
		}
	}
	if all {
		return "must begin with the noun of an event"
	}
	return "must be the name of an event"
}
