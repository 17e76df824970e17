package mail

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/mail"
)

// brand is the name above the content of account mail and of mails about notifications.
const brand = "Tributary"

func (c *Composer) accountMail(m notification.Mail, token string) (mail.Document, error) {
	document := mail.Document{Brand: brand, Greeting: greeting(m.Recipient)}
	// Paragraphs keep line breaks. A name must not look like a paragraph of its own.
	for _, name := range []*string{&m.Facts.WorkspaceName, &m.Facts.ProgramName, &m.Facts.InviterName} {
		*name = strings.Join(strings.Fields(*name), " ")
	}
	switch m.Kind {
	case notification.MailVerification:
		document.Subject = "Verify your e-mail address"
		document.Preheader = "Confirm that this address is yours."
		document.Blocks = paragraphs("Please confirm that " + m.Address + " is your e-mail address.")
		document.Button = c.link("Verify e-mail address", "/verify-email", m, token, false)
		document.Closing = closing(m, "If you did not create an account, you can ignore this mail.")
		document.Footer.Reason = "You get this mail because an account was created with this e-mail address."
	case notification.MailPasswordReset:
		document.Subject = "Reset your password"
		document.Preheader = "Choose a new password for your account."
		document.Blocks = paragraphs("We have received a request to reset the password of your account. Choose a new password on the following page.")
		document.Button = c.link("Choose a new password", "/reset-password", m, token, true)
		document.Closing = closing(m, "If you did not request this, you can ignore this mail. Your password stays the same.")
		document.Footer.Reason = "You get this mail because a new password was requested for the account with this e-mail address."
	case notification.MailEmailChange:
		document.Subject = "Confirm your new e-mail address"
		document.Preheader = "Your account will use this address after you confirm it."
		document.Blocks = paragraphs("You want to use " + m.Address + " as the e-mail address of your account. Please confirm that this address is yours.")
		document.Button = c.link("Confirm new address", "/verify-email", m, token, false)
		document.Closing = closing(m, "If you did not request this, you can ignore this mail. The address of the account stays the same.")
		document.Footer.Reason = "You get this mail because this e-mail address was entered as the new address of an account."
	case notification.MailEmailChangeNotice:
		document.Subject = "A new e-mail address was requested for your account"
		document.Preheader = "Check that you made this request."
		document.Blocks = append(paragraphs("We have received a request to change the e-mail address of your account."),
			mail.Block{Facts: []mail.Fact{{Label: "Present address", Value: m.Address}, {Label: "New address", Value: m.Facts.NewAddress}}},
		)
		document.Closing = []string{
			"The new address takes effect when it is confirmed. If you made this request, you need not do anything here.",
			"If you did not make this request, somebody else knows your password. Change your password now.",
		}
		document.Footer.Reason = "You get this mail because it concerns the security of your account."
	case notification.MailPayoutMethodChanged:
		document.Subject = "The payout method of your account was changed"
		document.Preheader = "Check that you made this change."
		document.Blocks = append(paragraphs("The account that had this e-mail address before has a new payout method."),
			mail.Block{Facts: []mail.Fact{{Label: "Payout method", Value: m.Facts.PayoutMethod}}},
		)
		document.Closing = []string{
			"If you made this change, you need not do anything here.",
			"If you did not make this change, somebody else uses your account. Tell the companies that pay you.",
		}
		document.Footer.Reason = "You get this mail because the address of the account was changed in the last 30 days."
	case notification.MailMemberInvite:
		document.Subject = "Invitation to join " + m.Facts.WorkspaceName
		document.Preheader = "Accept the invitation to work in this team."
		document.Blocks = append(paragraphs(invitation(m.Facts.InviterName, "join the workspace "+m.Facts.WorkspaceName+".")),
			mail.Block{Facts: []mail.Fact{{Label: "Workspace", Value: m.Facts.WorkspaceName}, {Label: "Role", Value: string(m.Facts.Role)}}},
		)
		document.Button = c.link("Accept invitation", "/accept-invite", m, token, true)
		document.Closing = closing(m, "If you do not know the sender, you can ignore this mail.")
		document.Footer.Reason = "You get this mail because a member of " + m.Facts.WorkspaceName + " entered this e-mail address."
	case notification.MailParticipantInvite:
		document.Subject = "Invitation to the affiliate programme " + m.Facts.ProgramName
		document.Preheader = "Accept the invitation to become a partner."
		document.Blocks = append(paragraphs(invitation(m.Facts.InviterName, "become a partner in an affiliate programme. You earn commissions for the sales that come through your links.")),
			message(m.Facts)...)
		document.Blocks = append(document.Blocks, programFacts(m.Facts, "Your link, if you accept"))
		document.Button = c.link("Accept invitation", "/accept-invite", m, token, true)
		document.Closing = closing(m, "If you are not interested, you can ignore this mail.")
		document.Footer.Reason = "You get this mail because a member of " + m.Facts.WorkspaceName + " entered this e-mail address."
	case notification.MailPartnerClaim:
		document.Subject = "Your partner account for " + m.Facts.ProgramName
		document.Preheader = "Choose a password to see your links and your commissions."
		document.Blocks = append(paragraphs(m.Facts.WorkspaceName+" has made a partner account for you. Choose a password, and you can see your links and your commissions."),
			programFacts(m.Facts, "Your link"))
		document.Button = c.link("Choose a password", "/reset-password", m, token, true)
		document.Closing = closing(m, "If the link has expired, reset the password to get a new one. If you are not interested, you can ignore this mail.")
		document.Footer.Reason = "You get this mail because " + m.Facts.WorkspaceName + " entered this e-mail address."
	case notification.MailExportReady:
		document.Subject = "Your export is ready"
		document.Preheader = "Download the data of " + m.Facts.WorkspaceName + "."
		document.Blocks = paragraphs("The export of the personal data of " + m.Facts.WorkspaceName + " that you requested is ready for download.")
		document.Button = c.exportLink(token)
		document.Closing = []string{"If you did not request this, somebody else uses your account. Change your password now."}
		if m.Facts.ExpiresAt != nil {
			document.Closing = append([]string{
				"The link works until " + timeText(*m.Facts.ExpiresAt) + ". Everybody who has it can download the data, so do not forward this mail.",
			}, document.Closing...)
		}
		document.Footer.Reason = "You get this mail because you requested an export of personal data."
	case notification.MailNotifications:
		return mail.Document{}, fmt.Errorf("mail %s is not an account mail", m.ID)
	default:
		return mail.Document{}, fmt.Errorf("mail %s has the unknown kind %q", m.ID, m.Kind)
	}
	document.Heading = document.Subject
	return document, nil
}

// message returns the text of the inviter. It returns no block if the inviter has written no text.
func message(facts notification.MailFacts) []mail.Block {
	if facts.Message == "" {
		return nil
	}
	return paragraphs(cmp.Or(facts.InviterName, facts.WorkspaceName) + " writes:\n" + facts.Message)
}

// programFacts returns the table with the programme, its rate and the referral link of the
// recipient. It has no row for a rate or a link that is empty.
func programFacts(facts notification.MailFacts, linkLabel string) mail.Block {
	rows := []mail.Fact{{Label: "Company", Value: facts.WorkspaceName}, {Label: "Programme", Value: facts.ProgramName}}
	if facts.Rate != "" {
		rows = append(rows, mail.Fact{Label: "Commission", Value: facts.Rate})
	}
	if facts.Link != "" {
		rows = append(rows, mail.Fact{Label: linkLabel, Value: facts.Link})
	}
	return mail.Block{Facts: rows}
}

func greeting(to notification.Recipient) string {
	if to.Name == "" {
		return "Hello,"
	}
	return "Hello " + to.Name + ","
}

func paragraphs(texts ...string) []mail.Block {
	blocks := make([]mail.Block, len(texts))
	for i, text := range texts {
		blocks[i].Paragraph = text
	}
	return blocks
}

// closing returns the paragraphs after the button: how long the link works, and a note for
// recipients who do not expect the mail.
func closing(m notification.Mail, note string) []string {
	if m.Facts.ExpiresAt == nil {
		return []string{note}
	}
	return []string{"The link works once, until " + timeText(*m.Facts.ExpiresAt) + ".", note}
}

func invitation(inviter, to string) string {
	if inviter == "" {
		return "You are invited to " + to
	}
	return inviter + " invites you to " + to
}

func notifications(m notification.Mail, texts []NotificationText) mail.Document {
	document := mail.Document{Brand: brand, Greeting: greeting(m.Recipient)}
	document.Footer.Reason = "You get this mail because your settings include mail about such events."
	if m.Category.MailProtected() {
		document.Footer.Reason = "You get this mail because it concerns your account. You cannot disable mail of this kind."
	}
	if first := texts[0]; len(texts) == 1 && m.Facts.More == 0 {
		document.Subject, document.Heading, document.Preheader = first.Title, first.Title, first.Body
		if first.Body != "" {
			document.Blocks = paragraphs(first.Body)
		}
		if first.ActionURL != "" {
			document.Button = &mail.Link{Label: "Open", URL: first.ActionURL}
		}
		return document
	}
	document.Subject = strconv.Itoa(len(texts)+m.Facts.More) + " new notifications"
	document.Heading, document.Preheader = document.Subject, texts[0].Title
	items := make([]mail.Item, len(texts))
	for i, text := range texts {
		items[i] = mail.Item{Title: text.Title, Body: text.Body, Time: timeText(text.CreatedAt), URL: text.ActionURL}
	}
	document.Blocks = []mail.Block{{Items: items}}
	if m.Facts.More > 0 {
		document.Blocks = append(document.Blocks, mail.Block{More: "and " + strconv.Itoa(m.Facts.More) + " more"})
	}
	return document
}

// Notifications returns the texts of notifications in mails.
type Notifications interface {
	// Texts returns the texts of the notifications in m.Facts.Notifications that still
	// exist, in the same order.
	Texts(ctx context.Context, m notification.Mail) ([]NotificationText, error)
}

// NotificationText is a notification as a mail shows it.
type NotificationText struct {
	Title    string
	Body     string
	Severity string // info, warning or critical
	// ActionURL is an http or https URL, or empty.
	ActionURL string
	// Workspace is the workspace of the notification; nil if it belongs to none.
	Workspace *affiliate.WorkspaceID
	CreatedAt time.Time
}

// ComposerConfig holds the dependencies of a Composer.
type ComposerConfig struct {
	// PublicURL is the base URL of the REST API. Apps has the base URLs of the apps with the
	// pages to which links lead; if the app of a recipient has none, the pages are below
	// PublicURL. If this is empty too, mails have no links.
	PublicURL   string
	Apps        notification.Apps
	Unsubscribe notification.UnsubscribeTokens
	// Notifications is nil if no mail contains notifications.
	Notifications Notifications
	// Branding returns the branding of a workspace. It is nil if no mail shows one.
	Branding func(context.Context, affiliate.WorkspaceID) (account.Branding, error)
}

// Composer composes the content of mails.
type Composer struct{ config ComposerConfig }

// NewComposer returns a Composer.
func NewComposer(c ComposerConfig) *Composer {
	for _, url := range []*string{&c.PublicURL, &c.Apps.Console, &c.Apps.Portal} {
		*url = strings.TrimSuffix(*url, "/")
	}
	return &Composer{c}
}

// tokens are the tokens in the links of a mail. For the notification log, they are
// replaced by other text.
type tokens struct {
	// link is the token of the button. It is empty if the mail has no token.
	link        string
	unsubscribe string
}

// document is the content of a mail, and the address for answers if it is not that of the service.
type document struct {
	mail.Document
	replyTo mail.Address
}

// document returns the content of a mail. found is false if the notifications of the mail
// do not exist any more.
func (c *Composer) document(ctx context.Context, m notification.Mail, t tokens) (d document, found bool, err error) {
	workspace := m.Workspace
	if m.Kind == notification.MailNotifications {
		if c.config.Notifications == nil {
			return document{}, false, nil
		}
		texts, err := c.config.Notifications.Texts(ctx, m)
		if err != nil || len(texts) == 0 {
			return document{}, false, err
		}
		d.Document, workspace = notifications(m, texts), commonWorkspace(texts)
		d.Footer.UnsubscribeURL = c.unsubscribeURL(m.Category, t.unsubscribe)
	} else if d.Document, err = c.accountMail(m, t.link); err != nil {
		return document{}, false, err
	}
	return d, true, c.brand(ctx, m, workspace, &d)
}

// brand gives a mail to a partner the name, the logo and the support address of the workspace
// that the mail is about. A mail to a merchant, and one about no workspace or several, is from
// the service.
func (c *Composer) brand(ctx context.Context, m notification.Mail, workspace *affiliate.WorkspaceID, d *document) error {
	if m.Recipient.Account != affiliate.Partner || workspace == nil || c.config.Branding == nil {
		return nil
	}
	branding, err := c.config.Branding(ctx, *workspace)
	if err != nil {
		return err
	}
	d.Brand = branding.DisplayName()
	if logo := branding.LogoURL(c.config.PublicURL); logo != nil && c.config.PublicURL != "" {
		d.Logo = *logo
	}
	if branding.SupportEmail != nil {
		d.replyTo = mail.Address{Name: d.Brand, Address: *branding.SupportEmail}
	}
	return nil
}

// commonWorkspace returns the workspace of the notifications if they all belong to the same one,
// and otherwise nil.
func commonWorkspace(texts []NotificationText) *affiliate.WorkspaceID {
	first := texts[0].Workspace
	for _, text := range texts {
		if first == nil || text.Workspace == nil || *text.Workspace != *first {
			return nil
		}
	}
	return first
}

// unsubscribePath is the path of the route that disables the mail of a category.
const unsubscribePath = "/api/v1/notifications/unsubscribe?token="

// unsubscribeURL returns the URL that disables the mail of a category. It is empty if users
// cannot disable this mail, or if the service has no public URL.
func (c *Composer) unsubscribeURL(category notification.Category, token string) string {
	if category.MailProtected() || c.config.PublicURL == "" {
		return ""
	}
	return c.config.PublicURL + unsubscribePath + token
}

// tokens returns the tokens of a mail. link is the token of its button.
func (c *Composer) tokens(m notification.Mail, link string) tokens {
	t := tokens{link: link}
	if m.User != nil {
		t.unsubscribe = c.config.Unsubscribe.Token(*m.User, m.Category)
	}
	return t
}

// link returns a link to a page that reads its parameters from the fragment of the URL. Browsers
// do not send the fragment to servers, so logs do not contain it. link returns nil if the
// service has neither a URL of the recipient's app nor a public URL.
func (c *Composer) link(label, page string, m notification.Mail, token string, withKind bool) *mail.Link {
	base := c.config.Apps.Console
	if m.Recipient.Account == affiliate.Partner {
		base = c.config.Apps.Portal
	}
	if base = cmp.Or(base, c.config.PublicURL); base == "" {
		return nil
	}
	if token != redacted {
		token = url.QueryEscape(token)
	}
	fragment := "#token=" + token
	if withKind {
		fragment = "#kind=" + string(m.Recipient.Account) + "&token=" + token
	}
	return &mail.Link{Label: label, URL: base + page + fragment}
}

// exportLink returns the link to the download of an export. It returns nil if the service has
// no public URL.
func (c *Composer) exportLink(token string) *mail.Link {
	if c.config.PublicURL == "" {
		return nil
	}
	return &mail.Link{Label: "Download export", URL: c.config.PublicURL + privacy.ExportPath + token}
}

// timeText formats a time in mails, which are read in any time zone.
func timeText(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") }
