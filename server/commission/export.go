package commission

import (
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate/commission"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/csv"
	"github.com/tributary-hq/tributary/server"
	commissions "github.com/tributary-hq/tributary/storage/postgres/commission"
)

// ExportCommissions streams the commissions of the caller's workspace and mode as CSV. If
// the request names a programme, it streams only the commissions of this programme.
func (s *Service) ExportCommissions(req *affiliatev1.ExportCommissionsRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	return s.export(req, req.NeedsReview, workspaceRoute, stream)
}

// ExportProgramCommissions streams the commissions of one programme as CSV.
func (s *Service) ExportProgramCommissions(req *affiliatev1.ExportProgramCommissionsRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	return s.export(req, req.NeedsReview, programRoute, stream)
}

func (s *Service) export(req exportRequest, needsReview *bool, route routeKind, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	ctx := stream.Context()
	filter, err := s.filter(ctx, req, needsReview, route)
	if err != nil {
		return err
	}
	scope := server.PrincipalFrom(ctx).Scope()
	columns := []string{
		"id", "createdAt", "status", "commissionType", "programName", "partnerName", "amountCents", "currency",
		"saleAmountCents", "saleCurrency", "externalTransactionId", "promoCode", "needsReview", "holdUntil", "approvedAt",
		"rejectedAt", "paidAt", "refundedAt", "payoutId",
	}
	return server.StreamCSV(stream, "commissions", scope.Mode, s.currentTime(), columns, func(w *csv.Writer) error {
		for row, err := range commissions.Export(ctx, s.db, scope, filter, orderOf(req)) {
			if err != nil {
				return err
			}
			writeRow(w, row)
			if err := w.EndRow(); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeRow(w *csv.Writer, row *commission.Row) {
	w.ID(row.ID.UUID)
	w.Time(row.CreatedAt)
	w.Bytes(row.Status)
	w.Bytes(row.Type)
	w.Bytes(row.ProgramName)
	w.Bytes(row.PartnerName)
	w.Int(row.AmountCents)
	w.Bytes(row.Currency)
	w.Int(row.SaleAmountCents)
	w.Bytes(row.SaleCurrency)
	w.Bytes(row.ExternalTransactionID)
	if row.PromoCode == nil {
		w.Empty()
	} else {
		w.Bytes(row.PromoCode)
	}
	w.Bool(row.NeedsReview)
	w.OptionalTime(row.HoldUntil)
	w.OptionalTime(row.ApprovedAt)
	w.OptionalTime(row.RejectedAt)
	w.OptionalTime(row.PaidAt)
	w.OptionalTime(row.RefundedAt)
	if row.Payout == nil {
		w.Empty()
	} else {
		w.ID(row.Payout.UUID)
	}
}
