package mail

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/mail/mailtest"
)

// sampleMail returns a mail of a kind in which every fact is set. If hostile is set,
// the names contain markup, line breaks and a template.
func sampleMail(kind affiliate.MailKind, hostile bool) affiliate.Mail {
	expires := time.Date(2026, 5, 7, 8, 30, 0, 0, time.UTC)
	names := func(name string) string {
		if hostile {
			return name + " <img src=x onerror=alert(1)>\r\nBcc: everyone@example.com {{.}} \u202e%s"
		}
		return name
	}
	return affiliate.Mail{
		Kind: kind, Category: affiliate.CategoryCommissions,
		Recipient: affiliate.MailRecipient{Account: affiliate.Partner, Name: names("Maria Lopez"), Address: "maria@example.com"},
		Facts: affiliate.MailFacts{
			WorkspaceName: names("Northwind Coffee"), ProgramName: names("Coffee friends"), InviterName: names("Mia Berg"),
			Message: names("We met at the fair."), Rate: "20% of each sale, for 12 months", Link: "https://shop.example/?via=maria",
			Role: affiliate.RoleFinance, NewAddress: "maria.lopez@example.org", ExpiresAt: &expires,
		},
	}
}

var testComposer = NewComposer(ComposerConfig{
	PublicURL: "https://api.example.com", AppURL: "https://app.example.com", Unsubscribe: affiliate.NewUnsubscribeTokens(affiliate.HashKeys{[]byte("key")}),
})

func TestAccountMail_MatchesGoldenFiles(t *testing.T) {
	for _, kind := range []affiliate.MailKind{
		affiliate.MailVerification, affiliate.MailPasswordReset, affiliate.MailEmailChange, affiliate.MailEmailChangeNotice,
		affiliate.MailMemberInvite, affiliate.MailParticipantInvite, affiliate.MailPartnerClaim, affiliate.MailExportReady,
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
			mailtest.Golden(t, name, document)
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
	m := sampleMail(affiliate.MailParticipantInvite, false)
	m.Recipient.Name, m.Facts.InviterName, m.Facts.ExpiresAt = "", "", nil
	document, err := testComposer.accountMail(m, "token")
	if err != nil {
		t.Fatal(err)
	}
	mailtest.Golden(t, "participant_invite_without_names", document)
}

// fixedTexts returns the same texts for each mail.
type fixedTexts []NotificationText

func (f fixedTexts) Texts(context.Context, affiliate.Mail) ([]NotificationText, error) {
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
		category affiliate.NotificationCategory
	}{
		"notification":           {fixedTexts{commission}, 0, affiliate.CategoryCommissions},
		"notification_protected": {fixedTexts{{Title: "Your password was changed", CreatedAt: at}}, 0, affiliate.CategorySecurity},
		"announcement_hostile":   {fixedTexts{hostile}, 0, affiliate.CategoryProductUpdates},
		"digest":                 {fixedTexts{commission, hostile}, 12, affiliate.CategoryCommissions},
	} {
		config := testComposer.config
		config.Notifications = tc.texts
		m := sampleMail(affiliate.MailNotifications, false)
		m.Category, m.Facts.More = tc.category, tc.more
		document, found, err := NewComposer(config).document(t.Context(), m, tokens{unsubscribe: "token-of-the-link"})
		if err != nil || !found {
			t.Fatalf("%s: document: %t, %v", name, found, err)
		}
		mailtest.Golden(t, name, document)
	}
}
