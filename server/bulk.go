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

// httpCode is the metadata by which one answer chooses another success status
// over REST; gRPC callers have the results themselves.
const httpCode = "x-http-code"

// bulkResponse carries results and their summary.
type bulkResponse interface {
	proto.Message
	GetSummary() *affiliatev1.BulkSummary
}

// AnswerBulk is the outcome of a request about several things, each of which
// succeeded or failed on its own (DECISIONS.md section 2): 200 when all did, 207
// when some failed, BULK_ALL_FAILED with the same results when all failed.
func AnswerBulk[R bulkResponse](ctx context.Context, response R) (R, error) {
	var none R
	switch summary := response.GetSummary(); {
	case summary.GetFailed() == 0:
		return response, nil
	case summary.GetSucceeded() == 0:
		return none, &bulkError{response}
	}
	AnswerWith(ctx, http.StatusMultiStatus)
	return response, nil
}

// AnswerWith chooses the success status of one answer (202, 207).
func AnswerWith(ctx context.Context, status int) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(httpCode, strconv.Itoa(status)))
}

// BulkOutcome is what became of one item.
type BulkOutcome struct {
	ID         string
	Success    bool
	StatusCode int32
	// Status is the item's word after the request; empty when it is unknown.
	Status string
	// Code and Message are nil for a success.
	Code, Message *string
}

// EachOf makes a move of every thing that texts name, one after the other, each
// once and in the order given. The move tells the thing's status after it; of a
// refusal its metadata may. What is no UUID has been refused before. An accident
// ends the request with what was done until then done; that is safe to send again.
func EachOf[T any](texts []string, move func(id affiliate.ID[T]) (status string, err error)) ([]BulkOutcome, error) {
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

// Failure returns the fields of a bulk item that was refused.
func Failure(refusal *affiliate.Error) (statusCode int32, code, message *string) {
	spec, reason, sentence := errorspec.Of(refusal.Reason), string(refusal.Reason), refusal.Message
	if sentence == "" {
		sentence = spec.Message
	}
	return int32(spec.HTTPStatus), &reason, &sentence // #nosec G115 -- an HTTP status
}

// BulkSummary counts items, of which there are at most some hundreds.
func BulkSummary(total, succeeded int) *affiliatev1.BulkSummary {
	return &affiliatev1.BulkSummary{
		Total: int32(total), Succeeded: int32(succeeded), Failed: int32(total - succeeded), //nolint:gosec // see above
	}
}

// bulkError is BULK_ALL_FAILED with what became of each item.
type bulkError struct{ response proto.Message }

// Error names the reason.
func (*bulkError) Error() string { return string(affiliate.ReasonBulkAllFailed) }

// status carries the results as a detail beside the ErrorInfo.
func (f *bulkError) status() *status.Status {
	st := refusalStatus(affiliate.Refuse(affiliate.ReasonBulkAllFailed))
	with, err := st.WithDetails(protoadapt.MessageV1Of(f.response))
	if err != nil {
		return st
	}
	return with
}
