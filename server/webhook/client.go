package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/spans"
)

const (
	// maxResponseHeader is the maximum size in bytes of a response header, including the
	// 1xx responses before the final response.
	maxResponseHeader = 16 << 10
	// maxResponseBody is the maximum number of bytes that are read from a response body.
	// The body is discarded. It is read because a connection can be reused only if the
	// body was read.
	maxResponseBody = 16 << 10
	// discardTimeout is the longest time that reading the body may take. The time is
	// short because the outcome of the attempt is already known but the attempt still
	// uses a slot.
	discardTimeout = time.Second
	// maxIdle is the maximum number of idle connections.
	maxIdle = 512
	// maxIdlePerHost is the maximum number of idle connections to one host. It is not
	// small, because many endpoints can be on the same host.
	maxIdlePerHost = 128
	maxIdleTime    = time.Minute
)

// ClientConfig configures a Client.
type ClientConfig struct {
	// Allowed lists networks to which requests are always allowed, even if the networks
	// are private (TRIBUTARY_WEBHOOK_ALLOW_CIDRS).
	Allowed []netip.Prefix
	// Roots returns the trusted root certificates for a new connection. Default: the root
	// certificates of the system.
	Roots func() *x509.CertPool
	// Resolver resolves host names. Default: a resolver with the system's configuration.
	Resolver *net.Resolver
	// Version is the version of this build for the User-Agent header.
	Version string
}

// Client sends the HTTP requests that deliver events. Its methods are safe for concurrent
// use.
//
// The client reuses an idle connection for requests with the same scheme, host name and
// port. The dialer checks the receiver's address when it makes a connection. The check
// need not be repeated for a reused connection, because the connection stays with the
// checked address even if the host name now resolves to another address.
type Client struct {
	dialer         *dialer
	transport      *http.Transport
	userAgent      string
	discardTimeout time.Duration
}

// NewClient returns a Client.
func NewClient(cfg ClientConfig) *Client {
	d := newDialer(cfg)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &Client{
		dialer: d,
		transport: &http.Transport{
			// Proxies of the environment are not used. A proxy would resolve the host
			// name and connect to the host, so the dialer could not check the address.
			Proxy:                  nil,
			DialTLSContext:         d.dialTLS,
			Protocols:              &protocols,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxResponseHeader,
			MaxIdleConns:           maxIdle,
			MaxIdleConnsPerHost:    maxIdlePerHost,
			IdleConnTimeout:        maxIdleTime,
		},
		userAgent:      "Tributary-Webhooks/" + cfg.Version,
		discardTimeout: discardTimeout,
	}
}

// Close closes the idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Request describes one attempt.
type Request struct {
	URL     string
	ID      string // the value of the webhook-id header
	Attempt int    // the number of the attempt, starting with 1
	Body    []byte
	// Secrets are the secrets with which the request is signed, newest first.
	Secrets []webhook.Secret
	// At is the time that is part of the signature.
	At time.Time
	// Timeout is the time limit of the attempt.
	Timeout time.Duration
}

// Send makes one attempt and returns its outcome. If there is a response, the outcome
// depends on its status, and for 429 and 503 on Retry-After, but not on its body. If the scheme of
// the URL is not https or no request can be made, the outcome is webhook.BlockedAddress. If ctx ends
// before the timeout of the attempt, the outcome is webhook.Timeout, although the receiver was not too slow.
func (c *Client) Send(ctx context.Context, r Request) webhook.Outcome {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	req, err := c.request(ctx, r)
	if err != nil || req.URL.Scheme != "https" {
		return webhook.Outcome{ErrorCode: webhook.BlockedAddress}
	}
	// The transport, unlike an http.Client, follows no redirects and stores no cookies.
	response, err := c.transport.RoundTrip(req)
	if err != nil {
		return webhook.Outcome{ErrorCode: sendErrorCode(ctx, err)}
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusContinue {
		// The transport also accepts numbers below 100, which are not valid HTTP
		// statuses.
		return webhook.Outcome{ErrorCode: webhook.ProtocolError}
	}
	// After 101 Switching Protocols, the body is the connection. A read of this body
	// would not end when the context ends.
	if response.StatusCode != http.StatusSwitchingProtocols {
		discardTimer := time.AfterFunc(c.discardTimeout, cancel)
		defer discardTimer.Stop()
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxResponseBody))
	}
	return webhook.ResponseOutcome(response.StatusCode, retryAfter(response.Header.Get("Retry-After"), r.At))
}

func (c *Client) request(ctx context.Context, r Request) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Webhook-Id", r.ID)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(r.At.Unix(), 10))
	req.Header.Set("Webhook-Signature", webhook.Sign(r.Secrets, r.ID, r.At, r.Body))
	req.Header.Set("Webhook-Attempt", strconv.Itoa(r.Attempt))
	if parent := spans.TraceParent(ctx); parent != "" {
		req.Header.Set("Traceparent", parent)
	}
	// Because of this header, the transport treats the request as idempotent: if the
	// receiver has closed a reused connection, the transport sends the request again on a
	// new connection. This is safe, because receivers recognise a repeated request by its
	// webhook-id. The header itself is not sent, because it has no value.
	req.Header["X-Idempotency-Key"] = []string{}
	return req, nil
}

// sendErrorCode returns the error code of an attempt without a response. Most errors of
// the transport have no type that could be tested. An error that is neither a timeout nor
// a connection error is therefore treated as a protocol error: the response violates HTTP
// or is too large.
func sendErrorCode(ctx context.Context, err error) string {
	var dial *dialError
	var op *net.OpError
	switch {
	case errors.As(err, &dial):
		return dial.code
	case ctx.Err() != nil, timedOut(err):
		return webhook.Timeout
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		// crypto/tls uses these values of Op for TLS alerts. An alert can arrive after
		// the handshake, for example if the receiver requires a client certificate.
		return webhook.TLSError
	case op != nil, connectionEnded(err):
		return webhook.ConnectionFailed
	default:
		return webhook.ProtocolError
	}
}

// maxRetryAfterSeconds limits the number of seconds in a header, so that the delay fits
// into a time.Duration. Its exact value does not matter, because the retry schedule
// limits the delay to a much smaller value.
const maxRetryAfterSeconds = 1 << 32

// retryAfter returns the delay in a Retry-After header, which contains a number of
// seconds or an HTTP date. It returns 0 if the header is absent or invalid, or if the
// date is in the past.
func retryAfter(header string, now time.Time) time.Duration {
	seconds, err := strconv.ParseUint(header, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, maxRetryAfterSeconds)) * time.Second
	}
	date, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return max(0, date.Sub(now))
}
