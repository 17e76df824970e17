package settings

import (
	"cmp"
	"errors"
	"fmt"
	netmail "net/mail"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

const (
	minLimitTimeout = time.Millisecond
	maxLimitTimeout = time.Second // the socket timeout of the Redis clients
	// maxShutdownDelay is the maximum of ShutdownDelay. The whole shutdown of a collector
	// takes at most 20 s, so the other steps of the shutdown have at least 10 s.
	maxShutdownDelay = 10 * time.Second
	// maxMailSecrets is the maximum number of secrets of the mail provider's webhook. A
	// second secret is needed only while the secret is being replaced.
	maxMailSecrets = 2
)

func require(ok bool, message string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(message, args...)
}

// requireBoth returns an error if only one of two settings has a value.
func requireBoth(name, value, otherName, otherValue string) error {
	return require((value == "") == (otherValue == ""), "%s and %s must be set together", name, otherName)
}

func requirePositive(name string, n int64) error {
	return require(n >= 1, "%s: must be at least 1", name)
}

func (r Registration) faults() error {
	merchant, partner := r.MerchantRegistration, r.PartnerRegistration
	open := func(r account.Registration) bool {
		return r == account.OpenRegistration || r == account.InviteRegistration
	}
	return errors.Join(
		require(open(merchant) || merchant == account.ClosedRegistration, "TRIBUTARY_REGISTRATION_MERCHANT: must be open, invite or closed"),
		require(open(partner), "TRIBUTARY_REGISTRATION_PARTNER: must be open or invite"),
	)
}

func (r *Redis) faults() error {
	return errors.Join(
		require(r.StreamShards >= 1 && r.StreamShards <= clickstream.MaxShards, "TRIBUTARY_STREAM_SHARDS: must be between 1 and %d", clickstream.MaxShards),
		require(r.LimitTimeout >= minLimitTimeout && r.LimitTimeout <= maxLimitTimeout,
			"TRIBUTARY_LIMIT_TIMEOUT: must be between %s and %s", minLimitTimeout, maxLimitTimeout),
		checkEndpoint("TRIBUTARY_REDIS_URL", r.URL, "TRIBUTARY_CLICK_STREAM_REDIS", r.StreamRedis),
		checkEndpoint("TRIBUTARY_CACHE_REDIS_URL", r.CacheURL, "TRIBUTARY_CACHE_REDIS", r.CacheRedis),
	)
}

// checkEndpoint returns an error if the kind of a Redis is invalid, or if its URL is not
// valid for the kind.
func checkEndpoint(urlName, url, kindName string, kind clickstream.Kind) error {
	switch kind {
	case clickstream.Single, clickstream.Sentinel, clickstream.Cluster:
	default:
		return fmt.Errorf("%s: must be single, sentinel or cluster", kindName)
	}
	if url == "" {
		return nil
	}
	if err := (clickstream.Endpoint{URL: url, Kind: kind}).Check(); err != nil {
		return fmt.Errorf("%s with %s=%s: %w", urlName, kindName, kind, err)
	}
	return nil
}

func (h HTTP) faults() error {
	return errors.Join(
		requireBoth("TRIBUTARY_TLS_CERT", h.TLSCert, "TRIBUTARY_TLS_KEY", h.TLSKey),
		require(h.ShutdownDelay >= 0 && h.ShutdownDelay <= maxShutdownDelay, "TRIBUTARY_SHUTDOWN_DELAY: must be between 0s and %s", maxShutdownDelay),
	)
}

func (t Traces) faults() error {
	u, err := url.Parse(t.TracesURL)
	return errors.Join(
		require(t.TracesURL == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Fragment == "",
			"TRIBUTARY_TRACES_URL: must be an address such as http://127.0.0.1:4318/v1/traces"),
		require(t.TracesSample >= 0 && t.TracesSample <= 1, "TRIBUTARY_TRACES_SAMPLE: must be between 0 and 1"), // false for NaN
	)
}

func (l Limits) faults() error {
	return errors.Join(
		requirePositive("TRIBUTARY_LIMIT_CONVERSIONS", l.Conversions),
		requirePositive("TRIBUTARY_LIMIT_AUTH", l.Auth),
		requirePositive("TRIBUTARY_LIMIT_SESSION", l.Session),
		requirePositive("TRIBUTARY_LIMIT_RESEND", l.Resend),
		requirePositive("TRIBUTARY_LIMIT_ERASURE", l.Erasure),
		requirePositive("TRIBUTARY_LIMIT_BUYER_ERASURE", l.BuyerErasure),
		requirePositive("TRIBUTARY_LIMIT_EXPORT", l.Export),
		requirePositive("TRIBUTARY_LIMIT_INVITE_ADDRESS", l.InviteAddress),
		requirePositive("TRIBUTARY_LIMIT_INVITES", l.Invites),
		requirePositive("TRIBUTARY_LIMIT_GENERAL", l.General),
		requirePositive("TRIBUTARY_LIMIT_MAIL_PROVIDER", l.MailProvider),
		requirePositive("TRIBUTARY_LIMIT_UNSUBSCRIBE", l.Unsubscribe),
	)
}

func (c *Core) check() error {
	_, isURL := affiliate.ParseWebURL(c.LinkURL)
	return errors.Join(
		c.Redis.faults(), c.HTTP.faults(), c.Regions.faults(c.URL, c.CacheURL), c.Limits.faults(), c.Mail.check(), c.Registration.faults(), c.Traces.faults(),
		require(c.LinkURL == "" || isURL && strings.Count(c.LinkURL, "/") == 2,
			"TRIBUTARY_LINK_URL: must be a scheme and a host, for example https://go.example.com"),
		requireBoth("TRIBUTARY_GRPC_TLS_CERT", c.GRPCTLSCert, "TRIBUTARY_GRPC_TLS_KEY", c.GRPCTLSKey),
		require(c.GRPCTLSCA == "" || c.GRPCTLSCert != "", "TRIBUTARY_GRPC_TLS_CA requires TRIBUTARY_GRPC_TLS_CERT"),
	)
}

func (g *Gateway) check() error {
	return errors.Join(g.HTTP.faults(), g.Traces.faults(), requireBoth("TRIBUTARY_GRPC_TLS_CERT", g.ClientCert, "TRIBUTARY_GRPC_TLS_KEY", g.ClientKey))
}

func (c *Collector) check() error {
	return errors.Join(
		c.Redis.faults(), c.HTTP.faults(), c.Traces.faults(),
		require(c.Visitor >= 0, "TRIBUTARY_LIMIT_TRACKING_ADDRESS: must be at least 0"),
		requirePositive("TRIBUTARY_LIMIT_TRACKING", c.Tracking),
	)
}

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

func (m Mail) check() error {
	_, err := m.MailWebhookSecrets()
	if err != nil {
		err = fmt.Errorf("TRIBUTARY_MAIL_WEBHOOK_SECRET: %w", err)
	}
	return errors.Join(
		checkBaseURL("TRIBUTARY_PUBLIC_URL", m.PublicURL), checkBaseURL("TRIBUTARY_APP_URL", m.AppURL), checkBaseURL("TRIBUTARY_PORTAL_URL", m.PortalURL),
		checkBaseURL("TRIBUTARY_STRIPE_API_URL", m.StripeAPIURL),
		checkSMTPURL(m.SMTPURL),
		require(m.SMTPURL == "" || m.MailFrom != "", "TRIBUTARY_SMTP_URL requires TRIBUTARY_MAIL_FROM"),
		require(m.SMTPURL == "" || m.PublicURL != "", "TRIBUTARY_SMTP_URL requires TRIBUTARY_PUBLIC_URL"),
		checkMailAddress("TRIBUTARY_MAIL_FROM", m.MailFrom), checkMailAddress("TRIBUTARY_MAIL_REPLY_TO", m.MailReplyTo),
		require(providerPattern.MatchString(m.MailProvider), "TRIBUTARY_MAIL_PROVIDER: must be 1 to 32 lower-case letters, digits and dashes"),
		err,
	)
}

// checkSMTPURL returns an error if text is neither empty nor a URL of a mail server. Package
// mail checks the URL completely when the core creates the sender; this package does not
// import it, because the collector does not send mail.
func checkSMTPURL(text string) error {
	// The error of url.Parse contains the URL, which has a password.
	u, err := url.Parse(text)
	return require(text == "" || err == nil && u.Scheme == "smtp" && u.Host != "",
		"TRIBUTARY_SMTP_URL: must be smtp://user:password@host:587?tls=starttls, with special characters percent-encoded")
}

// checkBaseURL returns an error if text is neither empty nor a base URL.
func checkBaseURL(name, text string) error {
	u, err := url.Parse(text)
	valid := err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
	return require(text == "" || valid, "%s: must be an http or https URL without a query, for example https://api.example.com", name)
}

func checkMailAddress(name, text string) error {
	_, err := netmail.ParseAddress(text)
	return require(text == "" || err == nil, "%s: must be an e-mail address, for example Acme <no-reply@example.com>", name)
}

// Links holds the settings for the addresses in mails and in the output of commands.
type Links struct {
	// PublicURL is the base URL of the REST API as clients see it. Mails contain links to
	// it.
	PublicURL string `env:"TRIBUTARY_PUBLIC_URL"`
	// AppURL is the base URL of the console for merchants' teams, to which their mails and
	// notifications link. If it is empty, the console is below PublicURL.
	AppURL string `env:"TRIBUTARY_APP_URL"`
	// PortalURL is the base URL of the portal for partners, to which their mails and
	// notifications link. If it is empty, the portal is below PublicURL.
	PortalURL string `env:"TRIBUTARY_PORTAL_URL"`
}

// Apps returns the base URLs of the console and of the portal. By default, they are below
// PublicURL. A URL is empty if neither its setting nor PublicURL is set.
func (l Links) Apps() (console, portal string) {
	console, portal = l.AppURL, l.PortalURL
	if public := strings.TrimSuffix(l.PublicURL, "/"); public != "" {
		console, portal = cmp.Or(console, public+"/console"), cmp.Or(portal, public+"/portal")
	}
	return strings.TrimSuffix(console, "/"), strings.TrimSuffix(portal, "/")
}
