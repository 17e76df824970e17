package collector

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

// Config is what a collector is told from outside (DECISIONS.md section 16).
type Config struct {
	// Listen is the public address; default 127.0.0.1:8081.
	Listen string
	// MetricsListen is the private address of /metrics, /healthz and /readyz;
	// default 127.0.0.1:9100.
	MetricsListen string
	// TLSCert and TLSKey are PEM files; both or none.
	TLSCert, TLSKey string
	// AllowHTTP accepts plain HTTP; for development.
	AllowHTTP bool
	// TrustedProxies may say who the client is and that it came over HTTPS.
	TrustedProxies []netip.Prefix
	// RedisURL holds the click stream.
	RedisURL string
	// CacheRedisURL holds limits and the directory; default RedisURL.
	CacheRedisURL string
	// HashKey, 32 bytes or more, keys the hashes of addresses, agents and limit
	// subjects. Every process of a deployment has the same.
	HashKey []byte
	// LimitTracking is N of "at most N in any 60 s" per public key; default 1000.
	LimitTracking int64
	// Shards is the number of click streams; default 1.
	Shards int
}

const minHashKey = 32

// FromEnv reads the configuration through lookup (os.LookupEnv) and names every
// fault at once. A secret may come as NAME_FILE, the path of a file that holds
// it.
func FromEnv(lookup func(string) (string, bool)) (Config, error) {
	e := &environment{lookup: lookup}
	cfg := Config{
		Listen:        e.text("TRIBUTARY_COLLECTOR_LISTEN", "127.0.0.1:8081"),
		MetricsListen: e.text("TRIBUTARY_METRICS_LISTEN", "127.0.0.1:9100"),
		TLSCert:       e.text("TRIBUTARY_TLS_CERT", ""),
		TLSKey:        e.text("TRIBUTARY_TLS_KEY", ""),
		AllowHTTP:     e.boolean("TRIBUTARY_ALLOW_HTTP"),
		RedisURL:      e.secret("TRIBUTARY_REDIS_URL"),
		CacheRedisURL: e.secret("TRIBUTARY_CACHE_REDIS_URL"),
		LimitTracking: e.number("TRIBUTARY_LIMIT_TRACKING", 1000, 1, 1<<40),
		Shards:        int(e.number("TRIBUTARY_STREAM_SHARDS", 1, 1, clickstream.MaxShards)),
	}
	if cfg.RedisURL == "" {
		e.fault("TRIBUTARY_REDIS_URL", "is required")
	}
	if cfg.CacheRedisURL == "" {
		cfg.CacheRedisURL = cfg.RedisURL
	}
	if (cfg.TLSCert == "") != (cfg.TLSKey == "") {
		e.fault("TRIBUTARY_TLS_CERT", "and TRIBUTARY_TLS_KEY come together")
	}
	if kind := e.text("TRIBUTARY_CLICK_STREAM_REDIS", "single"); kind != "single" {
		e.fault("TRIBUTARY_CLICK_STREAM_REDIS", "may only be single in this release")
	}
	var err error
	if cfg.TrustedProxies, err = httpedge.ParseProxies(e.text("TRIBUTARY_TRUSTED_PROXIES", "")); err != nil {
		e.fault("TRIBUTARY_TRUSTED_PROXIES", err.Error())
	}
	encoded := e.secret("TRIBUTARY_HASH_KEY")
	cfg.HashKey, err = base64.StdEncoding.DecodeString(encoded)
	switch {
	case encoded == "":
		e.fault("TRIBUTARY_HASH_KEY", "is required")
	case err != nil || len(cfg.HashKey) < minHashKey:
		e.fault("TRIBUTARY_HASH_KEY", "must be the base64 of at least 32 bytes")
	}
	return cfg, errors.Join(e.faults...)
}

type environment struct {
	lookup func(string) (string, bool)
	faults []error
}

func (e *environment) fault(name, what string) {
	e.faults = append(e.faults, fmt.Errorf("%s %s", name, what))
}

func (e *environment) text(name, otherwise string) string {
	if value, ok := e.lookup(name); ok && value != "" {
		return value
	}
	return otherwise
}

func (e *environment) secret(name string) string {
	value, path := e.text(name, ""), e.text(name+"_FILE", "")
	if path == "" {
		return value
	}
	if value != "" {
		e.fault(name, "and "+name+"_FILE are both set")
	}
	content, err := os.ReadFile(path)
	if err != nil {
		e.fault(name+"_FILE", "cannot be read: "+err.Error())
	}
	return strings.TrimSpace(string(content))
}

func (e *environment) boolean(name string) bool {
	value := e.text(name, "false")
	parsed, err := strconv.ParseBool(value)
	if err != nil {
		e.fault(name, "must be true or false")
	}
	return parsed
}

func (e *environment) number(name string, otherwise, low, high int64) int64 {
	value := e.text(name, "")
	if value == "" {
		return otherwise
	}
	parsed, err := strconv.ParseInt(value, 10, 64)
	if err != nil || parsed < low || parsed > high {
		e.fault(name, fmt.Sprintf("must be an integer from %d to %d", low, high))
	}
	return parsed
}
