package payout

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/csv"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
)

// column is a column of a file with exported payouts.
type column struct {
	name  string
	write func(w *csv.Writer, r record)
}

// record is a row of a file: a payout with its account in clear text.
type record struct {
	payout.ExportedPayout
	account payout.Account
}

// formats has the columns of each export format. PayPal and Wise define the columns of
// their files, the order of the columns and the lengths of the values. The sources are
// PayPal's file for payouts (https://www.paypal.com/us/smarthelp/article/faq1769) and
// Wise's template for recipients with an e-mail address
// (https://wise.com/help/articles/2663302).
var formats = map[payout.ExportFormat][]column{
	payout.ExportGeneric: {
		{"payoutId", func(w *csv.Writer, r record) { w.ID(r.ID.UUID) }},
		{"status", func(w *csv.Writer, r record) { w.Text(string(r.Status)) }},
		{"programName", func(w *csv.Writer, r record) { w.Text(r.ProgramName) }},
		{"participantId", func(w *csv.Writer, r record) { w.ID(r.Participant.UUID) }},
		{"partnerName", func(w *csv.Writer, r record) { w.Text(r.PartnerName) }},
		{"amountCents", func(w *csv.Writer, r record) { w.Int(r.AmountCents) }},
		{"amount", func(w *csv.Writer, r record) { w.Text(decimal(r.AmountCents, affiliate.CurrencyExponent(r.Currency))) }},
		{"currency", func(w *csv.Writer, r record) { w.Text(r.Currency) }},
		{"method", func(w *csv.Writer, r record) { w.Text(string(r.Method)) }},
		{"account", func(w *csv.Writer, r record) { w.Text(r.account.Account) }},
		{"accountHolder", func(w *csv.Writer, r record) { w.Text(r.account.Holder) }},
		{"commissionCount", func(w *csv.Writer, r record) { w.Int(r.CommissionCount) }},
		{"adjustmentCents", func(w *csv.Writer, r record) { w.Int(r.AdjustmentCents) }},
		{"periodStart", func(w *csv.Writer, r record) { w.OptionalTime(r.PeriodStart) }},
		{"periodEnd", func(w *csv.Writer, r record) { w.OptionalTime(r.PeriodEnd) }},
	},
	payout.ExportPayPal: {
		{"Recipient", func(w *csv.Writer, r record) { w.Text(r.account.Account) }},
		{"Amount", func(w *csv.Writer, r record) { w.Text(payPalAmount(r)) }},
		{"Currency", func(w *csv.Writer, r record) { w.Text(r.Currency) }},
		{"Customer ID", func(w *csv.Writer, r record) { w.Text(compactID(r.ID)[:payPalIDLength]) }},
		{"Note", func(w *csv.Writer, r record) { w.Text(r.ProgramName) }},
		{"Recipient wallet", func(w *csv.Writer, _ record) { w.Text("PAYPAL") }},
	},
	payout.ExportWise: {
		{"name", func(w *csv.Writer, r record) { w.Text(cmp.Or(r.account.Holder, r.PartnerName)) }},
		{"recipientEmail", func(w *csv.Writer, r record) { w.Text(r.account.Account) }},
		{"paymentReference", func(w *csv.Writer, r record) { w.Text(compactID(r.ID)[idLength-wiseReferenceLength:]) }},
		{"amount", func(w *csv.Writer, r record) { w.Text(decimal(r.AmountCents, affiliate.CurrencyExponent(r.Currency))) }},
		{"amountCurrency", func(w *csv.Writer, _ record) { w.Text("target") }},
		{"sourceCurrency", func(w *csv.Writer, r record) { w.Text(r.Currency) }},
		{"targetCurrency", func(w *csv.Writer, r record) { w.Text(r.Currency) }},
		{"type", func(w *csv.Writer, _ record) { w.Text("EMAIL") }},
	},
}

const (
	idLength = 32 // the length of the result of compactID
	// payPalIDLength is the maximum length of a customer id in PayPal's file.
	payPalIDLength = 30
	// wiseReferenceLength is the maximum length of a payment reference that Wise accepts in all currencies.
	// It is the limit of USD. The file contains the last characters of the id, because they are random.
	wiseReferenceLength = 10
)

// compactID returns the 32 digits of a payout's id.
func compactID(id affiliate.PayoutID) string { return strings.ReplaceAll(id.String(), "-", "") }

// payPalAmount returns the amount of a payout in PayPal's file, without decimals if PayPal does
// not accept them. In that case, payout.Export.Choose has checked that the amount is whole.
func payPalAmount(p record) string {
	if (payout.Export{Format: payout.ExportPayPal, Currency: &p.Currency}).WholeUnits() {
		return decimal(p.AmountCents/100, 0)
	}
	return decimal(p.AmountCents, affiliate.CurrencyExponent(p.Currency))
}

// exportParts is the key of the header Export-Parts. Its value is the number of files of an export.
const exportParts = "export-parts"

// ExportPayoutBatch streams the payouts of one part of an export. Before that, it records
// the export in the audit log. It changes no payout.
func (s *Service) ExportPayoutBatch(req *affiliatev1.ExportPayoutBatchRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	id := server.PathID[payout.BatchID](req.GetBatchId())
	ctx := stream.Context()
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	export := exportOf(req)
	batch, err := payouts.GetBatch(ctx, s.db, scope, id)
	if err != nil {
		return err
	}
	if !batch.Status.Sendable() {
		return batch.Refuse()
	}
	totals, err := payouts.ExportTotals(ctx, s.db, scope, id, export.Method)
	if err != nil {
		return err
	}
	export, parts, err := export.Choose(totals)
	if err != nil {
		return err
	}
	if err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		return auditBatch(ctx, tx, batch, "export", at, server.ActorFrom(ctx), nil, map[string]any{
			"format": export.Format, "currency": export.Currency, "part": export.Part,
		})
	}); err != nil {
		return err
	}
	if err := stream.SetHeader(metadata.Pairs(exportParts, strconv.FormatInt(parts, 10))); err != nil {
		return err
	}
	columns := formats[export.Format]
	names := server.ConvertAll(columns, func(c column) string { return c.name })
	return server.StreamCSV(stream, "payouts", scope.Mode, at, names, func(w *csv.Writer) error {
		for p, err := range payouts.Export(ctx, s.db, scope, id, export) {
			if err != nil {
				return err
			}
			account, err := payout.OpenAccount(p.Method, p.Account, s.seal.Open, p.Partner)
			if err != nil {
				return fmt.Errorf("payout %s: account: %w", p.ID, err)
			}
			for _, c := range columns {
				c.write(w, record{p, account})
			}
			if err := w.EndRow(); err != nil {
				return err
			}
		}
		return nil
	})
}

// exportOf returns the export that a request selects. Check has validated the request.
func exportOf(req *affiliatev1.ExportPayoutBatchRequest) payout.Export {
	export := payout.Export{Format: payout.ExportFormat(server.EnumName(req.GetFormat())), Part: int64(max(1, req.GetPart()))}
	if export.Format == "" {
		export.Format = payout.ExportGeneric
	}
	export.Method = export.Format.Method()
	if currency, ok := affiliate.ParseCurrency(req.GetCurrency()); ok {
		export.Currency = &currency
	}
	return export
}

// decimal formats a positive amount in minor units with the given number of decimals, for
// example 1234 with 2 decimals as "12.34".
func decimal(minorUnits int64, decimals int) string {
	digits := strconv.FormatInt(minorUnits, 10)
	if decimals == 0 {
		return digits
	}
	if missing := decimals + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	return digits[:len(digits)-decimals] + "." + digits[len(digits)-decimals:]
}
