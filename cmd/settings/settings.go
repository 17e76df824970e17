// Package settings reads the environment, once, for every command of the
// service (DECISIONS.md section 16).
//
// It reports every fault of the environment at once, by the variable's name and
// never by its value. A misspelt name is a fault too. Each secret NAME may instead
// be given as NAME_FILE, the path of a file that holds it.
package settings

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/clickstream"
)

// fileSuffix marks the variable that names a file instead of holding a value.
const fileSuffix = "_FILE"

// Redis says where the two uses of Redis are.
type Redis struct {
	// URL holds the click stream: durable, appendfsync always, noeviction.
	URL string `env:"TRIBUTARY_REDIS_URL,required,notEmpty"`
	// CacheURL holds limits, the edge directory and visitors. Default: URL.
	CacheURL string `env:"TRIBUTARY_CACHE_REDIS_URL"`
	// StreamShards is how many streams clicks are spread over, 1 to 64. Every
	// process has to agree on it. Default, and 0: 16 on a Cluster, else 1.
	StreamShards int `env:"TRIBUTARY_STREAM_SHARDS"`
	// StreamRedis is what URL leads to: single, sentinel or cluster. CacheRedis is
	// the same of CacheURL, which without that URL is what StreamRedis is.
	StreamRedis clickstream.Kind `env:"TRIBUTARY_CLICK_STREAM_REDIS" envDefault:"single"`
	CacheRedis  clickstream.Kind `env:"TRIBUTARY_CACHE_REDIS" envDefault:"single"`
	// LimitTimeout is how long a request waits for Redis to count it.
	LimitTimeout time.Duration `env:"TRIBUTARY_LIMIT_TIMEOUT" envDefault:"50ms"`
}

// HTTP says how a public HTTP port behaves.
type HTTP struct {
	// TLSCert and TLSKey are PEM files; empty: a proxy in front ends TLS.
	TLSCert string `env:"TRIBUTARY_TLS_CERT"`
	TLSKey  string `env:"TRIBUTARY_TLS_KEY"`
	// AllowHTTP takes plain HTTP from anybody: development only.
	AllowHTTP bool `env:"TRIBUTARY_ALLOW_HTTP" envDefault:"false"`
	// TrustedProxies may say who a client is and that it came over HTTPS: CIDRs,
	// comma separated.
	TrustedProxies Prefixes `env:"TRIBUTARY_TRUSTED_PROXIES"`
}

// Prefixes is a list of networks.
type Prefixes []netip.Prefix

// UnmarshalText reads a comma separated list.
func (p *Prefixes) UnmarshalText(text []byte) error {
	list, err := httpedge.ParseProxies(string(text))
	*p = list
	return err
}

// Secret is bytes that never print themselves, given in base64.
type Secret []byte

// secretBytes is the least that a keyed hash wants.
const secretBytes = 32

// UnmarshalText reads base64.
func (s *Secret) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil || len(raw) < secretBytes {
		return fmt.Errorf("must be base64 of at least %d bytes", secretBytes)
	}
	*s = raw
	return nil
}

// String hides the secret.
func (s Secret) String() string { return "(secret)" }

// Database says where Postgres is.
type Database struct {
	// DatabaseURL is a libpq connection string.
	DatabaseURL string `env:"TRIBUTARY_DATABASE_URL,required,notEmpty"`
}

// Core is what `core serve` needs.
type Core struct {
	Database
	Redis
	HTTP
	// APIListen is the REST port, used when the gateway shares the process.
	APIListen string `env:"TRIBUTARY_API_LISTEN" envDefault:"127.0.0.1:8080"`
	// GRPCListen is private: health and reflection are there too.
	GRPCListen string `env:"TRIBUTARY_GRPC_LISTEN" envDefault:"127.0.0.1:9090"`
	// MetricsListen is private: /metrics, /healthz, /readyz.
	MetricsListen string `env:"TRIBUTARY_METRICS_LISTEN" envDefault:"127.0.0.1:9100"`
	// GRPCTLSCert and GRPCTLSKey are PEM files; empty: plain text, for a private
	// network. With GRPCTLSCA callers have to show a certificate that it signed.
	GRPCTLSCert string `env:"TRIBUTARY_GRPC_TLS_CERT"`
	GRPCTLSKey  string `env:"TRIBUTARY_GRPC_TLS_KEY"`
	GRPCTLSCA   string `env:"TRIBUTARY_GRPC_TLS_CA"`
	// JWTKeys is `kid:base64,…`; the first signs, all verify.
	JWTKeys string `env:"TRIBUTARY_JWT_KEYS,required,notEmpty"`
	// HashKey keys every stored hash of an address, an e-mail or a customer.
	HashKey Secret `env:"TRIBUTARY_HASH_KEY,required,notEmpty"`
	// EncryptionKeys is `kid:base64,…`, each of 32 bytes; the first encrypts what
	// is kept secret at rest, all decrypt.
	EncryptionKeys string `env:"TRIBUTARY_ENCRYPTION_KEYS,required,notEmpty"`
	// LinkURL is where collectors answer /r/{key}, as partners see it: scheme and
	// host. Empty: links have no short URL.
	LinkURL string `env:"TRIBUTARY_LINK_URL"`
	// FXFile holds rates of exchange as CSV (server/fx); it is loaded at the start
	// and, when it has changed, every hour. Empty: rates are loaded by hand only.
	FXFile string `env:"TRIBUTARY_FX_FILE"`
	// WebhookAllowCIDRs may be called by webhooks although they are private or
	// reserved, on any port: CIDRs, comma separated. Empty: none.
	WebhookAllowCIDRs Prefixes `env:"TRIBUTARY_WEBHOOK_ALLOW_CIDRS"`
	// WebhookCAFile holds PEM certificates of authorities that webhooks trust beside
	// the system's. Empty: none.
	WebhookCAFile string `env:"TRIBUTARY_WEBHOOK_CA_FILE"`
	Limits
	CORS
}

// Limits are requests in any 60 seconds (SPEC.md section 8).
type Limits struct {
	Conversions int `env:"TRIBUTARY_LIMIT_CONVERSIONS" envDefault:"120"`
	Auth        int `env:"TRIBUTARY_LIMIT_AUTH" envDefault:"10"`
	General     int `env:"TRIBUTARY_LIMIT_GENERAL" envDefault:"300"`
}

// CORS says which pages may call the API from a browser.
type CORS struct {
	// Origins are exact, scheme included, comma separated. Empty: none.
	Origins []string `env:"TRIBUTARY_CORS_ORIGINS"`
}

// Gateway is what cmd/gateway needs, the REST layer apart from the core.
type Gateway struct {
	HTTP
	CORS
	APIListen     string `env:"TRIBUTARY_API_LISTEN" envDefault:"127.0.0.1:8080"`
	MetricsListen string `env:"TRIBUTARY_METRICS_LISTEN" envDefault:"127.0.0.1:9100"`
	// CoreAddr is the core's gRPC address. The core has to trust this host as a
	// proxy, or every client would look like the gateway.
	CoreAddr string `env:"TRIBUTARY_GRPC_ADDR,required,notEmpty"`
	// CoreCA is the PEM file of who signed the core's certificate; empty: plain
	// text. ClientCert and ClientKey are shown to a core that asks.
	CoreCA     string `env:"TRIBUTARY_GRPC_TLS_CA"`
	ClientCert string `env:"TRIBUTARY_GRPC_TLS_CERT"`
	ClientKey  string `env:"TRIBUTARY_GRPC_TLS_KEY"`
}

// Collector is what cmd/collector needs.
type Collector struct {
	Redis
	HTTP
	Listen        string `env:"TRIBUTARY_COLLECTOR_LISTEN" envDefault:"127.0.0.1:8081"`
	MetricsListen string `env:"TRIBUTARY_METRICS_LISTEN" envDefault:"127.0.0.1:9100"`
	// Tracking is clicks in any 60 seconds per public key.
	Tracking int64  `env:"TRIBUTARY_LIMIT_TRACKING" envDefault:"1000"`
	HashKey  Secret `env:"TRIBUTARY_HASH_KEY,required,notEmpty"`
	// JournalDir keeps clicks that the stream cannot take, on a disk of this
	// collector's own. Empty: such clicks are refused.
	JournalDir string `env:"TRIBUTARY_JOURNAL_DIR"`
	// CountryDB is a MaxMind file with countries or cities. Empty: the country of a
	// click is not known.
	CountryDB string `env:"TRIBUTARY_COUNTRY_DB"`
	// ShutdownDelay is how long a stopping collector still serves, so that balancers see
	// that it is not ready before its port closes.
	ShutdownDelay time.Duration `env:"TRIBUTARY_SHUTDOWN_DELAY" envDefault:"3s"`
}

// Read fills a settings struct from the process environment.
func Read[T any]() (T, error) { return Parse[T](os.Environ()) }

// Parse fills a settings struct from NAME=value lines.
func Parse[T any](environ []string) (T, error) {
	var out T
	values := env.ToMap(environ)
	faults := misspelt(values)
	values, unreadable := readFiles(values)
	faults = append(faults, unreadable...)
	err := env.ParseWithOptions(&out, env.Options{Environment: values})
	var many env.AggregateError
	switch {
	case errors.As(err, &many):
		for _, one := range many.Errors {
			faults = append(faults, named(reflect.TypeFor[T](), one))
		}
	case err != nil:
		faults = append(faults, err)
	}
	if d, ok := any(&out).(interface{ setDefaults() }); ok {
		d.setDefaults()
	}
	if c, ok := any(&out).(interface{ check() []error }); ok {
		faults = append(faults, c.check()...)
	}
	return out, errors.Join(faults...)
}

// readFiles replaces NAME_FILE by NAME for every setting NAME. TRIBUTARY_FX_FILE and
// TRIBUTARY_WEBHOOK_CA_FILE are settings themselves and stay as they are.
func readFiles(values map[string]string) (map[string]string, []error) {
	var faults []error
	for name, path := range values {
		base, ok := strings.CutSuffix(name, fileSuffix)
		if !ok || !known[base] || path == "" {
			continue
		}
		if values[base] != "" {
			faults = append(faults, fmt.Errorf("%s and %s are both set", base, name))
			continue
		}
		body, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		values[base] = strings.TrimSpace(string(body))
	}
	return values, faults
}

// named says which variable is meant, where the parser says which field, and
// leaves out the value of what is no number or no boolean.
func named(t reflect.Type, err error) error {
	var bad env.ParseError
	if !errors.As(err, &bad) {
		return err
	}
	cause := bad.Err
	var syntax *strconv.NumError
	if errors.As(cause, &syntax) {
		cause = syntax.Err
	}
	name := bad.Name
	if field, ok := t.FieldByName(bad.Name); ok {
		name, _, _ = strings.Cut(field.Tag.Get("env"), ",")
	}
	return fmt.Errorf("%s: %w", name, cause)
}

// Stream is where the click stream is.
func (r *Redis) Stream() clickstream.Endpoint {
	return clickstream.Endpoint{URL: r.URL, Kind: r.StreamRedis}
}

// Cache is where limits and the directory are.
func (r *Redis) Cache() clickstream.Endpoint {
	if r.CacheURL != "" {
		return clickstream.Endpoint{URL: r.CacheURL, Kind: r.CacheRedis}
	}
	return r.Stream()
}

// clusterShards is enough for each of a Cluster's masters to have some.
const clusterShards = 16

func (r *Redis) setDefaults() {
	switch {
	case r.StreamShards != 0:
	case r.StreamRedis == clickstream.Cluster:
		r.StreamShards = clusterShards
	default:
		r.StreamShards = 1
	}
}

const (
	minLimitTimeout = time.Millisecond
	maxLimitTimeout = time.Second // the timeout of a socket of Redis
)

func (r *Redis) faults() []error {
	var faults []error
	if r.StreamShards < 1 || r.StreamShards > clickstream.MaxShards {
		faults = append(faults, fmt.Errorf("TRIBUTARY_STREAM_SHARDS: must be 1 to %d", clickstream.MaxShards))
	}
	if r.LimitTimeout < minLimitTimeout || r.LimitTimeout > maxLimitTimeout {
		faults = append(faults, fmt.Errorf("TRIBUTARY_LIMIT_TIMEOUT: must be %s to %s", minLimitTimeout, maxLimitTimeout))
	}
	faults = append(faults, endpoint("TRIBUTARY_REDIS_URL", r.URL, "TRIBUTARY_CLICK_STREAM_REDIS", r.StreamRedis)...)
	return append(faults, endpoint("TRIBUTARY_CACHE_REDIS_URL", r.CacheURL, "TRIBUTARY_CACHE_REDIS", r.CacheRedis)...)
}

// endpoint names the variable that does not fit: the kind, or the URL that is none of
// that kind.
func endpoint(urlName, url, kindName string, kind clickstream.Kind) []error {
	switch kind {
	case clickstream.Single, clickstream.Sentinel, clickstream.Cluster:
	default:
		return []error{fmt.Errorf("%s: must be single, sentinel or cluster", kindName)}
	}
	if url == "" {
		return nil
	}
	if err := (clickstream.Endpoint{URL: url, Kind: kind}).Check(); err != nil {
		return []error{fmt.Errorf("%s, which %s calls %s: %w", urlName, kindName, kind, err)}
	}
	return nil
}

func (h HTTP) faults() []error {
	if (h.TLSCert == "") != (h.TLSKey == "") {
		return []error{errors.New("TRIBUTARY_TLS_CERT and TRIBUTARY_TLS_KEY go together")}
	}
	return nil
}

func positive[N int | int64](name string, n N) []error {
	if n < 1 {
		return []error{fmt.Errorf("%s: must be at least 1", name)}
	}
	return nil
}

func (c *Core) check() []error {
	faults := append(c.Redis.faults(), c.HTTP.faults()...)
	faults = append(faults, positive("TRIBUTARY_LIMIT_CONVERSIONS", c.Conversions)...)
	faults = append(faults, positive("TRIBUTARY_LIMIT_AUTH", c.Auth)...)
	faults = append(faults, positive("TRIBUTARY_LIMIT_GENERAL", c.General)...)
	if _, ok := affiliate.ParseWebURL(c.LinkURL); c.LinkURL != "" && (!ok || strings.Count(c.LinkURL, "/") != 2) {
		faults = append(faults, errors.New("TRIBUTARY_LINK_URL: must be scheme and host, like https://go.example.com"))
	}
	if (c.GRPCTLSCert == "") != (c.GRPCTLSKey == "") {
		faults = append(faults, errors.New("TRIBUTARY_GRPC_TLS_CERT and TRIBUTARY_GRPC_TLS_KEY go together"))
	}
	if c.GRPCTLSCA != "" && c.GRPCTLSCert == "" {
		faults = append(faults, errors.New("TRIBUTARY_GRPC_TLS_CA needs TRIBUTARY_GRPC_TLS_CERT"))
	}
	return faults
}

func (g *Gateway) check() []error {
	faults := g.faults()
	if (g.ClientCert == "") != (g.ClientKey == "") {
		faults = append(faults, errors.New("TRIBUTARY_GRPC_TLS_CERT and TRIBUTARY_GRPC_TLS_KEY go together"))
	}
	return faults
}

// maxShutdownDelay leaves time for the rest of a collector's shutdown within 20 s.
const maxShutdownDelay = 10 * time.Second

func (c *Collector) check() []error {
	faults := append(append(c.Redis.faults(), c.HTTP.faults()...), positive("TRIBUTARY_LIMIT_TRACKING", c.Tracking)...)
	if c.ShutdownDelay < 0 || c.ShutdownDelay > maxShutdownDelay {
		faults = append(faults, fmt.Errorf("TRIBUTARY_SHUTDOWN_DELAY: must be 0s to %s", maxShutdownDelay))
	}
	return faults
}

// ServerTLS is the TLS of a listener, nil when no certificate is set.
func (h HTTP) ServerTLS() (*tls.Config, error) {
	if h.TLSCert == "" {
		return nil, nil
	}
	return serverTLS(h.TLSCert, h.TLSKey, "")
}

// GRPCTLS is the TLS of the gRPC listener, nil when no certificate is set.
func (c *Core) GRPCTLS() (*tls.Config, error) {
	if c.GRPCTLSCert == "" {
		return nil, nil
	}
	return serverTLS(c.GRPCTLSCert, c.GRPCTLSKey, c.GRPCTLSCA)
}

// WebhookRoots are the authorities that webhooks trust; nil: the system's.
func (c *Core) WebhookRoots() (*x509.CertPool, error) {
	if c.WebhookCAFile == "" {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("the system's certificate authorities: %w", err)
	}
	return pool, addCertificates(pool, c.WebhookCAFile)
}

func serverTLS(cert, key, clientCA string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clientCA != "" {
		if config.ClientCAs, err = readPool(clientCA); err != nil {
			return nil, err
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return config, nil
}

// CoreTLS is how the gateway speaks to the core, nil for plain text.
func (g *Gateway) CoreTLS() (*tls.Config, error) {
	if g.CoreCA == "" {
		return nil, nil
	}
	pool, err := readPool(g.CoreCA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if g.ClientCert != "" {
		pair, err := tls.LoadX509KeyPair(g.ClientCert, g.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func readPool(path string) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	return pool, addCertificates(pool, path)
}

func addCertificates(pool *x509.CertPool, path string) error {
	body, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
	if err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	if !pool.AppendCertsFromPEM(body) {
		return fmt.Errorf("certificate authority: no certificate in %s", path)
	}
	return nil
}
