package account_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// fixture is a shop. Its time is always noon.
type fixture struct{ *pgtest.Shop }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	noon := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	shop := pgtest.Open(t, func() time.Time { return noon }).NewShop(affiliate.ModeLive)
	return &fixture{shop}
}
