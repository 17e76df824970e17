package server

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
)

// ErrorDomain is the domain in every google.rpc.ErrorInfo that the core sends.
const ErrorDomain = "tributary"

// toStatus converts the error of a handler into the gRPC status for the caller. An
// *affiliate.Error keeps its code and message. An ended context or a lost dependency
// becomes SERVICE_UNAVAILABLE. Every other error becomes INTERNAL_ERROR, and its text
// appears only in the log.
func toStatus(err error) *status.Status {
	var (
		refusal *affiliate.Error
		bulk    *bulkError
	)
	switch {
	case errors.As(err, &bulk):
		return bulk.status()
	case errors.As(err, &refusal):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), dependencyLost(err):
		refusal = unavailable()
	default:
		refusal = affiliate.Refuse(affiliate.ReasonInternal)
	}
	return refusalStatus(refusal)
}

func refusalStatus(refusal *affiliate.Error) *status.Status {
	spec := errorspec.Of(refusal.Reason)
	if spec == nil {
		// The code is not in error_reason.proto. A test checks that all codes are.
		refusal = affiliate.Refuse(affiliate.ReasonInternal)
		spec = errorspec.Of(refusal.Reason)
	}
	message := refusal.Message
	if message == "" {
		message = spec.Message
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{
		Reason:   string(refusal.Reason),
		Domain:   ErrorDomain,
		Metadata: refusal.Metadata,
	}}
	if len(refusal.Violations) > 0 {
		bad, spellable := &errdetails.BadRequest{}, &affiliatev1.SpellableViolations{}
		for _, v := range refusal.Violations {
			spelled := v.WithFieldNames(protoName)
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: spelled.Field, Description: spelled.Sentence()})
			spellable.Violations = append(spellable.Violations, &affiliatev1.AdmitViolation{Field: v.Field, Message: v.Message})
		}
		details = append(details, bad, protoadapt.MessageV1Of(spellable))
	}
	st := status.New(codes.Code(spec.GRPCCode), message)
	withDetails, err := st.WithDetails(details...)
	if err != nil {
		return st
	}
	return withDetails
}

// protoName returns the field name for gRPC callers, which is the proto path itself.
func protoName(path string) string { return path }

// unavailable returns SERVICE_UNAVAILABLE with a retry delay of 1 second.
func unavailable() *affiliate.Error {
	refusal := affiliate.Refuse(affiliate.ReasonServiceUnavailable)
	refusal.Metadata = map[string]string{"retry_after": "1"}
	return refusal
}

// dependencyLost reports whether err means that the database or the connection to it
// failed, in contrast to an error in the query. It tests the errors for their methods,
// not for their types, because this package does not depend on a database driver.
func dependencyLost(err error) bool {
	var (
		network net.Error
		sql     interface{ SQLState() string }
		notSent interface{ SafeToRetry() bool }
	)
	switch {
	case errors.As(err, &sql):
		// 08…: connection exceptions. 57P…: the server shuts down or crashed. 53300:
		// too many connections. 57014: the statement was cancelled. 55P03: the lock was
		// not available. 40001 and 40P01: serialization failure and deadlock
		// (PostgreSQL documentation, appendix A).
		code := sql.SQLState()
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") ||
			slices.Contains([]string{"53300", "57014", "55P03", "40001", "40P01"}, code)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return true
	}
	return errors.As(err, &notSent) && notSent.SafeToRetry()
}

// isInternalError reports whether the text of err must be logged. The caller does not
// receive it.
func isInternalError(err error) bool {
	var (
		refusal *affiliate.Error
		bulk    *bulkError
	)
	if errors.As(err, &refusal) {
		return refusal.Reason == affiliate.ReasonInternal
	}
	if errors.As(err, &bulk) {
		return false
	}
	return !errors.Is(err, context.Canceled)
}
