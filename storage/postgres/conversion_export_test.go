package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The statements whose plans are asserted.
const (
	SelectClicksSQL    = selectClicks
	StoredAwaitedSQL   = selectStoredAwaited
	LockPromoCodeSQL   = lockPromoCode
	FindPromoCodeSQL   = findPromoCode
	FindBindingSQL     = findBinding
	FindPaymentsSQL    = findPayments
	RecountPaymentsSQL = recountPayments
	FindEarnedSQL      = findEarned
	FindParticipantSQL = findParticipant
)

// Recorders is how many batches are at work at the same time.
const Recorders = recorders

// Recording is how many batches are at work.
func (s *Store) Recording() int {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	return s.recorder.running
}

// Waiting is how many reports wait for the next batch.
func (s *Store) Waiting() int {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	return len(s.recorder.waiting)
}

// Traced is a store of the same database whose connections tell a tracer what
// they do.
func (s *Store) Traced(t *testing.T, url string, tracer pgx.QueryTracer) *Store {
	t.Helper()
	return s.with(t, url, func(config *pgxpool.Config) {
		config.MaxConns = 1
		config.ConnConfig.Tracer = tracer
	})
}

// Through is a store of the same database behind another network.
func (s *Store) Through(t *testing.T, url string, dial pgconn.DialFunc) *Store {
	t.Helper()
	return s.with(t, url, func(config *pgxpool.Config) { config.ConnConfig.DialFunc = dial })
}

func (s *Store) with(t *testing.T, url string, set func(*pgxpool.Config)) *Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.AfterConnect = prepareConn
	set(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return newStore(&DB{pool: pool, gathered: pool, jobs: s.jobs, onDeliveries: s.onDeliveries, onDirectoryChange: s.onDirectoryChange})
}
