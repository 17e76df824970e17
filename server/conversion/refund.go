package conversion

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// RefundConversion records a refund. If the conversion is already recorded, the refund is
// applied immediately. Otherwise the refund is parked: it is stored and applied when the
// conversion is reported. The HTTP status is 202 for a parked refund. Errors:
// REFUND_DUPLICATE, REFUND_EXCEEDS_AMOUNT.
func (s *Service) RefundConversion(ctx context.Context, req *affiliatev1.RefundConversionRequest) (*affiliatev1.Refund, error) {
	now := s.now()
	outcome, err := conversions.Refund(ctx, s.db, conversion.Refund{
		ID: affiliate.NewID[conversion.RefundID](now), Scope: server.PrincipalFrom(ctx).Scope(),
		ExternalRefundID: req.GetExternalRefundId(), ExternalTransactionID: req.GetExternalTransactionId(),
		RequestedCents: req.AmountCents, Reason: req.Reason, CreatedAt: now, ExpiresAt: now.Add(conversion.ParkedRefundLifetime),
	})
	if err != nil {
		return nil, err
	}
	if outcome.Conversion == nil {
		server.SetHTTPStatus(ctx, http.StatusAccepted)
	}
	return refundOf(outcome), nil
}

// ReportDispute records a dispute that the merchant reports, or its new status. A dispute that
// a payment processor reports has the same effect. The HTTP status is 200 if the dispute was
// reported before. Errors: NOT_FOUND, DISPUTE_DUPLICATE,
// DISPUTE_EXCEEDS_AMOUNT.
func (s *Service) ReportDispute(ctx context.Context, req *affiliatev1.ReportDisputeRequest) (*affiliatev1.Dispute, error) {
	now := s.now()
	report := conversion.ReportedDispute{
		Scope:                 server.PrincipalFrom(ctx).Scope(),
		ExternalTransactionID: req.GetExternalTransactionId(), ExternalDisputeID: req.GetExternalDisputeId(),
		Status: commission.DisputeStatus(server.EnumName(req.GetStatus())), AmountCents: req.AmountCents,
	}
	var sale conversion.SaleInDispute
	var dispute conversion.ProcessorDispute
	var reversal conversion.Reversal
	err := s.db.InTx(ctx, func(tx *postgres.Tx) (err error) {
		if sale, err = conversions.LockDisputedSale(ctx, tx, report); err != nil {
			return err
		}
		if dispute, err = sale.Report(report); err != nil {
			return err
		}
		if err = conversions.PutReportedDispute(ctx, tx, sale, dispute, now); err != nil {
			return err
		}
		reversal, err = reverse(ctx, tx, report.Scope, sale.ID, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	if sale.Dispute != nil {
		server.SetHTTPStatus(ctx, http.StatusOK)
	}
	paid := sale.Sale.Paid
	result := &affiliatev1.Dispute{
		ExternalDisputeId: report.ExternalDisputeID, ExternalTransactionId: report.ExternalTransactionID, ConversionId: sale.ID.String(),
		Status: server.EnumValue[affiliatev1.DisputeStatus](dispute.Status), AmountCents: paid.Cents, Currency: paid.Currency,
		RefundedAmountCents: reversal.Conversion.RefundedAmountCents, Commission: refundedCommissionOf(reversal.Commission),
	}
	if dispute.AmountCents != nil {
		result.AmountCents = *dispute.AmountCents
	}
	return result, nil
}

func refundOf(o conversion.RefundOutcome) *affiliatev1.Refund {
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
	refund.Commission = refundedCommissionOf(o.Commission)
	return refund
}

func refundedCommissionOf(c *commission.Commission) *affiliatev1.RefundedCommission {
	if c == nil {
		return nil
	}
	return &affiliatev1.RefundedCommission{
		Id:                  c.ID.String(),
		Status:              server.EnumValue[affiliatev1.CommissionStatus](c.Status),
		AmountCents:         c.AmountCents,
		ReversedAmountCents: c.ReversedCents(),
		Currency:            c.Currency,
	}
}

// sweepRefunds is the job that applies parked refunds whose conversions are recorded. It
// also deletes parked refunds that have expired.
type sweepRefunds struct{}

// Kind returns the name of the job in River.
func (sweepRefunds) Kind() string { return "sweep_parked_refunds" }

type sweepRefundsWorker struct {
	river.WorkerDefaults[sweepRefunds]
	service *Service

	mu     sync.Mutex
	cursor conversion.ParkedSale // the next sweep starts after this sale
}

func (w *sweepRefundsWorker) Work(ctx context.Context, _ *river.Job[sweepRefunds]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	next, err := w.service.SweepRefunds(ctx, w.cursor)
	w.cursor = next
	return err
}

// SweepRefunds runs one sweep over the sales that have parked refunds. A sale is
// identified by its external id, because its conversion may not be recorded yet. The
// sweep starts after the sale in cursor. It returns the cursor for the next sweep. The
// cursor is zero if the sweep has reached the last sale, and the next sweep then starts
// with the first sale. If the refunds of a sale cannot be applied, SweepRefunds continues
// with the other sales. A later sweep tries the failed sale again.
func (s *Service) SweepRefunds(ctx context.Context, cursor conversion.ParkedSale) (conversion.ParkedSale, error) {
	var failed error
	for range sweepBatches {
		recorded, next, err := conversions.SalesWithParkedRefunds(ctx, s.db, cursor, sweepBatch)
		if err != nil {
			return cursor, errors.Join(failed, err)
		}
		for _, sale := range recorded {
			failed = errors.Join(failed, conversions.ApplyParkedRefunds(ctx, s.db, sale, s.now()))
		}
		if cursor = next; cursor == (conversion.ParkedSale{}) {
			break
		}
	}
	return cursor, errors.Join(failed, s.dropExpired(ctx, conversions.DropExpiredRefunds))
}
