package processor

import (
	"context"
	"errors"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/affiliate/promocode"
)

// Processor is a payment processor. Package stripe implements it. Every method that has a
// key calls the processor's API with it. Errors: ErrBadKey, *PermissionError and
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
	// DeleteOtherEndpoints deletes the endpoints with a URL, except the endpoint keep and those
	// that were created after the given time. It returns the number of the latter.
	DeleteOtherEndpoints(ctx context.Context, key, url, keep string, createdBefore time.Time) (left int, err error)
	// DeleteEndpoint deletes a webhook endpoint. An endpoint that does not exist is no
	// error.
	DeleteEndpoint(ctx context.Context, key, id string) error
	// EndpointStatus returns the status of an endpoint in the processor's words, such as
	// enabled or disabled. It is "missing" if the endpoint does not exist.
	EndpointStatus(ctx context.Context, key, id string) (string, error)

	// Verify checks the signature of a message. header is the value of the signature's HTTP
	// header. The message is valid if any of the secrets has signed it within the
	// tolerance around now. Errors: ErrSignature.
	Verify(body []byte, header string, secrets []string, now time.Time) error
	// Envelope parses the envelope of an event whose signature is valid. ok is false if the
	// body is not an event.
	Envelope(body []byte) (event processor.Event, ok bool)
	// Read returns the current state of the object of an event. Errors: ErrMalformed.
	Read(ctx context.Context, key string, r ReadRequest) (processor.Facts, error)
	// AddCharges adds the ids of its charges to a sale. If withFee is true, it also adds the
	// processor's fee. FeeKnown is false afterwards if the processor does not know the fee
	// yet, or if the key may not read it.
	AddCharges(ctx context.Context, key string, sale *processor.Sale, withFee bool) error
	// Events calls yield for each event of the subscribed types that was created since a time
	// and before another one, oldest first. It stops at the first error of yield and returns
	// it. Errors: ErrTooManyEvents, before the first call of yield.
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
	// ErrSignature means that no secret has signed the message, or too long ago.
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
