package affiliate_test

import (
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestNotificationText(t *testing.T) {
	participant := exampleID[affiliate.ParticipantID](4)
	all := affiliate.NotificationNames{Program: "Garden Friends", Partner: "Anna Jansen", User: "Mia Berg"}
	for _, tc := range []struct {
		name     string
		audience affiliate.AccountKind
		kind     affiliate.NotificationType
		facts    map[string]string
		names    affiliate.NotificationNames
		want     string
	}{
		{"names", affiliate.Merchant, "participant.applied", nil, all, "Anna Jansen applied to Garden Friends."},
		{"erased names", affiliate.Merchant, "participant.applied", nil, affiliate.NotificationNames{}, "A partner applied to a programme."},
		{"optional parts", affiliate.Merchant, "conversion.created", map[string]string{"event": "purchase", "amount": "49.00 USD"}, all, "A purchase of 49.00 USD was recorded and credited to Anna Jansen."},
		{"optional part without a value", affiliate.Merchant, "conversion.created", map[string]string{"event": "signup"}, all, "A signup was recorded and credited to Anna Jansen."},
		{"a reason", affiliate.Partner, "payout.failed", map[string]string{"amount": "5.00 USD", "reason": "No account"}, all, "A payout of 5.00 USD from Garden Friends could not be paid: No account. Check your payout method."},
		{"no reason", affiliate.Partner, "payout.failed", map[string]string{"amount": "5.00 USD"}, affiliate.NotificationNames{}, "A payout of 5.00 USD from a programme could not be paid. Check your payout method."},
		{"a user at the start", affiliate.Merchant, "account.member_joined", map[string]string{"role": "admin"}, affiliate.NotificationNames{}, "A user joined the workspace with the role admin."},
		{"a user in the middle", affiliate.Merchant, "account.email_verified", nil, affiliate.NotificationNames{}, "The e-mail address of a user is verified."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := affiliate.Notification{Audience: tc.audience, Type: tc.kind, Facts: tc.facts, Participant: &participant}
			if _, body := n.Text(tc.names); body != tc.want {
				t.Errorf("body %q, want %q", body, tc.want)
			}
		})
	}
}

func TestNotificationText_OmitsCreditWithoutParticipant(t *testing.T) {
	n := affiliate.Notification{Audience: affiliate.Merchant, Type: "conversion.created", Facts: map[string]string{"event": "lead"}}
	if _, body := n.Text(affiliate.NotificationNames{}); body != "A lead was recorded." {
		t.Errorf("body %q, want %q", body, "A lead was recorded.")
	}
}

// Names and facts are inserted as they are, even if they look like placeholders or HTML.
func TestNotificationText_DoesNotInterpretValues(t *testing.T) {
	for _, hostile := range []string{"{program}", "[x]", "]{user}[", "<script>alert(1)</script>", "a\r\nBcc: x@example.com", "{", "%s%!d"} {
		n := affiliate.Notification{Audience: affiliate.Partner, Type: "payout.failed", Facts: map[string]string{"amount": hostile, "reason": hostile}}
		want := "A payout of " + hostile + " from " + hostile + " could not be paid: " + hostile + ". Check your payout method."
		if _, body := n.Text(affiliate.NotificationNames{Program: hostile, User: "Mia"}); body != want {
			t.Errorf("body %q, want %q", body, want)
		}
		n = affiliate.Notification{Audience: affiliate.Partner, Type: affiliate.NotifyProgramAnnouncement, Facts: map[string]string{"title": hostile, "text": hostile}}
		if title, body := n.Text(affiliate.NotificationNames{Program: "p"}); title != hostile || body != hostile {
			t.Errorf("title %q and body %q of an announcement, want %q", title, body, hostile)
		}
	}
}

func TestEventNotifications_WriteMoneyWithDecimalsOfCurrency(t *testing.T) {
	for currency, want := range map[string]string{"USD": "12.34 USD", "JPY": "1234 JPY", "KWD": "1.234 KWD"} {
		c := exampleCommission()
		c.AmountCents, c.OriginalAmountCents, c.Currency = 1234, 1234, currency
		n := notificationFor(t, affiliate.CommissionEvent(affiliate.EventCommissionCreated, noon, nil, c), affiliate.Merchant)
		if _, body := n.Text(affiliate.NotificationNames{}); !strings.Contains(body, " "+want+" ") {
			t.Errorf("body %q, want the amount %s", body, want)
		}
	}
}

func TestEventNotifications_NameTheEventType(t *testing.T) {
	c, d := exampleConversion()
	for eventType, want := range map[affiliate.EventType]string{
		affiliate.Purchase: "A purchase of 49.00 USD was", affiliate.Signup: "A signup of 49.00 USD was", affiliate.Custom: "A custom event of 49.00 USD was",
	} {
		c.EventType = eventType
		n := notificationFor(t, c.Event(affiliate.EventConversionCreated, d, noon), affiliate.Merchant)
		if _, body := n.Text(affiliate.NotificationNames{}); !strings.HasPrefix(body, want) {
			t.Errorf("body %q, want the start %q", body, want)
		}
	}
}

// The reason for a rejection or suspension is internal to the merchant.
func TestEventNotifications_HideReasonsFromPartners(t *testing.T) {
	for _, status := range []affiliate.ParticipantStatus{affiliate.ParticipantRejected, affiliate.ParticipantSuspended} {
		p := exampleParticipant(status)
		name := affiliate.EventName("participant." + status)
		n := notificationFor(t, p.Event(name, noon, nil), affiliate.Partner)
		if title, body := n.Text(affiliate.NotificationNames{Program: "Garden Friends"}); *p.Object().Reason == "" || len(n.Facts) > 0 || strings.Contains(title+body, *p.Object().Reason) {
			t.Errorf("%s: body %q and facts %v, want neither to contain the reason %q", name, body, n.Facts, *p.Object().Reason)
		}
	}
}

func TestNotificationActionURL(t *testing.T) {
	program, id := exampleID[affiliate.ProgramID](3), exampleID[affiliate.CommissionID](2).UUID
	base := affiliate.Notification{Audience: affiliate.Merchant, Resource: &id, Program: &program}
	for _, tc := range []struct {
		name, appURL string
		kind         affiliate.NotificationType
		change       func(*affiliate.Notification)
		want         string // empty: none
	}{
		{name: "a commission", appURL: "https://app.example", kind: "commission.created", want: "https://app.example/commissions/" + id.String()},
		{name: "a base with a path and a slash", appURL: "https://shop.example/app/", kind: "payout.paid", want: "https://shop.example/app/payouts/" + id.String()},
		{name: "a page of a programme", appURL: "https://app.example", kind: "participant.applied", want: "https://app.example/programs/" + program.String() + "/partners/" + id.String()},
		{name: "a page without an id", appURL: "https://app.example", kind: "security.api_key_created", want: "https://app.example/settings/api-keys"},
		{name: "no dashboard", kind: "commission.created"},
		{name: "no resource", appURL: "https://app.example", kind: "gdpr.export_ready"},
		{name: "no id", appURL: "https://app.example", kind: "commission.created", change: func(n *affiliate.Notification) { n.Resource = nil }},
		{name: "no programme", appURL: "https://app.example", kind: "participant.applied", change: func(n *affiliate.Notification) { n.Program = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := base
			n.Type = tc.kind
			if tc.change != nil {
				tc.change(&n)
			}
			got := ""
			if url := n.ActionURL(tc.appURL); url != nil {
				got = *url
			}
			if got != tc.want {
				t.Errorf("ActionURL returned %q, want %q", got, tc.want)
			}
		})
	}
}
