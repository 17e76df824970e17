package attribution

import (
	"math/big"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// MaxFXAge is the greatest age that an exchange rate may have on the UTC day of the sale.
// No rates are published on weekends and holidays.
const MaxFXAge = 7 * 24 * time.Hour

// fxDigits is the number of significant digits of a computed rate.
const fxDigits = 10

// roundRat rounds r half away from zero. ok is false if it does not fit into 64 bits.
func roundRat(r *big.Rat) (n int64, ok bool) {
	doubled := new(big.Int).Lsh(new(big.Int).Abs(r.Num()), 1)
	doubled.Add(doubled, r.Denom())
	doubled.Quo(doubled, new(big.Int).Lsh(r.Denom(), 1))
	if r.Sign() < 0 {
		doubled.Neg(doubled)
	}
	return doubled.Int64(), doubled.IsInt64()
}

// FXDay returns the day whose rates apply to an event at an instant.
func FXDay(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

// FindRate returns the rate that converts a sale of the given day from one currency to another.
// It uses the latest date with a suitable rate that is not after the given day and at most
// MaxFXAge before this day. If the date has several suitable rates, FindRate prefers the rate
// of the pair itself, then the inverse of the opposite pair, then the quotient of two rates
// with a common base currency, of which it uses the alphabetically first.
//
// A computed rate is rounded to fxDigits significant digits before it is used, so that
// a person can repeat a conversion with the rate that is shown next to the amount.
func FindRate(rates []FXRate, from, to string, day time.Time) (found FXRate, ok bool) {
	type pair struct {
		date        int64
		base, quote string
	}
	known := make(map[pair]*big.Rat, len(rates))
	for _, rate := range rates {
		if ratio, ok := rate.ratio(); ok {
			known[pair{rate.Date.Unix(), rate.Base, rate.Quote}] = ratio
		}
	}
	for age := time.Duration(0); age <= MaxFXAge; age += 24 * time.Hour {
		date := day.Add(-age)
		found = FXRate{Base: from, Quote: to, Date: date}
		at := date.Unix()
		if direct, ok := known[pair{at, from, to}]; ok {
			found.Rate = decimal(direct)
			return found, true
		}
		if inverse, ok := known[pair{at, to, from}]; ok {
			found.Rate = significant(new(big.Rat).Inv(inverse))
			return found, true
		}
		base := ""
		for p := range known {
			if p.date != at || p.quote != from || base != "" && p.base >= base {
				continue
			}
			if _, ok := known[pair{at, p.base, to}]; ok {
				base = p.base
			}
		}
		if base != "" {
			found.Rate = significant(new(big.Rat).Quo(known[pair{at, base, to}], known[pair{at, base, from}]))
			return found, true
		}
	}
	return FXRate{}, false
}

// decimal formats a number with a finite decimal expansion, without trailing zeros.
func decimal(r *big.Rat) string {
	places, _ := r.FloatPrec()
	return r.FloatString(places)
}

// significant formats a positive number, rounded to fxDigits significant digits.
func significant(r *big.Rat) string {
	// unit is the value of the last digit: r ÷ unit has fxDigits digits before the point.
	ten, unit := big.NewRat(10, 1), big.NewRat(1, 1)
	least := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(fxDigits-1), nil))
	most := new(big.Rat).Mul(least, ten)
	for new(big.Rat).Quo(r, unit).Cmp(most) >= 0 {
		unit.Mul(unit, ten)
	}
	for new(big.Rat).Quo(r, unit).Cmp(least) < 0 {
		unit.Quo(unit, ten)
	}
	digits, _ := roundRat(new(big.Rat).Quo(r, unit))
	return decimal(unit.Mul(unit, big.NewRat(digits, 1)))
}

// convert converts an amount in the currency of the sale to a programme's currency and
// rounds it. ok is false if there is no rate, or if the result is above MaxAmountCents.
// In both cases, a person has to review the commission.
func (in Inputs) convert(m affiliate.Money, currency string) (cents int64, ok bool) {
	if m.Currency == currency {
		return m.Cents, true
	}
	rate, ok := in.Rates[currency]
	if !ok {
		return 0, false
	}
	cents, ok = rate.Convert(new(big.Rat).SetInt64(m.Cents))
	return cents, ok && cents <= affiliate.MaxAmountCents
}

// FXLoad has the numbers of rates that were added, changed and left unchanged.
type FXLoad struct{ New, Changed, Same int }

// LoadRates is the job that loads the operator's file of exchange rates.
type LoadRates struct{}

// Kind returns the name of the job.
func (LoadRates) Kind() string { return "load_fx_rates" }

// ParseRate parses a rate from a file: a positive decimal number without sign and exponent,
// with at most 12 digits before and at most 12 after the point. The result has no unnecessary
// zeros.
func ParseRate(s string) (rate string, ok bool) {
	whole, fraction, point := strings.Cut(s, ".")
	if !digitsOnly(whole) || point && !digitsOnly(fraction) {
		return "", false
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || r.Sign() <= 0 {
		return "", false
	}
	return decimal(r), true
}

func digitsOnly(s string) bool {
	const most = 12
	return s != "" && len(s) <= most && strings.Trim(s, "0123456789") == ""
}
