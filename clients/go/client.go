package tributary

import (
	"context"
	"crypto/tls"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Options configure a Client. Either TLS or Plaintext must be set.
type Options struct {
	// Credential returns the credential of a call: a secret key (see Key) or an access
	// token (see Session). Default: calls have no credential.
	Credential func(context.Context) (string, error)
	// Mode is test or live. It only affects calls with an access token, because each key
	// belongs to one mode. Default: live.
	Mode string
	// TLS is the configuration of the connection.
	TLS *tls.Config
	// Plaintext connects without TLS, for a private network.
	Plaintext bool
	// Timeout limits the duration of a call, including all its attempts, if the caller's
	// context has no deadline. It does not apply to exports, which are streams.
	// Default: 30 s.
	Timeout time.Duration
	// Attempts is the highest number of times that a call is sent. A call that exceeds
	// the rate limit has no effect, so every such call may be sent again. A call that
	// ends with UNAVAILABLE may be sent again only if it changes no data or has an
	// idempotency key. Exports, which are streams, are sent once. Between attempts the
	// client waits as long as the service requests. If the service requests no wait, the
	// client waits up to 250 ms, and up to twice as long before each further attempt. If
	// the wait is longer than the rest of the deadline, the call fails at once.
	// Default: 4.
	Attempts int
	// DialOptions are additional options for the connection.
	DialOptions []grpc.DialOption
}

const (
	defaultTimeout  = 30 * time.Second
	defaultAttempts = 4
)

// Client is a connection to the core, the gRPC server of Tributary. It has a generated
// client for each service. Several goroutines may use its methods and fields at the same
// time.
type Client struct {
	conn *grpc.ClientConn

	Accounts      affiliatev1.AccountServiceClient
	Attribution   affiliatev1.AttributionServiceClient
	Commissions   affiliatev1.CommissionServiceClient
	Conversions   affiliatev1.ConversionServiceClient
	Customers     affiliatev1.CustomerServiceClient
	Fraud         affiliatev1.FraudServiceClient
	Health        affiliatev1.HealthServiceClient
	Ledger        affiliatev1.LedgerServiceClient
	Links         affiliatev1.LinkServiceClient
	Participants  affiliatev1.ParticipantServiceClient
	Partners      affiliatev1.PartnerServiceClient
	Payouts       affiliatev1.PayoutServiceClient
	Programs      affiliatev1.ProgramServiceClient
	PromoCodes    affiliatev1.PromoCodeServiceClient
	ServiceTokens affiliatev1.ServiceTokenServiceClient
	Webhooks      affiliatev1.WebhookServiceClient
	Workspaces    affiliatev1.WorkspaceServiceClient
}

// reconnect bounds the time until the client uses a core that has returned. An attempt to
// connect takes at most MinConnectTimeout, and the pause before the next one at most
// MaxDelay plus a fifth of it (Jitter): 4.8 seconds together. By default gRPC waits for up to
// two minutes.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 1500 * time.Millisecond},
	MinConnectTimeout: 3 * time.Second,
}

// New returns a client of the core at the address target, for example core.internal:9090.
// It does not wait until the client is connected.
func New(target string, options Options) (*Client, error) {
	if (options.TLS == nil) != options.Plaintext {
		return nil, errors.New("tributary: set either TLS or Plaintext")
	}
	if options.Timeout == 0 {
		options.Timeout = defaultTimeout
	}
	if options.Attempts == 0 {
		options.Attempts = defaultAttempts
	}
	transport := insecure.NewCredentials()
	if options.TLS != nil {
		transport = credentials.NewTLS(options.TLS)
	}
	dial := append([]grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithConnectParams(reconnect),
		grpc.WithChainUnaryInterceptor(options.addDeadline, options.addIdempotencyKey, options.repeat, options.addCredential),
		grpc.WithChainStreamInterceptor(options.addStreamCredential),
	}, options.DialOptions...)
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		return nil, err
	}
	return &Client{
		conn:          conn,
		Accounts:      affiliatev1.NewAccountServiceClient(conn),
		Attribution:   affiliatev1.NewAttributionServiceClient(conn),
		Commissions:   affiliatev1.NewCommissionServiceClient(conn),
		Conversions:   affiliatev1.NewConversionServiceClient(conn),
		Customers:     affiliatev1.NewCustomerServiceClient(conn),
		Fraud:         affiliatev1.NewFraudServiceClient(conn),
		Health:        affiliatev1.NewHealthServiceClient(conn),
		Ledger:        affiliatev1.NewLedgerServiceClient(conn),
		Links:         affiliatev1.NewLinkServiceClient(conn),
		Participants:  affiliatev1.NewParticipantServiceClient(conn),
		Partners:      affiliatev1.NewPartnerServiceClient(conn),
		Payouts:       affiliatev1.NewPayoutServiceClient(conn),
		Programs:      affiliatev1.NewProgramServiceClient(conn),
		PromoCodes:    affiliatev1.NewPromoCodeServiceClient(conn),
		ServiceTokens: affiliatev1.NewServiceTokenServiceClient(conn),
		Webhooks:      affiliatev1.NewWebhookServiceClient(conn),
		Workspaces:    affiliatev1.NewWorkspaceServiceClient(conn),
	}, nil
}

// Close closes the connection. Running calls end with CANCELED.
func (c *Client) Close() error { return c.conn.Close() }

// Key returns a function for Options.Credential that always returns the given key.
func Key(key string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return key, nil }
}
