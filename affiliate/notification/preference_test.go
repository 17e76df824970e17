package notification_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// wantCategories lists the expected categories. protected is P for both channels and mail
// for the mails only; off means that mails are off by default. The roles are owner,
// admin, manager, finance, developer and viewer by initial.
var wantCategories = map[affiliate.AccountKind][]struct{ category, flags, roles string }{
	affiliate.Merchant: {
		{"security", "P both personal", "oamfd"},
		{"account", "P both personal", "oam"},
		{"gdpr", "P both", "oam"},
		{"billing", "P both", "oaf"},
		{"webhook_health", "mail", "oad"},
		{"partner_applications", "", "oamv"},
		{"conversions", "off", "oamv"},
		{"commissions", "", "oamfv"},
		{"fraud_review", "", "oamv"},
		{"refunds_disputes", "", "oamfv"},
		{"payouts", "", "oamfv"},
		{"weekly_summary", "both", "oamv"},
		{"product_updates", "off both", "oamv"},
	},
	affiliate.Partner: {
		{"security", "P both", ""},
		{"account", "P both", ""},
		{"gdpr", "P both", ""},
		{"payout_problems", "P", ""},
		{"application_status", "", ""},
		{"commissions", "", ""},
		{"payouts", "", ""},
		{"programme_news", "", ""},
		{"monthly_summary", "both", ""},
	},
}

var rolesByInitial = map[rune]affiliate.Role{
	'o': affiliate.RoleOwner, 'a': affiliate.RoleAdmin, 'm': affiliate.RoleManager, 'f': affiliate.RoleFinance, 'd': affiliate.RoleDeveloper, 'v': affiliate.RoleViewer,
}

// readers returns a reader of each role for merchants, and one reader for partners.
func readers(audience affiliate.AccountKind) map[rune]notification.Reader {
	all := map[rune]notification.Reader{}
	for initial, role := range rolesByInitial {
		all[initial] = notification.Reader{Kind: affiliate.Merchant, Role: role, Mode: affiliate.ModeTest}
	}
	if audience == affiliate.Partner {
		return map[rune]notification.Reader{0: {Kind: affiliate.Partner, Mode: affiliate.ModeTest}}
	}
	return all
}

func TestNotificationCategories_Table(t *testing.T) {
	for audience, want := range wantCategories {
		for initial, reader := range readers(audience) {
			var wantPreferences []notification.CategoryPreference
			var wantRanges []notification.FeedRange
			for _, w := range want {
				if initial != 0 && !strings.ContainsRune(w.roles, initial) {
					continue
				}
				flags := strings.Fields(w.flags)
				has := func(flag string) bool { return slices.Contains(flags, flag) }
				wantPreferences = append(wantPreferences, notification.CategoryPreference{
					Category: notification.Category(w.category), Protected: has("P") || has("mail"), Email: !has("off"), InApp: true,
				})
				mode := affiliate.ModeTest
				if has("both") {
					mode = notification.NotificationsBothModes
				}
				wantRanges = append(wantRanges, notification.FeedRange{
					Mode: mode, Category: notification.Category(w.category), Personal: has("personal") && initial != 'o',
				})
			}
			got := reader.Preferences(nil)
			for i := range got {
				if got[i].Label == "" {
					t.Errorf("%s has no label", got[i].Category)
				}
				got[i].Label = ""
			}
			if !slices.Equal(got, wantPreferences) {
				t.Errorf("%s %s: preferences\n%+v, want\n%+v", audience, reader.Role, got, wantPreferences)
			}
			if got := reader.Ranges(nil, ""); !slices.Equal(got, wantRanges) {
				t.Errorf("%s %s: ranges\n%+v, want\n%+v", audience, reader.Role, got, wantRanges)
			}
		}
	}
}

func TestPreferences_ApplyChoices(t *testing.T) {
	off, on := new(bool), new(true)
	owner := notification.Reader{Kind: affiliate.Merchant, Role: affiliate.RoleOwner, Mode: affiliate.ModeLive}
	for _, tc := range []struct {
		category     notification.Category
		choice       notification.CategoryChoice
		email, inApp bool
	}{
		{notification.CategoryCommissions, notification.CategoryChoice{}, true, true},
		{notification.CategoryCommissions, notification.CategoryChoice{Email: off}, false, true},
		{notification.CategoryCommissions, notification.CategoryChoice{InApp: off}, true, false},
		{notification.CategoryConversions, notification.CategoryChoice{}, false, true},
		{notification.CategoryConversions, notification.CategoryChoice{Email: on}, true, true},
		// Choices of a protected category have no effect, for example after a change of
		// the table.
		{notification.CategorySecurity, notification.CategoryChoice{Email: off, InApp: off}, true, true},
		{notification.CategoryWebhookHealth, notification.CategoryChoice{Email: off, InApp: off}, true, false},
	} {
		choices := notification.CategoryChoices{tc.category: tc.choice}
		preferences := owner.Preferences(choices)
		i := slices.IndexFunc(preferences, func(p notification.CategoryPreference) bool { return p.Category == tc.category })
		if p := preferences[i]; p.Email != tc.email || p.InApp != tc.inApp {
			t.Errorf("%s with the choice %+v: email %t, inApp %t; want %t, %t", tc.category, tc.choice, p.Email, p.InApp, tc.email, tc.inApp)
		}
		if got := len(owner.Ranges(choices, tc.category)) == 1; got != tc.inApp {
			t.Errorf("%s: the feed contains the category: %t, want %t", tc.category, got, tc.inApp)
		}
	}
	viewer := notification.Reader{Kind: affiliate.Merchant, Role: affiliate.RoleViewer}
	if len(viewer.Ranges(nil, notification.CategorySecurity)) != 0 {
		t.Error("a viewer receives the category security")
	}
}

func TestCheckChoice(t *testing.T) {
	owner := notification.Reader{Kind: affiliate.Merchant, Role: affiliate.RoleOwner}
	on := new(true)
	for _, tc := range []struct {
		reader           notification.Reader
		category         notification.Category
		choice           notification.CategoryChoice
		known, protected bool
	}{
		{owner, notification.CategoryPayouts, notification.CategoryChoice{Email: on, InApp: on}, true, false},
		{owner, notification.CategorySecurity, notification.CategoryChoice{Email: on}, true, true},
		{owner, notification.CategoryGDPR, notification.CategoryChoice{InApp: on}, true, true},
		{owner, notification.CategoryAccount, notification.CategoryChoice{}, true, true},
		{owner, notification.CategoryWebhookHealth, notification.CategoryChoice{Email: on, InApp: on}, true, true},
		{owner, notification.CategoryWebhookHealth, notification.CategoryChoice{InApp: on}, true, false},
		{owner, notification.CategoryWebhookHealth, notification.CategoryChoice{}, true, false},
		{owner, notification.CategoryProgrammeNews, notification.CategoryChoice{Email: on}, false, false},
		{owner, "unknown", notification.CategoryChoice{Email: on}, false, false},
		{notification.Reader{Kind: affiliate.Merchant, Role: affiliate.RoleFinance}, notification.CategoryWebhookHealth, notification.CategoryChoice{Email: on}, false, false},
		{notification.Reader{Kind: affiliate.Partner}, notification.CategoryPayoutProblems, notification.CategoryChoice{Email: on}, true, true},
		{notification.Reader{Kind: affiliate.Partner}, notification.CategoryProgrammeNews, notification.CategoryChoice{Email: on}, true, false},
	} {
		name := fmt.Sprintf("%s %s %s", tc.reader.Kind, tc.reader.Role, tc.category)
		known, err := tc.reader.CheckChoice(tc.category, tc.choice)
		if known != tc.known {
			t.Errorf("%s: known is %t, want %t", name, known, tc.known)
		}
		var refusal *affiliate.Error
		if errors.As(err, &refusal) != tc.protected || tc.protected && (refusal.Reason != affiliate.ReasonCategoryProtected || refusal.Metadata["category"] != string(tc.category)) {
			t.Errorf("%s: error %v, want NOTIFICATION_CATEGORY_PROTECTED: %t", name, err, tc.protected)
		}
	}
}

func TestCheckAnnouncement(t *testing.T) {
	first := affiliatetest.Noon.Add(-23*time.Hour - 59*time.Minute - 59*time.Second)
	for _, tc := range []struct {
		name       string
		status     program.Status
		recent     int
		first      time.Time
		want       affiliate.Reason
		retryAfter string
	}{
		{"the first", program.Active, 0, affiliatetest.Noon, "", ""},
		{"the fifth", program.Active, 4, first, "", ""},
		{"the sixth", program.Active, 5, first, affiliate.ReasonRateLimitExceeded, "1"},
		{"the sixth within an hour", program.Active, 5, affiliatetest.Noon.Add(-time.Hour), affiliate.ReasonRateLimitExceeded, "82800"},
		{"part of a second is rounded up", program.Active, 5, affiliatetest.Noon.Add(-notification.AnnouncementWindow + 1500*time.Millisecond), affiliate.ReasonRateLimitExceeded, "2"},
		{"a draft", program.Draft, 0, affiliatetest.Noon, affiliate.ReasonProgramStateInvalid, ""},
		{"a paused programme, before the limit", program.Paused, 5, first, affiliate.ReasonProgramStateInvalid, ""},
		{"an archived programme", program.Archived, 0, affiliatetest.Noon, affiliate.ReasonProgramStateInvalid, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := notification.CheckAnnouncement(tc.status, tc.recent, tc.first, affiliatetest.Noon)
			if tc.want == "" {
				if err != nil {
					t.Errorf("error %v, want none", err)
				}
				return
			}
			var refusal *affiliate.Error
			if !errors.As(err, &refusal) || refusal.Reason != tc.want || refusal.Metadata["retry_after"] != tc.retryAfter {
				t.Errorf("error %#v, want %s with retry_after %q", err, tc.want, tc.retryAfter)
			}
		})
	}
}
