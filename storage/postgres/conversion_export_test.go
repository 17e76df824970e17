package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The statements whose plans are asserted.
const (
	FindClickSQL       = findClick
	StoredAwaitedSQL   = storedAwaited
	LockPromoCodeSQL   = lockPromoCode
	FindPromoCodeSQL   = findPromoCode
	FindBindingSQL     = findBinding
	FindPaymentsSQL    = findPayments
	RecountPaymentsSQL = recountPayments
	FindEarnedSQL      = findEarned
	FindParticipantSQL = findParticipant
)

// Traced is a store of the same database whose connections tell a tracer what
// they do.
func (s *Store) Traced(t *testing.T, url string, tracer pgx.QueryTracer) *Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	config.AfterConnect = assumeAppRole
	config.ConnConfig.Tracer = tracer
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &Store{pool: pool, jobs: s.jobs}
}
