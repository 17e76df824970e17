package affiliate

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Reason is a stable machine-readable error code (SPEC.md section 7 and
// DECISIONS.md). Its HTTP status, its gRPC code and when it happens stand in
// proto/affiliate/v1/error_reason.proto, whose names are the same words.
type Reason string

// Reasons that the domain and the edge give themselves.
const (
	ReasonValidation              Reason = "VALIDATION_ERROR"
	ReasonUnauthorized            Reason = "UNAUTHORIZED"
	ReasonInvalidAPIKey           Reason = "INVALID_API_KEY"
	ReasonInvalidPublicKey        Reason = "INVALID_PUBLIC_KEY"
	ReasonInvalidCredentials      Reason = "INVALID_CREDENTIALS"
	ReasonRefreshTokenInvalid     Reason = "REFRESH_TOKEN_INVALID"
	ReasonForbidden               Reason = "FORBIDDEN"
	ReasonHTTPSRequired           Reason = "HTTPS_REQUIRED"
	ReasonNotFound                Reason = "NOT_FOUND"
	ReasonMethodNotAllowed        Reason = "METHOD_NOT_ALLOWED"
	ReasonPayloadTooLarge         Reason = "PAYLOAD_TOO_LARGE"
	ReasonUnsupportedMediaType    Reason = "UNSUPPORTED_MEDIA_TYPE"
	ReasonRateLimitExceeded       Reason = "RATE_LIMIT_EXCEEDED"
	ReasonInternal                Reason = "INTERNAL_ERROR"
	ReasonServiceUnavailable      Reason = "SERVICE_UNAVAILABLE"
	ReasonEmailTaken              Reason = "EMAIL_TAKEN"
	ReasonAPIKeyLimitExceeded     Reason = "API_KEY_LIMIT_EXCEEDED"
	ReasonSlugTaken               Reason = "SLUG_TAKEN"
	ReasonProgramStateInvalid     Reason = "PROGRAM_STATE_INVALID"
	ReasonParticipantState        Reason = "PARTICIPANT_STATE_INVALID"
	ReasonParticipantErased       Reason = "PARTICIPANT_ERASED"
	ReasonReferralCodeTaken       Reason = "REFERRAL_CODE_TAKEN"
	ReasonApplicationDuplicate    Reason = "APPLICATION_DUPLICATE"
	ReasonConversionDuplicate     Reason = "CONVERSION_DUPLICATE"
	ReasonNoAttributionSignal     Reason = "NO_ATTRIBUTION_SIGNAL"
	ReasonModeMismatch            Reason = "MODE_MISMATCH"
	ReasonCommissionNotPending    Reason = "COMMISSION_NOT_PENDING"
	ReasonCommissionHoldActive    Reason = "COMMISSION_HOLD_ACTIVE"
	ReasonCommissionTerminal      Reason = "COMMISSION_TERMINAL"
	ReasonLastOwner               Reason = "LAST_OWNER"
	ReasonGroupInUse              Reason = "GROUP_IN_USE"
	ReasonLinkLimitExceeded       Reason = "LINK_LIMIT_EXCEEDED"
	ReasonPromoCodeTaken          Reason = "PROMO_CODE_TAKEN"
	ReasonBulkAllFailed           Reason = "BULK_ALL_FAILED"
	ReasonOriginNotAllowed        Reason = "ORIGIN_NOT_ALLOWED"
	ReasonInvalidSecretKey        Reason = "INVALID_SECRET_KEY"
	ReasonCommissionNeedsReview   Reason = "COMMISSION_NEEDS_REVIEW"
	ReasonCommissionHoldNotActive Reason = "COMMISSION_HOLD_NOT_ACTIVE"
	ReasonCommissionNotFlagged    Reason = "COMMISSION_NOT_FLAGGED"
	ReasonIdempotencyKeyRequired  Reason = "IDEMPOTENCY_KEY_REQUIRED"
	ReasonIdempotencyKeyReused    Reason = "IDEMPOTENCY_KEY_REUSED"
	ReasonRefundDuplicate         Reason = "REFUND_DUPLICATE"
	ReasonRefundExceedsAmount     Reason = "REFUND_EXCEEDS_AMOUNT"
	ReasonPayoutState             Reason = "PAYOUT_STATE_INVALID"
	ReasonWebhookNotFound         Reason = "WEBHOOK_NOT_FOUND"
	ReasonWebhookLimitExceeded    Reason = "WEBHOOK_ENDPOINT_LIMIT_EXCEEDED"
	ReasonWebhookURLNotHTTPS      Reason = "WEBHOOK_URL_NOT_HTTPS"
	ReasonWebhookURLPrivateIP     Reason = "WEBHOOK_URL_PRIVATE_IP"
	ReasonWebhookURLUnresolvable  Reason = "WEBHOOK_URL_UNRESOLVABLE"
	ReasonWebhookDisabled         Reason = "WEBHOOK_DISABLED"
	ReasonFraudEventResolved      Reason = "FRAUD_EVENT_RESOLVED"
)

// Error is a refusal that the caller may see. Anything else that a function
// returns as an error is an accident and becomes INTERNAL_ERROR.
type Error struct {
	Reason Reason
	// Message says what happened, for a person; unstable, never matched.
	// Empty: the reason's standard sentence.
	Message string
	// Metadata goes into google.rpc.ErrorInfo, for example retry_after.
	Metadata map[string]string
	// Violations are set for VALIDATION_ERROR only.
	Violations []Violation
}

// Violation is a fault of one field.
type Violation struct {
	// Field is the proto path: commission_rules.percentage. It is empty for a fault
	// of the request as a whole.
	Field string
	// Message says what is accepted, without the field and the full stop: "must not
	// be before {date_from}". A name in braces is the proto path of another field.
	Message string
}

// reference matches a name in braces, but not the {1,40} of a regular expression.
var reference = regexp.MustCompile(`\{[a-z][a-z0-9_.\[\]]*\}`)

// Spelled returns v with its field and the fields in its message as the caller
// spells them. spell gets proto paths. The message has no references any more.
func (v Violation) Spelled(spell func(path string) string) Violation {
	return Violation{
		Field: spell(v.Field),
		Message: reference.ReplaceAllStringFunc(v.Message, func(name string) string {
			return spell(name[1 : len(name)-1])
		}),
	}
}

// Sentence is the message of a spelled violation for the caller.
func (v Violation) Sentence() string {
	subject := v.Field
	switch v.Field {
	case "":
		subject = "The request"
	case WholeBody:
		subject = "The body"
	}
	return subject + " " + v.Message + "."
}

// WholeBody is the field of a fault of an HTTP body as a whole.
const WholeBody = "body"

// Refuse makes an Error of a reason with the reason's standard message.
func Refuse(reason Reason) *Error { return &Error{Reason: reason} }

// refuseStatus makes an Error whose metadata tells the status that forbids the call.
func refuseStatus[S ~string](reason Reason, status S) *Error {
	return &Error{Reason: reason, Metadata: map[string]string{"status": string(status)}}
}

// Invalid makes a VALIDATION_ERROR of one violation.
func Invalid(field, message string) *Error {
	return &Error{Reason: ReasonValidation, Violations: []Violation{{field, message}}}
}

// TooManyExports makes the refusal of an export while as many run as may run at a
// time.
func TooManyExports(retryAfter time.Duration) *Error {
	return &Error{
		Reason:   ReasonServiceUnavailable,
		Message:  "Too many exports are running.",
		Metadata: map[string]string{"retry_after": strconv.Itoa(int(retryAfter / time.Second))},
	}
}

// Violations collects what is wrong with a request, so that all of it is
// reported at once.
type Violations []Violation

// MaxItemFaults bounds the violations that are reported of one item of a list, so
// that a malformed item does not take the space of the other items' results.
const MaxItemFaults = 10

// Add notes one violation.
func (v *Violations) Add(field, message string) { *v = append(*v, Violation{field, message}) }

// Err is nil when nothing was added.
func (v *Violations) Err() error {
	if len(*v) == 0 {
		return nil
	}
	return &Error{Reason: ReasonValidation, Violations: *v}
}

// Error makes *Error an error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Reason))
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	for _, v := range e.Violations {
		b.WriteString("; " + v.Field + " " + v.Message)
	}
	return b.String()
}

// Is makes errors.Is(err, affiliate.Refuse(reason)) compare by reason.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Reason == e.Reason
}
