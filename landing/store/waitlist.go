package store

import (
	"context"
	"time"
)

// addToWaitlist updates the row if the address is already on the waitlist. The update
// changes no value. It makes both cases write to the WAL, so that the response time does
// not show whether the address is new.
const addToWaitlist = `
	insert into landing.waitlist_entries (email, created_at) values ($1, $2)
	on conflict (email) do update set email = excluded.email`

// AddToWaitlist adds an address. If the address is on the waitlist, its data does not change.
func (s *Store) AddToWaitlist(ctx context.Context, email string, at time.Time) error {
	_, err := s.pool.Exec(ctx, addToWaitlist, email, at)
	return err
}

// CountWaitlist returns the number of addresses on the waitlist.
func (s *Store) CountWaitlist(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, `select count(*) from landing.waitlist_entries`).Scan(&n)
	return n, err
}
