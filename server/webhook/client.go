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
)

const (
	// maxResponseHeader is the maximum size of a response header in bytes, including the
	// 1xx responses before it.
	maxResponseHeader = 16 << 10
	// maxResponseBody is the maximum number of bytes that are read of a response body. The
	// body is read only so that the connection can be reused.
	maxResponseBody = 16 << 10
	// discardTimeout limits the time of reading the body. The outcome is already known, but
	// the attempt still uses a slot.
	discardTimeout = time.Second
	// maxIdle is the maximum number of idle connections.
	maxIdle = 512
	// maxIdlePerHost is the maximum number of idle connections to one host. Many endpoints
	// can be on the same host.
	maxIdlePerHost = 128
	maxIdleTime    = time.Minute
)

// ClientConfig configures a Client.
type ClientConfig struct {
	// Allowed lists networks that can always be called, even if they are private
	// (TRIBUTARY_WEBHOOK_ALLOW_CIDRS).
	Allowed []netip.Prefix
	// Roots are the trusted root certificates. Default: those of the system.
	Roots *x509.CertPool
	// Resolver resolves host names. Default: the system's configuration.
	Resolver *net.Resolver
	// Version is the version of this build for the User-Agent header.
	Version string
}

// Client makes attempts to deliver events. Its methods are safe for concurrent use.
//
// Idle connections are reused for the same scheme, host name and port. The dialer checks
// the address when it makes a connection. A reused connection goes to that same address,
// even if the name now resolves to another one.
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
			// No proxy of the environment is used, because it would resolve and dial the host
			// itself, and the dialer's checks would not apply.
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
	ID      string // the webhook-id
	Attempt int    // the number of the attempt, starting with 1
	Body    []byte
	// Secrets sign the request. The newest secret is first.
	Secrets []webhook.Secret
	// At is the time in the signature.
	At time.Time
	// Timeout is the time limit of the attempt.
	Timeout time.Duration
}

// Send makes one attempt. The outcome depends only on the status of the response, even if
// the body cannot be read. For a URL that is not https, the outcome is a blocked address.
// If ctx ends before the attempt's timeout, the outcome is a timeout, but the receiver is
// not the cause.
func (c *Client) Send(ctx context.Context, r Request) webhook.Outcome {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	req, err := c.request(ctx, r)
	if err != nil || req.URL.Scheme != "https" {
		return webhook.FailureOutcome(webhook.BlockedAddress)
	}
	// The transport, unlike an http.Client, follows no redirects and stores no cookies.
	response, err := c.transport.RoundTrip(req)
	if err != nil {
		return webhook.FailureOutcome(sendErrorCode(ctx, err))
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusContinue {
		// The transport accepts three digits below 100, but they are not an HTTP status.
		return webhook.FailureOutcome(webhook.ProtocolError)
	}
	// After 101 Switching Protocols the body is the connection itself. Reading it would not
	// end when the context is canceled.
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
	// The header is not sent, because it has no value. It makes the transport treat the
	// request as idempotent, which is correct because receivers know its webhook-id. If a
	// reused connection is already closed, the transport repeats the request on a new
	// connection. On a new connection it sends the request only once.
	req.Header["X-Idempotency-Key"] = []string{}
	return req, nil
}

// sendErrorCode returns the error code of an attempt without a response. The transport has
// no types for most of its errors. If an error is neither a timeout nor the end of the
// connection, it means that the response violates HTTP or is too large.
func sendErrorCode(ctx context.Context, err error) string {
	var dial *dialError
	var op *net.OpError
	switch {
	case errors.As(err, &dial):
		return dial.code
	case ctx.Err() != nil, timedOut(err):
		return webhook.Timeout
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		// crypto/tls uses these names for TLS alerts. An alert can arrive after the handshake,
		// for example when the receiver requires a client certificate.
		return webhook.TLSError
	case op != nil, connectionEnded(err):
		return webhook.ConnectionRefused
	default:
		return webhook.ProtocolError
	}
}
