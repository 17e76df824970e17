package affiliate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
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
func readers(audience affiliate.AccountKind) map[rune]affiliate.NotificationReader {
	all := map[rune]affiliate.NotificationReader{}
	for initial, role := range rolesByInitial {
		all[initial] = affiliate.NotificationReader{Kind: affiliate.Merchant, Role: role, Mode: affiliate.ModeTest}
	}
	if audience == affiliate.Partner {
		return map[rune]affiliate.NotificationReader{0: {Kind: affiliate.Partner, Mode: affiliate.ModeTest}}
	}
	return all
}

func TestNotificationCategories_Table(t *testing.T) {
	for audience, want := range wantCategories {
		for initial, reader := range readers(audience) {
			var wantPreferences []affiliate.CategoryPreference
			var wantRanges []affiliate.FeedRange
			for _, w := range want {
				if initial != 0 && !strings.ContainsRune(w.roles, initial) {
					continue
				}
				flags := strings.Fields(w.flags)
				has := func(flag string) bool { return slices.Contains(flags, flag) }
				wantPreferences = append(wantPreferences, affiliate.CategoryPreference{
					Category: affiliate.NotificationCategory(w.category), Protected: has("P") || has("mail"), Email: !has("off"), InApp: true,
				})
				mode := affiliate.ModeTest
				if has("both") {
					mode = affiliate.NotificationsBothModes
				}
				wantRanges = append(wantRanges, affiliate.FeedRange{
					Mode: mode, Category: affiliate.NotificationCategory(w.category), Personal: has("personal") && initial != 'o',
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
	off, on := new(bool), ptr(true)
	owner := affiliate.NotificationReader{Kind: affiliate.Merchant, Role: affiliate.RoleOwner, Mode: affiliate.ModeLive}
	for _, tc := range []struct {
		category     affiliate.NotificationCategory
		choice       affiliate.CategoryChoice
		email, inApp bool
	}{
		{affiliate.CategoryCommissions, affiliate.CategoryChoice{}, true, true},
		{affiliate.CategoryCommissions, affiliate.CategoryChoice{Email: off}, false, true},
		{affiliate.CategoryCommissions, affiliate.CategoryChoice{InApp: off}, true, false},
		{affiliate.CategoryConversions, affiliate.CategoryChoice{}, false, true},
		{affiliate.CategoryConversions, affiliate.CategoryChoice{Email: on}, true, true},
		// Choices of a protected category have no effect, for example after a change of
		// the table.
		{affiliate.CategorySecurity, affiliate.CategoryChoice{Email: off, InApp: off}, true, true},
		{affiliate.CategoryWebhookHealth, affiliate.CategoryChoice{Email: off, InApp: off}, true, false},
	} {
		choices := affiliate.CategoryChoices{tc.category: tc.choice}
		preferences := owner.Preferences(choices)
		i := slices.IndexFunc(preferences, func(p affiliate.CategoryPreference) bool { return p.Category == tc.category })
		if p := preferences[i]; p.Email != tc.email || p.InApp != tc.inApp {
			t.Errorf("%s with the choice %+v: email %t, inApp %t; want %t, %t", tc.category, tc.choice, p.Email, p.InApp, tc.email, tc.inApp)
		}
		if got := len(owner.Ranges(choices, tc.category)) == 1; got != tc.inApp {
			t.Errorf("%s: the feed contains the category: %t, want %t", tc.category, got, tc.inApp)
		}
	}
	viewer := affiliate.NotificationReader{Kind: affiliate.Merchant, Role: affiliate.RoleViewer}
	if len(viewer.Ranges(nil, affiliate.CategorySecurity)) != 0 {
		t.Error("a viewer receives the category security")
	}
}

func TestCheckChoice(t *testing.T) {
	owner := affiliate.NotificationReader{Kind: affiliate.Merchant, Role: affiliate.RoleOwner}
	on := ptr(true)
	for _, tc := range []struct {
		reader           affiliate.NotificationReader
		category         affiliate.NotificationCategory
		choice           affiliate.CategoryChoice
		known, protected bool
	}{
		{owner, affiliate.CategoryPayouts, affiliate.CategoryChoice{Email: on, InApp: on}, true, false},
		{owner, affiliate.CategorySecurity, affiliate.CategoryChoice{Email: on}, true, true},
		{owner, affiliate.CategoryGDPR, affiliate.CategoryChoice{InApp: on}, true, true},
		{owner, affiliate.CategoryAccount, affiliate.CategoryChoice{}, true, true},
		{owner, affiliate.CategoryWebhookHealth, affiliate.CategoryChoice{Email: on, InApp: on}, true, true},
		{owner, affiliate.CategoryWebhookHealth, affiliate.CategoryChoice{InApp: on}, true, false},
		{owner, affiliate.CategoryWebhookHealth, affiliate.CategoryChoice{}, true, false},
		{owner, affiliate.CategoryProgrammeNews, affiliate.CategoryChoice{Email: on}, false, false},
		{owner, "unknown", affiliate.CategoryChoice{Email: on}, false, false},
		{affiliate.NotificationReader{Kind: affiliate.Merchant, Role: affiliate.RoleFinance}, affiliate.CategoryWebhookHealth, affiliate.CategoryChoice{Email: on}, false, false},
		{affiliate.NotificationReader{Kind: affiliate.Partner}, affiliate.CategoryPayoutProblems, affiliate.CategoryChoice{Email: on}, true, true},
		{affiliate.NotificationReader{Kind: affiliate.Partner}, affiliate.CategoryProgrammeNews, affiliate.CategoryChoice{Email: on}, true, false},
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
	first := noon.Add(-23*time.Hour - 59*time.Minute - 59*time.Second)
	for _, tc := range []struct {
		name       string
		status     affiliate.ProgramStatus
		recent     int
		first      time.Time
		want       affiliate.Reason
		retryAfter string
	}{
		{"the first", affiliate.ProgramActive, 0, noon, "", ""},
		{"the fifth", affiliate.ProgramActive, 4, first, "", ""},
		{"the sixth", affiliate.ProgramActive, 5, first, affiliate.ReasonRateLimitExceeded, "1"},
		{"the sixth within an hour", affiliate.ProgramActive, 5, noon.Add(-time.Hour), affiliate.ReasonRateLimitExceeded, "82800"},
		{"part of a second is rounded up", affiliate.ProgramActive, 5, noon.Add(-affiliate.AnnouncementWindow + 1500*time.Millisecond), affiliate.ReasonRateLimitExceeded, "2"},
		{"a draft", affiliate.ProgramDraft, 0, noon, affiliate.ReasonProgramStateInvalid, ""},
		{"a paused programme, before the limit", affiliate.ProgramPaused, 5, first, affiliate.ReasonProgramStateInvalid, ""},
		{"an archived programme", affiliate.ProgramArchived, 0, noon, affiliate.ReasonProgramStateInvalid, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := affiliate.CheckAnnouncement(tc.status, tc.recent, tc.first, noon)
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
