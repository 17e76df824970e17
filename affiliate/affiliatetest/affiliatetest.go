// Package affiliatetest has values and comparisons for the tests of package affiliate and the packages below
// it. It imports only package affiliate, so that the internal tests of these packages can import it.
package affiliatetest

import (
	"errors"
	"math/big"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
)

// Noon is the time of the examples.
var Noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// ID returns a UUIDv7 whose time is 16 minutes after Noon and whose last byte is n.
func ID[I affiliate.AnyID](n byte) I {
	id := uuid.MustParse("019ca954-0400-7000-8000-000000000000")
	id[15] = n
	return I{id}
}

// Scope is the scope of the examples.
var Scope = affiliate.Scope{Workspace: ID[affiliate.WorkspaceID](1), Mode: affiliate.ModeLive}

// WantRefusal compares all fields of an error, not only its reason.
func WantRefusal(t testing.TB, err error, want *affiliate.Error) {
	t.Helper()
	var got *affiliate.Error
	if !errors.As(err, &got) || !reflect.DeepEqual(got, want) {
		t.Errorf("error %#v, want %#v", err, want)
	}
}

// FirstN returns the first n elements of a sequence.
func FirstN(n int, sequence func(func(string) bool)) []string {
	var out []string
	for s := range sequence {
		if out = append(out, s); len(out) == n {
			break
		}
	}
	return out
}

// RoundedQuotient returns a × b ÷ c, computed with arbitrary precision and rounded half
// away from zero.
func RoundedQuotient(a, b, c int64) *big.Int {
	product := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	divisor := big.NewInt(c)
	negative := product.Sign()*divisor.Sign() < 0
	product.Abs(product)
	divisor.Abs(divisor)
	// (2p + d) / 2d is p/d rounded half up.
	product.Lsh(product, 1).Add(product, divisor)
	product.Quo(product, new(big.Int).Lsh(divisor, 1))
	if negative {
		product.Neg(product)
	}
	return product
}
