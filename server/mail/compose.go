package mail

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/mail"
)

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
	CreatedAt time.Time
}

// ComposerConfig holds the dependencies of a Composer.
type ComposerConfig struct {
	// PublicURL is the base URL of the REST API. AppURL is the base URL of the dashboard,
	// or empty. If both are empty, mails have no links.
	PublicURL, AppURL string
	Unsubscribe       notification.UnsubscribeTokens
	// Notifications is nil if no mail contains notifications.
	Notifications Notifications
}

// Composer composes the content of mails.
type Composer struct{ config ComposerConfig }

// NewComposer returns a Composer.
func NewComposer(c ComposerConfig) *Composer {
	c.PublicURL, c.AppURL = strings.TrimSuffix(c.PublicURL, "/"), strings.TrimSuffix(c.AppURL, "/")
	return &Composer{c}
}

// tokens are the tokens in the links of a mail. For the notification log, they are
// replaced by other text.
type tokens struct {
	// link is the token of the button. It is empty if the mail has no token.
	link        string
	unsubscribe string
}

// document returns the content of a mail. found is false if the notifications of the mail
// do not exist any more.
func (c *Composer) document(ctx context.Context, m notification.Mail, t tokens) (document mail.Document, found bool, err error) {
	if m.Kind != notification.MailNotifications {
		document, err = c.accountMail(m, t.link)
		return document, err == nil, err
	}
	if c.config.Notifications == nil {
		return mail.Document{}, false, nil
	}
	texts, err := c.config.Notifications.Texts(ctx, m)
	if err != nil || len(texts) == 0 {
		return mail.Document{}, false, err
	}
	document = notifications(m, texts)
	document.Footer.UnsubscribeURL = c.unsubscribeURL(m.Category, t.unsubscribe)
	return document, true, nil
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
	if m.Recipient.User != nil {
		t.unsubscribe = c.config.Unsubscribe.Token(*m.Recipient.User, m.Category)
	}
	return t
}

// link returns a link to a page that reads its parameters from the fragment of the URL,
// which browsers do not send to servers and logs therefore do not contain. It returns nil
// if the service has no public URL.
func (c *Composer) link(label, page string, m notification.Mail, token string, withKind bool) *mail.Link {
	base := c.config.AppURL
	if base == "" {
		base = c.config.PublicURL
	}
	if base == "" {
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
