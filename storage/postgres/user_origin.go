package postgres

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

const noteOrigin = `
	insert into user_origins as o (user_id, ip_prefix, ua_hash, seen_at)
	values ($1, $2, $3, $4)
	on conflict (user_id, ip_prefix, ua_hash) do update set seen_at = greatest(o.seen_at, excluded.seen_at)`

// NoteOrigin notes from where a user used its account.
func (s *Store) NoteOrigin(ctx context.Context, o affiliate.Origin) error {
	agent := o.AgentHash
	if agent == nil {
		agent = []byte{}
	}
	_, err := s.pool.Exec(ctx, noteOrigin, o.User, o.IPPrefix, agent, o.SeenAt)
	return err
}

const dropOldOrigins = `
	delete from user_origins o
	using (
		select user_id, ip_prefix, ua_hash from user_origins
		where seen_at < $1
		order by seen_at
		limit $2
		for update skip locked) as old
	where o.user_id = old.user_id and o.ip_prefix = old.ip_prefix and o.ua_hash = old.ua_hash`

// DropOldOrigins forgets up to limit origins that nothing is compared with any
// longer, and tells how many it was.
func (s *Store) DropOldOrigins(ctx context.Context, now time.Time, limit int) (int64, error) {
	tag, err := s.pool.Exec(ctx, dropOldOrigins, now.Add(-affiliate.OriginsKept), limit)
	return tag.RowsAffected(), err
}
