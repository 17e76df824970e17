package store

import (
	"context"
	"time"
)

// addToWaitlist writes a row also if the address is on the waitlist. The update changes no
// value. Without it, only a new address would wait until the write-ahead log is on disk,
// and the time of the response would say whether the address is new.
const addToWaitlist = `
	insert into landing.waitlist_entries (email, created_at) values ($1, $2)
	on conflict (email) do update set email = excluded.email`

// AddToWaitlist adds an address. It has no effect if the address is on the waitlist.
func (s *Store) AddToWaitlist(ctx context.Context, email string, at time.Time) error {
	_, err := s.pool.Exec(ctx, addToWaitlist, email, at)
	return err
}

// CountWaitlist returns the number of addresses on the waitlist.
func (s *Store) CountWaitlist(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, `select count(*) from landing.waitlist_entries`).Scan(&n)
	return n, err
}
