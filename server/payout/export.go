package payout

import (
	"encoding/json"
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

// format is a file format for exported payouts.
type format struct {
	header []string
	write  func(w *csv.Writer, p payout.ExportedPayout, account payout.Account)
}

// formats has the definitions of the formats that a request can name. PayPal and Wise
// define the columns of their files, their order and the lengths of the values: the file
// for payouts of PayPal (https://www.paypal.com/us/smarthelp/article/faq1769) and the
// template for recipients with an e-mail address of Wise
// (https://wise.com/help/articles/2663302).
var formats = map[payout.ExportFormat]format{
	payout.ExportGeneric: {
		header: []string{
			"payoutId", "status", "programName", "participantId", "partnerName", "amountCents", "amount", "currency", "method", "account",
			"accountHolder", "commissionCount", "adjustmentCents", "periodStart", "periodEnd",
		},
		write: func(w *csv.Writer, p payout.ExportedPayout, account payout.Account) {
			w.ID(p.ID.UUID)
			w.Text(string(p.Status))
			w.Text(p.ProgramName)
			w.ID(p.Participant.UUID)
			w.Text(p.PartnerName)
			w.Int(p.AmountCents)
			w.Text(decimal(p.AmountCents, affiliate.CurrencyExponent(p.Currency)))
			w.Text(p.Currency)
			w.Text(string(p.Method))
			w.Text(account.Account)
			w.Text(account.Holder)
			w.Int(p.CommissionCount)
			w.Int(p.AdjustmentCents)
			w.OptionalTime(p.PeriodStart)
			w.OptionalTime(p.PeriodEnd)
		},
	},
	payout.ExportPayPal: {
		header: []string{"Recipient", "Amount", "Currency", "Customer ID", "Note", "Recipient wallet"},
		write: func(w *csv.Writer, p payout.ExportedPayout, account payout.Account) {
			w.Text(account.Account)
			w.Text(payPalAmount(p))
			w.Text(p.Currency)
			w.Text(compactID(p.ID)[:payPalIDLength])
			w.Text(p.ProgramName)
			w.Text("PAYPAL")
		},
	},
	payout.ExportWise: {
		header: []string{"name", "recipientEmail", "paymentReference", "amount", "amountCurrency", "sourceCurrency", "targetCurrency", "type"},
		write: func(w *csv.Writer, p payout.ExportedPayout, account payout.Account) {
			name := account.Holder
			if name == "" {
				name = p.PartnerName
			}
			id := compactID(p.ID)
			w.Text(name)
			w.Text(account.Account)
			w.Text(id[len(id)-wiseReferenceLength:])
			w.Text(decimal(p.AmountCents, affiliate.CurrencyExponent(p.Currency)))
			w.Text("target")
			w.Text(p.Currency)
			w.Text(p.Currency)
			w.Text("EMAIL")
		},
	},
}

const (
	// payPalIDLength is the maximum length of a customer id in PayPal's file.
	payPalIDLength = 30
	// wiseReferenceLength is the maximum length of a payment reference that Wise accepts in
	// all currencies. It is the limit of USD. The last characters of an id are random.
	wiseReferenceLength = 10
)

// compactID returns the 32 digits of a payout's id.
func compactID(id affiliate.PayoutID) string { return strings.ReplaceAll(id.String(), "-", "") }

// payPalAmount returns the amount of a payout in PayPal's file. It has no decimals in a
// currency in which PayPal does not accept them. payout.Export.Choose has checked
// that the amounts are whole.
func payPalAmount(p payout.ExportedPayout) string {
	if (payout.Export{Format: payout.ExportPayPal, Currency: &p.Currency}).WholeUnits() {
		return decimal(p.AmountCents/100, 0)
	}
	return decimal(p.AmountCents, affiliate.CurrencyExponent(p.Currency))
}

// exportParts is the metadata key of the header Export-Parts: the number of files of an
// export.
const exportParts = "export-parts"

// ExportPayoutBatch streams the payouts of one part of an export. Before that, it records
// the export in the audit log. It changes no payout.
func (s *Service) ExportPayoutBatch(req *affiliatev1.ExportPayoutBatchRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	id, err := server.PathID[payout.BatchID](req.GetBatchId())
	if err != nil {
		return err
	}
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
	file := formats[export.Format]
	return server.StreamCSV(stream, "payouts", scope.Mode, at, file.header, func(w *csv.Writer) error {
		for p, err := range payouts.Export(ctx, s.db, scope, id, export) {
			if err != nil {
				return err
			}
			account, err := s.accountOf(p)
			if err != nil {
				return fmt.Errorf("payout %s: account: %w", p.ID, err)
			}
			file.write(w, p, account)
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

// accountOf decrypts the payout account of a payout. If the payout has no account, the
// result contains only the method.
func (s *Service) accountOf(p payout.ExportedPayout) (payout.Account, error) {
	account := payout.Account{Method: p.Method}
	if p.Account == nil {
		return account, nil
	}
	plain, err := s.seal.Open(p.Account, []byte(p.Partner.String()))
	if err != nil {
		return account, err
	}
	err = json.Unmarshal(plain, &account)
	return account, err
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
