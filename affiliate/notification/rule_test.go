package notification_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/eventtest"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// wantRules lists the expected notifications: category and severity by audience and type.
var wantRules = map[affiliate.AccountKind]map[notification.Type]string{
	affiliate.Merchant: {
		"participant.applied":              "partner_applications info",
		"conversion.created":               "conversions info",
		"commission.created":               "commissions info",
		"conversion.fraud_detected":        "fraud_review warning",
		"commission.review_required":       "fraud_review warning",
		"conversion.refunded":              "refunds_disputes info",
		"commission.disputed":              "refunds_disputes warning",
		"commission.dispute_resolved":      "refunds_disputes info",
		"payout.paid":                      "payouts info",
		"payout_batch.awaiting_approval":   "payouts warning",
		"security.payout_approval_changed": "security warning",
		"payout.canceled":                  "payouts info",
		"payout.failed":                    "payouts critical",
		"webhook.dead_lettered":            "webhook_health warning",
		"webhook.disabled":                 "webhook_health critical",
		"gdpr.export_ready":                "gdpr info",
		"gdpr.buyer_erasure_completed":     "gdpr info",
		"security.new_device":              "security warning",
		"security.password_changed":        "security warning",
		"security.email_changed":           "security warning",
		"security.api_key_created":         "security warning",
		"security.api_key_rolled":          "security warning",
		"security.api_key_revoked":         "security warning",
		"security.service_token_created":   "security warning",
		"security.service_token_rolled":    "security warning",
		"security.service_token_revoked":   "security warning",
		"security.second_factor_enabled":   "security warning",
		"security.second_factor_disabled":  "security warning",
		"security.recovery_code_used":      "security warning",
		"security.wrong_codes":             "security warning",
		"security.role_changed":            "security warning",
		"security.ownership_moved":         "security critical",
		"account.verify_email":             "account info",
		"account.email_verified":           "account info",
		"account.member_joined":            "account info",
		"account.member_left":              "account info",
		"processor.connected":              "account info",
		"processor.disconnected":           "account warning",
		"processor.event_failed":           "webhook_health critical",
		"processor.endpoint_failing":       "webhook_health critical",
		"summary.weekly":                   "weekly_summary info",
		"product.announcement":             "product_updates info",
	},
	affiliate.Partner: {
		"participant.offered":             "application_status info",
		"participant.approved":            "application_status info",
		"participant.rejected":            "application_status info",
		"participant.suspended":           "application_status warning",
		"participant.reinstated":          "application_status info",
		"commission.created":              "commissions info",
		"commission.approved":             "commissions info",
		"commission.rejected":             "commissions info",
		"commission.refunded":             "commissions info",
		"payout.processing":               "payouts info",
		"payout.paid":                     "payouts info",
		"payout.failed":                   "payout_problems critical",
		"payout.method_missing":           "payout_problems warning",
		"payout.method_proposed":          "payouts info",
		"program.announcement":            "programme_news info",
		"summary.monthly":                 "monthly_summary info",
		"gdpr.export_ready":               "gdpr info",
		"security.new_device":             "security warning",
		"security.password_changed":       "security warning",
		"security.second_factor_enabled":  "security warning",
		"security.second_factor_disabled": "security warning",
		"security.recovery_code_used":     "security warning",
		"security.wrong_codes":            "security warning",
		"security.payout_method_changed":  "security warning",
		"security.email_changed":          "security warning",
		"account.verify_email":            "account info",
		"account.email_verified":          "account info",
	},
}

func TestNotificationRules_Table(t *testing.T) {
	got := map[affiliate.AccountKind]map[notification.Type]string{affiliate.Merchant: {}, affiliate.Partner: {}}
	for _, rule := range notification.Rules() {
		if _, twice := got[rule.Audience][rule.Type]; twice {
			t.Errorf("%s has two rules for the audience %s", rule.Type, rule.Audience)
		}
		got[rule.Audience][rule.Type] = fmt.Sprintf("%s %s", rule.Category, rule.Severity)
	}
	for audience, want := range wantRules {
		if !maps.Equal(got[audience], want) {
			t.Errorf("the rules for the audience %s are\n%v, want\n%v", audience, got[audience], want)
		}
	}
}

// wantFacts contains the facts of the notifications that have no webhook event. The code
// that creates these notifications must set them. An optional fact has a question mark.
var wantFacts = map[notification.Type]string{
	"webhook.dead_lettered":            "url",
	"webhook.disabled":                 "url reason",
	"processor.event_failed":           "mode account processor reason",
	"processor.endpoint_failing":       "mode account processor reason",
	"processor.connected":              "mode account processor",
	"processor.disconnected":           "mode account processor",
	"security.new_device":              "network?",
	"security.password_changed":        "",
	"security.email_changed":           "",
	"security.api_key_created":         "mode key last4",
	"security.api_key_rolled":          "mode key last4",
	"security.api_key_revoked":         "mode key last4",
	"security.service_token_created":   "mode key role last4",
	"security.service_token_rolled":    "mode key role last4",
	"security.service_token_revoked":   "mode key role last4",
	"security.payout_method_changed":   "method until?",
	"security.payout_approval_changed": "rule",
	"payout_batch.awaiting_approval":   "payouts",
	"security.second_factor_enabled":   "",
	"security.second_factor_disabled":  "",
	"security.recovery_code_used":      "left",
	"security.wrong_codes":             "",
	"participant.offered":              "",
	"security.role_changed":            "before after",
	"security.ownership_moved":         "",
	"account.verify_email":             "",
	"account.email_verified":           "",
	"account.member_joined":            "role",
	"account.member_left":              "name",
	"payout.method_missing":            "amount",
	"payout.method_proposed":           "",
	"program.announcement":             "title text",
	"product.announcement":             "title text",
	"summary.weekly":                   "summary",
	"summary.monthly":                  "summary",
}

var (
	placeholderPattern = regexp.MustCompile(`\{([a-z0-9_]*)\}`)
	optionalPattern    = regexp.MustCompile(`\[[^\[\]]*\]`)
	names              = []string{"program", "partner", "credited", "user"}
)

// factsOf returns the facts in the texts of a rule in the form of wantFacts.
func factsOf(rule notification.Rule) string {
	text := rule.Title + " " + rule.Body
	var facts []string
	for i, part := range []string{optionalPattern.ReplaceAllString(text, ""), strings.Join(optionalPattern.FindAllString(text, -1), "")} {
		for _, match := range placeholderPattern.FindAllStringSubmatch(part, -1) {
			fact := match[1] + []string{"", "?"}[i]
			if !slices.Contains(names, match[1]) && !slices.Contains(facts, fact) {
				facts = append(facts, fact)
			}
		}
	}
	return strings.Join(facts, " ")
}

// Every placeholder is a name or a fact that the cause provides. The facts of webhook
// events are checked with the example of the event.
func TestNotificationRules_PlaceholdersAreKnown(t *testing.T) {
	events := eventtest.Examples(t)
	for _, rule := range notification.Rules() {
		if left := placeholderPattern.ReplaceAllString(optionalPattern.ReplaceAllString(rule.Title+rule.Body, ""), ""); strings.ContainsAny(left, "{}[]") {
			t.Errorf("%s: the braces or brackets in %q do not match", rule.Type, rule.Title+rule.Body)
		}
		event, isEvent := events[affiliate.EventName(rule.Type)]
		if facts, ok := wantFacts[rule.Type]; ok {
			if got := factsOf(rule); got != facts || isEvent || rule.Cause == "" {
				t.Errorf("%s of the audience %s has the facts %q and the cause %q, want %q and a cause", rule.Type, rule.Audience, got, rule.Cause, facts)
			}
			continue
		}
		if !isEvent {
			t.Errorf("%s is not an event and not in wantFacts", rule.Type)
			continue
		}
		partner := affiliatetest.ID[affiliate.UserID](8)
		event.Partner = &partner
		n := notificationFor(t, event, rule.Audience)
		for fact := range strings.FieldsSeq(factsOf(rule)) {
			if !strings.HasSuffix(fact, "?") && n.Facts[fact] == "" {
				t.Errorf("%s: the event has the facts %v, which lack %s", rule.Type, n.Facts, fact)
			}
		}
		// The dashboard has no page about an export.
		hasResource := event.Name != affiliate.EventGDPRExportReady
		if hasResource == (rule.Resource == notification.NoResource) || hasResource == (n.Resource == nil) {
			t.Errorf("%s has the resource %q with the id %v, want a resource with an id: %t", rule.Type, rule.Resource, n.Resource, hasResource)
		}
	}
}

// notificationFor returns the notification about an event in the feed of an audience.
func notificationFor(t *testing.T, event affiliate.Event, audience affiliate.AccountKind) notification.Notification {
	t.Helper()
	for _, n := range notification.NotificationsOf(event) {
		if n.Audience == audience {
			return n
		}
	}
	t.Fatalf("%s has no notification for the audience %s", event.Name, audience)
	return notification.Notification{}
}

func TestEventNotifications_GoToWorkspaceAndPartner(t *testing.T) {
	earned := eventtest.Commission()
	earned.Partner = affiliatetest.ID[affiliate.UserID](8)
	created := commission.NewEvent(affiliate.EventCommissionCreated, affiliatetest.Noon, nil, earned)
	got := notification.NotificationsOf(created)
	if len(got) != 2 {
		t.Fatalf("%d notifications, want 2", len(got))
	}
	for i, want := range []notification.FeedID{notification.WorkspaceFeed(affiliatetest.Scope.Workspace), notification.PartnerFeed(earned.Partner)} {
		n := got[i]
		if n.Feed != want || n.ID.UUID != created.ID.UUID || *n.Mode != affiliate.ModeLive || *n.Workspace != affiliatetest.Scope.Workspace ||
			*n.Program != earned.Program || *n.Participant != earned.Participant || *n.Resource != earned.ID.UUID || !n.CreatedAt().Equal(affiliatetest.Noon) {
			t.Errorf("notification %d is %+v, want the ids of the event in the feed %s", i, n, want)
		}
	}
	for _, name := range []affiliate.EventName{
		affiliate.EventCommissionPaid, affiliate.EventPayoutCreated, affiliate.EventLinkCreated, affiliate.EventProgramUpdated, affiliate.EventConversionReattributed,
	} {
		event := eventtest.Examples(t)[name]
		event.Partner = &earned.Partner
		if got := notification.NotificationsOf(event); len(got) != 0 {
			t.Errorf("%s has the notifications %+v, want none", name, got)
		}
	}
	withoutPartner := created
	withoutPartner.Partner = nil
	if got := notification.NotificationsOf(withoutPartner); len(got) != 1 || got[0].Audience != affiliate.Merchant {
		t.Errorf("an event without a partner has the notifications %+v, want one for the merchant", got)
	}
}
