package postgres_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// partitionCases are the partitioned tables: how a row is inserted, and how the partitions
// for its day or week and for the one before are created.
var partitionCases = []struct {
	table, create string
	insert        func(*pgtest.Shop, pgtest.Participant) error
}{
	{"events", `select ensure_week_partitions('events', $1::date - 7, $1::date)`, func(s *pgtest.Shop, _ pgtest.Participant) error {
		return postgres.Publish(s.Context(), s.DB, succeed, affiliate.NewEvent(s.Scope, "payout.paid", s.Now(), nil, nil))
	}},
	{"notifications", `select ensure_week_partitions('notifications', $1::date - 7, $1::date)`, func(s *pgtest.Shop, jane pgtest.Participant) error {
		n := notification.NewNotification(affiliate.Partner, notification.PartnerFeed(jane.Partner), notification.NotifyVerifyEmail, nil, s.Now())
		return s.DB.InTx(s.Context(), func(tx *postgres.Tx) error { return tx.Notify(s.Context(), n) })
	}},
	{"clicks", `select ensure_click_partitions($1::date - 1, $1::date)`, func(s *pgtest.Shop, jane pgtest.Participant) error {
		return clicks.Store(s.Context(), s.DB, []click.Click{s.UnstoredClick(jane)})
	}},
}

// createPartition creates partitions in a transaction and runs during in another
// goroutine. It commits the transaction when during waits for a lock, and returns the
// error of during.
func createPartition(s *pgtest.Shop, create string, during func() error) error {
	s.Helper()
	tx, err := s.DB.Pools()["calls"].Begin(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	var created int
	if err := tx.QueryRow(s.Context(), create, s.Now().UTC()).Scan(&created); err != nil || created == 0 {
		s.Fatalf("%d partitions were created, %v, want at least 1", created, err)
	}
	result := make(chan error, 1)
	go func() { result <- during() }()
	s.AwaitLock()
	if err := tx.Commit(s.Context()); err != nil {
		s.Fatal(err)
	}
	return <-result
}

// A row is inserted while another transaction creates the partition of its day or week.
// The insert waits for the lock on the default partition. When it gets the lock, Postgres
// rejects the row, because the default partition must not contain it any more. The
// transaction of the insert must be repeated, so that the row is in the new partition.
func TestInTx_RepeatsInsertsIntoADefaultPartition(t *testing.T) {
	for _, tc := range partitionCases {
		t.Run(tc.table, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t).NewShop(affiliate.ModeTest)
			jane := s.Join("Jane")
			if err := createPartition(s, tc.create, func() error { return tc.insert(s, jane) }); err != nil {
				t.Fatalf("the insert returned %v, want no error", err)
			}
			s.WantCount(1, "rows of "+tc.table+" in the new partition", `select count(*) from `+tc.table+` where tableoid <> '`+tc.table+`_default'::regclass`)
		})
	}
}

// A query runs while another transaction moves a row from the default partition to a new
// partition. The query must not miss the row.
func TestQuery_FindsRowsThatMoveToANewPartition(t *testing.T) {
	for _, tc := range partitionCases {
		t.Run(tc.table, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t).NewShop(affiliate.ModeTest)
			if err := tc.insert(s, s.Join("Jane")); err != nil {
				t.Fatal(err)
			}
			var found int
			err := createPartition(s, tc.create, func() error {
				return s.DB.QueryRow(s.Context(), `select count(*) from `+tc.table).Scan(&found)
			})
			if err != nil || found != 1 {
				t.Errorf("the query found %d rows, %v, want 1", found, err)
			}
			s.WantCount(0, "rows of "+tc.table+" in the default partition", `select count(*) from `+tc.table+`_default`)
		})
	}
}

// While a transaction has inserted the first row into the default partition and has not
// committed, the creation of the partition waits. The row must then not move, because the
// table is not locked. The next call moves it.
func TestCreatePartition_FailsIfRowsArriveMeanwhile(t *testing.T) {
	s := newFixture(t).NewShop(affiliate.ModeTest)
	created := make(chan error, 1)
	event := affiliate.NewEvent(s.Scope, "payout.paid", s.Now(), nil, nil)
	if err := postgres.Publish(s.Context(), s.DB, func() error {
		go func() {
			_, err := postgres.EnsureWeekPartitions(s.Context(), s.DB, s.Now(), s.Now())
			created <- err
		}()
		s.AwaitLock()
		return nil
	}, event); err != nil {
		t.Fatal(err)
	}
	var pgErr *pgconn.PgError
	if err := <-created; !errors.As(err, &pgErr) || pgErr.Code != "55P03" {
		t.Errorf("EnsureWeekPartitions returned %v, want the error code 55P03", err)
	}
	s.WantCount(1, "events in the default partition", `select count(*) from events_default`)
	if _, err := postgres.EnsureWeekPartitions(s.Context(), s.DB, s.Now(), s.Now()); err != nil {
		t.Fatal(err)
	}
	s.WantCount(0, "events in the default partition", `select count(*) from events_default`)
	s.WantCount(1, "events", `select count(*) from events`)
}
