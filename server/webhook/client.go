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
	// maxResponseHeader bounds the header of a response, with the 1xx responses before
	// it. maxResponseBody bounds what is read of the body, only to reuse the connection.
	maxResponseHeader = 16 << 10
	maxResponseBody   = 16 << 10
	// discardTime bounds the time of reading that body: the outcome is known, and the
	// attempt still occupies a place.
	discardTime = time.Second
	// maxIdle bounds the connections that are kept for later attempts, maxIdlePerHost
	// those to one host, where many endpoints may be.
	maxIdle        = 512
	maxIdlePerHost = 128
	maxIdleTime    = time.Minute
)

// ClientConfig says how endpoints are called.
type ClientConfig struct {
	// Allowed may be called whatever it is (TRIBUTARY_WEBHOOK_ALLOW_CIDRS).
	Allowed []netip.Prefix
	// Roots are the certificates that are trusted; nil: the system's.
	Roots *x509.CertPool
	// Resolver finds addresses; nil: the system's.
	Resolver *net.Resolver
	// Version is of this build, for the User-Agent.
	Version string
}

// Client makes single attempts. Its methods are safe for concurrent use.
//
// Connections are kept per scheme, name and port. The dialer has checked the address of
// each one when it made the connection. A reused connection calls that same address,
// even if the name resolves to another one meanwhile.
type Client struct {
	dialer      *dialer
	transport   *http.Transport
	userAgent   string
	discardTime time.Duration
}

// NewClient makes a client.
func NewClient(cfg ClientConfig) *Client {
	d := newDialer(cfg)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &Client{
		dialer: d,
		transport: &http.Transport{
			// The environment's proxies would do the resolving and the dialling.
			Proxy:                  nil,
			DialTLSContext:         d.dialTLS,
			Protocols:              &protocols,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxResponseHeader,
			MaxIdleConns:           maxIdle,
			MaxIdleConnsPerHost:    maxIdlePerHost,
			IdleConnTimeout:        maxIdleTime,
		},
		userAgent:   "Tributary-Webhooks/" + cfg.Version,
		discardTime: discardTime,
	}
}

// Close drops the connections that no attempt uses.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Request is one attempt.
type Request struct {
	URL string
	// ID is the webhook-id, Attempt the number of the attempt from 1.
	ID      string
	Attempt int
	Body    []byte
	// Secrets sign, the newest first.
	Secrets []webhook.Secret
	// At is the attempt's time.
	At time.Time
	// Timeout bounds the attempt.
	Timeout time.Duration
}

// Send makes one attempt. The status of the response is the outcome, even if its body
// cannot be read. A URL that is not https is a blocked address. If ctx itself ends, the
// outcome is a timeout that says nothing about the receiver.
func (c *Client) Send(ctx context.Context, r Request) webhook.Outcome {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	req, err := c.request(ctx, r)
	if err != nil || req.URL.Scheme != "https" {
		return webhook.FailureOutcome(webhook.BlockedAddress)
	}
	// The transport and not a http.Client: no redirects, no cookies.
	response, err := c.transport.RoundTrip(req)
	if err != nil {
		return webhook.FailureOutcome(sendErrorCode(ctx, err))
	}
	defer response.Body.Close()
	if response.StatusCode < http.StatusContinue {
		// Three digits that are no HTTP status.
		return webhook.FailureOutcome(webhook.ProtocolError)
	}
	// The body of a switched protocol is the connection, on which cancel has no hold.
	if response.StatusCode != http.StatusSwitchingProtocols {
		enough := time.AfterFunc(c.discardTime, cancel)
		defer enough.Stop()
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
	// Not sent. The transport takes the request as idempotent, which it is by its
	// webhook-id: if a kept connection turns out to be closed, the request is repeated on
	// a new one. On a new connection a request is made once.
	req.Header["X-Idempotency-Key"] = []string{}
	return req, nil
}

// sendErrorCode returns the error code of an attempt without a response. The
// transport has no types for most of its errors: an error that is neither a timeout nor
// the end of the connection is a response that breaks HTTP or exceeds its bounds.
func sendErrorCode(ctx context.Context, err error) string {
	var failed *dialError
	var op *net.OpError
	switch {
	case errors.As(err, &failed):
		return failed.code
	case ctx.Err() != nil, timedOut(err):
		return webhook.Timeout
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		// crypto/tls names alerts so. One may come after the handshake, for example
		// when the receiver requires a client certificate.
		return webhook.TLSError
	case op != nil, connectionEnded(err):
		return webhook.ConnectionRefused
	default:
		return webhook.ProtocolError
	}
}
