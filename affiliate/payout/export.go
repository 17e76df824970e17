package payout

import (
	"fmt"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
)

// ExportFormat is the format of a file with the payouts of a batch.
type ExportFormat string

// The formats.
const (
	ExportGeneric ExportFormat = "generic"
	ExportPayPal  ExportFormat = "paypal"
	ExportWise    ExportFormat = "wise"
)

// MaxRows returns the greatest number of payouts that the provider accepts in one file. It
// is 0 if there is no limit. PayPal and Wise publish these limits.
func (f ExportFormat) MaxRows() int64 {
	switch f {
	case ExportPayPal:
		return 5000
	case ExportWise:
		return 1000
	case ExportGeneric:
	}
	return 0
}

// Method returns the only payout method in a file of the format; nil for all methods.
func (f ExportFormat) Method() *Method {
	var method Method
	switch f {
	case ExportPayPal:
		method = PayPal
	case ExportWise:
		method = Wise
	case ExportGeneric:
		return nil
	}
	return &method
}

// payPalCurrencies are the currencies in which PayPal accepts files of payouts. The value
// says whether the amounts can have decimals
// (https://developer.paypal.com/reference/currency-codes/).
var payPalCurrencies = map[string]bool{
	"AUD": true, "BRL": true, "CAD": true, "CHF": true, "CZK": true, "DKK": true, "EUR": true, "GBP": true, "HKD": true,
	"HUF": false, "ILS": true, "JPY": false, "MXN": true, "MYR": true, "NOK": true, "NZD": true, "PHP": true, "PLN": true,
	"SEK": true, "SGD": true, "THB": true, "TWD": false, "USD": true,
}

// Export selects a file with payouts of a batch.
type Export struct {
	Format   ExportFormat
	Method   *Method // Format.Method
	Currency *string // nil for all currencies
	Part     int64   // Counted from 1
}

// Positions returns the range of the part in the order of the payouts, whose positions count from
// 1. The part has the positions from after+1 to last. The result last is nil if there is no limit.
func (e Export) Positions() (after int64, last *int64) {
	rows := e.Format.MaxRows()
	if rows == 0 {
		return 0, nil
	}
	end := e.Part * rows
	return end - rows, &end
}

// WholeUnits reports whether amounts must have no decimals although the currency has decimals.
func (e Export) WholeUnits() bool {
	if e.Format != ExportPayPal || e.Currency == nil {
		return false
	}
	decimals, known := payPalCurrencies[*e.Currency]
	return known && !decimals && affiliate.CurrencyExponent(*e.Currency) > 0
}

// ExportTotal has the numbers of the confirmed payouts of a batch in one currency.
type ExportTotal struct {
	Currency  string
	Payouts   int64
	Fractions int64 // payouts to be paid whose amount is not a multiple of 100 minor units
}

// Choose returns the export with its currency, and the number of its parts. The totals must be
// of payouts with the export's method. Errors: VALIDATION_ERROR, PAYOUT_STATE_INVALID.
func (e Export) Choose(totals []ExportTotal) (export Export, parts int64, err error) {
	var count, fractions int64
	if e.Method != nil && e.Currency == nil {
		if len(totals) > 1 {
			return e, 0, affiliate.Invalid("currency", "is required, because the batch has payouts in "+currenciesOf(totals))
		}
		if len(totals) == 1 {
			e.Currency = &totals[0].Currency
		}
	}
	for _, total := range totals {
		if e.Currency == nil || *e.Currency == total.Currency {
			count, fractions = count+total.Payouts, fractions+total.Fractions
		}
	}
	if e.Format == ExportPayPal && e.Currency != nil {
		if _, known := payPalCurrencies[*e.Currency]; !known {
			return e, 0, affiliate.Invalid("currency", "must be a currency in which PayPal makes payouts")
		}
	}
	parts = 1
	if rows := e.Format.MaxRows(); rows > 0 {
		parts = max(1, (count+rows-1)/rows)
	}
	if e.Part > parts {
		return e, 0, affiliate.Invalid("part", fmt.Sprintf("must be between 1 and %d", parts))
	}
	if e.WholeUnits() && fractions > 0 {
		refused := affiliate.Refuse(affiliate.ReasonPayoutState)
		refused.Message = fmt.Sprintf("PayPal does not pay fractions of 1 %s. Pay these payouts in another way: %d.", *e.Currency, fractions)
		return e, 0, refused
	}
	return e, parts, nil
}

func currenciesOf(totals []ExportTotal) string {
	names := make([]string, len(totals))
	for i, total := range totals {
		names[i] = total.Currency
	}
	return strings.Join(names, ", ")
}
