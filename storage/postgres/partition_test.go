package postgres_test

import (
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// A row is inserted while another transaction creates the partition of its day or week.
// The insert waits for the lock on the default partition. When it gets the lock, Postgres
// rejects the row, because the default partition must not contain it any more. The
// transaction of the insert must be repeated, so that the row is in the new partition.
func TestInTx_RepeatsInsertsIntoADefaultPartition(t *testing.T) {
	for _, tc := range []struct {
		table, create string
		insert        func(*pgtest.Shop, pgtest.Participant) error
	}{
		{"events", `select ensure_event_partitions($1::date, $1::date)`, func(s *pgtest.Shop, _ pgtest.Participant) error {
			return s.Store.Publish(s.Context(), succeed, affiliate.NewEvent(s.Scope, "payout.paid", s.Now(), nil, nil))
		}},
		{"notifications", `select ensure_week_partitions('notifications', $1::date, $1::date)`, func(s *pgtest.Shop, jane pgtest.Participant) error {
			n := affiliate.NewNotification(affiliate.Partner, affiliate.PartnerFeed(jane.Partner), affiliate.NotifyVerifyEmail, nil, s.Now())
			return s.Store.InTx(s.Context(), func(tx *postgres.Tx) error { return tx.Notify(s.Context(), n) })
		}},
		{"clicks", `select ensure_click_partitions($1::date, $1::date)`, func(s *pgtest.Shop, jane pgtest.Participant) error {
			return s.Store.StoreClicks(s.Context(), []affiliate.Click{s.UnstoredClick(jane)})
		}},
	} {
		t.Run(tc.table, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t).NewShop(affiliate.ModeTest)
			jane := s.Join("Jane")
			tx, err := s.Store.Pool().Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var created int
			if err := tx.QueryRow(t.Context(), tc.create, s.Now().UTC()).Scan(&created); err != nil || created == 0 {
				t.Fatalf("%d partitions were created, %v, want at least 1", created, err)
			}
			inserted := make(chan error, 1)
			go func() { inserted <- tc.insert(s, jane) }()
			awaitLock(s.Fixture)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-inserted; err != nil {
				t.Fatalf("the insert returned %v, want no error", err)
			}
			s.WantCount(1, "rows of "+tc.table+" in the new partition", `select count(*) from `+tc.table+` where tableoid <> '`+tc.table+`_default'::regclass`)
		})
	}
}
