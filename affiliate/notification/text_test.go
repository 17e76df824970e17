package notification_test

import (
	"cmp"
	"maps"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/eventtest"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/participant"
)

func TestNotificationText(t *testing.T) {
	participant := affiliatetest.ID[affiliate.ParticipantID](4)
	all := notification.Names{ProgramName: "Garden Friends", PartnerName: "Anna Jansen", UserName: "Mia Berg"}
	for _, tc := range []struct {
		name     string
		audience affiliate.AccountKind
		kind     notification.Type
		facts    map[string]string
		names    notification.Names
		want     string
	}{
		{"names", affiliate.Merchant, "participant.applied", nil, all, "Anna Jansen applied to Garden Friends."},
		{"erased names", affiliate.Merchant, "participant.applied", nil, notification.Names{}, "A partner applied to a programme."},
		{"optional parts", affiliate.Merchant, "conversion.created", map[string]string{"event": "purchase", "amount": "49.00 USD"}, all, "A purchase of 49.00 USD was recorded and credited to Anna Jansen."},
		{"optional part without a value", affiliate.Merchant, "conversion.created", map[string]string{"event": "signup"}, all, "A signup was recorded and credited to Anna Jansen."},
		{"a reason", affiliate.Partner, "payout.failed", map[string]string{"amount": "5.00 USD", "reason": "No account"}, all, "A payout of 5.00 USD from Garden Friends could not be paid: No account. Check your payout method."},
		{"no reason", affiliate.Partner, "payout.failed", map[string]string{"amount": "5.00 USD"}, notification.Names{}, "A payout of 5.00 USD from a programme could not be paid. Check your payout method."},
		{"a user at the start", affiliate.Merchant, "account.member_joined", map[string]string{"role": "admin"}, notification.Names{}, "A user joined the workspace with the role admin."},
		{"a user in the middle", affiliate.Merchant, "account.email_verified", nil, notification.Names{}, "The e-mail address of a user is verified."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := notification.Notification{Audience: tc.audience, Type: tc.kind, Facts: tc.facts, Participant: &participant}
			if _, body := n.Text(tc.names); body != tc.want {
				t.Errorf("body %q, want %q", body, tc.want)
			}
		})
	}
}

func TestNotificationText_OmitsCreditWithoutParticipant(t *testing.T) {
	n := notification.Notification{Audience: affiliate.Merchant, Type: "conversion.created", Facts: map[string]string{"event": "lead"}}
	if _, body := n.Text(notification.Names{}); body != "A lead was recorded." {
		t.Errorf("body %q, want %q", body, "A lead was recorded.")
	}
}

func TestNotificationTextFacts(t *testing.T) {
	n := notification.Notification{Audience: affiliate.Partner, Type: "payout.failed", Facts: map[string]string{"amount": "12.50 EUR", "secret": "x"}}
	for name, tc := range map[string]struct {
		names notification.Names
		want  map[string]string
	}{
		"all names":       {notification.Names{ProgramName: "Garden", UserName: "Mia"}, map[string]string{"amount": "12.50 EUR", "program": "Garden"}},
		"an unknown name": {notification.Names{}, map[string]string{"amount": "12.50 EUR"}},
	} {
		if got := n.TextFacts(tc.names); !maps.Equal(got, tc.want) {
			t.Errorf("%s: the facts are %v, want those of the text that have a value: %v", name, got, tc.want)
		}
	}
}

// Names and facts are inserted as they are, even if they look like placeholders or HTML.
func TestNotificationText_DoesNotInterpretValues(t *testing.T) {
	for _, hostile := range []string{"{program}", "[x]", "]{user}[", "<script>alert(1)</script>", "a\r\nBcc: x@example.com", "{", "%s%!d"} {
		n := notification.Notification{Audience: affiliate.Partner, Type: "payout.failed", Facts: map[string]string{"amount": hostile, "reason": hostile}}
		want := "A payout of " + hostile + " from " + hostile + " could not be paid: " + hostile + ". Check your payout method."
		if _, body := n.Text(notification.Names{ProgramName: hostile, UserName: "Mia"}); body != want {
			t.Errorf("body %q, want %q", body, want)
		}
		n = notification.Notification{Audience: affiliate.Partner, Type: notification.NotifyProgramAnnouncement, Facts: map[string]string{"title": hostile, "text": hostile}}
		if title, body := n.Text(notification.Names{ProgramName: "p"}); title != hostile || body != hostile {
			t.Errorf("title %q and body %q of an announcement, want %q", title, body, hostile)
		}
	}
}

func TestEventNotifications_WriteMoneyWithDecimalsOfCurrency(t *testing.T) {
	for currency, want := range map[string]string{"USD": "12.34 USD", "JPY": "1234 JPY", "KWD": "1.234 KWD"} {
		c := eventtest.Commission()
		c.AmountCents, c.OriginalAmountCents, c.Currency = 1234, 1234, currency
		n := notificationFor(t, commission.NewEvent(affiliate.EventCommissionCreated, affiliatetest.Noon, nil, c), affiliate.Merchant)
		if _, body := n.Text(notification.Names{}); !strings.Contains(body, " "+want+" ") {
			t.Errorf("body %q, want the amount %s", body, want)
		}
	}
}

func TestEventNotifications_NameTheEventType(t *testing.T) {
	c, d := eventtest.Conversion()
	for eventType, want := range map[affiliate.EventType]string{
		affiliate.Purchase: "A purchase of 49.00 USD was", affiliate.Signup: "A signup of 49.00 USD was", affiliate.Custom: "A custom event of 49.00 USD was",
	} {
		c.EventType = eventType
		n := notificationFor(t, c.Event(affiliate.EventConversionCreated, d, affiliatetest.Noon), affiliate.Merchant)
		if _, body := n.Text(notification.Names{}); !strings.HasPrefix(body, want) {
			t.Errorf("body %q, want the start %q", body, want)
		}
	}
}

// The reason for a rejection or suspension is internal to the merchant.
func TestEventNotifications_HideReasonsFromPartners(t *testing.T) {
	for _, status := range []participant.Status{participant.Rejected, participant.Suspended} {
		p := eventtest.Participant(status)
		name := affiliate.EventName("participant." + status)
		n := notificationFor(t, p.Event(name, affiliatetest.Noon, nil), affiliate.Partner)
		if title, body := n.Text(notification.Names{ProgramName: "Garden Friends"}); *p.Object().Reason == "" || len(n.Facts) > 0 || strings.Contains(title+body, *p.Object().Reason) {
			t.Errorf("%s: body %q and facts %v, want neither to contain the reason %q", name, body, n.Facts, *p.Object().Reason)
		}
	}
}

func TestNotificationActionURL(t *testing.T) {
	program, id := affiliatetest.ID[affiliate.ProgramID](3), affiliatetest.ID[affiliate.CommissionID](2).UUID
	base := notification.Notification{Resource: &id, Program: &program}
	apps := notification.Apps{Console: "https://app.example/", Portal: "https://partners.example/portal/"}
	inTestMode := func(n *notification.Notification) { n.Mode = new(affiliate.ModeTest) }
	for _, tc := range []struct {
		name   string
		apps   notification.Apps
		to     affiliate.AccountKind
		kind   notification.Type
		change func(*notification.Notification)
		want   string // empty: none
	}{
		{name: "a commission", apps: apps, kind: "commission.created", want: "https://app.example/commissions/" + id.String()},
		{name: "a page of a programme", apps: apps, kind: "participant.applied", want: "https://app.example/programs/" + program.String() + "/partners/" + id.String()},
		{name: "a page without an id", apps: apps, kind: "security.api_key_created", want: "https://app.example/settings/api-keys"},
		{name: "no console", apps: notification.Apps{Portal: apps.Portal}, kind: "commission.created"},
		{name: "no page", apps: apps, kind: "summary.weekly"},
		{name: "no id", apps: apps, kind: "commission.created", change: func(n *notification.Notification) { n.Resource = nil }},
		{name: "no programme", apps: apps, kind: "participant.applied", change: func(n *notification.Notification) { n.Program = nil }},
		{name: "a merchant's commission in test mode", apps: apps, kind: "commission.created", change: inTestMode, want: "https://app.example/test/commissions/" + id.String()},
		{name: "a partner's commission", apps: apps, to: affiliate.Partner, kind: "commission.created", want: "https://partners.example/portal/commissions/" + id.String()},
		{name: "test mode", apps: apps, to: affiliate.Partner, kind: "payout.paid", change: inTestMode, want: "https://partners.example/portal/test/payouts/" + id.String()},
		{name: "the partner's programme", apps: apps, to: affiliate.Partner, kind: "participant.approved", want: "https://partners.example/portal/programs/" + program.String()},
		{
			name: "a page of its own", apps: apps, to: affiliate.Partner, kind: "payout.method_missing",
			change: func(n *notification.Notification) { n.Resource = nil }, want: "https://partners.example/portal/payouts/method",
		},
		{name: "no portal", apps: notification.Apps{Console: apps.Console}, to: affiliate.Partner, kind: "payout.paid", change: inTestMode},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := base
			n.Type, n.Audience = tc.kind, cmp.Or(tc.to, affiliate.Merchant)
			if tc.change != nil {
				tc.change(&n)
			}
			got := ""
			if url := n.ActionURL(tc.apps); url != nil {
				got = *url
			}
			if got != tc.want {
				t.Errorf("ActionURL returned %q, want %q", got, tc.want)
			}
		})
	}
}
