package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// maxViolations is the greatest number of violations in a response. The gateway has the
// same limit.
const maxViolations = 100

// ErrorDomain is the domain in every google.rpc.ErrorInfo that the core sends.
const ErrorDomain = "tributary"

// toStatus converts the error of a handler into the gRPC status for the caller. An
// *affiliate.Error keeps its error code and message. If the context has ended, or if the
// caller or the database cannot be reached, the error code is SERVICE_UNAVAILABLE. For all
// other errors it is INTERNAL_ERROR, and the text of the error is logged but not sent.
func toStatus(err error) *status.Status {
	var (
		refusal *affiliate.Error
		bulk    *bulkError
	)
	switch {
	case errors.As(err, &bulk):
		return bulk.status()
	case errors.As(err, &refusal):
	case errors.Is(err, context.DeadlineExceeded), callerGone(err), dependencyLost(err):
		refusal = unavailable()
	default:
		refusal = affiliate.Refuse(affiliate.ReasonInternal)
	}
	return refusalStatus(refusal)
}

func refusalStatus(refusal *affiliate.Error) *status.Status {
	spec := errorspec.ByReason(refusal.Reason)
	if spec == nil {
		// error_reason.proto does not define this error code. A test checks that it
		// defines all error codes, so this does not happen.
		refusal = affiliate.Refuse(affiliate.ReasonInternal)
		spec = errorspec.ByReason(refusal.Reason)
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{
		Reason:   string(refusal.Reason),
		Domain:   ErrorDomain,
		Metadata: refusal.Metadata,
	}}
	if len(refusal.Violations) > 0 {
		bad, spellable := &errdetails.BadRequest{}, &affiliatev1.SpellableViolations{}
		for _, v := range refusal.Violations[:min(len(refusal.Violations), maxViolations)] {
			protoViolation := v.WithFieldNames(func(path string) string { return path })
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: protoViolation.Field, Description: protoViolation.Sentence()})
			spellable.Violations = append(spellable.Violations, &affiliatev1.AdmitViolation{Field: v.Field, Message: v.Message})
		}
		details = append(details, bad, protoadapt.MessageV1Of(spellable))
	}
	st := status.New(codes.Code(spec.GRPCCode), cmp.Or(refusal.Message, spec.Message))
	withDetails, err := st.WithDetails(details...)
	if err != nil {
		return st
	}
	return withDetails
}

func unavailable() *affiliate.Error {
	refusal := affiliate.Refuse(affiliate.ReasonServiceUnavailable)
	refusal.Metadata = map[string]string{"retry_after": "1"}
	return refusal
}

// dependencyLost reports whether err means that the connection to the database failed, or
// that the database cannot run the query now, for example because of a lock. The same
// query can then succeed later. dependencyLost returns false if the query itself is the
// reason, for example because it violated a constraint. This package does not import a
// database driver, so dependencyLost recognises the driver's errors by their methods and
// not by their types.
func dependencyLost(err error) bool {
	var (
		network net.Error
		sql     interface{ SQLState() string }
		notSent interface{ SafeToRetry() bool }
	)
	switch {
	case errors.As(err, &sql):
		// The codes are explained in appendix A of the PostgreSQL documentation:
		// 08… connection exception, 57P… the server shuts down or crashed, 53300 too
		// many connections, 25006 the server has become a standby, 57014 statement
		// cancelled, 55P03 lock not available, 40001 serialization failure, 40P01 deadlock.
		code := sql.SQLState()
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") ||
			slices.Contains([]string{"53300", "25006", "57014", "55P03", "40001", "40P01"}, code)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network):
		return true
	}
	return errors.As(err, &notSent) && notSent.SafeToRetry()
}

// isInternalError reports whether err is unexpected, so that its text must be logged. The
// caller does not receive the text.
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
	return !callerGone(err)
}

// callerGone reports whether err means that the caller has cancelled the call or that its
// connection was lost. A stream on which nothing can be sent any more reports this with
// the codes Canceled and Unavailable.
func callerGone(err error) bool {
	code := status.Code(err)
	return errors.Is(err, context.Canceled) || code == codes.Canceled || code == codes.Unavailable
}

// recordKinds maps the request fields with the id of a record to the kind of the record. A request
// with the id of another record, such as a group or a delivery, also has one of these fields.
var recordKinds = map[protoreflect.Name]affiliate.RecordKind{
	"program_id":     affiliate.ProgramRecord,
	"participant_id": affiliate.ParticipantRecord,
	"commission_id":  affiliate.CommissionRecord,
	"conversion_id":  affiliate.ConversionRecord,
	"payout_id":      affiliate.PayoutRecord,
	"batch_id":       affiliate.PayoutBatchRecord,
	"link_id":        affiliate.LinkRecord,
	"promo_code_id":  affiliate.PromoCodeRecord,
	"event_id":       affiliate.FraudEventRecord,
	"webhook_id":     affiliate.WebhookRecord,
}

// suggestMode adds a sentence to the message of a response with the status 404 if the
// records of the request exist in the other mode of the workspace. Only members get this
// sentence, because they can choose the mode of a request. Keys and tokens of one mode must
// learn nothing about the other mode.
func (p *pipeline) suggestMode(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	resp, err := next(ctx, req)
	var refusal *affiliate.Error
	if !errors.As(err, &refusal) {
		return resp, err
	}
	spec, caller := errorspec.ByReason(refusal.Reason), PrincipalFrom(ctx)
	if spec == nil || spec.HTTPStatus != http.StatusNotFound || caller.Kind != MerchantToken || admissionFrom(ctx).policy.IgnoresMode {
		return resp, err
	}
	records := recordsOf(req)
	if len(records) == 0 {
		return resp, err
	}
	other := affiliate.Scope{Workspace: caller.Workspace, Mode: caller.Mode.Other()}
	switch exist, failure := postgres.ExistInMode(ctx, p.db, other, records); {
	case failure != nil:
		p.log.LogAttrs(ctx, slog.LevelWarn, "cannot look for records in the other mode",
			slog.String("request_id", RequestID(ctx)), slog.String("error", failure.Error()))
	case exist:
		suggestion, mode := *refusal, string(other.Mode)
		suggestion.Message = cmp.Or(refusal.Message, spec.Message) + " It exists in " + mode + " mode; send X-Mode: " + mode + "."
		return resp, &suggestion
	}
	return resp, err
}

func recordsOf(req any) (records []affiliate.Record) {
	message, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	m := message.ProtoReflect()
	for name, kind := range recordKinds {
		field := m.Descriptor().Fields().ByName(name)
		if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
			continue
		}
		if id, ok := affiliate.ParseID[affiliate.ID[affiliate.Record]](m.Get(field).String()); ok {
			records = append(records, affiliate.Record{Kind: kind, ID: id})
		}
	}
	return records
}
