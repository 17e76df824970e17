package postgres

import (
	"context"
	"fmt"
	"time"
)

// EnsureClickPartitions creates the daily partitions of clicks from first to last, both
// included. It calls a function of the schema's owner, because the service's role owns
// no tables. It returns the number of new partitions.
func (s *Store) EnsureClickPartitions(ctx context.Context, first, last time.Time) (int, error) {
	const call = `select ensure_click_partitions($1::date, $2::date)`
	var made int
	err := s.pool.QueryRow(ctx, call, first.UTC(), last.UTC()).Scan(&made)
	return made, err
}

// strayBound is large enough for an alarm. The exact number does not matter.
const strayBound = 1000

// StrayClicks returns the number of clicks in the default partition, up to strayBound.
// Clicks are stored there if no partition for their day exists.
func (s *Store) StrayClicks(ctx context.Context) (int, error) {
	const query = `select count(*) from (select from clicks_default limit $1) as stray`
	var n int
	err := s.pool.QueryRow(ctx, query, strayBound).Scan(&n)
	return n, err
}

// EnsureEventPartitions creates the weekly partitions of events and deliveries for the
// days from first to last, both included. It returns the number of new partitions.
func (s *Store) EnsureEventPartitions(ctx context.Context, first, last time.Time) (int, error) {
	const call = `select ensure_event_partitions($1::date, $2::date)`
	var made int
	err := s.pool.QueryRow(ctx, call, first.UTC(), last.UTC()).Scan(&made)
	return made, err
}

// StrayEvents returns the number of events and deliveries in the default partitions, up
// to strayBound for each table.
func (s *Store) StrayEvents(ctx context.Context) (int, error) {
	const query = `
		select (select count(*) from (select from events_default limit $1) as stray)
			+ (select count(*) from (select from webhook_deliveries_default limit $1) as stray)`
	var n int
	err := s.pool.QueryRow(ctx, query, strayBound).Scan(&n)
	return n, err
}

// DropOldEvents drops the weekly partitions of events and deliveries that are no longer
// accessible, and deletes up to the given number of rows of the same age from each
// default partition. It returns the number of dropped partitions and deleted rows.
// Deliveries are dropped first, so that no delivery is without its event. Each table
// has its own transaction, so that no transaction locks both tables. Otherwise a reader
// or writer of both tables could wait for it.
func (s *Store) DropOldEvents(ctx context.Context, rows int) (int64, error) {
	const call = `select drop_old_events($1, $2)`
	var dropped int64
	for _, table := range []string{"webhook_deliveries", "events"} {
		var n int64
		if err := s.pool.QueryRow(ctx, call, table, rows).Scan(&n); err != nil {
			return dropped, fmt.Errorf("drop old rows of %s: %w", table, err)
		}
		dropped += n
	}
	return dropped, nil
}
