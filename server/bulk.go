package server

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/tributary-hq/tributary/affiliate"
)

// httpCode is the metadata by which one answer chooses another success status
// over REST; gRPC callers have the results themselves.
const httpCode = "x-http-code"

// AnswerBulk is the outcome of a request about several things, each of which
// succeeded or failed on its own (DECISIONS.md section 2): 200 when all did, 207
// when some failed, BULK_ALL_FAILED with the same results when all failed.
func AnswerBulk[R proto.Message](ctx context.Context, response R, succeeded, failed int) (R, error) {
	var none R
	switch {
	case failed == 0:
		return response, nil
	case succeeded == 0:
		return none, &bulkError{response}
	}
	_ = grpc.SetHeader(ctx, metadata.Pairs(httpCode, strconv.Itoa(http.StatusMultiStatus)))
	return response, nil
}

// StatusCode is the HTTP status of a refusal, as results of single items show it.
func StatusCode(reason affiliate.Reason) int32 { return specs[reason].GetHttpStatus() }

// Sentence is the standard sentence of a refusal.
func Sentence(reason affiliate.Reason) string { return specs[reason].GetMessage() }

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
