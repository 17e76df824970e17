// Package tributary is a client of the Tributary core over gRPC. The example of the
// package reports a conversion. README.md in this folder says how to use the client in
// another module.
//
// A Client has one generated client for each service. It adds the credential and the mode to
// each call, and a deadline to each call except exports. If the service is unavailable or the
// rate limit is reached, the client sends a call again, if the repetition has no second effect;
// see Options.Attempts.
//
// Errors are gRPC statuses. Code returns the stable error code of an error.
package tributary

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

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
	// Attempts is the highest number of times that a call is sent. A call that exceeds the rate
	// limit has no effect, so every such call may be sent again. A call that ends with
	// UNAVAILABLE may be sent again only if it changes no data or has an idempotency key.
	// Exports, which are streams, are sent once. Between attempts the client waits as long as
	// the service requests. If the service requests no wait, the client waits up to 250 ms, and
	// up to twice as long before each further attempt, at most 8 s. If the wait is longer than
	// the rest of the deadline, the call fails at once. Default: 4.
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

// reconnect bounds the time until the client uses a core that is available again. An attempt to
// connect takes at most MinConnectTimeout, and the pause before the next attempt takes at most
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

// Page is one page of a list, as the List methods return it.
type Page[T any] interface {
	GetData() []T
	GetLimit() int32
}

// Pages yields every item of a list. It calls get with the number of each page, which
// starts at 1:
//
//	for commission, err := range tributary.Pages(func(page int32) (*affiliatev1.ListCommissionsResponse, error) {
//		return client.Commissions.ListCommissions(ctx, &affiliatev1.ListCommissionsRequest{Page: &page})
//	}) {
//		…
//	}
//
// The iteration ends after the first page that is not full, or after the first error. If
// items are added or removed during the iteration, items may be missing or appear twice.
func Pages[T any, P Page[T]](get func(page int32) (P, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for number := int32(1); ; number++ {
			page, err := get(number)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page.GetData() {
				if !yield(item, nil) {
					return
				}
			}
			if len(page.GetData()) < int(page.GetLimit()) {
				return
			}
		}
	}
}

// Code returns the stable error code of an error of the service, for example
// VALIDATION_ERROR. It is empty for other errors. docs/errors.md lists the codes.
func Code(err error) string { return errorInfo(err).GetReason() }

// Challenge returns the challenge for CompleteLogin from the error SECOND_FACTOR_REQUIRED of a
// login. It is empty for other errors.
func Challenge(err error) string { return errorInfo(err).GetMetadata()["challenge"] }

// FieldError describes a field of a request whose value is not valid.
type FieldError struct {
	// Field is the path of the field in the proto message, for example
	// line_items[0].amount_cents.
	Field string
	// Message says which values are accepted. It is for people and may change.
	Message string
}

// FieldErrors returns all fields that are not valid, if the error is a VALIDATION_ERROR.
func FieldErrors(err error) []FieldError {
	var fields []FieldError
	for _, detail := range status.Convert(err).Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range bad.GetFieldViolations() {
				fields = append(fields, FieldError{violation.GetField(), violation.GetDescription()})
			}
		}
	}
	return fields
}

// errorInfo returns the ErrorInfo of an error of the service. It returns nil for other
// errors.
func errorInfo(err error) *errdetails.ErrorInfo {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}

// Event is the content of a webhook. docs/events.md lists the event types and describes
// the object in the events of each type.
type Event struct {
	// ID is the same in every delivery of the event.
	ID         string    `json:"id"`
	Type       string    `json:"type"`
	APIVersion string    `json:"api_version"`
	Timestamp  time.Time `json:"timestamp"`
	// Mode is test or live.
	Mode        string    `json:"mode"`
	WorkspaceID string    `json:"workspace_id"`
	Data        EventData `json:"data"`
}

// EventData contains the object of an event.
type EventData struct {
	// Object is the object after the event.
	Object json.RawMessage `json:"object"`
	// PreviousAttributes contains the changed fields with their values before the event.
	// It is empty if no field changed.
	PreviousAttributes json.RawMessage `json:"previous_attributes"`
}

// VerifyWebhook verifies the signature and the age of a webhook (Standard Webhooks) and
// returns its event. It returns an error if the signature is wrong, or if the timestamp
// differs from the current time by more than five minutes. The body must be the received
// bytes. If it was decoded and encoded again, the signature is wrong.
func VerifyWebhook(secret string, body []byte, header http.Header) (Event, error) {
	var event Event
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return event, fmt.Errorf("signing secret: %w", err)
	}
	if err := webhook.Verify(body, header); err != nil {
		return event, err
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return event, fmt.Errorf("event: %w", err)
	}
	return event, nil
}
