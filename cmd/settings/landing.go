package settings

import (
	"cmp"
	"crypto/x509"
	"errors"
	"math"

	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

// Landing holds the settings of cmd/landing.
type Landing struct {
	LandingDatabase
	LandingRedis
	LandingMail
	Waitlist
	HTTP
	Traces
	Log
	Listen string `env:"TRIBUTARY_LANDING_LISTEN" envDefault:"127.0.0.1:8083"`
	LandingMetrics
	// Origins is a comma-separated list of the exact origins of the pages with the forms.
	Origins []string `env:"TRIBUTARY_LANDING_ORIGINS"`
	// Limit is the maximum number of forms in any 60 seconds per client address.
	Limit int64 `env:"TRIBUTARY_LIMIT_LANDING" envDefault:"5"`
	// HashKeys has the same setting as Core.HashKeys. The first key is used for the hashes of client addresses in
	// Redis.
	HashKeys HashKeys `env:"TRIBUTARY_HASH_KEY,required,notEmpty"`
}

// LandingDatabase holds the address of the landing service's Postgres.
type LandingDatabase struct {
	// LandingURL is a connection string in the format of libpq. If it is empty, CoreURL is
	// used.
	LandingURL string `env:"TRIBUTARY_LANDING_DATABASE_URL"`
	CoreURL    string `env:"TRIBUTARY_DATABASE_URL"`
}

// DatabaseURL returns the address of the database.
func (d *LandingDatabase) DatabaseURL() string { return cmp.Or(d.LandingURL, d.CoreURL) }

func (d *LandingDatabase) check() error {
	return require(d.DatabaseURL() != "", "TRIBUTARY_LANDING_DATABASE_URL or TRIBUTARY_DATABASE_URL must be set")
}

// LandingRedis holds the address of the Redis of the rate limit. Unlike Redis.URL, RedisURL may be empty.
type LandingRedis struct {
	RedisURL string `env:"TRIBUTARY_REDIS_URL"`
	RedisOptions
}

func (r LandingRedis) redis() *Redis {
	return &Redis{URL: r.RedisURL, RedisOptions: r.RedisOptions, StreamShards: 1}
}

// Cache returns the address of the Redis. If no Redis is configured, the URL of the address is empty. The parameter
// roots comes from RedisRoots.
func (r LandingRedis) Cache(roots func() *x509.CertPool) clickstream.Endpoint {
	return r.redis().Cache(roots)
}

// LandingMail holds the settings for the mails about contact messages. If SMTPURL or OperatorEmail is empty, the
// messages are stored but not mailed.
type LandingMail struct {
	SMTPURL  string `env:"TRIBUTARY_SMTP_URL"`
	MailFrom string `env:"TRIBUTARY_MAIL_FROM"`
	// OperatorEmail is the recipient of the messages.
	OperatorEmail string `env:"TRIBUTARY_OPERATOR_EMAIL"`
}

func (m LandingMail) faults() error {
	return errors.Join(
		checkSMTPURL(m.SMTPURL),
		require(m.SMTPURL == "" || m.MailFrom != "", "TRIBUTARY_SMTP_URL requires TRIBUTARY_MAIL_FROM"),
		checkMailAddress("TRIBUTARY_MAIL_FROM", m.MailFrom), checkMailAddress("TRIBUTARY_OPERATOR_EMAIL", m.OperatorEmail),
	)
}

// Waitlist holds the settings of the counter of the waitlist. Each setting has two names, of which only one may be set.
type Waitlist struct {
	Base          *int32 `env:"WAITLIST_BASE"`
	PrefixedBase  *int32 `env:"TRIBUTARY_WAITLIST_BASE"`
	Total         *int32 `env:"WAITLIST_TOTAL"`
	PrefixedTotal *int32 `env:"TRIBUTARY_WAITLIST_TOTAL"`
}

const defaultTotal = 1000

// WaitlistBase returns the offset of the counter.
func (w Waitlist) WaitlistBase() int32 { return either(w.Base, w.PrefixedBase, 0) }

// WaitlistTotal returns the number of places.
func (w Waitlist) WaitlistTotal() int32 { return either(w.Total, w.PrefixedTotal, defaultTotal) }

func either(value, other *int32, otherwise int32) int32 { return *cmp.Or(value, other, &otherwise) }

func (w Waitlist) faults() error {
	check := func(name string, value, prefixed *int32) error {
		return errors.Join(
			require(value == nil || prefixed == nil, "%s and %s%s must not both be set", name, namePrefix, name),
			require(either(value, prefixed, 0) >= 0, "%s: must be between 0 and %d", name, math.MaxInt32),
		)
	}
	return errors.Join(check("WAITLIST_BASE", w.Base, w.PrefixedBase), check("WAITLIST_TOTAL", w.Total, w.PrefixedTotal))
}

func (l *Landing) check() error {
	_, err := httpedge.ParseOrigins(l.Origins)
	return errors.Join(
		l.LandingDatabase.check(), l.redis().faults(), l.LandingMail.faults(), l.Waitlist.faults(), l.HTTP.faults(), l.Traces.faults(),
		require(err == nil, "TRIBUTARY_LANDING_ORIGINS: must be origins such as https://www.example.com, separated by commas"),
		requirePositive("TRIBUTARY_LIMIT_LANDING", l.Limit),
	)
}
