package postgres

import (
	"context"
	"fmt"
	"time"
)

// EnsureClickPartitions creates the missing daily partitions of clicks from first to
// last, both included. It calls an SQL function that runs with the rights of the
// schema's owner, because the service's role owns no tables. It returns the number of
// new partitions.
func (s *Store) EnsureClickPartitions(ctx context.Context, first, last time.Time) (int, error) {
	const call = `select ensure_click_partitions($1::date, $2::date)`
	var created int
	err := s.pool.QueryRow(ctx, call, first.UTC(), last.UTC()).Scan(&created)
	return created, err
}

// maxStrayCount is the highest number that StrayClicks and StrayEvents count. It is
// enough for an alarm; the exact number does not matter.
const maxStrayCount = 1000

// StrayClicks returns the number of clicks in the default partition, but at most
// maxStrayCount. A click is stored in the default partition if its day has no partition.
func (s *Store) StrayClicks(ctx context.Context) (int, error) {
	const query = `select count(*) from (select from clicks_default limit $1) as stray`
	var n int
	err := s.pool.QueryRow(ctx, query, maxStrayCount).Scan(&n)
	return n, err
}

// EnsureEventPartitions creates the missing weekly partitions of events and deliveries
// for the days from first to last, both included. It returns the number of new
// partitions.
func (s *Store) EnsureEventPartitions(ctx context.Context, first, last time.Time) (int, error) {
	const call = `select ensure_event_partitions($1::date, $2::date)`
	var created int
	err := s.pool.QueryRow(ctx, call, first.UTC(), last.UTC()).Scan(&created)
	return created, err
}

// StrayEvents returns the number of events and deliveries in the default partitions. It
// counts at most maxStrayCount rows of each table.
func (s *Store) StrayEvents(ctx context.Context) (int, error) {
	const query = `
		select (select count(*) from (select from events_default limit $1) as stray)
			+ (select count(*) from (select from webhook_deliveries_default limit $1) as stray)`
	var n int
	err := s.pool.QueryRow(ctx, query, maxStrayCount).Scan(&n)
	return n, err
}

// DropOldEvents drops the weekly partitions of events and deliveries that are so old that
// the API no longer returns them. From each default partition it deletes rows that are
// equally old, at most maxRows of them. It returns the number of dropped partitions and
// deleted rows. Deliveries are dropped first, so that every delivery has its event. Each
// table has its own transaction. A transaction that locks one table while it waits for
// the other would make readers and writers wait too.
func (s *Store) DropOldEvents(ctx context.Context, maxRows int) (int64, error) {
	const call = `select drop_old_events($1, $2)`
	var dropped int64
	for _, table := range []string{"webhook_deliveries", "events"} {
		var n int64
		if err := s.pool.QueryRow(ctx, call, table, maxRows).Scan(&n); err != nil {
			return dropped, fmt.Errorf("drop old rows of %s: %w", table, err)
		}
		dropped += n
	}
	return dropped, nil
}
