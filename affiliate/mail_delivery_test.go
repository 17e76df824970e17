package affiliate_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestMailDelivery_DependsOnKindModeAndConditions(t *testing.T) {
	test, live := affiliate.ModeTest, affiliate.ModeLive
	const address, redirect = "maria@example.com", "qa@example.com"
	notification := func(mode *affiliate.Mode, category affiliate.NotificationCategory) affiliate.Mail {
		return affiliate.Mail{Kind: affiliate.MailNotifications, Category: category, Mode: mode}
	}
	delivered := affiliate.MailDelivery{Status: affiliate.MailDelivered, Address: address, ChecksSuppression: true}
	always := affiliate.MailDelivery{Status: affiliate.MailDelivered, Address: address}
	redirected := affiliate.MailDelivery{Status: affiliate.MailRedirected, Address: redirect, ChecksSuppression: true}

	for name, tc := range map[string]struct {
		mail       affiliate.Mail
		conditions affiliate.MailConditions
		want       affiliate.MailDelivery
	}{
		"verification":         {affiliate.Mail{Kind: affiliate.MailVerification}, affiliate.MailConditions{}, always},
		"password reset":       {affiliate.Mail{Kind: affiliate.MailPasswordReset}, affiliate.MailConditions{TestRedirect: redirect}, always},
		"change of address":    {affiliate.Mail{Kind: affiliate.MailEmailChange}, affiliate.MailConditions{}, always},
		"notice of a change":   {affiliate.Mail{Kind: affiliate.MailEmailChangeNotice}, affiliate.MailConditions{}, always},
		"export":               {affiliate.Mail{Kind: affiliate.MailExportReady}, affiliate.MailConditions{}, always},
		"member invite":        {affiliate.Mail{Kind: affiliate.MailMemberInvite}, affiliate.MailConditions{}, delivered},
		"claim of an account":  {affiliate.Mail{Kind: affiliate.MailPartnerClaim}, affiliate.MailConditions{}, delivered},
		"invite in test mode":  {affiliate.Mail{Kind: affiliate.MailParticipantInvite, Mode: &test}, affiliate.MailConditions{TestRedirect: redirect}, delivered},
		"live notification":    {notification(&live, affiliate.CategoryPayouts), affiliate.MailConditions{TestRedirect: redirect}, delivered},
		"of both modes":        {notification(nil, affiliate.CategoryGDPR), affiliate.MailConditions{TestRedirect: redirect}, delivered},
		"unverified":           {notification(&live, affiliate.CategoryPayouts), affiliate.MailConditions{Unverified: true}, affiliate.SuppressMail(affiliate.MailAddressNotVerified)},
		"unverified, summary":  {notification(nil, affiliate.CategoryWeeklySummary), affiliate.MailConditions{Unverified: true}, affiliate.SuppressMail(affiliate.MailAddressNotVerified)},
		"unverified, redirect": {notification(&test, affiliate.CategoryPayouts), affiliate.MailConditions{Unverified: true, TestRedirect: redirect}, redirected},
		"unverified, security": {notification(nil, affiliate.CategorySecurity), affiliate.MailConditions{Unverified: true}, always},
		"unverified, problem":  {notification(&live, affiliate.CategoryPayoutProblems), affiliate.MailConditions{Unverified: true}, delivered},
		"unverified, invite":   {affiliate.Mail{Kind: affiliate.MailParticipantInvite}, affiliate.MailConditions{Unverified: true}, delivered},
		"unverified, reset":    {affiliate.Mail{Kind: affiliate.MailPasswordReset}, affiliate.MailConditions{Unverified: true}, always},
		"security":             {notification(nil, affiliate.CategorySecurity), affiliate.MailConditions{}, always},
		"test notification":    {notification(&test, affiliate.CategoryPayouts), affiliate.MailConditions{}, affiliate.SuppressMail(affiliate.MailTestMode)},
		"test mode, mail off":  {notification(&test, affiliate.CategoryPayouts), affiliate.MailConditions{Off: true}, affiliate.SuppressMail(affiliate.MailOff)},
		"redirect":             {notification(&test, affiliate.CategoryPayouts), affiliate.MailConditions{TestRedirect: redirect}, redirected},
		"redirect, mail off":   {notification(&test, affiliate.CategoryPayouts), affiliate.MailConditions{TestRedirect: redirect, Off: true}, affiliate.SuppressMail(affiliate.MailOff)},
		"account mail, off":    {affiliate.Mail{Kind: affiliate.MailVerification}, affiliate.MailConditions{Off: true}, affiliate.SuppressMail(affiliate.MailOff)},
		"recipient removed":    {notification(&live, affiliate.CategoryPayouts), affiliate.MailConditions{RecipientRemoved: true}, affiliate.SuppressMail(affiliate.MailRecipientRemoved)},
		"removed in test mode": {notification(&test, affiliate.CategoryPayouts), affiliate.MailConditions{RecipientRemoved: true, TestRedirect: redirect}, affiliate.SuppressMail(affiliate.MailRecipientRemoved)},
	} {
		tc.mail.Recipient.Address = address
		if got := tc.mail.Delivery(tc.conditions); got != tc.want {
			t.Errorf("%s: Delivery = %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestMailLogged_ForTestModeAndAccountMailOfWorkspaces(t *testing.T) {
	workspace, test, live := affiliate.NewID[affiliate.WorkspaceID](time.Now()), affiliate.ModeTest, affiliate.ModeLive
	for name, tc := range map[string]struct {
		mail affiliate.Mail
		want bool
	}{
		"account mail":               {affiliate.Mail{Kind: affiliate.MailVerification, Workspace: &workspace}, true},
		"account mail of a partner":  {affiliate.Mail{Kind: affiliate.MailVerification}, false},
		"notification of test mode":  {affiliate.Mail{Kind: affiliate.MailNotifications, Workspace: &workspace, Mode: &test}, true},
		"notification of live mode":  {affiliate.Mail{Kind: affiliate.MailNotifications, Workspace: &workspace, Mode: &live}, false},
		"notification of both modes": {affiliate.Mail{Kind: affiliate.MailNotifications, Workspace: &workspace, Category: affiliate.CategoryGDPR}, false},
		"security":                   {affiliate.Mail{Kind: affiliate.MailNotifications, Workspace: &workspace, Category: affiliate.CategorySecurity}, true},
	} {
		if got := tc.mail.Logged(); got != tc.want {
			t.Errorf("%s: Logged = %t, want %t", name, got, tc.want)
		}
	}
}
