package stripe_test

import (
	"math"
	"testing"

	stripego "github.com/stripe/stripe-go/v85"

	"github.com/tributary-hq/tributary/server/processor/stripe"
)

func TestFromStripe(t *testing.T) {
	for name, test := range map[string]struct {
		amount   int64
		currency string
		want     int64
	}{
		"two decimals":               {1999, "EUR", 1999},
		"no decimals":                {1999, "JPY", 1999},
		"XPF has no decimals":        {120, "XPF", 120},
		"three decimals":             {1990, "KWD", 1990},
		"ISK":                        {199_900, "ISK", 1_999},
		"ISK is rounded half up":     {150, "ISK", 2},
		"ISK is rounded down":        {149, "ISK", 1},
		"UGX":                        {50_000, "UGX", 500},
		"MGA":                        {500, "MGA", 50_000},
		"IQD is two decimals there":  {500, "IQD", 5_000},
		"LYD is two decimals there":  {1, "LYD", 10},
		"zero":                       {0, "MGA", 0},
		"the greatest amount":        {math.MaxInt64, "MGA", math.MaxInt64 / 1_000},
		"the least amount":           {math.MinInt64, "USD", -(math.MaxInt64 / 1_000)},
		"half of a negative amount":  {-150, "ISK", -1},
		"HUF and TWD keep two":       {12_345, "HUF", 12_345},
		"a three-decimal TND amount": {12_340, "TND", 12_340},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stripe.FromStripe(test.amount, test.currency); got != test.want {
				t.Errorf("%d %s is %d in ISO 4217, want %d", test.amount, test.currency, got, test.want)
			}
		})
	}
}

func TestToStripe(t *testing.T) {
	for name, test := range map[string]struct {
		cents    int64
		currency string
		want     int64
	}{
		"two decimals":           {1999, "USD", 1999},
		"no decimals":            {500, "KRW", 500},
		"ISK ends in 00":         {1_999, "ISK", 199_900},
		"UGX ends in 00":         {500, "UGX", 50_000},
		"MGA":                    {50_000, "MGA", 500},
		"MGA is rounded half up": {150, "MGA", 2},
		"KWD ends in 0":          {1_995, "KWD", 2_000},
		"KWD is rounded down":    {1_994, "KWD", 1_990},
		"IQD":                    {5_000, "IQD", 500},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stripe.ToStripe(test.cents, test.currency); got != test.want {
				t.Errorf("%d %s is %d at Stripe, want %d", test.cents, test.currency, got, test.want)
			}
		})
	}
}

func TestConvertFee(t *testing.T) {
	for name, test := range map[string]struct {
		fee      int64
		currency stripego.Currency
		rate     float64
		sale     string
		want     int64
		ok       bool
	}{
		"same currency":                  {175, "usd", 0, "USD", 175, true},
		"other currency":                 {123, "usd", 1.23, "EUR", 100, true},
		"decimal text of the rate":       {3, "usd", 1.2, "EUR", 3, true}, // 2.5; the float 1.2 is less than 1.2
		"rounded down":                   {3, "usd", 1.25, "EUR", 2, true},
		"sale without decimals":          {67, "usd", 0.67, "JPY", 100, true},
		"sale in ISK":                    {72, "usd", 0.0072, "ISK", 100, true},
		"no rate":                        {175, "usd", 0, "EUR", 0, false},
		"negative rate":                  {175, "usd", -1, "EUR", 0, false},
		"rate that is not a number":      {175, "usd", math.NaN(), "EUR", 0, false},
		"unknown currency":               {175, "xxx", 1, "EUR", 0, false},
		"transaction that is only an id": {0, "", 0, "EUR", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := stripe.ConvertFee(&stripego.BalanceTransaction{Fee: test.fee, Currency: test.currency, ExchangeRate: test.rate}, test.sale)
			if got != test.want || ok != test.ok {
				t.Errorf("the fee is %d, %v, want %d, %v", got, ok, test.want, test.ok)
			}
		})
	}
}
