package conversion

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// RefundConversion records a refund. If its conversion is known, the refund is applied at
// once. Otherwise it is parked until the conversion is reported, and the HTTP status is
// 202. Errors: REFUND_DUPLICATE, REFUND_EXCEEDS_AMOUNT.
func (s *Service) RefundConversion(ctx context.Context, req *affiliatev1.RefundConversionRequest) (*affiliatev1.Refund, error) {
	now := s.now()
	outcome, err := s.store.RefundConversion(ctx, affiliate.Refund{
		ID: affiliate.NewID[affiliate.Refund](now), Scope: server.PrincipalFrom(ctx).Scope(),
		ExternalRefundID: req.GetExternalRefundId(), ExternalTransactionID: req.GetExternalTransactionId(),
		RequestedCents: req.AmountCents, Reason: req.Reason, CreatedAt: now, ExpiresAt: now.Add(affiliate.ParkedRefundLifetime),
	})
	if err != nil {
		return nil, err
	}
	if outcome.Conversion == nil {
		server.SetHTTPStatus(ctx, http.StatusAccepted)
	}
	return refundOf(outcome), nil
}

func refundOf(o affiliate.RefundOutcome) *affiliatev1.Refund {
	refund := &affiliatev1.Refund{
		Id:                    o.Refund.ID.String(),
		Status:                affiliatev1.RefundStatus_REFUND_STATUS_PARKED,
		ExternalRefundId:      o.Refund.ExternalRefundID,
		ExternalTransactionId: o.Refund.ExternalTransactionID,
		AmountCents:           o.Refund.RequestedCents,
		Reason:                o.Refund.Reason,
		CreatedAt:             server.Timestamp(o.Refund.CreatedAt),
	}
	if c := o.Conversion; c != nil {
		refund.Status = affiliatev1.RefundStatus_REFUND_STATUS_APPLIED
		refund.ConversionId, refund.AmountCents = server.OptionalID(o.Refund.Conversion), o.Refund.AmountCents
		refund.Currency, refund.RefundedAmountCents = server.OptionalString(c.Sale.Paid.Currency), &c.RefundedAmountCents
	}
	if c := o.Commission; c != nil {
		refund.Commission = &affiliatev1.RefundedCommission{
			Id:                  c.ID.String(),
			Status:              server.EnumValue[affiliatev1.CommissionStatus](c.Status),
			AmountCents:         c.AmountCents,
			ReversedAmountCents: c.ReversedCents(),
			Currency:            c.Currency,
		}
	}
	return refund
}

// sweepRefunds is the job that looks for parked refunds whose conversions are recorded,
// and that deletes parked refunds which have expired.
type sweepRefunds struct{}

// Kind names the job.
func (sweepRefunds) Kind() string { return "sweep_parked_refunds" }

type sweepRefundsWorker struct {
	river.WorkerDefaults[sweepRefunds]
	service *Service

	mu     sync.Mutex
	cursor affiliate.ParkedSale
}

func (w *sweepRefundsWorker) Work(ctx context.Context, _ *river.Job[sweepRefunds]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, err := w.service.SweepRefunds(ctx, w.cursor)
	w.cursor = next
	return err
}

// SweepRefunds runs one sweep that starts at the cursor. It returns the cursor at which
// the next sweep starts, which is zero after the last sale. If a sale fails, SweepRefunds
// continues with the others. The failed sale is tried again when the sweeps start from
// the beginning.
func (s *Service) SweepRefunds(ctx context.Context, cursor affiliate.ParkedSale) (affiliate.ParkedSale, error) {
	var failed error
	for range sweepBatches {
		known, next, err := s.store.RecordedParkedSales(ctx, cursor, sweepBatch)
		if err != nil {
			return cursor, errors.Join(failed, err)
		}
		for _, sale := range known {
			failed = errors.Join(failed, s.store.ApplyParkedRefunds(ctx, sale, s.now()))
		}
		if cursor = next; cursor == (affiliate.ParkedSale{}) {
			break
		}
	}
	return cursor, errors.Join(failed, s.dropExpired(ctx, s.store.DropExpiredRefunds))
}
