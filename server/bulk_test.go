package server_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// bulk runs a bulk request of three payouts and returns its results.
func bulk(ctx context.Context, move func(int) (string, error)) ([]*affiliatev1.BulkPayoutResult, error) {
	response, err := server.Bulk(ctx, []int{0, 1, 2}, move, func(_ int, o server.BulkOutcome) *affiliatev1.BulkPayoutResult {
		return &affiliatev1.BulkPayoutResult{Success: o.Success, StatusCode: o.StatusCode, Code: o.Code, Message: o.Message}
	}, func(results []*affiliatev1.BulkPayoutResult, summary *affiliatev1.BulkSummary) *affiliatev1.BulkPayoutsResponse {
		return &affiliatev1.BulkPayoutsResponse{Summary: summary, Results: results}
	})
	return response.GetResults(), err
}

// Otherwise the call would end without the results of the items that are processed.
func TestBulk_EndsBeforeTheDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(grpc.NewContextWithServerTransportStream(t.Context(), &responseHeader{}), time.Second)
	defer cancel()
	results, err := bulk(ctx, func(item int) (string, error) {
		time.Sleep(time.Duration(item) * 800 * time.Millisecond) // the second item ends after three quarters of the time
		return "", nil
	})
	if err != nil || ctx.Err() != nil {
		t.Fatalf("Bulk returned %v, and the context is over: %v", err, ctx.Err())
	}
	for i, want := range []int32{http.StatusOK, http.StatusOK, http.StatusServiceUnavailable} {
		if results[i].GetStatusCode() != want {
			t.Errorf("the result %d is %v, want the status code %d", i, results[i], want)
		}
	}
	if got := results[2].GetCode(); got != string(affiliate.ReasonServiceUnavailable) {
		t.Errorf("the last item has the code %s, want SERVICE_UNAVAILABLE", got)
	}
}

func TestBulk_MessageNamesTheFaultyField(t *testing.T) {
	ctx := grpc.NewContextWithServerTransportStream(t.Context(), &responseHeader{})
	refusals := []error{
		affiliate.Invalid("group_id", "must be absent with {override.flat_amount_cents}"),
		&affiliate.Error{Reason: affiliate.ReasonValidation, Message: "Too many tags."},
		nil,
	}
	results, err := bulk(ctx, func(item int) (string, error) { return "", refusals[item] })
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"groupId must be absent with override.flatAmountCents.", "Too many tags.", ""} {
		if got := results[i].GetMessage(); got != want {
			t.Errorf("the result %d has the message %q, want %q", i, got, want)
		}
	}
}
