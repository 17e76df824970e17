package mail

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/mail/mailtest"
)

// sampleMail returns a mail of a kind in which every fact is set. If hostile is set,
// the names contain markup, line breaks and a template.
func sampleMail(kind notification.MailKind, hostile bool) notification.Mail {
	expires := time.Date(2026, 5, 7, 8, 30, 0, 0, time.UTC)
	names := func(name string) string {
		if hostile {
			return name + " <img src=x onerror=alert(1)>\r\nBcc: everyone@example.com {{.}} \u202e%s"
		}
		return name
	}
	return notification.Mail{
		Kind: kind, Category: notification.CategoryCommissions,
		Recipient: notification.Recipient{Account: affiliate.Partner, Name: names("Maria Lopez"), Address: "maria@example.com"},
		Facts: notification.MailFacts{
			WorkspaceName: names("Northwind Coffee"), ProgramName: names("Coffee friends"), InviterName: names("Mia Berg"),
			Message: names("We met at the fair."), Rate: "20% of each sale, for 12 months", Link: "https://shop.example/?via=maria",
			Role: affiliate.RoleFinance, NewAddress: "maria.lopez@example.org", ExpiresAt: &expires,
		},
	}
}

var testComposer = NewComposer(ComposerConfig{
	PublicURL: "https://api.example.com", Apps: notification.Apps{Console: "https://app.example.com", Portal: "https://partners.example.com"}, Unsubscribe: notification.NewUnsubscribeTokens(affiliate.HashKeys{[]byte("key")}),
})

func TestAccountMail_MatchesGoldenFiles(t *testing.T) {
	for _, kind := range []notification.MailKind{
		notification.MailVerification, notification.MailPasswordReset, notification.MailEmailChange, notification.MailEmailChangeNotice,
		notification.MailMemberInvite, notification.MailParticipantInvite, notification.MailPartnerClaim, notification.MailExportReady,
	} {
		for _, hostile := range []bool{false, true} {
			name := string(kind)
			if hostile {
				name += "_hostile"
			}
			document, found, err := testComposer.document(t.Context(), sampleMail(kind, hostile), tokens{link: "vt_3nPq8sVw1xYz5aBc"})
			if err != nil || !found {
				t.Fatalf("%s: document: %t, %v", name, found, err)
			}
			mailtest.Golden(t, name, document.Document)
			content, err := document.Render()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(content.HTML, "<img") || strings.ContainsAny(content.Subject, "\r\n") {
				t.Errorf("%s: the HTML contains markup of a name, or the subject %q a line break", name, content.Subject)
			}
		}
	}
}

// Names are optional. A sentence must not contain a gap if a name is missing.
func TestAccountMail_WithoutNames(t *testing.T) {
	m := sampleMail(notification.MailParticipantInvite, false)
	m.Name, m.Facts.InviterName, m.Facts.ExpiresAt = "", "", nil
	document, err := testComposer.accountMail(m, "token")
	if err != nil {
		t.Fatal(err)
	}
	mailtest.Golden(t, "participant_invite_without_names", document)
}

// fixedTexts returns the same texts for each mail.
type fixedTexts []NotificationText

func (f fixedTexts) Texts(context.Context, notification.Mail) ([]NotificationText, error) {
	return f, nil
}

func TestNotifications_MatchGoldenFiles(t *testing.T) {
	at := time.Date(2026, 5, 6, 9, 5, 0, 0, time.UTC)
	commission := NotificationText{
		Title: "Commission of EUR 12.50 was approved", Body: "Your commission in the programme Coffee friends was approved.",
		ActionURL: "https://app.example.com/commissions/1", CreatedAt: at,
	}
	hostile := NotificationText{Title: "<img src=x onerror=alert(1)> {{.}}", Body: "first line\r\nBcc: everyone@example.com", CreatedAt: at.Add(time.Minute)}
	for name, tc := range map[string]struct {
		texts    fixedTexts
		more     int
		category notification.Category
	}{
		"notification":           {fixedTexts{commission}, 0, notification.CategoryCommissions},
		"notification_protected": {fixedTexts{{Title: "Your password was changed", CreatedAt: at}}, 0, notification.CategorySecurity},
		"announcement_hostile":   {fixedTexts{hostile}, 0, notification.CategoryProductUpdates},
		"digest":                 {fixedTexts{commission, hostile}, 12, notification.CategoryCommissions},
	} {
		config := testComposer.config
		config.Notifications = tc.texts
		m := sampleMail(notification.MailNotifications, false)
		m.Category, m.Facts.More = tc.category, tc.more
		document, found, err := NewComposer(config).document(t.Context(), m, tokens{unsubscribe: "token-of-the-link"})
		if err != nil || !found {
			t.Fatalf("%s: document: %t, %v", name, found, err)
		}
		mailtest.Golden(t, name, document.Document)
	}
}

// A mail to a partner about one workspace has its branding.
func TestDocument_HasBrandingOfWorkspace(t *testing.T) {
	shop, other := affiliate.NewID[affiliate.WorkspaceID](time.Now()), affiliate.NewID[affiliate.WorkspaceID](time.Now())
	config := testComposer.config
	config.Branding = func(_ context.Context, id affiliate.WorkspaceID) (account.Branding, error) {
		if id != shop {
			return account.Branding{Name: "Other"}, nil
		}
		return account.Branding{Name: "Northwind", PortalName: new("Northwind partners"), SupportEmail: new("help@northwind.example"), LogoDigest: []byte{1, 2}}, nil
	}
	about := func(workspaces ...*affiliate.WorkspaceID) (texts fixedTexts) {
		for _, id := range workspaces {
			texts = append(texts, NotificationText{Title: "Title", Workspace: id})
		}
		return texts
	}
	invite := func(m *notification.Mail) { m.Kind, m.Workspace = notification.MailParticipantInvite, &shop }
	for name, tc := range map[string]struct {
		texts  fixedTexts
		change func(*notification.Mail)
		want   string
	}{
		"invitation":           {nil, invite, "Northwind partners"},
		"one workspace":        {about(&shop, &shop), func(*notification.Mail) {}, "Northwind partners"},
		"several workspaces":   {about(&shop, &other), func(*notification.Mail) {}, brand},
		"no workspace":         {about(nil, nil), func(*notification.Mail) {}, brand},
		"without a portalName": {about(&other), func(*notification.Mail) {}, "Other"},
		"to a merchant":        {about(&shop), func(m *notification.Mail) { m.Recipient.Account = affiliate.Merchant }, brand},
	} {
		config.Notifications = tc.texts
		m := sampleMail(notification.MailNotifications, false)
		tc.change(&m)
		document, found, err := NewComposer(config).document(t.Context(), m, tokens{link: "token"})
		if err != nil || !found {
			t.Fatalf("%s: document: %t, %v", name, found, err)
		}
		if document.Brand != tc.want {
			t.Errorf("%s: the brand is %q, want %q", name, document.Brand, tc.want)
		}
		if branded := tc.want == "Northwind partners"; branded != (document.replyTo.Address == "help@northwind.example") || branded != (document.Logo != "") {
			t.Errorf("%s: the answers go to %v and the logo is %q", name, document.replyTo, document.Logo)
		}
		if name == "invitation" {
			mailtest.Golden(t, "participant_invite_branded", document.Document)
		}
	}
}
