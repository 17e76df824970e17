package postgres

import (
	"context"
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
