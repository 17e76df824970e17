package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// clockSkew is the tolerated difference between a client's clock and this machine's clock.
const clockSkew = 5 * time.Minute

// Sales records the sales of processors. Package conversion implements it.
type Sales interface {
	// RecordSale records a sale, or adds the processor's ids to its conversion if the sale
	// is already recorded. If mayWait is true, a sale can wait for its checkout.
	RecordSale(ctx context.Context, scope affiliate.Scope, sale processor.Sale, mayWait bool) (processor.RecordedSale, error)
	// BindCustomer binds the customer of a sale to the participant to whom the sale's signals
	// lead.
	BindCustomer(ctx context.Context, scope affiliate.Scope, sale processor.Sale) error
	// AddProcessorIDs adds the processor's ids to the conversion of a sale, if the sale is
	// recorded.
	AddProcessorIDs(ctx context.Context, scope affiliate.Scope, sale processor.Sale) (processor.RecordedSale, error)
	// Reverse applies the stored refunds and disputes to a conversion.
	Reverse(ctx context.Context, scope affiliate.Scope, id affiliate.ConversionID) error
}

// Config holds the dependencies of a Service.
type Config struct {
	DB    *postgres.DB
	Sales Sales
	// Processors are the processors to which merchants can connect.
	Processors map[conversion.ProcessorName]Processor
	// Seal encrypts keys, secrets and events. The additional data is the id of the
	// connection in binary form and a word for the kind of value.
	Seal server.Sealer
	// PublicURL is the base of the URLs of webhook endpoints, without a slash at the end.
	PublicURL string
	// Limiter counts messages that are refused.
	Limiter server.Limiter
	Log     *slog.Logger
	Now     func() time.Time
	// ServerTime returns the time of Postgres, with which River compares the times of jobs.
	// Default: time.Now.
	ServerTime func() time.Time
}

// Service implements affiliate.v1.ProcessorService.
type Service struct {
	affiliatev1.UnimplementedProcessorServiceServer
	Config

	receiving chan struct{} // has an element for each event that is being received
	failures  failureCounter
	// unknown has connections that do not exist, with the times at which they were looked up,
	// so that repeated messages for them cause no queries.
	unknown *lru.Cache[processor.ConnectionID, time.Time]
}

// New returns a Service.
func New(c Config) *Service {
	if c.ServerTime == nil {
		c.ServerTime = time.Now
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	unknown, _ := lru.New[processor.ConnectionID, time.Time](maxUnknown) // fails only if the size is not positive
	return &Service{
		Config: c, receiving: make(chan struct{}, maxReceiving),
		failures: failureCounter{counts: map[processor.ConnectionID]*failureCount{}}, unknown: unknown,
	}
}

// now returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Millisecond) }

// processor returns the processor that a request's path names. Errors: NOT_FOUND.
func (s *Service) processor(name string) (conversion.ProcessorName, Processor, error) {
	p, ok := s.Processors[conversion.ProcessorName(name)]
	if !ok {
		return "", nil, affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return conversion.ProcessorName(name), p, nil
}

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	if r, ok := req.(*affiliatev1.UpdateProcessorConnectionRequest); ok {
		server.CheckMask(r, &found)
	}
	if r, ok := req.(*affiliatev1.ResyncProcessorRequest); ok && r.GetSince() != nil {
		switch since, now := r.GetSince().AsTime(), s.now(); {
		case !r.GetSince().IsValid():
			found.Add("since", affiliate.MustBeTimestamp)
		case since.Before(now.Add(-processor.MaxResyncAge - clockSkew)):
			found.Add("since", "must not be more than 30 days in the past")
		case since.After(now.Add(clockSkew)):
			found.Add("since", "must not be in the future")
		}
	}
	return found
}

// The kinds of sealed values of a connection.
const (
	sealedKey    = "key"
	sealedSecret = "secret"
	sealedEvent  = "event"
)

func sealingData(id processor.ConnectionID, kind string) []byte {
	return append(id.UUID[:], kind...)
}

func (s *Service) seal(id processor.ConnectionID, kind string, plain []byte) []byte {
	return s.Seal.Seal(plain, sealingData(id, kind))
}

func (s *Service) open(id processor.ConnectionID, kind string, sealed []byte) ([]byte, error) {
	return s.Seal.Open(sealed, sealingData(id, kind))
}

// OpenEvent decrypts the body of a stored event.
func (s *Service) OpenEvent(connection processor.ConnectionID, sealed []byte) ([]byte, error) {
	return s.open(connection, sealedEvent, sealed)
}

// keyOf decrypts the key of a connection.
func (s *Service) keyOf(c processor.LockedProcessorConnection) (string, error) {
	key, err := s.open(c.ID, sealedKey, c.Key)
	if err != nil {
		return "", fmt.Errorf("open the key of connection %s: %w", c.ID, err)
	}
	return string(key), nil
}

// refusalOf converts an error of a Processor to the error that the caller sees.
func (s *Service) refusalOf(ctx context.Context, err error) error {
	var missing *PermissionError
	switch {
	case errors.Is(err, ErrBadKey):
		return affiliate.Refuse(affiliate.ReasonProcessorKeyInvalid)
	case errors.As(err, &missing):
		return missingPermissions([]string{missing.Permission})
	case errors.Is(err, ErrEndpointRejected):
		s.Log.LogAttrs(ctx, slog.LevelWarn, "the payment processor does not create an endpoint", slog.Any("error", err))
		return affiliate.Refuse(affiliate.ReasonProcessorEndpointRejected)
	case errors.Is(err, ErrUnavailable):
		s.Log.LogAttrs(ctx, slog.LevelWarn, "the payment processor is not available", slog.Any("error", err))
		return &affiliate.Error{Reason: affiliate.ReasonServiceUnavailable, Message: "The payment processor does not respond. Try again later."}
	}
	return err
}

// missingPermissions returns the refusal of a key that lacks permissions. A name is empty if it
// is unknown.
func missingPermissions(names []string) error {
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	if len(names) == 0 {
		return affiliate.Refuse(affiliate.ReasonProcessorPermissionMissing)
	}
	return &affiliate.Error{
		Reason:   affiliate.ReasonProcessorPermissionMissing,
		Message:  "The restricted key lacks these permissions: " + strings.Join(names, ", ") + ".",
		Metadata: map[string]string{processor.MissingPermissions: strings.Join(names, ",")},
	}
}

// Processor is a payment processor. Package stripe implements it. Every method with a context calls
// the processor's API with the given key. Errors of these methods: ErrBadKey, *PermissionError and
// ErrUnavailable, possibly wrapped. The errors contain no key and no text of the processor.
type Processor interface {
	// Mode returns the mode of a restricted key. ok is false if the text is not a
	// restricted key.
	Mode(key string) (mode affiliate.Mode, ok bool)
	// Account returns the id of the account to which a key belongs. Errors: ErrBadKey.
	Account(ctx context.Context, key string) (string, error)
	// MissingPermissions returns the names of those required permissions that the key does
	// not have, in the processor's words and sorted.
	MissingPermissions(ctx context.Context, key string, needs Needs) ([]string, error)
	// CreateEndpoint registers a webhook endpoint for the events that the service uses. There
	// can be several endpoints with one URL. Errors: ErrEndpointRejected.
	CreateEndpoint(ctx context.Context, key, url string) (Endpoint, error)
	// DeleteOtherEndpoints deletes the endpoints with a URL that were created before a time,
	// except the endpoint with the id keep. The result left is the number of the newer endpoints.
	DeleteOtherEndpoints(ctx context.Context, key, url, keep string, createdBefore time.Time) (left int, err error)
	// DeleteEndpoint deletes a webhook endpoint. An endpoint that does not exist is no
	// error.
	DeleteEndpoint(ctx context.Context, key, id string) error
	// EndpointStatus returns the status of an endpoint in the processor's words, such as
	// enabled or disabled. It is "missing" if the endpoint does not exist.
	EndpointStatus(ctx context.Context, key, id string) (string, error)

	// Verify checks the signature of a message. header is the value of the signature's HTTP
	// header. The message is valid if it was signed with any of the secrets and the time of
	// the signature is close enough to now. Errors: ErrSignature.
	Verify(body []byte, header string, secrets []string, now time.Time) error
	// Envelope parses the envelope of an event whose signature is valid. ok is false if the
	// body is not an event.
	Envelope(body []byte) (event processor.Event, ok bool)
	// Read returns the current state of the object of an event. Errors: ErrMalformed.
	Read(ctx context.Context, key string, r ReadRequest) (processor.Facts, error)
	// AddCharges adds to a sale the ids of its charges. If withFee is true, it also adds the
	// processor's fee. FeeKnown is false afterwards if the processor does not know the fee
	// yet, or if the key may not read it.
	AddCharges(ctx context.Context, key string, sale *processor.Sale, withFee bool) error
	// Events calls yield for each event of the subscribed types that was created from the
	// time since to the time before, oldest first. It stops at the first error of yield and
	// returns this error. Errors: ErrTooManyEvents, before the first call of yield.
	Events(ctx context.Context, key string, since, before time.Time, yield func(body []byte) error) error

	// CreatePromotionCode makes a coupon and a promotion code and returns their ids.
	// idempotencyKey makes a repeated call return the same ids.
	CreatePromotionCode(ctx context.Context, key, idempotencyKey string, code promocode.PromoCode) (processor.PromoCode, error)
	// DeactivatePromotionCode makes a promotion code unusable. A code that does not exist is
	// no error.
	DeactivatePromotionCode(ctx context.Context, key, id string) error
}

// Endpoint is a registered webhook endpoint. The secret signs its messages.
type Endpoint struct{ ID, Secret string }

// Needs says which features require permissions in addition to the permissions that every
// connection needs.
type Needs struct {
	// PromoCodes means that promo codes are created at the processor.
	PromoCodes bool
	// Fees means that a programme subtracts the processor's fees from the sale.
	Fees bool
}

// ReadRequest says what Read reads.
type ReadRequest struct {
	// Body is the event.
	Body []byte
	// ReadAgain means that the object in the event is not used even if it is complete. It is set
	// for events of a resync, which have the form of an old version of the API.
	ReadAgain bool
	// Since is the time before which earlier sales of the customer are not read.
	Since time.Time
	// OutOfBand means that invoices that were paid outside of the processor are sales.
	OutOfBand bool
}

var (
	// ErrBadKey means that the processor does not accept the key.
	ErrBadKey = errors.New("the payment processor does not accept the key")
	// ErrSignature means that no secret matches the signature of a message, or that the signature has a wrong time.
	ErrSignature = errors.New("the signature of the message is not valid")
	// ErrMalformed means that an event cannot be read, now or later.
	ErrMalformed = errors.New("the event of the payment processor is malformed")
	// ErrEndpointRejected means that the processor does not create a webhook endpoint.
	ErrEndpointRejected = errors.New("the payment processor does not create the webhook endpoint")
	// ErrTooManyEvents means that a period has more events than one call may read.
	ErrTooManyEvents = errors.New("the period has too many events")
	// ErrUnavailable means that the processor did not respond, responded with an error of
	// its own, or limits the rate of requests. The request can be repeated later.
	ErrUnavailable = errors.New("the payment processor is not available")
)

// PermissionError means that the key lacks a permission. Permission is its name in the
// processor's words. It is empty if the name is unknown.
type PermissionError struct{ Permission string }

func (e *PermissionError) Error() string {
	if e.Permission == "" {
		return "the key of the payment processor lacks a permission"
	}
	return "the key of the payment processor lacks the permission " + e.Permission
}
