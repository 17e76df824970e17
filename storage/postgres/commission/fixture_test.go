package commission_test

import (
	"testing"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// fixture is a shop with a clock that starts at noon.
type fixture struct{ *pgtest.NoonShop }

// newFixture creates a shop. The rows in program replace columns of its programme.
func newFixture(t *testing.T, program ...pgtest.Row) *fixture {
	t.Helper()
	return &fixture{pgtest.OpenNoonShop(t, program...)}
}
