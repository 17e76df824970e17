package settings

import (
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"time"

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
	// HashKeys are Core.HashKeys. The first is the key for the hashes of client addresses in
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
func (d *LandingDatabase) DatabaseURL() string {
	if d.LandingURL != "" {
		return d.LandingURL
	}
	return d.CoreURL
}

func (d *LandingDatabase) check() []error {
	if d.DatabaseURL() == "" {
		return []error{errors.New("TRIBUTARY_LANDING_DATABASE_URL or TRIBUTARY_DATABASE_URL must be set")}
	}
	return nil
}

// LandingRedis holds the address of the Redis of the rate limit. It has the same variables
// as Redis, but none is required.
type LandingRedis struct {
	RedisURL     string           `env:"TRIBUTARY_REDIS_URL"`
	CacheURL     string           `env:"TRIBUTARY_CACHE_REDIS_URL"`
	StreamRedis  clickstream.Kind `env:"TRIBUTARY_CLICK_STREAM_REDIS" envDefault:"single"`
	CacheRedis   clickstream.Kind `env:"TRIBUTARY_CACHE_REDIS" envDefault:"single"`
	CAFile       string           `env:"TRIBUTARY_REDIS_CA_FILE"`
	LimitTimeout time.Duration    `env:"TRIBUTARY_LIMIT_TIMEOUT" envDefault:"50ms"`
}

func (r LandingRedis) redis() *Redis {
	return &Redis{
		URL: r.RedisURL, CacheURL: r.CacheURL, StreamRedis: r.StreamRedis, CacheRedis: r.CacheRedis, CAFile: r.CAFile,
		LimitTimeout: r.LimitTimeout, StreamShards: 1,
	}
}

// Cache returns the address of the Redis. If no Redis is configured, its URL is empty.
// roots comes from RedisRoots.
func (r LandingRedis) Cache(roots func() *x509.CertPool) clickstream.Endpoint {
	return r.redis().Cache(roots)
}

// LandingMail holds the settings for the mails about contact messages. Without SMTPURL or
// OperatorEmail, the messages are only stored.
type LandingMail struct {
	SMTPURL  string `env:"TRIBUTARY_SMTP_URL"`
	MailFrom string `env:"TRIBUTARY_MAIL_FROM"`
	// OperatorEmail is the recipient of the messages.
	OperatorEmail string `env:"TRIBUTARY_OPERATOR_EMAIL"`
}

func (m LandingMail) faults() []error {
	var faults []error
	if m.SMTPURL != "" {
		if err := checkSMTPURL(m.SMTPURL); err != nil {
			faults = append(faults, fmt.Errorf("TRIBUTARY_SMTP_URL: %w", err))
		}
		if m.MailFrom == "" {
			faults = append(faults, errors.New("TRIBUTARY_SMTP_URL requires TRIBUTARY_MAIL_FROM"))
		}
	}
	for name, address := range map[string]string{"TRIBUTARY_MAIL_FROM": m.MailFrom, "TRIBUTARY_OPERATOR_EMAIL": m.OperatorEmail} {
		if err := checkMailAddress(address); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	return faults
}

// Waitlist holds the settings of the counter. Each has two names, and only one of them may
// be set.
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

// either returns the value that is set, or otherwise.
func either(value, other *int32, otherwise int32) int32 {
	switch {
	case value != nil:
		return *value
	case other != nil:
		return *other
	}
	return otherwise
}

func (w Waitlist) faults() []error {
	var faults []error
	for _, setting := range []struct {
		name            string
		value, prefixed *int32
	}{{"WAITLIST_BASE", w.Base, w.PrefixedBase}, {"WAITLIST_TOTAL", w.Total, w.PrefixedTotal}} {
		if setting.value != nil && setting.prefixed != nil {
			faults = append(faults, fmt.Errorf("%s and %s%s must not both be set", setting.name, namePrefix, setting.name))
		}
		if either(setting.value, setting.prefixed, 0) < 0 {
			faults = append(faults, fmt.Errorf("%s: must be between 0 and %d", setting.name, math.MaxInt32))
		}
	}
	return faults
}

func (l *Landing) check() []error {
	faults := append(l.LandingDatabase.check(), l.redis().faults()...)
	faults = append(faults, l.LandingMail.faults()...)
	faults = append(faults, l.Waitlist.faults()...)
	faults = append(faults, l.HTTP.faults()...)
	faults = append(faults, l.Traces.faults()...)
	if _, err := httpedge.ParseOrigins(l.Origins); err != nil {
		faults = append(faults, errors.New("TRIBUTARY_LANDING_ORIGINS: must be origins such as https://www.example.com, separated by commas"))
	}
	return append(faults, checkPositive("TRIBUTARY_LIMIT_LANDING", l.Limit)...)
}
