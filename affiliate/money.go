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

// defaultExponent is the number of decimals of most currencies. exponents lists the
// currencies with another number.
const defaultExponent = 2

// currencies lists the active codes of ISO 4217 in which a sale can be priced. It does
// not list metals and testing codes (XAU, XTS, XXX). It does not list funds and units of
// account (CHE, CLF, COU, UYI, XDR, …) either, because buyers do not pay in them.
const currencies = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD " +
	"CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF " +
	"GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP " +
	"LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB " +
	"PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL " +
	"THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XCG XOF XPF YER ZAR ZMW ZWG"

// exponents holds the currencies whose minor unit is not a hundredth.
var exponents = map[string]int{
	"BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0,
	"UGX": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
	"BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
}

var currencyExponents = func() map[string]int {
	all := make(map[string]int, len(currencies)/4+1)
	for i := 0; i < len(currencies); i += 4 {
		code := currencies[i : i+3]
		exponent, listed := exponents[code]
		if !listed {
			exponent = defaultExponent
		}
		all[code] = exponent
	}
	return all
}()

// ParseCurrency parses an ISO 4217 code in upper or lower case and returns it in upper
// case. ok is false if it is not an active currency.
func ParseCurrency(s string) (code string, ok bool) {
	if len(s) != 3 {
		return "", false
	}
	upper := [3]byte{s[0], s[1], s[2]}
	for i, c := range upper {
		if 'a' <= c && c <= 'z' {
			upper[i] = c - 'a' + 'A'
		}
	}
	code = string(upper[:])
	_, ok = currencyExponents[code]
	if !ok {
		return "", false
	}
	return code, true
}

// CurrencyExponent returns the number of decimals of the currency: 2 for EUR, 0 for
// JPY, 3 for KWD. It returns 2 for an unknown code.
func CurrencyExponent(code string) int {
	if exponent, ok := currencyExponents[code]; ok {
		return exponent
	}
	return defaultExponent
}
