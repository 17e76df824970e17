package affiliate

import (
	"math/big"
	"strings"
	"time"
)

// FXRate says how much of Quote one of Base is, in major units, on a day.
type FXRate struct {
	Base, Quote string    // ISO 4217
	Date        time.Time // 00:00 UTC
	Rate        string    // decimal, positive
}

// MaxFXAge is how old, before the UTC day of a sale, a rate may be that converts
// it (DECISIONS.md section 1).
const MaxFXAge = 7 * 24 * time.Hour

// fxDigits is how many significant digits a rate is written with that was
// computed from others.
const fxDigits = 10

// Convert turns minor units of Base, whole or not, into minor units of Quote,
// rounded half away from zero: the one rounding of an amount in two currencies.
// ok is false when Rate is no positive decimal or the result does not fit.
func (r FXRate) Convert(amount *big.Rat) (cents int64, ok bool) {
	rate, ok := r.ratio()
	if !ok {
		return 0, false
	}
	exact := new(big.Rat).Mul(amount, rate)
	scale := big.NewInt(1)
	shift := CurrencyExponent(r.Quote) - CurrencyExponent(r.Base)
	scale.Exp(big.NewInt(10), big.NewInt(int64(max(shift, -shift))), nil)
	if shift >= 0 {
		exact.Mul(exact, new(big.Rat).SetInt(scale))
	} else {
		exact.Quo(exact, new(big.Rat).SetInt(scale))
	}
	return roundRat(exact)
}

func (r FXRate) ratio() (rate *big.Rat, ok bool) {
	rate, ok = new(big.Rat).SetString(r.Rate)
	return rate, ok && rate.Sign() > 0
}

// roundRat rounds half away from zero.
func roundRat(r *big.Rat) (n int64, ok bool) {
	doubled := new(big.Int).Lsh(new(big.Int).Abs(r.Num()), 1)
	doubled.Add(doubled, r.Denom())
	doubled.Quo(doubled, new(big.Int).Lsh(r.Denom(), 1))
	if r.Sign() < 0 {
		doubled.Neg(doubled)
	}
	return doubled.Int64(), doubled.IsInt64()
}

// FXDay is the day whose rates convert what happened at an instant.
func FXDay(at time.Time) time.Time { return at.UTC().Truncate(24 * time.Hour) }

// FindRate is the rate from one currency to another by which a sale of a day is
// converted, out of rates as they were loaded: that of the latest date, no later
// than the day and no older than MaxFXAge, for which there is any. Of one date
// the pair itself is preferred, then the inverse of the opposite pair, then the
// quotient of what both cost in one base, the first by name. What was computed
// is rounded to fxDigits significant digits before anything is converted by it,
// so that an amount can be done again by hand from the rate that stands beside it.
func FindRate(loaded []FXRate, from, to string, day time.Time) (found FXRate, ok bool) {
	type pair struct {
		date        int64
		base, quote string
	}
	known := make(map[pair]*big.Rat, len(loaded))
	for _, rate := range loaded {
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

// decimal writes a number that has an end, without needless zeros.
func decimal(r *big.Rat) string {
	places, _ := r.FloatPrec()
	return r.FloatString(places)
}

// significant writes a positive number rounded to fxDigits significant digits.
func significant(r *big.Rat) string {
	// unit is the weight of the last digit that stays: r ÷ unit has fxDigits digits
	// before the point.
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

// convert is an amount of the sale's currency in a programme's, rounded. ok is
// false when there is no rate, or when the result is beyond MaxAmountCents: then
// a person decides as well.
func (in AttributionInputs) convert(m Money, currency string) (cents int64, ok bool) {
	if m.Currency == currency {
		return m.Cents, true
	}
	rate, ok := in.Rates[currency]
	if !ok {
		return 0, false
	}
	cents, ok = rate.Convert(new(big.Rat).SetInt64(m.Cents))
	return cents, ok && cents <= MaxAmountCents
}

// FXLoad tells what loading rates changed.
type FXLoad struct{ New, Changed, Same int }

// LoadRates loads the operator's file of rates of exchange.
type LoadRates struct{}

// Kind names the job.
func (LoadRates) Kind() string { return "load_fx_rates" }

// ParseRate reads a rate as files have it: a positive decimal without sign and
// exponent, of at most 12 digits on either side of the point. It comes back
// without needless zeros.
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
