package ledger

import (
	"context"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/csv"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
)

// statementEnd returns the exclusive end of a statement's period, at most one millisecond
// after now.
func statementEnd(req *affiliatev1.ListLedgerBalancesRequest, now time.Time) (time.Time, affiliate.Violations) {
	end := now.Add(time.Millisecond)
	period, wrong := affiliate.ParsePeriod("", req.GetAsOf(), req.GetTimezone())
	for i := range wrong {
		if wrong[i].Field == "date_to" {
			wrong[i].Field = "as_of"
		}
	}
	if period.Before != nil && period.Before.Before(end) {
		end = *period.Before
	}
	return end, wrong
}

// ListLedgerBalances returns one page of the amounts that the workspace owed its partners at a time.
func (s *Service) ListLedgerBalances(ctx context.Context, req *affiliatev1.ListLedgerBalancesRequest) (*affiliatev1.ListLedgerBalancesResponse, error) {
	end, wrong := statementEnd(req, s.currentTime())
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	page := server.PageOf(req)
	filter := ledger.BalanceFilter{Program: server.ParseOptionalID[affiliate.ProgramID](req.ProgramId), Before: end}
	statement, err := ledgers.Statement(ctx, s.db, server.PrincipalFrom(ctx).Scope(), filter, page)
	if err != nil {
		return nil, err
	}
	balances := server.ConvertAll(statement.Balances, func(b ledger.ParticipantBalance) *affiliatev1.ParticipantBalance {
		return &affiliatev1.ParticipantBalance{
			ProgramId: b.Program.String(), ProgramName: b.ProgramName, ParticipantId: b.Participant.String(), PartnerName: b.PartnerName,
			Currency: b.Currency, BalanceCents: b.BalanceCents,
		}
	})
	totals := server.ConvertAll(statement.Totals, func(t ledger.Total) *affiliatev1.LedgerTotal {
		return &affiliatev1.LedgerTotal{
			Currency: t.Currency, OwedToPartnersCents: t.OwedToPartners, OwedByPartnersCents: t.OwedByPartners,
			BalanceCents: t.OwedToPartners - t.OwedByPartners, ParticipantCount: t.ParticipantCount,
		}
	})
	return &affiliatev1.ListLedgerBalancesResponse{
		Data: balances, Total: statement.Count, Totals: totals, AsOf: server.Timestamp(end.Add(-time.Millisecond)),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

// ExportLedger streams the entries of a period as CSV, between opening and closing
// balances.
func (s *Service) ExportLedger(req *affiliatev1.ExportLedgerRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	period, wrong := affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	if err := wrong.Err(); err != nil {
		return err
	}
	ctx, at := stream.Context(), s.currentTime()
	if period.From == nil {
		period.From = &time.Time{}
	}
	if end := at.Add(time.Millisecond); period.Before == nil || period.Before.After(end) {
		period.Before = &end
	}
	scope, program := server.PrincipalFrom(ctx).Scope(), server.ParseOptionalID[affiliate.ProgramID](req.ProgramId)
	if err := postgres.CheckFilter(ctx, s.db, scope, program, nil, nil); err != nil {
		return err
	}
	if err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		return tx.Audit(ctx, affiliate.AuditLine{
			Workspace: scope.Workspace, Mode: &scope.Mode, Actor: server.ActorFrom(ctx), At: at,
			Action: "ledger.export", ResourceType: "workspace", ResourceID: scope.Workspace,
			After: map[string]any{"date_from": req.DateFrom, "date_to": req.DateTo, "timezone": req.Timezone, "program_id": req.ProgramId},
		})
	}); err != nil {
		return err
	}
	columns := []string{
		"id", "createdAt", "programId", "programName", "participantId", "partnerName", "type", "amountCents", "currency",
		"runningTotalCents", "commissionId", "payoutId", "reason", "occurredAt",
	}
	return server.StreamCSV(stream, "ledger", scope.Mode, at, columns, func(w *csv.Writer) error {
		totals := ledger.RunningTotals{}
		for line, err := range ledgers.Export(ctx, s.db, scope, program, period) {
			if err != nil {
				return err
			}
			if total := totals.Add(line.Entry); line.Type == ledger.OpeningBalance {
				writeBalance(w, line.Type, *period.From, ledger.Balance{Currency: line.Currency, BalanceCents: total})
			} else {
				writeLine(w, line, total)
			}
			if err := w.EndRow(); err != nil {
				return err
			}
		}
		for _, closing := range totals.Balances() {
			writeBalance(w, ledger.ClosingBalance, period.Before.Add(-time.Millisecond), closing)
			if err := w.EndRow(); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeBalance writes an opening or closing balance. If at is zero, the row has no time.
func writeBalance(w *csv.Writer, kind ledger.EntryType, at time.Time, balance ledger.Balance) {
	w.Empty()
	if at.IsZero() {
		w.Empty()
	} else {
		w.Time(at)
	}
	for range 4 {
		w.Empty()
	}
	w.Text(string(kind))
	w.Empty()
	w.Text(balance.Currency)
	w.Int(balance.BalanceCents)
	for range 4 {
		w.Empty()
	}
}

// writeLine writes the row of an entry. total is the running total of its currency after it.
func writeLine(w *csv.Writer, line ledger.Line, total int64) {
	w.ID(line.ID.UUID)
	w.Time(line.CreatedAt)
	w.ID(line.Program.UUID)
	w.Text(line.ProgramName)
	w.ID(line.Participant.UUID)
	w.Text(line.PartnerName)
	w.Text(string(line.Type))
	w.Int(line.AmountCents)
	w.Text(line.Currency)
	w.Int(total)
	if line.Commission == nil {
		w.Empty()
	} else {
		w.ID(line.Commission.UUID)
	}
	if line.Payout == nil {
		w.Empty()
	} else {
		w.ID(line.Payout.UUID)
	}
	w.OptionalText(line.Reason)
	w.OptionalTime(line.OccurredAt)
}
