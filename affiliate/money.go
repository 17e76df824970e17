package affiliate

import "math/bits"

// MaxAmountCents bounds every amount that comes in. It leaves room for products
// of two amounts and a rate in 128 bits.
const MaxAmountCents = 1_000_000_000_000

// WholeBps is 100 percent in basis points.
const WholeBps = 10_000

// Money is an amount in minor units of a currency. Amounts of different
// currencies are never added or compared.
type Money struct {
	Cents    int64
	Currency string // ISO 4217; empty where there is no amount at all
}

// Share is the part of cents that a rate in basis points is, rounded once.
func Share(cents, rateBps int64) int64 { return mustMulDiv(cents, rateBps, WholeBps) }

// mustMulDiv is mulDiv of amounts and rates, which are bounded where they come
// in, far below what does not fit.
func mustMulDiv(a, b, c int64) int64 {
	result, ok := mulDiv(a, b, c)
	if !ok {
		panic("affiliate: a share does not fit into 64 bits")
	}
	return result
}

// mulDiv is a × b ÷ c, rounded half away from zero: the one rounding rule for
// money. The product has 128 bits, so only the result can be too large; ok is
// false then, and when c is zero.
func mulDiv(a, b, c int64) (result int64, ok bool) {
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
	// remainder ≥ divisor/2, said without a division that would lose the half.
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

// magnitude is |n|, which for the smallest int64 fits only unsigned.
func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
