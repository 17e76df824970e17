package stripe

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/processor"
)

const (
	// requestTimeout is the time for one attempt of a request. It includes the time to read
	// the response.
	requestTimeout = 10 * time.Second
	// maxRetries is the number of further attempts after a network error or a 5xx response.
	maxRetries = 1
	// pageSize is the greatest number of objects that Stripe returns in a page.
	pageSize = 100
)

// Config configures a Client.
type Config struct {
	// APIURL is the base URL of the API. Default: Stripe's.
	APIURL string
	// HTTPClient sends the requests. Default: a client that follows no redirects and limits
	// an attempt to 10 seconds.
	HTTPClient *http.Client
	// MaxEvents is the greatest number of events of one call of Events. Default: 10,000.
	MaxEvents int
}

// Client calls Stripe. It is safe for concurrent use. It holds no key: every method
// receives the key of the connection.
type Client struct {
	backends  *stripe.Backends
	maxEvents int
}

var _ processor.Processor = (*Client)(nil)

// New returns a Client.
func New(cfg Config) *Client {
	httpClient := cfg.HTTPClient
	if httpClient == nil {
		httpClient = &http.Client{
			Timeout: requestTimeout,
			// The API does not redirect. A redirect could send the key to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	backend := &stripe.BackendConfig{
		HTTPClient:        httpClient,
		MaxNetworkRetries: stripe.Int64(maxRetries),
		EnableTelemetry:   stripe.Bool(false),
		// The library logs Stripe's messages, which may contain parts of the key.
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	}
	if cfg.APIURL != "" {
		backend.URL = stripe.String(cfg.APIURL)
	}
	return &Client{
		backends:  &stripe.Backends{API: stripe.GetBackendWithConfig(stripe.APIBackend, backend)},
		maxEvents: cmp.Or(cfg.MaxEvents, defaultMaxEvents),
	}
}

// api returns the library's client for a key. It shares the connections of c.
func (c *Client) api(key string) *stripe.Client {
	return stripe.NewClient(key, stripe.WithBackends(c.backends))
}

// keyForm matches the text of a restricted key after its prefix.
var keyForm = regexp.MustCompile(`^[A-Za-z0-9_]{10,250}$`)

// Mode returns the mode of a restricted key. ok is false for secret keys (sk_), publishable
// keys (pk_) and any other text.
func (c *Client) Mode(key string) (mode affiliate.Mode, ok bool) {
	for prefix, mode := range map[string]affiliate.Mode{"rk_test_": affiliate.ModeTest, "rk_live_": affiliate.ModeLive} {
		if rest, found := strings.CutPrefix(key, prefix); found && keyForm.MatchString(rest) {
			return mode, true
		}
	}
	return "", false
}

// accountForm matches the id of an account.
var accountForm = regexp.MustCompile(`acct_[A-Za-z0-9]{1,64}`)

// Account returns the id of the account to which a key belongs. If the key may not read the
// account, the id comes from the message with which Stripe rejects the request.
func (c *Client) Account(ctx context.Context, key string) (string, error) {
	account, err := c.api(key).V1Accounts.Retrieve(ctx, nil)
	if isForbidden(err) {
		if id := accountForm.FindString(messageOf(err)); id != "" {
			return id, nil
		}
	}
	if err != nil {
		return "", failure(ctx, "read the account", err)
	}
	if accountForm.FindString(account.ID) != account.ID || account.ID == "" {
		return "", unavailable("read the account", "the response has no account id")
	}
	return account.ID, nil
}

// collect returns the objects of all pages of a list, at most limit of them. The list is
// empty if Stripe does not know the object whose list it is. action is part of an error, as
// for failure.
func collect[T any](ctx context.Context, action string, list *stripe.V1List[T], limit int) ([]T, error) {
	var all []T
	for object, err := range list.All(ctx) {
		switch {
		case isMissing(err):
			return nil, nil
		case err != nil:
			return nil, failure(ctx, action, err)
		}
		all = append(all, object)
		if len(all) == limit {
			break
		}
	}
	return all, nil
}
