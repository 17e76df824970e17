package settings

import (
	"errors"
	"fmt"
	netmail "net/mail"
	"net/url"
	"regexp"

	"github.com/tributary-hq/tributary/affiliate/webhook"
)

// maxMailSecrets is the maximum number of secrets of the mail provider's webhook. A
// second secret is needed only while the secret is being replaced.
const maxMailSecrets = 2

// MailWebhookSecrets returns the secrets of the mail provider's webhook. It returns none
// if the setting is empty.
func (m Mail) MailWebhookSecrets() ([]webhook.Secret, error) {
	if m.MailWebhookSecret == "" {
		return nil, nil
	}
	secrets, err := webhook.ParseSecrets(m.MailWebhookSecret)
	if err == nil && len(secrets) > maxMailSecrets {
		err = fmt.Errorf("must be at most %d secrets", maxMailSecrets)
	}
	return secrets, err
}

var providerPattern = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// check returns the faults of the settings for mail.
func (m Mail) check() []error {
	var faults []error
	add := func(name string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	add("TRIBUTARY_PUBLIC_URL", checkBaseURL(m.PublicURL))
	add("TRIBUTARY_APP_URL", checkBaseURL(m.AppURL))
	add("TRIBUTARY_STRIPE_API_URL", checkBaseURL(m.StripeAPIURL))
	if m.SMTPURL != "" {
		add("TRIBUTARY_SMTP_URL", checkSMTPURL(m.SMTPURL))
		if m.MailFrom == "" {
			faults = append(faults, errors.New("TRIBUTARY_SMTP_URL requires TRIBUTARY_MAIL_FROM"))
		}
		if m.PublicURL == "" {
			faults = append(faults, errors.New("TRIBUTARY_SMTP_URL requires TRIBUTARY_PUBLIC_URL"))
		}
	}
	add("TRIBUTARY_MAIL_FROM", checkMailAddress(m.MailFrom))
	add("TRIBUTARY_MAIL_REPLY_TO", checkMailAddress(m.MailReplyTo))
	if !providerPattern.MatchString(m.MailProvider) {
		faults = append(faults, errors.New("TRIBUTARY_MAIL_PROVIDER: must be 1 to 32 lower-case letters, digits and dashes"))
	}
	_, err := m.MailWebhookSecrets()
	add("TRIBUTARY_MAIL_WEBHOOK_SECRET", err)
	return faults
}

// checkSMTPURL returns an error if text is not a URL of a mail server. Package mail checks
// the URL completely when the core creates the sender; this package does not import it,
// because the collector does not send mail.
func checkSMTPURL(text string) error {
	// The error of url.Parse contains the URL, which has a password.
	if u, err := url.Parse(text); err != nil || u.Scheme != "smtp" || u.Host == "" {
		return errors.New("must be smtp://user:password@host:587?tls=starttls, with special characters percent-encoded")
	}
	return nil
}

// checkBaseURL returns an error if text is neither empty nor a base URL.
func checkBaseURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be an http or https URL without a query, for example https://api.example.com")
	}
	return nil
}

func checkMailAddress(text string) error {
	if text == "" {
		return nil
	}
	if _, err := netmail.ParseAddress(text); err != nil {
		return errors.New("must be an e-mail address, for example Acme <no-reply@example.com>")
	}
	return nil
}
