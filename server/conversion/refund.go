package conversion

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	conversions "github.com/tributary-hq/tributary/storage/postgres/conversion"
)

// RefundConversion records a refund. If the conversion is recorded, the refund is applied
// at once. Otherwise it is parked until the conversion is reported, and the HTTP status is
// 202. The audit log has an entry, unless the caller is the merchant's server. Errors:
// REFUND_DUPLICATE, REFUND_EXCEEDS_AMOUNT.
func (s *Service) RefundConversion(ctx context.Context, req *affiliatev1.RefundConversionRequest) (*affiliatev1.Refund, error) {
	now := s.now()
	refund := conversion.Refund{
		ID: affiliate.NewID[conversion.RefundID](now), Scope: server.PrincipalFrom(ctx).Scope(),
		ExternalRefundID: req.GetExternalRefundId(), ExternalTransactionID: req.GetExternalTransactionId(),
		RequestedCents: req.AmountCents, Reason: req.Reason, CreatedAt: now, ExpiresAt: now.Add(conversion.ParkedRefundLifetime),
	}
	var applied *conversion.Reversal
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		applied = nil
		audited := refund
		sale, err := conversions.LockRefundedOrErased(ctx, tx, refund)
		if err != nil {
			return err
		}
		if sale != nil {
			reversal, err := sale.Refund(&refund, now)
			if err != nil {
				return err
			}
			if err := conversions.ApplyReversal(ctx, tx, reversal); err != nil {
				return err
			}
			applied, audited = &reversal, reversal.Refunds[len(reversal.Refunds)-1]
		}
		if actor := server.ActorFrom(ctx); actor.Key == nil {
			return tx.Audit(ctx, audited.AuditLine(actor))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if applied == nil {
		server.SetHTTPStatus(ctx, http.StatusAccepted)
	}
	return refundOf(refund, applied), nil
}

// ReportDispute records a dispute that the merchant reports, or the new status of a dispute. It
// has the same effect as a processor's report. The HTTP status is 200 if the dispute was
// reported before. Errors: NOT_FOUND, DISPUTE_DUPLICATE, DISPUTE_EXCEEDS_AMOUNT.
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
	paid := sale.Money
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

// refundOf returns the message for a refund. applied is the refund's effect, or nil if the refund is parked.
func refundOf(r conversion.Refund, applied *conversion.Reversal) *affiliatev1.Refund {
	refund := &affiliatev1.Refund{
		Id:                    r.ID.String(),
		Status:                affiliatev1.RefundStatus_REFUND_STATUS_PARKED,
		ExternalRefundId:      r.ExternalRefundID,
		ExternalTransactionId: r.ExternalTransactionID,
		AmountCents:           r.RequestedCents,
		Reason:                r.Reason,
		CreatedAt:             server.Timestamp(r.CreatedAt),
	}
	if applied == nil {
		return refund
	}
	c := applied.Conversion
	refund.Status = affiliatev1.RefundStatus_REFUND_STATUS_APPLIED
	refund.ConversionId, refund.AmountCents = server.OptionalID(&c.ID), applied.Refunds[len(applied.Refunds)-1].AmountCents
	refund.Currency, refund.RefundedAmountCents = server.OptionalString(c.Currency), &c.RefundedAmountCents
	refund.Commission = refundedCommissionOf(applied.Commission)
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

// SweepRefunds runs one sweep over the sales that have parked refunds, as SweepAwaited does
// over clicks. A sale is identified by its external id, because its conversion may not be
// recorded yet.
func (s *Service) SweepRefunds(ctx context.Context, cursor conversion.ParkedSale) (conversion.ParkedSale, error) {
	var failed error
	for range sweepBatches {
		recorded, next, err := conversions.SalesWithParkedRefunds(ctx, s.db, cursor, sweepBatch)
		if err != nil {
			return cursor, errors.Join(failed, err)
		}
		for _, sale := range recorded {
			failed = errors.Join(failed, s.applyParked(ctx, sale, s.now()))
		}
		if cursor = next; cursor == (conversion.ParkedSale{}) {
			break
		}
	}
	return cursor, errors.Join(failed, s.dropExpired(ctx, conversions.DropExpiredRefunds))
}

// applyParked applies the parked refunds of a sale if its conversion exists now. Even if
// several calls run at the same time, each refund is applied only once.
func (s *Service) applyParked(ctx context.Context, parked conversion.ParkedSale, at time.Time) error {
	return s.db.InTx(ctx, func(tx *postgres.Tx) error {
		sale, err := conversions.LockRefunded(ctx, tx, parked.Scope, parked.ExternalTransactionID, nil)
		if err != nil || sale == nil || len(sale.Parked) == 0 {
			return err
		}
		reversal, err := sale.Refund(nil, at)
		if err != nil {
			return err
		}
		return conversions.ApplyReversal(ctx, tx, reversal)
	})
}
