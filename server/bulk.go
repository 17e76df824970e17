package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

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
	Index      int32 // position in the list of items
	Success    bool
	StatusCode int32
	// Status is the item's status after the request. It is empty if unknown.
	Status string
	// Code and Message are nil if Success is true.
	Code, Message *string
}

// Bulk calls the function move once for each item, in their order, and returns the response as
// RespondToBulk does. The function result converts an outcome, directly after the call of move, and
// the function respond makes the response.
//
// The function move returns the status of the item after the call. If it returns an
// *affiliate.Error, the item has failed, and Bulk reads the item's status from the error's
// metadata, if the metadata contains the status. Any other error ends the request. Changes of
// earlier items are then kept, and the client can safely send the request again.
//
// When three quarters of the call's time are over, the remaining items fail with
// SERVICE_UNAVAILABLE, so that the client receives the results of the others.
func Bulk[I, O any, R bulkResponse](
	ctx context.Context, items []I, move func(I) (status string, err error), result func(I, BulkOutcome) O,
	respond func([]O, *affiliatev1.BulkSummary) R,
) (response R, err error) {
	results, summary := make([]O, len(items)), &affiliatev1.BulkSummary{Total: int32(len(items))} //nolint:gosec // a request has at most 100 items
	lastStart, limited := ctx.Deadline()
	lastStart = lastStart.Add(-time.Until(lastStart) / 4)
	for i, item := range items {
		outcome := BulkOutcome{Index: int32(i), Success: true, StatusCode: http.StatusOK} //nolint:gosec // see above
		var refusal *affiliate.Error
		if i > 0 && limited && time.Now().After(lastStart) {
			err = affiliate.Refuse(affiliate.ReasonServiceUnavailable)
		} else {
			outcome.Status, err = move(item)
		}
		switch {
		case err == nil:
			summary.Succeeded++
		case errors.As(err, &refusal):
			outcome.Success, outcome.Status = false, refusal.Metadata[affiliate.CurrentStatus]
			outcome.StatusCode, outcome.Code, outcome.Message = Failure(refusal)
			summary.Failed++
		default:
			return response, err
		}
		results[i] = result(item, outcome)
	}
	return RespondToBulk(ctx, respond(results, summary))
}

// DistinctIDs returns the ids in texts without repetitions, in their order. It skips texts that are
// not UUIDs. Validation rejects requests with such texts, so they do not occur.
func DistinctIDs[I affiliate.AnyID](texts []string) []I {
	var ids []I
	for _, text := range texts {
		if id, ok := affiliate.ParseID[I](text); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Failure returns the HTTP status, the error code and the message of refusal, for the
// result of a bulk item that failed with this error. If the refusal has violations and no message
// of its own, the message is about the first one. It has the field's name in camelCase, as
// in the requests.
func Failure(refusal *affiliate.Error) (statusCode int32, code, message *string) {
	spec, reason := errorspec.ByReason(refusal.Reason), string(refusal.Reason)
	sentence := cmp.Or(refusal.Message, spec.Message)
	if refusal.Message == "" && len(refusal.Violations) > 0 {
		sentence = refusal.Violations[0].WithFieldNames(camelCase).Sentence()
	}
	return int32(spec.HTTPStatus), &reason, &sentence // #nosec G115 -- an HTTP status
}

var underscore = regexp.MustCompile(`_[a-z0-9]`)

// camelCase returns the path of a field as in the JSON of dashboards.
func camelCase(path string) string {
	return underscore.ReplaceAllStringFunc(path, func(s string) string { return strings.ToUpper(s[1:]) })
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
