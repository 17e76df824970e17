package tributary

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// Code returns the stable error code of an error of the service, for example
// VALIDATION_ERROR. It is empty for other errors. docs/errors.md lists the codes.
func Code(err error) string { return errorInfo(err).GetReason() }

// Challenge returns the challenge with which CompleteLogin completes a login, if the error is
// SECOND_FACTOR_REQUIRED.
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
