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

// ErrorDomain is the domain of every google.rpc.ErrorInfo that leaves the core.
const ErrorDomain = "tributary"

// toStatus turns what a handler returned into what the caller is told. Only an
// *affiliate.Error speaks for itself; an ended context is unavailability; the
// rest is an accident, whose words stay in the log.
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
		// The contract lacks the reason. A test prevents this.
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
			named := v.Spelled(protoName)
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: named.Field, Description: named.Sentence()})
			spellable.Violations = append(spellable.Violations, &affiliatev1.AdmitViolation{Field: v.Field, Message: v.Message})
		}
		details = append(details, bad, protoadapt.MessageV1Of(spellable))
	}
	st := status.New(codes.Code(spec.GRPCCode), message)
	with, err := st.WithDetails(details...)
	if err != nil {
		return st
	}
	return with
}

// protoName is how gRPC callers spell a field.
func protoName(path string) string { return path }

// unavailable says that the caller may try again soon.
func unavailable() *affiliate.Error {
	refusal := affiliate.Refuse(affiliate.ReasonServiceUnavailable)
	refusal.Metadata = map[string]string{"retry_after": "1"}
	return refusal
}

// dependencyLost tells an error of the way to the database from one about what
// was asked. Drivers are known by what their errors can do, not by their types:
// this package does not know which one is behind the stores.
func dependencyLost(err error) bool {
	var (
		network net.Error
		sql     interface{ SQLState() string }
		unsent  interface{ SafeToRetry() bool }
	)
	switch {
	case errors.As(err, &sql):
		// Connection exceptions, shutdown and crash of the server; no connection
		// left, a lock that was waited for in vain, conflicts that were given up
		// (PostgreSQL documentation, appendix A).
		code := sql.SQLState()
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") ||
			slices.Contains([]string{"53300", "57014", "55P03", "40001", "40P01"}, code)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return true
	}
	return errors.As(err, &unsent) && unsent.SafeToRetry()
}

// isAccident reports whether err is none of the caller's business and has to be
// logged with its words.
func isAccident(err error) bool {
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
