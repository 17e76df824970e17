package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
)

// httpStatusKey is the response metadata with the HTTP status that the gateway must send
// instead of its default success status. gRPC callers do not need it.
const httpStatusKey = "x-http-code"

// bulkResponse is a response that has one result per item and a summary.
type bulkResponse interface {
	proto.Message
	GetSummary() *affiliatev1.BulkSummary
}

// RespondToBulk returns the response to a bulk request, whose items succeed or fail
// independently (DECISIONS.md section 2). The HTTP status is 200 if all items succeeded
// and 207 if some failed. If all failed, RespondToBulk returns the error BULK_ALL_FAILED,
// which carries the same results.
func RespondToBulk[R bulkResponse](ctx context.Context, response R) (R, error) {
	var zero R
	switch summary := response.GetSummary(); {
	case summary.GetFailed() == 0:
		return response, nil
	case summary.GetSucceeded() == 0:
		return zero, &bulkError{response}
	}
	SetHTTPStatus(ctx, http.StatusMultiStatus)
	return response, nil
}

// SetHTTPStatus sets the HTTP status of a successful response, for example 202 or 207.
func SetHTTPStatus(ctx context.Context, status int) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(httpStatusKey, strconv.Itoa(status)))
}

// BulkOutcome is the result for one item of a bulk request.
type BulkOutcome struct {
	ID         string
	Success    bool
	StatusCode int32
	// Status is the item's status after the request. It is empty if unknown.
	Status string
	// Code and Message are nil if Success is true.
	Code, Message *string
}

// ForEachID calls move for each id in texts, in that order. It skips repeated ids. It also
// skips texts that are not UUIDs, because the validation has rejected them before. move
// returns the status of the item after the call. If move returns an *affiliate.Error,
// the status comes from the error's metadata, where it is optional. Any other error ends
// the request. The items before it keep their changes, and the client can safely send
// the request again.
func ForEachID[T any](texts []string, move func(id affiliate.ID[T]) (status string, err error)) ([]BulkOutcome, error) {
	var outcomes []BulkOutcome
	seen := map[affiliate.ID[T]]bool{}
	for _, text := range texts {
		id, ok := affiliate.ParseID[T](text)
		if !ok || seen[id] {
			continue
		}
		seen[id] = true
		status, err := move(id)
		var refusal *affiliate.Error
		switch {
		case err == nil:
			outcomes = append(outcomes, BulkOutcome{ID: id.String(), Success: true, StatusCode: http.StatusOK, Status: status})
		case errors.As(err, &refusal):
			outcome := BulkOutcome{ID: id.String(), Status: refusal.Metadata["status"]}
			outcome.StatusCode, outcome.Code, outcome.Message = Failure(refusal)
			outcomes = append(outcomes, outcome)
		default:
			return nil, err
		}
	}
	return outcomes, nil
}

// Failure returns the result fields of a bulk item that failed with the error refusal.
func Failure(refusal *affiliate.Error) (statusCode int32, code, message *string) {
	spec, reason, sentence := errorspec.Of(refusal.Reason), string(refusal.Reason), refusal.Message
	if sentence == "" {
		sentence = spec.Message
	}
	return int32(spec.HTTPStatus), &reason, &sentence // #nosec G115 -- an HTTP status
}

// BulkSummary returns the summary of a bulk request.
func BulkSummary(total, succeeded int) *affiliatev1.BulkSummary {
	return &affiliatev1.BulkSummary{
		Total: int32(total), Succeeded: int32(succeeded), Failed: int32(total - succeeded), //nolint:gosec // a request has at most 500 items
	}
}

// bulkError is the error BULK_ALL_FAILED with the result of each item.
type bulkError struct{ response proto.Message }

// Error returns the error code.
func (*bulkError) Error() string { return string(affiliate.ReasonBulkAllFailed) }

// status returns the gRPC status. Its details are the ErrorInfo and the results.
func (e *bulkError) status() *status.Status {
	st := refusalStatus(affiliate.Refuse(affiliate.ReasonBulkAllFailed))
	withResults, err := st.WithDetails(protoadapt.MessageV1Of(e.response))
	if err != nil {
		return st
	}
	return withResults
}
