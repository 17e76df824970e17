package store

import (
	"context"
	"fmt"
	"time"
)

// The statements of the purge. At the time $1, each deletes at most $2 rows that are at
// least 12 months old, the oldest first.
const (
	purgeWaitlist = `
		delete from landing.waitlist_entries where email = any (array(
			select email from landing.waitlist_entries where created_at <= $1::timestamptz - interval '12 months' order by created_at limit $2))`
	purgeContacts = `
		delete from landing.contact_messages where id = any (array(
			select id from landing.contact_messages where created_at <= $1::timestamptz - interval '12 months' order by created_at limit $2))`
)

// Purged contains the numbers of deleted rows.
type Purged struct{ Waitlist, Contacts int64 }

// Purge deletes the waitlist entries and contact messages that are at least 12 months old.
// Each transaction deletes at most batch rows. If a statement fails, Purged has the rows
// that were deleted before.
func (s *Store) Purge(ctx context.Context, now time.Time, batch int) (purged Purged, err error) {
	for _, table := range []struct {
		name, sql string
		deleted   *int64
	}{
		{"waitlist", purgeWaitlist, &purged.Waitlist},
		{"contact messages", purgeContacts, &purged.Contacts},
	} {
		for {
			tag, err := s.pool.Exec(ctx, table.sql, now, batch)
			if err != nil {
				return purged, fmt.Errorf("purge %s: %w", table.name, err)
			}
			*table.deleted += tag.RowsAffected()
			if tag.RowsAffected() < int64(batch) {
				break
			}
		}
	}
	return purged, nil
}
