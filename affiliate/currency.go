package affiliate

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
