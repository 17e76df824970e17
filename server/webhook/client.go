package webhook

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"time"

	"github.com/tributary-hq/tributary/affiliate/webhook"
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
type Client struct{}

// NewClient makes a client.
func NewClient(ClientConfig) *Client { return &Client{} }

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

// Send makes one attempt.
func (c *Client) Send(context.Context, Request) webhook.Outcome { return webhook.Outcome{} }

// Check resolves an endpoint's host and judges every address. Errors:
// WEBHOOK_URL_UNRESOLVABLE, WEBHOOK_URL_PRIVATE_IP, VALIDATION_ERROR on `url` for a
// port that only an allowed address may have.
func (c *Client) Check(context.Context, webhook.URL) error { return nil }
