package payout

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge/csv"
	"github.com/tributary-hq/tributary/server"
)

// format is a file format for exported payouts.
type format struct {
	// method is the only payout method that the file contains, or nil for all methods.
	method *affiliate.PayoutMethod
	header []string
	write  func(w *csv.Writer, p affiliate.ExportedPayout, account affiliate.PayoutAccount)
}

var payPal, wise = affiliate.PayoutPayPal, affiliate.PayoutWise

// formats has the definitions of the formats that a request can name. The second format
// is PayPal's file for mass payments. The third format is Wise's file for batch payments
// to recipients with an e-mail address. PayPal and Wise define the columns of their
// files.
var formats = map[affiliatev1.PayoutExportFormat]format{
	affiliatev1.PayoutExportFormat_PAYOUT_EXPORT_FORMAT_GENERIC: {
		header: []string{
			"payoutId", "programName", "participantId", "partnerName", "amountCents", "amount", "currency", "method", "account",
			"accountHolder", "commissionCount", "adjustmentCents", "periodStart", "periodEnd",
		},
		write: func(w *csv.Writer, p affiliate.ExportedPayout, account affiliate.PayoutAccount) {
			w.ID(p.ID.UUID)
			w.Text(p.ProgramName)
			w.ID(p.Participant.UUID)
			w.Text(p.PartnerName)
			w.Int(p.AmountCents)
			w.Text(decimal(p.AmountCents, p.Currency))
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
	affiliatev1.PayoutExportFormat_PAYOUT_EXPORT_FORMAT_PAYPAL: {
		method: &payPal,
		header: []string{"Recipient", "Amount", "Currency", "Customer ID", "Note", "Recipient wallet"},
		write: func(w *csv.Writer, p affiliate.ExportedPayout, account affiliate.PayoutAccount) {
			w.Text(account.Account)
			w.Text(decimal(p.AmountCents, p.Currency))
			w.Text(p.Currency)
			w.Text(strings.ReplaceAll(p.ID.String(), "-", "")[:payPalIDLength])
			w.Text(p.ProgramName)
			w.Text("PAYPAL")
		},
	},
	affiliatev1.PayoutExportFormat_PAYOUT_EXPORT_FORMAT_WISE: {
		method: &wise,
		header: []string{"name", "recipientEmail", "paymentReference", "amount", "amountCurrency", "sourceCurrency", "targetCurrency", "type"},
		write: func(w *csv.Writer, p affiliate.ExportedPayout, account affiliate.PayoutAccount) {
			name := account.Holder
			if name == "" {
				name = p.PartnerName
			}
			w.Text(name)
			w.Text(account.Account)
			w.ID(p.ID.UUID)
			w.Text(decimal(p.AmountCents, p.Currency))
			w.Text("target")
			w.Text(p.Currency)
			w.Text(p.Currency)
			w.Text("EMAIL")
		},
	},
}

// payPalIDLength is the maximum length of a customer id in PayPal's file.
const payPalIDLength = 30

// ExportPayoutBatch changes the status of the batch's pending payouts to processing. It
// then streams all payouts of the batch that are processing. If the format is for one
// payout method, both steps apply only to payouts with this method.
func (s *Service) ExportPayoutBatch(req *affiliatev1.ExportPayoutBatchRequest, stream grpc.ServerStreamingServer[httpbody.HttpBody]) error {
	id, err := server.PathID[affiliate.PayoutBatch](req.GetBatchId())
	if err != nil {
		return err
	}
	file, ok := formats[req.GetFormat()]
	if !ok {
		file = formats[affiliatev1.PayoutExportFormat_PAYOUT_EXPORT_FORMAT_GENERIC]
	}
	ctx := stream.Context()
	scope, at := server.PrincipalFrom(ctx).Scope(), s.currentTime()
	if err := s.store.SendPayouts(ctx, scope, id, file.method, at, server.ActorFrom(ctx)); err != nil {
		return err
	}
	return server.StreamCSV(stream, "payouts", scope.Mode, at, file.header, func(w *csv.Writer) error {
		for p, err := range s.store.ExportPayouts(ctx, scope, id, file.method) {
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

// accountOf decrypts the payout account of a payout. If the payout has no account, the
// result contains only the method.
func (s *Service) accountOf(p affiliate.ExportedPayout) (affiliate.PayoutAccount, error) {
	account := affiliate.PayoutAccount{Method: p.Method}
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

// decimal formats a positive amount in major units of the currency, for example 1234
// cents as "12.34".
func decimal(cents int64, currency string) string {
	digits, exponent := strconv.FormatInt(cents, 10), affiliate.CurrencyExponent(currency)
	if exponent == 0 {
		return digits
	}
	if missing := exponent + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	return digits[:len(digits)-exponent] + "." + digits[len(digits)-exponent:]
}
