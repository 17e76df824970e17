package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
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

// collect returns the objects of all pages of a list, at most limit of them. If Stripe does
// not know the object to which the list belongs, the result is empty. The parameter action
// is the same as in the function failure.
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

var (
	// errMissing means that Stripe does not know the object.
	errMissing = errors.New("stripe does not know the object")
	// errMalformed means that the body is not an event that Read can read.
	errMalformed = fmt.Errorf("stripe: %w", processor.ErrMalformed)
)

// permissionForm matches the name of a permission in Stripe's message of a 403 response.
var permissionForm = regexp.MustCompile(`rak_[a-z_]{1,60}`)

// namedCodes are the error codes that a merchant or an operator can act on. Other codes are
// not copied into an error, because their text is Stripe's.
var namedCodes = map[stripe.ErrorCode]bool{
	stripe.ErrorCodeAmountTooLarge:        true,
	stripe.ErrorCodeAmountTooSmall:        true,
	stripe.ErrorCodeCouponExpired:         true,
	stripe.ErrorCodeResourceAlreadyExists: true,
	stripe.ErrorCodeURLInvalid:            true,
}

// failure returns the error of the package processor for an error of the library. The library's errors contain
// Stripe's messages and parts of responses, so failure copies nothing from them except the status, the name of a
// permission and a code of namedCodes. The parameter action describes the attempt, for example "read the account".
func failure(ctx context.Context, action string, err error) error {
	var response *stripe.Error
	if !errors.As(err, &response) {
		if cause := ctx.Err(); cause != nil {
			return fmt.Errorf("stripe: %s: %w: %w", action, processor.ErrUnavailable, cause)
		}
		return unavailable(action, cause(err))
	}
	switch status := response.HTTPStatusCode; {
	case status == http.StatusUnauthorized:
		return fmt.Errorf("stripe: %s: %w", action, processor.ErrBadKey)
	case status == http.StatusForbidden:
		return fmt.Errorf("stripe: %s: %w", action, &processor.PermissionError{Permission: permissionIn(response.Msg)})
	case status == http.StatusTooManyRequests, status == http.StatusConflict, status >= http.StatusInternalServerError:
		// 409 means that another request holds a lock or has the same idempotency key.
		return unavailable(action, fmt.Sprintf("status %d", status))
	case isMissing(err):
		return fmt.Errorf("stripe: %s: %w", action, errMissing)
	case namedCodes[response.Code]:
		return fmt.Errorf("stripe: %s: status %d, code %s", action, status, response.Code)
	default:
		return fmt.Errorf("stripe: %s: status %d", action, status)
	}
}

// unavailable returns an ErrUnavailable.
func unavailable(action, detail string) error {
	return fmt.Errorf("stripe: %s: %s: %w", action, detail, processor.ErrUnavailable)
}

// cause describes an error that is not a response of Stripe's API.
func cause(err error) string {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "time-out"
	}
	var connection *net.OpError
	if errors.As(err, &connection) {
		return "no connection"
	}
	return "no complete response"
}

// isMissing reports whether Stripe does not know the object that a request names. Stripe
// responds with 404 to an id in the path and with 400 to an id in a parameter.
func isMissing(err error) bool {
	var response *stripe.Error
	if !errors.As(err, &response) || response.Code != stripe.ErrorCodeResourceMissing {
		return false
	}
	return response.HTTPStatusCode == http.StatusNotFound || response.HTTPStatusCode == http.StatusBadRequest
}

// isInvalid reports whether Stripe checked the key and then rejected the parameters of a
// request.
func isInvalid(err error) bool {
	var response *stripe.Error
	return errors.As(err, &response) &&
		(response.HTTPStatusCode == http.StatusBadRequest || response.HTTPStatusCode == http.StatusNotFound)
}

// isForbidden reports whether the key lacks the permission for a request.
func isForbidden(err error) bool {
	var response *stripe.Error
	return errors.As(err, &response) && response.HTTPStatusCode == http.StatusForbidden
}

// messageOf returns Stripe's message of an error response. It must not leave this package.
func messageOf(err error) string {
	var response *stripe.Error
	if !errors.As(err, &response) {
		return ""
	}
	return response.Msg
}

// permissionIn returns the name of the permission in a message; empty if there is none.
func permissionIn(message string) string {
	return strings.TrimPrefix(permissionForm.FindString(message), "rak_")
}
