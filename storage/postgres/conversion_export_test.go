package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Statements whose query plans the tests check.
const (
	SelectClicksSQL         = selectClicks
	StoredAwaitedSQL        = selectStoredAwaited
	LockPromoCodeSQL        = lockPromoCode
	FindPromoCodeSQL        = findPromoCode
	FindBindingSQL          = findBinding
	FindPaymentsSQL         = findPayments
	SelectKnownCustomerSQL  = selectKnownCustomer
	RecountPaymentsSQL      = recountPayments
	FindActiveCommissionSQL = findActiveCommission
	FindParticipantSQL      = findParticipant
)

// RecordConcurrency is the maximum number of batches that are recorded at the same time.
const RecordConcurrency = recordConcurrency

// RunningBatches returns the number of batches that are being recorded.
func (s *Store) RunningBatches() int {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	return s.recorder.running
}

// WaitingReports returns the number of reports that wait for the next batch.
func (s *Store) WaitingReports() int {
	s.recorder.mu.Lock()
	defer s.recorder.mu.Unlock()
	return len(s.recorder.waiting)
}

// WithTracer returns a store with one connection to the database at url. The tracer
// receives the queries of this store.
func (s *Store) WithTracer(t *testing.T, url string, tracer pgx.QueryTracer) *Store {
	t.Helper()
	return s.with(t, url, func(config *pgxpool.Config) {
		config.MaxConns = 1
		config.ConnConfig.Tracer = tracer
	})
}

// WithDialer returns a store for the database at url that opens connections with the
// function dial.
func (s *Store) WithDialer(t *testing.T, url string, dial pgconn.DialFunc) *Store {
	t.Helper()
	return s.with(t, url, func(config *pgxpool.Config) { config.ConnConfig.DialFunc = dial })
}

func (s *Store) with(t *testing.T, url string, set func(*pgxpool.Config)) *Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.AfterConnect = prepareConn(nil)
	set(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return newStore(&DB{
		pool: pool, groups: pool, jobs: s.jobs,
		onDeliveries: s.onDeliveries, onDirectoryChange: s.onDirectoryChange, onNotifications: s.onNotifications, onEvent: s.onEvent,
	})
}
