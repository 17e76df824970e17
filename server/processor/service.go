package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// clockSkew is the tolerated difference between a client's clock and this machine's clock.
const clockSkew = 5 * time.Minute

// Sealer encrypts and decrypts keys, secrets and events. Package seal implements it.
type Sealer interface {
	// Seal encrypts plain. The result can be decrypted only with the same additional data
	// (aad).
	Seal(plain, aad []byte) []byte
	// Open decrypts a result of Seal.
	Open(sealed, aad []byte) ([]byte, error)
}

// Sales records the sales of processors. Package conversion implements it.
type Sales interface {
	// RecordSale records a sale, or adds the processor's ids to the conversion that is
	// already recorded.
	RecordSale(ctx context.Context, scope affiliate.Scope, sale processor.Sale, mayWait bool) (processor.RecordedSale, error)
	// BindCustomer binds the customer of a sale to the participant to whom the sale's signals
	// lead.
	BindCustomer(ctx context.Context, scope affiliate.Scope, sale processor.Sale) error
	// AddProcessorIDs adds the processor's ids to the conversion of a sale, if it is
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
	Seal Sealer
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
	unknown   unknownConnections
}

// New returns a Service.
func New(c Config) *Service {
	if c.ServerTime == nil {
		c.ServerTime = time.Now
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	return &Service{
		Config: c, receiving: make(chan struct{}, maxReceiving),
		failures: failureCounter{counts: map[processor.ConnectionID]*failureCount{}}, unknown: newUnknownConnections(),
	}
}

// now returns the current time in UTC, truncated to milliseconds as in the API.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Millisecond) }

// processor returns the processor with a name of a request's path. Errors: NOT_FOUND.
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
