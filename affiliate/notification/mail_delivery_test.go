package notification_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

func TestMailDelivery_DependsOnKindModeAndConditions(t *testing.T) {
	test, live := affiliate.ModeTest, affiliate.ModeLive
	const address, redirect = "maria@example.com", "qa@example.com"
	notificationMail := func(mode *affiliate.Mode, category notification.Category) notification.Mail {
		return notification.Mail{Kind: notification.MailNotifications, Category: category, Mode: mode}
	}
	delivered := notification.MailDelivery{Status: notification.MailDelivered, Address: address, ChecksSuppression: true}
	always := notification.MailDelivery{Status: notification.MailDelivered, Address: address}
	redirected := notification.MailDelivery{Status: notification.MailRedirected, Address: redirect, ChecksSuppression: true}

	for name, tc := range map[string]struct {
		mail       notification.Mail
		conditions notification.MailConditions
		want       notification.MailDelivery
	}{
		"verification":         {notification.Mail{Kind: notification.MailVerification}, notification.MailConditions{}, always},
		"password reset":       {notification.Mail{Kind: notification.MailPasswordReset}, notification.MailConditions{TestRedirect: redirect}, always},
		"change of address":    {notification.Mail{Kind: notification.MailEmailChange}, notification.MailConditions{}, always},
		"notice of a change":   {notification.Mail{Kind: notification.MailEmailChangeNotice}, notification.MailConditions{}, always},
		"export":               {notification.Mail{Kind: notification.MailExportReady}, notification.MailConditions{}, always},
		"member invite":        {notification.Mail{Kind: notification.MailMemberInvite}, notification.MailConditions{}, delivered},
		"claim of an account":  {notification.Mail{Kind: notification.MailPartnerClaim}, notification.MailConditions{}, delivered},
		"invite in test mode":  {notification.Mail{Kind: notification.MailParticipantInvite, Mode: &test}, notification.MailConditions{TestRedirect: redirect}, delivered},
		"live notification":    {notificationMail(&live, notification.CategoryPayouts), notification.MailConditions{TestRedirect: redirect}, delivered},
		"of both modes":        {notificationMail(nil, notification.CategoryGDPR), notification.MailConditions{TestRedirect: redirect}, delivered},
		"unverified":           {notificationMail(&live, notification.CategoryPayouts), notification.MailConditions{Unverified: true}, notification.SuppressMail(notification.MailAddressNotVerified)},
		"unverified, summary":  {notificationMail(nil, notification.CategoryWeeklySummary), notification.MailConditions{Unverified: true}, notification.SuppressMail(notification.MailAddressNotVerified)},
		"unverified, redirect": {notificationMail(&test, notification.CategoryPayouts), notification.MailConditions{Unverified: true, TestRedirect: redirect}, redirected},
		"unverified, security": {notificationMail(nil, notification.CategorySecurity), notification.MailConditions{Unverified: true}, always},
		"unverified, problem":  {notificationMail(&live, notification.CategoryPayoutProblems), notification.MailConditions{Unverified: true}, delivered},
		"unverified, invite":   {notification.Mail{Kind: notification.MailParticipantInvite}, notification.MailConditions{Unverified: true}, delivered},
		"unverified, reset":    {notification.Mail{Kind: notification.MailPasswordReset}, notification.MailConditions{Unverified: true}, always},
		"security":             {notificationMail(nil, notification.CategorySecurity), notification.MailConditions{}, always},
		"test notification":    {notificationMail(&test, notification.CategoryPayouts), notification.MailConditions{}, notification.SuppressMail(notification.MailTestMode)},
		"test mode, mail off":  {notificationMail(&test, notification.CategoryPayouts), notification.MailConditions{Off: true}, notification.SuppressMail(notification.MailOff)},
		"redirect":             {notificationMail(&test, notification.CategoryPayouts), notification.MailConditions{TestRedirect: redirect}, redirected},
		"redirect, mail off":   {notificationMail(&test, notification.CategoryPayouts), notification.MailConditions{TestRedirect: redirect, Off: true}, notification.SuppressMail(notification.MailOff)},
		"account mail, off":    {notification.Mail{Kind: notification.MailVerification}, notification.MailConditions{Off: true}, notification.SuppressMail(notification.MailOff)},
		"recipient removed":    {notificationMail(&live, notification.CategoryPayouts), notification.MailConditions{RecipientRemoved: true}, notification.SuppressMail(notification.MailRecipientRemoved)},
		"removed in test mode": {notificationMail(&test, notification.CategoryPayouts), notification.MailConditions{RecipientRemoved: true, TestRedirect: redirect}, notification.SuppressMail(notification.MailRecipientRemoved)},
	} {
		tc.mail.Address = address
		if got := tc.mail.Delivery(tc.conditions); got != tc.want {
			t.Errorf("%s: Delivery = %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestMailLogged_ForTestModeAndAccountMailOfWorkspaces(t *testing.T) {
	workspace, test, live := affiliate.NewID[affiliate.WorkspaceID](time.Now()), affiliate.ModeTest, affiliate.ModeLive
	for name, tc := range map[string]struct {
		mail notification.Mail
		want bool
	}{
		"account mail":               {notification.Mail{Kind: notification.MailVerification, Workspace: &workspace}, true},
		"account mail of a partner":  {notification.Mail{Kind: notification.MailVerification}, false},
		"notification of test mode":  {notification.Mail{Kind: notification.MailNotifications, Workspace: &workspace, Mode: &test}, true},
		"notification of live mode":  {notification.Mail{Kind: notification.MailNotifications, Workspace: &workspace, Mode: &live}, false},
		"notification of both modes": {notification.Mail{Kind: notification.MailNotifications, Workspace: &workspace, Category: notification.CategoryGDPR}, false},
		"security":                   {notification.Mail{Kind: notification.MailNotifications, Workspace: &workspace, Category: notification.CategorySecurity}, true},
	} {
		if got := tc.mail.Logged(); got != tc.want {
			t.Errorf("%s: Logged = %t, want %t", name, got, tc.want)
		}
	}
}
