package stripe

import (
	"math"
	"math/big"
	"strconv"

	"github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
)

// Stripe's minor units differ from ISO 4217 for some currencies. Source:
// https://docs.stripe.com/currencies. Stripe's ISK and UGX have two decimals that are always
// 00, and MGA has none. Currencies that are not in the map have two decimals.
var stripeExponents = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "JPY": 0, "KMF": 0, "KRW": 0, "MGA": 0, "PYG": 0, "RWF": 0,
	"VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "JOD": 3, "KWD": 3, "OMR": 3, "TND": 3,
}

// stripeSteps are the units in which Stripe accepts amounts, for currencies whose amounts
// must end in zeros.
var stripeSteps = map[string]int64{
	"ISK": 100, "UGX": 100,
	"BHD": 10, "JOD": 10, "KWD": 10, "OMR": 10, "TND": 10,
}

const defaultStripeExponent = 2

// stripeExponent returns the number of decimals of Stripe's minor unit.
func stripeExponent(currency string) int {
	if exponent, listed := stripeExponents[currency]; listed {
		return exponent
	}
	return defaultStripeExponent
}

// fromStripe converts an amount in Stripe's minor units into minor units of ISO 4217. It
// rounds half up if digits are lost.
func fromStripe(amount int64, currency string) int64 {
	return roundHalfUp(isoAmount(new(big.Rat).SetInt64(amount), currency))
}

// toStripe converts an amount in minor units of ISO 4217 into an amount that Stripe accepts.
// It rounds half up if digits are lost.
func toStripe(cents int64, currency string) int64 {
	amount := scale(new(big.Rat).SetInt64(cents), stripeExponent(currency)-affiliate.CurrencyExponent(currency))
	step, listed := stripeSteps[currency]
	if !listed {
		return roundHalfUp(amount)
	}
	return roundHalfUp(amount.Quo(amount, new(big.Rat).SetInt64(step))) * step
}

// isoAmount converts an amount in Stripe's minor units into minor units of ISO 4217.
func isoAmount(amount *big.Rat, currency string) *big.Rat {
	return scale(amount, affiliate.CurrencyExponent(currency)-stripeExponent(currency))
}

// scale returns amount × 10^digits.
func scale(amount *big.Rat, digits int) *big.Rat {
	ten := big.NewRat(10, 1)
	for ; digits > 0; digits-- {
		amount = new(big.Rat).Mul(amount, ten)
	}
	for ; digits < 0; digits++ {
		amount = new(big.Rat).Quo(amount, ten)
	}
	return amount
}

// roundHalfUp rounds to the nearest integer. A half is rounded up. The result is limited to
// a thousandth of the range of int64. Stripe's amounts have at most 12 digits, so the limit
// only prevents overflows in sums of amounts that are not Stripe's.
func roundHalfUp(amount *big.Rat) int64 {
	const limit = math.MaxInt64 / 1_000
	doubled := new(big.Int).Lsh(amount.Num(), 1)
	doubled.Add(doubled, amount.Denom())
	// Div is the Euclidean division. It is the floor here because the divisor is positive.
	rounded := doubled.Div(doubled, new(big.Int).Lsh(amount.Denom(), 1))
	switch {
	case rounded.Cmp(big.NewInt(limit)) > 0:
		return limit
	case rounded.Cmp(big.NewInt(-limit)) < 0:
		return -limit
	}
	return rounded.Int64()
}

// convertFee returns the fee of a balance transaction in minor units of ISO 4217 of the sale's
// currency. Stripe takes the fee in the currency of the merchant's balance. ok is false if
// this currency is unknown, or if the currencies differ and the exchange rate is missing.
func convertFee(transaction *stripe.BalanceTransaction, currency string) (cents int64, ok bool) {
	balanceCurrency, known := affiliate.ParseCurrency(string(transaction.Currency))
	if !known {
		return 0, false
	}
	fee := new(big.Rat).SetInt64(transaction.Fee)
	if balanceCurrency != currency {
		// The rate applies to Stripe's minor units: the amount of the charge × rate is the
		// amount of the balance transaction. The shortest decimal text of the float is the
		// number that Stripe sent.
		rate, valid := new(big.Rat).SetString(strconv.FormatFloat(transaction.ExchangeRate, 'f', -1, 64))
		if !valid || rate.Sign() <= 0 {
			return 0, false
		}
		fee.Quo(fee, rate)
	}
	return max(0, roundHalfUp(isoAmount(fee, currency))), true
}

// newSale returns the amounts of a sale. The arguments are in Stripe's minor units. Tax and
// shipping together are never more than the paid amount.
func newSale(currency string, paid, tax, shipping int64) attribution.Sale {
	total := max(0, fromStripe(paid, currency))
	sale := attribution.Sale{Money: affiliate.Money{Cents: total, Currency: currency}}
	sale.TaxCents = min(max(0, fromStripe(tax, currency)), total)
	sale.ShippingCents = min(max(0, fromStripe(shipping, currency)), total-sale.TaxCents)
	return sale
}
