package postgres

import (
	"context"
	"fmt"
	"time"
)

// EnsureClickPartitions makes the daily partitions of clicks from one day to
// another, both included. The service's role owns no table, so a function of
// the owner does it.
func (s *Store) EnsureClickPartitions(ctx context.Context, first, last time.Time) (int, error) {
	const call = `select ensure_click_partitions($1::date, $2::date)`
	var made int
	err := s.pool.QueryRow(ctx, call, first.UTC(), last.UTC()).Scan(&made)
	return made, err
}

// strayBound is enough to raise an alarm; the exact number does not matter.
const strayBound = 1000

// StrayClicks counts the clicks of the default partition, up to a bound: rows
// for whose day no partition was there in time.
func (s *Store) StrayClicks(ctx context.Context) (int, error) {
	const query = `select count(*) from (select from clicks_default limit $1) as stray`
	var n int
	err := s.pool.QueryRow(ctx, query, strayBound).Scan(&n)
	return n, err
}

// EnsureEventPartitions makes the weekly partitions of events and deliveries for
// the days from one to another, both included.
func (s *Store) EnsureEventPartitions(ctx context.Context, first, last time.Time) (int, error) {
	const call = `select ensure_event_partitions($1::date, $2::date)`
	var made int
	err := s.pool.QueryRow(ctx, call, first.UTC(), last.UTC()).Scan(&made)
	return made, err
}

// StrayEvents counts the events and deliveries of the default partitions, up to a
// bound.
func (s *Store) StrayEvents(ctx context.Context) (int, error) {
	const query = `
		select (select count(*) from (select from events_default limit $1) as stray)
			+ (select count(*) from (select from webhook_deliveries_default limit $1) as stray)`
	var n int
	err := s.pool.QueryRow(ctx, query, strayBound).Scan(&n)
	return n, err
}

// DropOldEvents drops the weeks of events and deliveries that nobody can ask for
// any more, and up to a number of such rows outside all weeks. It tells how many
// partitions and rows that were. Deliveries go first, so that none is without its
// event, and in a transaction of their own: whoever reads or writes both tables is
// never waited for by one that holds the other.
func (s *Store) DropOldEvents(ctx context.Context, rows int) (int64, error) {
	const call = `select drop_old_events($1, $2)`
	var dropped int64
	for _, table := range []string{"webhook_deliveries", "events"} {
		var some int64
		if err := s.pool.QueryRow(ctx, call, table, rows).Scan(&some); err != nil {
			return dropped, fmt.Errorf("%s: %w", table, err)
		}
		dropped += some
	}
	return dropped, nil
}
