package affiliate

import (
	"math/big"
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

// Convert turns minor units of Base, whole or not, into minor units of Quote,
// rounded half away from zero: the one rounding of an amount in two currencies.
// ok is false when Rate is no positive decimal or the result does not fit.
func (r FXRate) Convert(amount *big.Rat) (cents int64, ok bool) {
	rate, ok := new(big.Rat).SetString(r.Rate)
	if !ok || rate.Sign() <= 0 {
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
