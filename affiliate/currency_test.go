package affiliate

import (
	"strings"
	"testing"
)

func TestParseCurrency(t *testing.T) {
	for in, want := range map[string]string{
		"EUR": "EUR", "usd": "USD", "Jpy": "JPY", "zwg": "ZWG",
		"": "", "EU": "", "EURO": "", "XXX": "", "XAU": "", "DEM": "", "E R": "", "é1": "", " EU": "",
	} {
		code, ok := ParseCurrency(in)
		if code != want || ok != (want != "") {
			t.Errorf("ParseCurrency(%q) = %q, %v; want %q", in, code, ok, want)
		}
	}
}

func TestCurrencies_ListIsWellFormed(t *testing.T) {
	codes := strings.Fields(currencies)
	if len(codes) != len(currencyExponents) {
		t.Errorf("%d codes in the list, but %d currencies: a code is repeated or the spacing is wrong", len(codes), len(currencyExponents))
	}
	for i, code := range codes {
		if len(code) != 3 || code != strings.ToUpper(code) {
			t.Errorf("%q is not a currency code", code)
		}
		if i > 0 && codes[i-1] >= code {
			t.Errorf("%s is listed after %s", code, codes[i-1])
		}
	}
	for code := range exponents {
		if _, ok := ParseCurrency(code); !ok {
			t.Errorf("%s has an exponent but is not in the list", code)
		}
	}
}

func TestCurrencyExponent(t *testing.T) {
	for code, want := range map[string]int{"EUR": 2, "USD": 2, "JPY": 0, "KRW": 0, "KWD": 3, "TND": 3, "nonsense": 2} {
		if got := CurrencyExponent(code); got != want {
			t.Errorf("CurrencyExponent(%q) = %d, want %d", code, got, want)
		}
	}
}
