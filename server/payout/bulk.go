package payout

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// BulkMarkPayoutsPaid marks several payouts as paid, each in a separate transaction.
func (s *Service) BulkMarkPayoutsPaid(ctx context.Context, req *affiliatev1.BulkMarkPayoutsPaidRequest) (*affiliatev1.BulkPayoutsResponse, error) {
	return moveBulk(ctx, s, req.GetPayouts(), func(p *affiliatev1.PaidPayout) payout.Transition { return payment(p.GetReference(), p.GetPaidAt()) })
}

// BulkMarkPayoutsFailed records that several payouts failed, each in a separate transaction.
func (s *Service) BulkMarkPayoutsFailed(ctx context.Context, req *affiliatev1.BulkMarkPayoutsFailedRequest) (*affiliatev1.BulkPayoutsResponse, error) {
	return moveBulk(ctx, s, req.GetPayouts(), func(p *affiliatev1.FailedPayout) payout.Transition {
		return payout.Transition{Move: payout.MoveMarkFailed, Reason: &p.Reason}
	})
}

// payment returns the move of a payout to paid. A nil paidAt means now.
func payment(reference string, paidAt *timestamppb.Timestamp) payout.Transition {
	t := payout.Transition{Move: payout.MoveMarkPaid, Reference: &reference}
	if paidAt != nil {
		t.PaidAt = paidAt.AsTime().Truncate(time.Millisecond)
	}
	return t
}

// moveBulk moves each payout of a valid request, which contains each once (checkUnique).
func moveBulk[P interface{ GetPayoutId() string }](
	ctx context.Context, s *Service, payouts []P, move func(P) payout.Transition,
) (*affiliatev1.BulkPayoutsResponse, error) {
	return server.Bulk(ctx, payouts, func(p P) (string, error) {
		moved, err := s.move(ctx, p, move(p))
		return server.EnumName(moved.GetStatus()), err
	}, func(p P, o server.BulkOutcome) *affiliatev1.BulkPayoutResult {
		return &affiliatev1.BulkPayoutResult{
			PayoutId: server.PathID[affiliate.PayoutID](p.GetPayoutId()).String(), Success: o.Success, StatusCode: o.StatusCode,
			Status: server.EnumValue[affiliatev1.PayoutStatus](o.Status), Code: o.Code, Message: o.Message,
		}
	}, func(results []*affiliatev1.BulkPayoutResult, summary *affiliatev1.BulkSummary) *affiliatev1.BulkPayoutsResponse {
		return &affiliatev1.BulkPayoutsResponse{Summary: summary, Results: results}
	})
}

// checkUnique adds a violation for each payout that occurs more than once, because its two items
// could differ.
func checkUnique[P interface{ GetPayoutId() string }](payouts []P, found *affiliate.Violations) {
	seen := map[string]bool{}
	for i, p := range payouts {
		id := strings.ToLower(p.GetPayoutId())
		if seen[id] {
			found.Add(fmt.Sprintf("payouts[%d].payout_id", i), "must be unique in {payouts}")
		}
		seen[id] = true
	}
}
