package affiliate

import (
	"fmt"
	"math/bits"
)

// MaxAmountCents is the greatest amount in a request. The product of two such amounts
// and a rate fits into 128 bits.
const MaxAmountCents = 1_000_000_000_000

// WholeBps is 100 percent in basis points.
const WholeBps = 10_000

// Money is an amount in minor units of a currency. Amounts of different currencies are
// never added or compared.
type Money struct {
	Cents    int64  `db:"amount_cents"`
	Currency string `db:"currency,nullable"` // ISO 4217; empty if there is no amount
}

// Share returns cents × rateBps ÷ WholeBps, rounded once.
func Share(cents, rateBps int64) int64 { return MustMulDiv(cents, rateBps, WholeBps) }

// MustMulDiv is MulDiv for amounts and rates. Requests with larger amounts or rates than
// allowed are rejected, so the result always fits into 64 bits.
func MustMulDiv(a, b, c int64) int64 {
	result, ok := MulDiv(a, b, c)
	if !ok {
		panic("affiliate: an amount does not fit into 64 bits")
	}
	return result
}

// MulDiv returns a × b ÷ c, rounded half away from zero. All amounts of money are
// rounded this way. ok is false if the result does not fit into 64 bits, or if c is
// zero. The product is computed with 128 bits, so it always fits.
func MulDiv(a, b, c int64) (result int64, ok bool) {
	if c == 0 {
		return 0, false
	}
	negative := (a < 0) != (b < 0) != (c < 0)
	divisor := magnitude(c)
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if hi >= divisor {
		return 0, false
	}
	quotient, remainder := bits.Div64(hi, lo, divisor)
	// Round up if remainder ≥ divisor ÷ 2. An integer division by 2 would round an odd
	// divisor, so the comparison is written without it.
	if remainder >= divisor-remainder {
		quotient++
		if quotient == 0 {
			return 0, false
		}
	}
	const minMagnitude = 1 << 63
	switch {
	case negative && quotient <= minMagnitude:
		return -int64(quotient), true
	case !negative && quotient < minMagnitude:
		return int64(quotient), true
	}
	return 0, false
}

// magnitude returns |n|. It is unsigned, because the magnitude of the smallest int64
// does not fit into an int64.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// FormatMoney formats an amount for people, for example 49.00 EUR.
func FormatMoney(m Money) string {
	decimals := CurrencyExponent(m.Currency)
	digits := fmt.Sprintf("%0*d", decimals+1, m.Cents)
	if decimals > 0 {
		point := len(digits) - decimals
		digits = digits[:point] + "." + digits[point:]
	}
	return digits + " " + m.Currency
}

// OrZero returns *n, or 0 if n is nil.
func OrZero(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
