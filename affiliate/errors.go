package affiliate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reason is a stable, machine-readable error code (docs/errors.md). For each code,
// proto/affiliate/v1/error_reason.proto has an enum value ERROR_REASON_<code> with the
// HTTP status, the gRPC code and the meaning.
type Reason string

// The error codes of the core, the gateway and the collector.
const (
	ReasonValidation                 Reason = "VALIDATION_ERROR"
	ReasonUnauthorized               Reason = "UNAUTHORIZED"
	ReasonInvalidAPIKey              Reason = "INVALID_API_KEY"
	ReasonInvalidPublicKey           Reason = "INVALID_PUBLIC_KEY"
	ReasonInvalidCredentials         Reason = "INVALID_CREDENTIALS"
	ReasonRefreshTokenInvalid        Reason = "REFRESH_TOKEN_INVALID"
	ReasonForbidden                  Reason = "FORBIDDEN"
	ReasonHTTPSRequired              Reason = "HTTPS_REQUIRED"
	ReasonNotFound                   Reason = "NOT_FOUND"
	ReasonMethodNotAllowed           Reason = "METHOD_NOT_ALLOWED"
	ReasonPayloadTooLarge            Reason = "PAYLOAD_TOO_LARGE"
	ReasonUnsupportedMediaType       Reason = "UNSUPPORTED_MEDIA_TYPE"
	ReasonRateLimitExceeded          Reason = "RATE_LIMIT_EXCEEDED"
	ReasonInternal                   Reason = "INTERNAL_ERROR"
	ReasonServiceUnavailable         Reason = "SERVICE_UNAVAILABLE"
	ReasonEmailTaken                 Reason = "EMAIL_TAKEN"
	ReasonAPIKeyLimitExceeded        Reason = "API_KEY_LIMIT_EXCEEDED"
	ReasonTermsChanged               Reason = "TERMS_CHANGED"
	ReasonSlugTaken                  Reason = "SLUG_TAKEN"
	ReasonProgramStateInvalid        Reason = "PROGRAM_STATE_INVALID"
	ReasonParticipantState           Reason = "PARTICIPANT_STATE_INVALID"
	ReasonParticipantErased          Reason = "PARTICIPANT_ERASED"
	ReasonReferralCodeTaken          Reason = "REFERRAL_CODE_TAKEN"
	ReasonApplicationDuplicate       Reason = "APPLICATION_DUPLICATE"
	ReasonExternalIDTaken            Reason = "EXTERNAL_ID_TAKEN"
	ReasonConversionDuplicate        Reason = "CONVERSION_DUPLICATE"
	ReasonNoAttributionSignal        Reason = "NO_ATTRIBUTION_SIGNAL"
	ReasonModeMismatch               Reason = "MODE_MISMATCH"
	ReasonCommissionNotPending       Reason = "COMMISSION_NOT_PENDING"
	ReasonCommissionHoldActive       Reason = "COMMISSION_HOLD_ACTIVE"
	ReasonCommissionTerminal         Reason = "COMMISSION_TERMINAL"
	ReasonLastOwner                  Reason = "LAST_OWNER"
	ReasonGroupInUse                 Reason = "GROUP_IN_USE"
	ReasonLinkLimitExceeded          Reason = "LINK_LIMIT_EXCEEDED"
	ReasonPromoCodeTaken             Reason = "PROMO_CODE_TAKEN"
	ReasonBulkAllFailed              Reason = "BULK_ALL_FAILED"
	ReasonOriginNotAllowed           Reason = "ORIGIN_NOT_ALLOWED"
	ReasonInvalidSecretKey           Reason = "INVALID_SECRET_KEY"
	ReasonCommissionNeedsReview      Reason = "COMMISSION_NEEDS_REVIEW"
	ReasonCommissionHoldNotActive    Reason = "COMMISSION_HOLD_NOT_ACTIVE"
	ReasonCommissionNotFlagged       Reason = "COMMISSION_NOT_FLAGGED"
	ReasonIdempotencyKeyRequired     Reason = "IDEMPOTENCY_KEY_REQUIRED"
	ReasonIdempotencyKeyReused       Reason = "IDEMPOTENCY_KEY_REUSED"
	ReasonRefundDuplicate            Reason = "REFUND_DUPLICATE"
	ReasonRefundExceedsAmount        Reason = "REFUND_EXCEEDS_AMOUNT"
	ReasonPayoutState                Reason = "PAYOUT_STATE_INVALID"
	ReasonWebhookNotFound            Reason = "WEBHOOK_NOT_FOUND"
	ReasonWebhookLimitExceeded       Reason = "WEBHOOK_ENDPOINT_LIMIT_EXCEEDED"
	ReasonWebhookURLNotHTTPS         Reason = "WEBHOOK_URL_NOT_HTTPS"
	ReasonWebhookURLPrivateIP        Reason = "WEBHOOK_URL_PRIVATE_IP"
	ReasonWebhookURLUnresolvable     Reason = "WEBHOOK_URL_UNRESOLVABLE"
	ReasonWebhookDisabled            Reason = "WEBHOOK_DISABLED"
	ReasonCategoryProtected          Reason = "NOTIFICATION_CATEGORY_PROTECTED"
	ReasonFraudEventResolved         Reason = "FRAUD_EVENT_RESOLVED"
	ReasonInvalidSignature           Reason = "INVALID_SIGNATURE"
	ReasonNotificationLogNotFound    Reason = "NOTIFICATION_LOG_NOT_FOUND"
	ReasonVerificationToken          Reason = "VERIFICATION_TOKEN_INVALID"
	ReasonResetToken                 Reason = "RESET_TOKEN_INVALID"
	ReasonEmailNotVerified           Reason = "EMAIL_NOT_VERIFIED"
	ReasonUnsubscribeToken           Reason = "UNSUBSCRIBE_TOKEN_INVALID"
	ReasonProcessorKeyInvalid        Reason = "PROCESSOR_KEY_INVALID"
	ReasonProcessorPermissionMissing Reason = "PROCESSOR_PERMISSION_MISSING"
	ReasonProcessorAlreadyConnected  Reason = "PROCESSOR_ALREADY_CONNECTED"
	ReasonProcessorEndpointRejected  Reason = "PROCESSOR_ENDPOINT_REJECTED"
	ReasonConfirmationInvalid        Reason = "CONFIRMATION_INVALID"
	ReasonAlreadyErased              Reason = "ALREADY_ERASED"
	ReasonErasureBlockedPayout       Reason = "ERASURE_BLOCKED_PAYOUT"
	ReasonBillingSubscriptionActive  Reason = "BILLING_SUBSCRIPTION_ACTIVE"
	ReasonPartnerNotFound            Reason = "PARTNER_NOT_FOUND"
	ReasonMerchantNotFound           Reason = "MERCHANT_NOT_FOUND"
	ReasonParticipantNotFound        Reason = "PARTICIPANT_NOT_FOUND"
	ReasonAccessDenied               Reason = "ACCESS_DENIED"
	ReasonActiveOperationConflict    Reason = "ACTIVE_OPERATION_CONFLICT"
	ReasonOperationNotFound          Reason = "OPERATION_NOT_FOUND"
	ReasonFeatureDisabled            Reason = "FEATURE_DISABLED"
	ReasonRegistrationClosed         Reason = "REGISTRATION_CLOSED"
	ReasonSecondFactorRequired       Reason = "SECOND_FACTOR_REQUIRED"
	ReasonSecondFactorSetupRequired  Reason = "SECOND_FACTOR_SETUP_REQUIRED"
	ReasonChallengeInvalid           Reason = "CHALLENGE_INVALID"
	ReasonSecondFactorState          Reason = "SECOND_FACTOR_STATE_INVALID"
	ReasonResetInProgress            Reason = "RESET_IN_PROGRESS"
	ReasonExportForbidden            Reason = "EXPORT_FORBIDDEN"
	ReasonExportTooLarge             Reason = "EXPORT_TOO_LARGE"
	ReasonExportExpired              Reason = "EXPORT_EXPIRED"
	ReasonPeriodClosed               Reason = "PERIOD_CLOSED"
	ReasonDisputeDuplicate           Reason = "DISPUTE_DUPLICATE"
	ReasonDisputeExceedsAmount       Reason = "DISPUTE_EXCEEDS_AMOUNT"
)

// Error is an error that the caller may see. Any other error that a function returns is
// an internal error and becomes INTERNAL_ERROR.
type Error struct {
	Reason Reason
	// Message describes the error for people. It may change at any time, so programs
	// must not depend on it. If it is empty, the standard message of Reason is used.
	Message string
	// Metadata becomes the metadata of google.rpc.ErrorInfo, for example retry_after.
	Metadata map[string]string
	// Violations are set for VALIDATION_ERROR only.
	Violations []Violation
}

// The keys of Metadata that a REST error contains in its field `context`.
const (
	AllowedHosts      = "allowed_hosts"      // hosts, separated by a comma and a space
	BooksClosedUntil  = "books_closed_until" // RFC 3339
	ProtectedCategory = "category"           // a NotificationCategory
	DuplicateOf       = "conversion_id"
	HoldUntil         = "hold_until"       // RFC 3339
	GroupMembers      = "participants"     // a number
	ExcludedBecause   = "reason"           // a PayoutExclusion
	RefundableCents   = "refundable_cents" // minor units
	CurrentStatus     = "status"
)

// Violation says what is wrong with one field of a request.
type Violation struct {
	// Field is the proto path of the field, for example commission_rules.percentage. It
	// is empty if the request as a whole is wrong.
	Field string
	// Message says what is accepted, without the field name and the full stop: "must
	// not be before {date_from}". A name in braces is the proto path of another field.
	Message string
}

// fieldInBraces matches a field name in braces. It does not match {1,40} in a regular
// expression.
var fieldInBraces = regexp.MustCompile(`\{[a-z][a-z0-9_.\[\]]*\}`)

// WithFieldNames returns a copy of v in which v.Field, and the fields in braces in
// v.Message, are written in the notation of the caller. The function spell converts a
// proto path to that notation. The message of the result has no braces.
func (v Violation) WithFieldNames(spell func(path string) string) Violation {
	return Violation{
		Field: spell(v.Field),
		Message: fieldInBraces.ReplaceAllStringFunc(v.Message, func(name string) string {
			return spell(name[1 : len(name)-1])
		}),
	}
}

// Affects reports whether v is about one of the fields, about a part of such a field, or about
// an object or a list that contains it. A second violation about such a field can be a
// consequence of v.
func (v Violation) Affects(fields []string) bool {
	contains := func(whole, part string) bool {
		rest, ok := strings.CutPrefix(part, whole)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return slices.ContainsFunc(fields, func(field string) bool {
		return contains(v.Field, field) || contains(field, v.Field)
	})
}

// Sentence returns the message for the caller. v must be a result of WithFieldNames.
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

// WholeBody is the Field of a violation that concerns the whole HTTP body.
const WholeBody = "body"

// Refuse returns an Error with the reason's standard message.
func Refuse(reason Reason) *Error { return &Error{Reason: reason} }

// RefuseStatus returns an Error for a call that is not allowed in the given status. The
// metadata contains the status.
func RefuseStatus[S ~string](reason Reason, status S) *Error {
	return &Error{Reason: reason, Metadata: map[string]string{CurrentStatus: string(status)}}
}

// Invalid returns a VALIDATION_ERROR with one violation.
func Invalid(field, message string) *Error {
	return &Error{Reason: ReasonValidation, Violations: []Violation{{field, message}}}
}

// TooManyExports returns the error for an export that cannot start because too many
// exports are already running.
func TooManyExports(retryAfter time.Duration) *Error {
	return &Error{
		Reason:   ReasonServiceUnavailable,
		Message:  "Too many exports are running.",
		Metadata: map[string]string{"retry_after": strconv.Itoa(int(retryAfter / time.Second))},
	}
}

// Violations collects all violations of a request, so that they are reported together.
type Violations []Violation

// MaxItemViolations is the greatest number of violations that are reported for one item
// of a list. The limit leaves space in the response for the results of the other items.
const MaxItemViolations = 10

// Add adds one violation.
func (v *Violations) Add(field, message string) { *v = append(*v, Violation{field, message}) }

// Err returns a VALIDATION_ERROR with the violations, or nil if there are none.
func (v *Violations) Err() error {
	if len(*v) == 0 {
		return nil
	}
	return &Error{Reason: ReasonValidation, Violations: *v}
}

// Error implements the error interface.
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

// Is reports whether target has the same reason. It makes errors.Is(err,
// Refuse(reason)) work.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Reason == e.Reason
}

// PeriodClosed returns the error for a date in a closed period. The parameter closed is the end
// of the closed periods (Workspace.BooksClosedUntil).
func PeriodClosed(closed time.Time) *Error {
	until := FormatTime(closed)
	return &Error{
		Reason: ReasonPeriodClosed, Metadata: map[string]string{BooksClosedUntil: until},
		Message: "The books are closed until " + until + ". Use a later date.",
	}
}

// Messages of violations that several packages return.
const (
	IsRequired      = "is required"
	MustBeUUID      = "must be a UUID"
	MustBeEmail     = "must be an e-mail address"
	MustBeWebURL    = "must be an http or https URL"
	MustBeCurrency  = "must be an ISO 4217 currency code of 3 letters"
	MustBeTimezone  = "must be an IANA time zone, for example Europe/Berlin"
	MustBeTimestamp = "must be an RFC 3339 timestamp"
	MustBeInFuture  = "must be in the future"
	// NeedsDestination is the message for website_url of a programme.
	NeedsDestination = "is required without {landing_url} for an active programme"
	MustNotBeEmpty   = "must not be empty"
	MustNotHaveNUL   = "must not contain the NUL character"
	MustBePlainText  = "must not contain ://, www. or characters that change the direction of text"
	MustBePlainName  = "must not contain ://, www., line breaks or characters that change the direction of text"
)

// MustNotBeWith returns the message for a field that must not be set together with the
// field at path.
func MustNotBeWith(path string) string { return "must not be given together with {" + path + "}" }
