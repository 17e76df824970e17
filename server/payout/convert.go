package payout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// noTaxForm is the tax form status of all payouts, because the service does not store tax forms.
const noTaxForm = "none"

func previewLine(d payout.Due) *affiliatev1.PayoutPreviewLine {
	line := &affiliatev1.PayoutPreviewLine{
		ProgramId:       d.Program.String(),
		ProgramName:     d.ProgramName,
		ParticipantId:   d.Participant.String(),
		PartnerName:     d.PartnerName,
		Currency:        d.Currency,
		CommissionCount: d.CommissionCount,
		CommissionCents: d.CommissionCents,
		AdjustmentCents: d.AdjustmentCents,
		AmountCents:     d.AmountCents(),
		ExcludedBecause: server.EnumValue[affiliatev1.PayoutExclusion](d.Exclusion()),
	}
	if d.Method != nil {
		line.Method = server.EnumValue[affiliatev1.PayoutMethod](*d.Method)
	}
	return line
}

// sortPreview sorts the lines of a preview. The payouts that a batch would contain are
// first. The payouts that it would leave out follow. Each part is sorted by partner name.
func sortPreview(due []payout.Due) {
	slices.SortFunc(due, func(a, b payout.Due) int {
		if paidA, paidB := a.Exclusion() == "", b.Exclusion() == ""; paidA != paidB {
			if paidA {
				return -1
			}
			return 1
		}
		return cmp.Or(
			cmp.Compare(strings.ToLower(a.PartnerName), strings.ToLower(b.PartnerName)),
			cmp.Compare(a.Participant.String(), b.Participant.String()), cmp.Compare(a.Currency, b.Currency))
	})
}

// previewTotals returns, for each currency, the total that a batch would pay.
func previewTotals(due []payout.Due) []payout.Total {
	sums := map[string]payout.Total{}
	for _, d := range due {
		if d.Exclusion() == "" {
			sum := sums[d.Currency]
			sums[d.Currency] = payout.Total{Currency: d.Currency, Count: sum.Count + 1, AmountCents: sum.AmountCents + d.AmountCents()}
		}
	}
	totals := make([]payout.Total, 0, len(sums))
	for _, currency := range slices.Sorted(maps.Keys(sums)) {
		totals = append(totals, sums[currency])
	}
	return totals
}

func toTotals(totals []payout.Total) []*affiliatev1.PayoutTotal {
	out := make([]*affiliatev1.PayoutTotal, len(totals))
	for i, t := range totals {
		out[i] = &affiliatev1.PayoutTotal{Currency: t.Currency, PayoutCount: t.Count, AmountCents: t.AmountCents}
	}
	return out
}

func toBatch(b payout.Batch) *affiliatev1.PayoutBatch {
	return &affiliatev1.PayoutBatch{
		Id:          b.ID.String(),
		Mode:        server.EnumValue[affiliatev1.Mode](b.Mode),
		Status:      server.EnumValue[affiliatev1.PayoutBatchStatus](b.Status),
		Cutoff:      server.Timestamp(b.Cutoff),
		PayoutCount: b.Counts.All(),
		Totals:      toTotals(b.Totals),
		ByStatus: &affiliatev1.PayoutCounts{
			Draft:      b.Counts[payout.Draft],
			Pending:    b.Counts[payout.Pending],
			Processing: b.Counts[payout.Processing],
			Paid:       b.Counts[payout.Paid],
			Failed:     b.Counts[payout.Failed],
			Canceled:   b.Counts[payout.Canceled],
		},
		CreatedBy:       b.CreatedBy.String(),
		CreatedByName:   nameOf(b, &b.CreatedBy),
		ConfirmedBy:     server.OptionalID(b.ConfirmedBy),
		ConfirmedByName: nameOf(b, b.ConfirmedBy),
		CreatedAt:       server.Timestamp(b.CreatedAt),
		ConfirmedAt:     server.OptionalTimestamp(b.ConfirmedAt),
		CompletedAt:     server.OptionalTimestamp(b.CompletedAt),

		FirstConfirmedBy: server.OptionalID(b.FirstConfirmedBy), FirstConfirmedByName: nameOf(b, b.FirstConfirmedBy),
		FirstConfirmedAt: server.OptionalTimestamp(b.FirstConfirmedAt),
	}
}

// nameOf returns the name of a user or token in a batch. It returns nil if there is no id or no name.
func nameOf(b payout.Batch, id *affiliate.ActorID) *string {
	if id == nil {
		return nil
	}
	name, found := b.Names[*id]
	if !found {
		return nil
	}
	return &name
}

func toProto(p payout.Item) *affiliatev1.Payout {
	return &affiliatev1.Payout{
		Id:              p.ID.String(),
		BatchId:         p.Batch.String(),
		ProgramId:       p.Program.String(),
		ProgramName:     p.ProgramName,
		ParticipantId:   p.Participant.String(),
		PartnerName:     p.PartnerName,
		Mode:            server.EnumValue[affiliatev1.Mode](p.Mode),
		AmountCents:     p.AmountCents,
		Currency:        p.Currency,
		Status:          server.EnumValue[affiliatev1.PayoutStatus](p.Status),
		Method:          server.EnumValue[affiliatev1.PayoutMethod](p.Method),
		Reference:       p.Reference,
		PeriodStart:     server.OptionalTimestamp(p.PeriodStart),
		PeriodEnd:       server.OptionalTimestamp(p.PeriodEnd),
		CommissionCount: p.CommissionCount,
		AdjustmentCents: p.AdjustmentCents,
		FailureReason:   p.FailureReason,
		TaxFormStatus:   noTaxForm,
		InitiatedAt:     server.OptionalTimestamp(p.InitiatedAt),
		PaidAt:          server.OptionalTimestamp(p.PaidAt),
		CreatedAt:       server.Timestamp(p.CreatedAt),
		UpdatedAt:       server.Timestamp(p.UpdatedAt),
	}
}

// toDetail converts a payout with its commissions.
func toDetail(p payout.Detail) *affiliatev1.PayoutDetail {
	out := &affiliatev1.PayoutDetail{AccountHint: p.AccountHint}
	server.CopyShared(out.ProtoReflect(), toProto(p.Item).ProtoReflect())
	for _, c := range p.Commissions {
		out.Commissions = append(out.Commissions, &affiliatev1.PayoutCommission{
			CommissionId: c.Commission.String(), AmountCents: c.AmountCents, ExternalTransactionId: c.ExternalTransactionID,
			ApprovedAt: server.OptionalTimestamp(c.ApprovedAt),
		})
	}
	return out
}

// toPartner converts a payout to the message for the partner.
func toPartner(p payout.Item) *affiliatev1.PartnerPayout {
	out := &affiliatev1.PartnerPayout{}
	server.CopyShared(out.ProtoReflect(), toProto(p).ProtoReflect())
	return out
}

// toPartnerDetail converts a payout with its commissions to the message for the partner.
func toPartnerDetail(p payout.Detail, merchant string) *affiliatev1.PartnerPayoutDetail {
	out := &affiliatev1.PartnerPayoutDetail{MerchantName: merchant, AccountHint: p.AccountHint}
	server.CopyShared(out.ProtoReflect(), toPartner(p.Item).ProtoReflect())
	for _, c := range p.Commissions {
		out.Commissions = append(out.Commissions, &affiliatev1.PartnerPayoutCommission{
			CommissionId: c.Commission.String(), AmountCents: c.AmountCents, EventType: server.EnumValue[affiliatev1.EventType](c.EventType),
			ApprovedAt: server.OptionalTimestamp(c.ApprovedAt), CreatedAt: server.Timestamp(c.CreatedAt),
		})
	}
	return out
}

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.PreviewPayoutsRequest:
		_, found = cutoffOf(req.Cutoff, s.currentTime())
	case *affiliatev1.CreatePayoutBatchRequest:
		_, found = cutoffOf(req.Cutoff, s.currentTime())
	case *affiliatev1.ListPayoutBatchesRequest:
		server.CheckEnum("status", req.GetStatus(), &found)
	case *affiliatev1.ListPayoutsRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
		server.CheckEnum("status", req.GetStatus(), &found)
	case *affiliatev1.ListPartnerPayoutsRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
		server.CheckEnum("status", req.GetStatus(), &found)
	case *affiliatev1.ExportPayoutBatchRequest:
		server.CheckEnum("format", req.GetFormat(), &found)
		if _, ok := affiliate.ParseCurrency(req.GetCurrency()); !ok && req.Currency != nil {
			found.Add("currency", affiliate.MustBeCurrency)
		}
	case *affiliatev1.MarkPayoutPaidRequest:
		if at := req.GetPaidAt(); at != nil && at.CheckValid() != nil {
			found.Add("paid_at", affiliate.MustBeTimestamp)
		}
	case *affiliatev1.BulkMarkPayoutsPaidRequest:
		checkUnique(req.GetPayouts(), &found)
		for i, p := range req.GetPayouts() {
			if at := p.GetPaidAt(); at != nil && at.CheckValid() != nil {
				found.Add(fmt.Sprintf("payouts[%d].paid_at", i), affiliate.MustBeTimestamp)
			}
		}
	case *affiliatev1.BulkMarkPayoutsFailedRequest:
		checkUnique(req.GetPayouts(), &found)
	}
	return found
}

// selectionOf returns the selection of a valid request. The parameter now is the current time.
func selectionOf(scope affiliate.Scope, req interface {
	GetProgramIds() []string
	GetCutoff() string
}, now time.Time,
) payout.Selection {
	cutoff := req.GetCutoff()
	selection := payout.Selection{Scope: scope, At: now}
	selection.Cutoff, _ = cutoffOf(&cutoff, now)
	for _, text := range req.GetProgramIds() {
		if id, ok := affiliate.ParseID[affiliate.ProgramID](text); ok && !slices.Contains(selection.Programs, id) {
			selection.Programs = append(selection.Programs, id)
		}
	}
	return selection
}

// cutoffOf parses a cutoff, which is a date or a time. For a date, the result is the last millisecond
// of the day in UTC. If the cutoff is empty or not before the time now, the result is now.
func cutoffOf(text *string, now time.Time) (time.Time, affiliate.Violations) {
	if text == nil || *text == "" {
		return now, nil
	}
	period, wrong := affiliate.ParsePeriod("", *text, "")
	if wrong != nil {
		var found affiliate.Violations
		found.Add("cutoff", wrong[0].Message)
		return now, found
	}
	if last := period.Before.Add(-time.Millisecond); last.Before(now) {
		return last, nil
	}
	return now, nil
}
