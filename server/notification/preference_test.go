package notification_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func change(category notification.Category, email, inApp *bool) *affiliatev1.CategoryPreferenceChange {
	return &affiliatev1.CategoryPreferenceChange{Category: server.EnumValue[affiliatev1.NotificationCategory](category), Email: email, InApp: inApp}
}

func (f *fixture) update(ctx context.Context, changes ...*affiliatev1.CategoryPreferenceChange) (*affiliatev1.NotificationPreferences, error) {
	req := &affiliatev1.UpdateNotificationPreferencesRequest{Categories: changes}
	if server.PrincipalFrom(ctx).Kind == server.PartnerToken {
		return f.service.UpdatePartnerNotificationPreferences(ctx, req)
	}
	return f.service.UpdateNotificationPreferences(ctx, req)
}

// preferences returns the effective preferences as text: a letter for each category, E
// with mails and in the feed, e with mails only, F in the feed only, and a dash for none.
func (f *fixture) preferences(ctx context.Context) string {
	f.Helper()
	call := f.service.GetNotificationPreferences
	if server.PrincipalFrom(ctx).Kind == server.PartnerToken {
		call = f.service.GetPartnerNotificationPreferences
	}
	got, err := call(ctx, &affiliatev1.GetNotificationPreferencesRequest{})
	if err != nil {
		f.Fatal(err)
	}
	text := ""
	for _, c := range got.Categories {
		switch {
		case c.Email && c.InApp:
			text += "E"
		case c.Email:
			text += "e"
		case c.InApp:
			text += "F"
		default:
			text += "-"
		}
	}
	return text
}

func TestUpdatePreferences_ChangesOwnPreferences(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	on, off := ptr(true), ptr(false)
	admin := f.newReader(affiliate.RoleAdmin)
	for _, step := range []struct {
		changes []*affiliatev1.CategoryPreferenceChange
		want    string
	}{
		{nil, "EEEEEEFEEEEEF"},
		{[]*affiliatev1.CategoryPreferenceChange{change(notification.CategoryConversions, on, nil), change(notification.CategoryPayouts, off, off)}, "EEEEEEEEEE-EF"},
		{[]*affiliatev1.CategoryPreferenceChange{change(notification.CategoryPayouts, nil, on)}, "EEEEEEEEEEFEF"},
		{[]*affiliatev1.CategoryPreferenceChange{change(notification.CategoryWebhookHealth, nil, off), change(notification.CategoryCommissions, nil, nil)}, "EEEEeEEEEEFEF"},
	} {
		if len(step.changes) > 0 {
			if _, err := f.update(f.asOwner(), step.changes...); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.preferences(f.asOwner()); got != step.want {
			t.Errorf("after %v the preferences are %s, want %s", step.changes, got, step.want)
		}
		if got := f.preferences(admin); got != "EEEEEEFEEEEEF" {
			t.Errorf("the preferences of another member are %s, want the defaults", got)
		}
	}
	// The preferences apply in both modes.
	if got := f.preferences(inMode(f.asOwner(), affiliate.ModeLive)); got != "EEEEeEEEEEFEF" {
		t.Errorf("the preferences in live mode are %s, want those of test mode", got)
	}
	partner := servertest.AsPartner(t, f.NewPartner("Jane"), affiliate.ModeTest)
	if got, err := f.update(partner, change(notification.CategoryProgrammeNews, off, nil)); err != nil || len(got.Categories) != 9 || f.preferences(partner) != "EEEEEEEFE" {
		t.Errorf("the partner's preferences are %v, %v, want 9 without mails about programme news", got, err)
	}
}

func TestUpdatePreferences_RefusesAllOrNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	on, off := ptr(true), ptr(false)
	good := change(notification.CategoryPayouts, off, off)
	const twice, unknown = "must not occur twice", "must be one of the categories that you receive"
	for _, tc := range []struct {
		name       string
		ctx        context.Context
		bad        []*affiliatev1.CategoryPreferenceChange
		reason     affiliate.Reason
		violations map[string]string
		category   string
	}{
		{"a protected category", f.asOwner(), []*affiliatev1.CategoryPreferenceChange{change(notification.CategorySecurity, off, nil)}, affiliate.ReasonCategoryProtected, nil, "security"},
		{"a protected category without a change", f.asOwner(), []*affiliatev1.CategoryPreferenceChange{change(notification.CategoryGDPR, on, on)}, affiliate.ReasonCategoryProtected, nil, "gdpr"},
		{"mails about webhook_health", f.asOwner(), []*affiliatev1.CategoryPreferenceChange{change(notification.CategoryWebhookHealth, on, on)}, affiliate.ReasonCategoryProtected, nil, "webhook_health"},
		{"a category twice", f.asOwner(), []*affiliatev1.CategoryPreferenceChange{good}, affiliate.ReasonValidation, map[string]string{"categories[1].category": twice}, ""},
		{"a category of partners", f.asOwner(), []*affiliatev1.CategoryPreferenceChange{change(notification.CategoryProgrammeNews, off, nil)}, affiliate.ReasonValidation, map[string]string{"categories[1].category": unknown}, ""},
		{"a category of other roles and a protected category", f.newReader(affiliate.RoleManager), []*affiliatev1.CategoryPreferenceChange{
			change(notification.CategorySecurity, off, nil), change(notification.CategoryBilling, off, nil),
		}, affiliate.ReasonValidation, map[string]string{"categories[2].category": unknown}, ""},
		{"a category of merchants", servertest.AsPartner(t, f.NewPartner("Jane"), affiliate.ModeTest), []*affiliatev1.CategoryPreferenceChange{
			change(notification.CategoryWeeklySummary, off, nil),
		}, affiliate.ReasonValidation, map[string]string{"categories[1].category": unknown}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := f.preferences(tc.ctx)
			_, err := f.update(tc.ctx, append([]*affiliatev1.CategoryPreferenceChange{good}, tc.bad...)...)
			var refusal *affiliate.Error
			if !errors.As(err, &refusal) || refusal.Reason != tc.reason || refusal.Metadata["category"] != tc.category || len(refusal.Violations) != len(tc.violations) {
				t.Fatalf("error %#v, want %s with the category %q and the violations %v", err, tc.reason, tc.category, tc.violations)
			}
			for _, v := range refusal.Violations {
				if tc.violations[v.Field] != v.Message {
					t.Errorf("violation %+v, want %v", v, tc.violations)
				}
			}
			if after := f.preferences(tc.ctx); after != before {
				t.Errorf("the preferences have changed from %s to %s", before, after)
			}
		})
	}
}

func TestFeed_OmitsCategoriesThatAreOff(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hidden, shown := f.notify("payout.paid"), f.notify("commission.created")
	owner, other := f.reader(f.asOwner()), f.reader(f.newReader(affiliate.RoleOwner))
	if _, err := f.update(f.asOwner(), change(notification.CategoryPayouts, nil, ptr(false))); err != nil {
		t.Fatal(err)
	}
	owner.wantFeed("without payouts", shown)
	owner.wantUnread("without payouts", 1)
	if got := owner.list(&affiliatev1.ListNotificationsRequest{Category: affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_PAYOUTS}); got.Total != 0 {
		t.Errorf("the category payouts has %d notifications, want 0", got.Total)
	}
	if _, err := owner.read(hidden); pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
		t.Errorf("reading a notification of the category returned %v, want NOT_FOUND", err)
	}
	if n := owner.readAll(everything); n != 1 {
		t.Errorf("read-all changed %d notifications, want 1", n)
	}
	other.wantFeed("another owner", shown, hidden)
	if _, err := f.update(f.asOwner(), change(notification.CategoryPayouts, nil, ptr(true))); err != nil {
		t.Fatal(err)
	}
	owner.wantFeed("with payouts", shown, hidden)
	owner.wantUnread("with payouts", 1)
}

func TestPreferences_SayWhetherMailIsSuppressed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var email string
	if err := f.SQL.QueryRow(t.Context(), `select email from users where id = $1`, f.Owner).Scan(&email); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{false, true} {
		got, err := f.service.GetNotificationPreferences(f.asOwner(), &affiliatev1.GetNotificationPreferencesRequest{})
		if err != nil || got.EmailSuppressed != want {
			t.Errorf("emailSuppressed is %t, %v, want %t", got.GetEmailSuppressed(), err, want)
		}
		if !want {
			f.suppress(email)
		}
	}
}
