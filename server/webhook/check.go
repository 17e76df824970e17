package webhook

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// clockSkew is the tolerated difference between the client's clock and this machine's
// clock. Without the tolerance, a client with a slightly different clock could not
// request the last 30 days or a time range that ends now.
const clockSkew = 5 * time.Minute

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.CreateWebhookRequest:
		s.checkURL(req.GetUrl(), &found)
		switch {
		case len(req.GetSubscriptions()) == 0 && len(req.GetEvents()) == 0:
			found.Add("subscriptions", "must have at least one event name")
		case len(req.GetSubscriptions()) > 0 && len(req.GetEvents()) > 0:
			found.Add("events", affiliate.MustNotBeWith("subscriptions")+", which is the same field")
		}
		checkSubscriptions("subscriptions", req.GetSubscriptions(), &found)
		checkSubscriptions("events", req.GetEvents(), &found)
	case *affiliatev1.UpdateWebhookRequest:
		server.CheckMask(req, &found, "subscriptions", "active")
		checkSubscriptions("subscriptions", req.GetSubscriptions(), &found)
	case *affiliatev1.RecoverDeliveriesRequest:
		checkRecovery(req, s.currentTime(), &found)
	}
	return found
}

func (s *Service) checkURL(raw string, found *affiliate.Violations) {
	url, wrong := webhook.ParseURL(raw)
	for _, message := range wrong {
		found.Add("url", message)
	}
	if len(wrong) == 0 && s.client.RefusesPort(url) {
		found.Add("url", portMessage)
	}
}

func checkSubscriptions(field string, subscriptions []string, found *affiliate.Violations) {
	for i, subscription := range subscriptions {
		if wrong := webhook.CheckSubscription(subscription); wrong != "" {
			found.Add(fmt.Sprintf("%s[%d]", field, i), wrong)
		}
	}
}

// checkRecovery validates the time range and the statuses of a recovery. It ignores
// invalid timestamps, because checks in package server reject them.
func checkRecovery(req *affiliatev1.RecoverDeliveriesRequest, now time.Time, found *affiliate.Violations) {
	since, until := req.GetSince(), req.GetUntil()
	if since.IsValid() && since.AsTime().Before(now.Add(-maxEventAge-clockSkew)) {
		found.Add("since", "must be in the last 30 days")
	}
	if since.IsValid() && until == nil && !since.AsTime().Before(now) {
		found.Add("since", "must be in the past")
	}
	if until.IsValid() && until.AsTime().After(now.Add(clockSkew)) {
		found.Add("until", "must not be in the future")
	}
	if since.IsValid() && until.IsValid() && !since.AsTime().Before(until.AsTime()) {
		found.Add("since", "must be before {until}")
	}
	for i, status := range req.GetStatuses() {
		if !slices.Contains(recoverable, webhook.DeliveryStatus(server.EnumName(status))) {
			found.Add(fmt.Sprintf("statuses[%d]", i), "must be one of dead_lettered, canceled, failed, delivered")
		}
	}
}

// recoverable lists the statuses that a recovery can select. The list does not contain
// pending deliveries, because they will be sent without a recovery.
var recoverable = []webhook.DeliveryStatus{
	webhook.DeliveryDeadLettered, webhook.DeliveryCanceled, webhook.DeliveryFailed, webhook.DeliveryDelivered,
}
