package stripe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/server/processor"
)

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

// failure returns the error of the package processor for an error of the library. The
// library's errors contain Stripe's messages and parts of responses, so no text of them is
// copied. action completes the sentence "stripe: …" and says what was attempted.
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
