package server

import (
	"cmp"
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

// httpStatusKey is the key of the response metadata that contains the HTTP status of a
// successful response. If it is absent, the gateway sends its default status. gRPC
// clients can ignore it.
const httpStatusKey = "x-http-code"

type bulkResponse interface {
	proto.Message
	GetSummary() *affiliatev1.BulkSummary
}

// RespondToBulk returns the response to a bulk request. Each item of a bulk request
// succeeds or fails independently of the others. The HTTP status is 200 if all items
// succeeded, and 207 if some items succeeded and some failed. If all items failed,
// RespondToBulk returns the error BULK_ALL_FAILED, which contains the results of the
// items.
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

// ForEachID calls the function move once for each id in texts, in the order of texts. It
// skips ids that it has already processed, and texts that are not UUIDs. Validation
// rejects requests with such texts, so they do not occur.
//
// The function move returns the status of the item after the call. If it returns an
// *affiliate.Error, the item has failed, and ForEachID reads the item's status from the
// error's metadata, if the metadata contains the status. Any other error ends the
// request. Changes of earlier items are then kept, and the client can safely send the
// request again.
func ForEachID[T any](texts []string, move func(id affiliate.ID[T]) (status string, err error)) ([]BulkOutcome, error) {
	var outcomes []BulkOutcome
	seen := map[affiliate.ID[T]]bool{}
	for _, text := range texts {
		id, ok := affiliate.ParseID[affiliate.ID[T]](text)
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
			outcome := BulkOutcome{ID: id.String(), Status: refusal.Metadata[affiliate.CurrentStatus]}
			outcome.StatusCode, outcome.Code, outcome.Message = Failure(refusal)
			outcomes = append(outcomes, outcome)
		default:
			return nil, err
		}
	}
	return outcomes, nil
}

// Failure returns the HTTP status, the error code and the message of refusal, for the
// result of a bulk item that failed with this error.
func Failure(refusal *affiliate.Error) (statusCode int32, code, message *string) {
	spec, reason := errorspec.ByReason(refusal.Reason), string(refusal.Reason)
	sentence := cmp.Or(refusal.Message, spec.Message)
	return int32(spec.HTTPStatus), &reason, &sentence // #nosec G115 -- an HTTP status
}

// BulkSummary returns the summary of a bulk request.
func BulkSummary(total, succeeded int) *affiliatev1.BulkSummary {
	return &affiliatev1.BulkSummary{
		Total: int32(total), Succeeded: int32(succeeded), Failed: int32(total - succeeded), //nolint:gosec // a request has at most 500 items
	}
}

// bulkError is the error BULK_ALL_FAILED. response contains the result of each item.
type bulkError struct{ response proto.Message }

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

// totalCapped is the key of the response metadata Total-Capped. It means that the total
// in the response is a maximum at which counting stops, and that the real total may be
// higher.
const totalCapped = "total-capped"

// Total returns the total of a list for the response. If counted is more than
// affiliate.MaxTotal, it returns MaxTotal and adds the header Total-Capped to the
// response.
func Total(ctx context.Context, counted int64) int64 {
	return SearchTotal(ctx, counted, "")
}

// SearchTotal is Total for a list that can be searched. If search is not empty, the
// maximum is affiliate.MaxSearchTotal.
func SearchTotal(ctx context.Context, counted int64, search string) int64 {
	bound := affiliate.MaxTotalOf(search)
	if counted <= bound {
		return counted
	}
	MarkCapped(ctx)
	return bound
}

// MarkCapped adds the header Total-Capped to the response. It means that the real total
// may be higher than the total in the response.
func MarkCapped(ctx context.Context) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(totalCapped, "true"))
}
