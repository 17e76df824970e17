package postgres_test

import (
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestCountUpTo_CountsAtMostOneRowAboveItsLimit(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	for rows, want := range []int{0, 1, 2, 3, 4, 4, 4} {
		if got := f.Count(postgres.CountUpTo(3, `from generate_series(1, $1::int)`), rows); got != want {
			t.Errorf("CountUpTo(3) of %d rows = %d, want %d", rows, got, want)
		}
	}
}
