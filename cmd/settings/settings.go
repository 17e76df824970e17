// Package settings reads the settings of all commands from the environment
// (docs/operations/settings.md).
//
// It reports all invalid variables at once. The errors contain the names of the variables and never their values. A
// name that is similar to the name of a setting is an error too. Instead of a variable NAME, an operator may set
// NAME_FILE to the path of a file that contains the value.
package settings

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

// Redis holds the addresses of the one or two Redis deployments.
type Redis struct {
	// URL is the Redis of the click stream. It must run with appendfsync always and
	// maxmemory-policy noeviction.
	URL string `env:"TRIBUTARY_REDIS_URL,required,notEmpty"`
	RedisOptions
	// StreamShards is the number of streams for the clicks, from 1 to 64. It must be the
	// same in all processes. If it is 0, the number is 16 on a Redis Cluster and 1
	// otherwise.
	StreamShards int `env:"TRIBUTARY_STREAM_SHARDS"`
}

// RedisOptions holds the settings of Redis that all programs have.
type RedisOptions struct {
	// CacheURL is the Redis of the rate limits, the edge directory and the visitors. If
	// it is empty, URL is used.
	CacheURL string `env:"TRIBUTARY_CACHE_REDIS_URL"`
	// StreamRedis is the kind of the Redis at URL: single, sentinel or cluster.
	// CacheRedis is the kind of the Redis at CacheURL. It has no effect if CacheURL is
	// empty.
	StreamRedis clickstream.Kind `env:"TRIBUTARY_CLICK_STREAM_REDIS" envDefault:"single"`
	CacheRedis  clickstream.Kind `env:"TRIBUTARY_CACHE_REDIS" envDefault:"single"`
	// CAFile is a PEM file with the certificate authorities of all Redis servers and
	// sentinels. If it is empty, the authorities of the system are used. It has no effect
	// on a URL without TLS.
	CAFile string `env:"TRIBUTARY_REDIS_CA_FILE"`
	// LimitTimeout is the maximum time that a request waits until Redis has counted it for a rate limit.
	LimitTimeout time.Duration `env:"TRIBUTARY_LIMIT_TIMEOUT" envDefault:"50ms"`
}

// HTTP configures a public HTTP port.
type HTTP struct {
	// TLSCert and TLSKey are PEM files. If they are empty, the port has no TLS, and a
	// proxy must provide it.
	TLSCert string `env:"TRIBUTARY_TLS_CERT"`
	TLSKey  string `env:"TRIBUTARY_TLS_KEY"`
	// AllowHTTP allows requests without HTTPS from any client. It is for development
	// only.
	AllowHTTP bool `env:"TRIBUTARY_ALLOW_HTTP" envDefault:"false"`
	// TrustedProxies is a comma-separated list of CIDRs. The headers that these proxies
	// send determine the address of the client and whether the client used HTTPS.
	TrustedProxies Prefixes `env:"TRIBUTARY_TRUSTED_PROXIES"`
	// ShutdownDelay is the time for which a stopping process still serves requests after it
	// has reported that it is not ready. It gives load balancers time to notice this before
	// the port closes.
	ShutdownDelay time.Duration `env:"TRIBUTARY_SHUTDOWN_DELAY" envDefault:"3s"`
}

// Prefixes is a list of networks.
type Prefixes []netip.Prefix

// UnmarshalText reads a comma-separated list.
func (p *Prefixes) UnmarshalText(text []byte) error {
	list, err := httpedge.ParseProxies(string(text))
	*p = list
	return err
}

// HashKeys are the keys of keyed hashes. Its String method does not return the keys.
type HashKeys affiliate.HashKeys

// hashKeyBytes is the minimum length of the key of a keyed hash.
const hashKeyBytes = 32

// UnmarshalText reads a list of different keys in base64, separated by commas.
func (k *HashKeys) UnmarshalText(text []byte) error {
	entries := strings.Split(string(text), ",")
	if len(entries) > affiliate.MaxHashKeys {
		return fmt.Errorf("must have at most %d keys", affiliate.MaxHashKeys)
	}
	var keys HashKeys
	for i, entry := range entries {
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(entry))
		if err != nil || len(key) < hashKeyBytes {
			return fmt.Errorf("key %d of %d must be base64 of at least %d bytes", i+1, len(entries), hashKeyBytes)
		}
		isKey := func(other []byte) bool { return bytes.Equal(other, key) }
		if first := slices.IndexFunc(keys, isKey); first >= 0 {
			return fmt.Errorf("keys %d and %d must not be the same", first+1, i+1)
		}
		keys = append(keys, key)
	}
	*k = keys
	return nil
}

// HashKeySetting is the name of the setting of HashKeys.
const HashKeySetting = "TRIBUTARY_HASH_KEY"

// SettingKeys returns the keys with the name of their setting.
func (k HashKeys) SettingKeys() affiliate.SettingKeys {
	keys := affiliate.SettingKeys{Setting: HashKeySetting}
	for _, key := range k {
		keys.Keys = append(keys.Keys, affiliate.SettingKey{Secret: key})
	}
	return keys
}

// Keys returns the keys.
func (k HashKeys) Keys() affiliate.HashKeys { return affiliate.HashKeys(k) }

// String returns a text without the keys.
func (k HashKeys) String() string { return k.Keys().String() }

// Database holds the address of Postgres.
type Database struct {
	// DatabaseURL is a connection string in the format of libpq.
	DatabaseURL string `env:"TRIBUTARY_DATABASE_URL,required,notEmpty"`
}

// Registration holds the settings that restrict who can create an account: open, invite
// or, for merchants, closed.
type Registration struct {
	MerchantRegistration account.Registration `env:"TRIBUTARY_REGISTRATION_MERCHANT" envDefault:"closed"`
	PartnerRegistration  account.Registration `env:"TRIBUTARY_REGISTRATION_PARTNER" envDefault:"open"`
}

// Erasures holds the settings of `core erasures`.
type Erasures struct {
	Database
	// HashKeys has the same setting as Core.HashKeys.
	HashKeys HashKeys `env:"TRIBUTARY_HASH_KEY,required,notEmpty"`
}

// Core holds the settings of `core serve`.
type Core struct {
	Database
	Redis
	Regions
	HTTP
	// APIListen is the address of the REST API, if the gateway runs in the core's
	// process.
	APIListen string `env:"TRIBUTARY_API_LISTEN" envDefault:"127.0.0.1:8080"`
	// GRPCListen is the address of the gRPC server, which also serves health checks and
	// reflection. It must be in a private network.
	GRPCListen string `env:"TRIBUTARY_GRPC_LISTEN" envDefault:"127.0.0.1:9090"`
	CoreMetrics
	// GRPCTLSCert and GRPCTLSKey are PEM files. If they are empty, gRPC is not encrypted,
	// which is only safe in a private network. If GRPCTLSCA is set, clients must present
	// a certificate that this authority has signed.
	GRPCTLSCert string `env:"TRIBUTARY_GRPC_TLS_CERT"`
	GRPCTLSKey  string `env:"TRIBUTARY_GRPC_TLS_KEY"`
	GRPCTLSCA   string `env:"TRIBUTARY_GRPC_TLS_CA"`
	// JWTKeys is a list `kid:base64,…`. The first key signs access tokens. All keys
	// verify them.
	JWTKeys string `env:"TRIBUTARY_JWT_KEYS,required,notEmpty"`
	// HashKeys are the keys for the stored hashes of IP addresses, e-mail addresses and
	// customers. The hashes of new data are made with the first key. A search for stored data
	// uses the hashes under all keys.
	HashKeys HashKeys `env:"TRIBUTARY_HASH_KEY,required,notEmpty"`
	// ErasureLog is the path of a file in which each erasure of personal data is recorded. If
	// it is empty, erasures cannot be repeated after a restore of an older backup.
	ErasureLog string `env:"TRIBUTARY_ERASURE_LOG"`
	// EncryptionKeys is a list `kid:base64,…` of keys of 32 bytes. The first key encrypts
	// the secrets that are stored in the database. All keys decrypt them.
	EncryptionKeys string `env:"TRIBUTARY_ENCRYPTION_KEYS,required,notEmpty"`
	// LinkURL is the scheme and host of short links. Requests for this host must reach
	// the collectors, which serve /r/{key}. If it is empty, links have no short URL.
	LinkURL string `env:"TRIBUTARY_LINK_URL"`
	// FXFile is a CSV file with exchange rates (server/fx). It is loaded at the start,
	// and every hour if it has changed. If it is empty, rates are loaded only with `core
	// fx load`.
	FXFile string `env:"TRIBUTARY_FX_FILE"`
	// WebhookAllowCIDRs is a comma-separated list of private or reserved networks.
	// Webhooks may be sent to any port in these networks.
	WebhookAllowCIDRs Prefixes `env:"TRIBUTARY_WEBHOOK_ALLOW_CIDRS"`
	// WebhookCAFile is a PEM file with certificate authorities. Webhooks trust them in
	// addition to the authorities of the system.
	WebhookCAFile string `env:"TRIBUTARY_WEBHOOK_CA_FILE"`
	Mail
	Registration
	Limits
	Privacy
	CORS
	Traces
	Log
}

// Mail holds the settings for mail (docs/operations/mail.md).
type Mail struct {
	Links
	// StripeAPIURL is the base URL of Stripe's API. If it is empty, the address of Stripe is
	// used. Only tests and the demo set it.
	StripeAPIURL string `env:"TRIBUTARY_STRIPE_API_URL"`
	// SMTPURL is the mail server, smtp://user:password@host:587?tls=starttls. If it is
	// empty, no mail is sent.
	SMTPURL string `env:"TRIBUTARY_SMTP_URL"`
	// MailFrom and MailReplyTo are addresses with an optional name.
	MailFrom    string `env:"TRIBUTARY_MAIL_FROM"`
	MailReplyTo string `env:"TRIBUTARY_MAIL_REPLY_TO"`
	// MailProvider is the last part of the path of the webhook that the mail provider
	// calls. MailWebhookSecret is the secret for the signatures of this webhook, or two
	// secrets separated by a comma. If no secret is set, the path does not exist.
	MailProvider      string `env:"TRIBUTARY_MAIL_PROVIDER" envDefault:"resend"`
	MailWebhookSecret string `env:"TRIBUTARY_MAIL_WEBHOOK_SECRET"`
	// RequireVerifiedEmail makes some actions in live mode require a verified e-mail
	// address.
	RequireVerifiedEmail bool `env:"TRIBUTARY_REQUIRE_VERIFIED_EMAIL" envDefault:"false"`
}

// Limits holds the rate limits, in requests in any 60 seconds unless a field says
// otherwise (docs/merchant/rate-limits.md).
type Limits struct {
	Conversions int64 `env:"TRIBUTARY_LIMIT_CONVERSIONS" envDefault:"120"`
	Auth        int64 `env:"TRIBUTARY_LIMIT_AUTH" envDefault:"10"`
	General     int64 `env:"TRIBUTARY_LIMIT_GENERAL" envDefault:"300"`
	Session     int64 `env:"TRIBUTARY_LIMIT_SESSION" envDefault:"60"`
	// MailProvider limits the requests to the mail provider's webhook, and Unsubscribe those to unsubscribe links, per client address.
	MailProvider int64 `env:"TRIBUTARY_LIMIT_MAIL_PROVIDER" envDefault:"1200"`
	Unsubscribe  int64 `env:"TRIBUTARY_LIMIT_UNSUBSCRIBE" envDefault:"60"`
	// Resend is the number of verifications that an account can request in any hour.
	Resend int64 `env:"TRIBUTARY_LIMIT_RESEND" envDefault:"3"`
	// Erasure and Export are the numbers of erasures and exports that an account can request in any hour. BuyerErasure
	// is the number of erasures of buyers that a workspace can request in any hour.
	Erasure      int64 `env:"TRIBUTARY_LIMIT_ERASURE" envDefault:"5"`
	BuyerErasure int64 `env:"TRIBUTARY_LIMIT_BUYER_ERASURE" envDefault:"60"`
	Export       int64 `env:"TRIBUTARY_LIMIT_EXPORT" envDefault:"10"`
	// InviteAddress is the number of invitations that can be sent to one e-mail address in any hour. Invites is the
	// number of invitations that a workspace can send in any 24 hours.
	InviteAddress int64 `env:"TRIBUTARY_LIMIT_INVITE_ADDRESS" envDefault:"3"`
	Invites       int64 `env:"TRIBUTARY_LIMIT_INVITES" envDefault:"100"`
}

// Privacy holds the settings of erasures.
type Privacy struct {
	// BuyerErasureEnabled enables the routes for the erasure of buyers. If it is false, these
	// routes return FEATURE_DISABLED.
	BuyerErasureEnabled bool `env:"TRIBUTARY_BUYER_ERASURE" envDefault:"true"`
}

// CORS holds the origins of the pages that may call the API from a browser.
type CORS struct {
	// Origins is a comma-separated list of exact origins with their scheme.
	Origins []string `env:"TRIBUTARY_CORS_ORIGINS"`
}

// Gateway holds the settings of cmd/gateway.
type Gateway struct {
	HTTP
	CORS
	GatewayMetrics
	Traces
	Log
	APIListen string `env:"TRIBUTARY_API_LISTEN" envDefault:"127.0.0.1:8080"`
	// CoreAddr is the core's gRPC address. The core must trust the gateway's host as a
	// proxy. Otherwise it would use the address of the gateway as the address of every
	// client.
	CoreAddr string `env:"TRIBUTARY_GRPC_ADDR,required,notEmpty"`
	// CoreCA is a PEM file with the authority that signed the core's certificate. If it
	// is empty, gRPC is not encrypted. ClientCert and ClientKey are PEM files that the
	// gateway presents if the core requests a client certificate.
	CoreCA     string `env:"TRIBUTARY_GRPC_TLS_CA"`
	ClientCert string `env:"TRIBUTARY_GRPC_TLS_CERT"`
	ClientKey  string `env:"TRIBUTARY_GRPC_TLS_KEY"`
}

// Collector holds the settings of cmd/collector.
type Collector struct {
	Redis
	HTTP
	CollectorMetrics
	Traces
	Log
	Listen string `env:"TRIBUTARY_COLLECTOR_LISTEN" envDefault:"127.0.0.1:8081"`
	// Tracking is the maximum number of clicks in any 60 seconds per public key, in each region.
	Tracking int64 `env:"TRIBUTARY_LIMIT_TRACKING" envDefault:"1000"`
	// Visitor is the maximum number of clicks in any 60 seconds per public key and client
	// address, at one collector. 0 means no limit.
	Visitor int64 `env:"TRIBUTARY_LIMIT_TRACKING_ADDRESS" envDefault:"120"`
	// HashKeys has the same setting as Core.HashKeys. A collector uses only the first key.
	HashKeys HashKeys `env:"TRIBUTARY_HASH_KEY,required,notEmpty"`
	// JournalDir is the folder for clicks that cannot be appended to the stream. No other
	// collector may use it. If it is empty, such clicks are rejected.
	JournalDir string `env:"TRIBUTARY_JOURNAL_DIR"`
	// CountryDB is a MaxMind file with countries or cities. If it is empty, clicks have
	// no country.
	CountryDB string `env:"TRIBUTARY_COUNTRY_DB"`
}

// Traces holds the settings of the traces that a program records.
type Traces struct {
	// TracesURL is the address to which spans are sent in the protocol OTLP over HTTP, with
	// its path, for example http://127.0.0.1:4318/v1/traces. It may contain a user and a
	// password, which are sent with HTTP Basic authentication. If it is empty, nothing is
	// recorded.
	TracesURL string `env:"TRIBUTARY_TRACES_URL"`
	// TracesSample is the share of the requests that are recorded, from 0 to 1.
	TracesSample float64 `env:"TRIBUTARY_TRACES_SAMPLE" envDefault:"0.01"`
}

// Log holds the settings of the log of a program.
type Log struct {
	// LogLevel is the lowest level of the lines in the log.
	LogLevel LogLevel `env:"TRIBUTARY_LOG_LEVEL" envDefault:"info"`
}

// LogLevel is a level of slog. It implements slog.Leveler.
type LogLevel slog.Level

// Level returns the level.
func (l LogLevel) Level() slog.Level { return slog.Level(l) }

// UnmarshalText reads debug, info, warn or error.
func (l *LogLevel) UnmarshalText(text []byte) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[string(text)]
	if !ok {
		return errors.New("must be debug, info, warn or error")
	}
	*l = LogLevel(level)
	return nil
}

// The next types hold the address of the private port of a program (cmd/private). The
// address must be in a private network. The default ports differ, so that all programs can
// run on one machine. The command healthcheck reads no other setting.
type (
	// CoreMetrics belongs to the core.
	CoreMetrics struct {
		MetricsListen string `env:"TRIBUTARY_METRICS_LISTEN" envDefault:"127.0.0.1:9100"`
	}
	// GatewayMetrics belongs to the gateway.
	GatewayMetrics struct {
		MetricsListen string `env:"TRIBUTARY_METRICS_LISTEN" envDefault:"127.0.0.1:9101"`
	}
	// CollectorMetrics belongs to the collector.
	CollectorMetrics struct {
		MetricsListen string `env:"TRIBUTARY_METRICS_LISTEN" envDefault:"127.0.0.1:9103"`
	}
	// LandingMetrics belongs to the landing service.
	LandingMetrics struct {
		LandingMetricsListen string `env:"TRIBUTARY_LANDING_METRICS_LISTEN" envDefault:"127.0.0.1:9102"`
	}
)

// Stream returns the address of the Redis of the click stream. The parameter roots comes from RedisRoots.
func (r *Redis) Stream(roots func() *x509.CertPool) clickstream.Endpoint {
	return clickstream.Endpoint{URL: r.URL, Kind: r.StreamRedis, Roots: roots}
}

// Cache returns the address of the Redis of the rate limits, the edge directory and the
// visitors. The parameter roots comes from RedisRoots.
func (r *Redis) Cache(roots func() *x509.CertPool) clickstream.Endpoint {
	if r.CacheURL != "" {
		return clickstream.Endpoint{URL: r.CacheURL, Kind: r.CacheRedis, Roots: roots}
	}
	return r.Stream(roots)
}

// clusterShards is the default number of shards on a Redis Cluster. It is large enough
// that each master has some shards.
const clusterShards = 16

// shards returns the number of streams for the given value of the setting TRIBUTARY_STREAM_SHARDS.
func shards(set int, kind clickstream.Kind) int {
	switch {
	case set != 0:
		return set
	case kind == clickstream.Cluster:
		return clusterShards
	}
	return 1
}
