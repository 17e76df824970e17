package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// How long clicks live:
//
//	receipt ─── 90 days ──▶ without what tells visitors apart ─── 13 months ──▶ a day's sums
//	             PurgeClicks (rows, by batches)          RollClicks (partitions, a large one in pieces)
//
// A purged row is written anew: its day grows by about a tenth, and to twice its
// size where an old snapshot keeps the dead rows, until it is dropped.

// retentionBatch is how many clicks a statement changes or deletes at most.
const retentionBatch = 5000

// rollBlocks is how many blocks of a day (8 kB each) are summed up at a time: some
// 1.2 million clicks, which take about a minute on two busy cores. rollTimeout is how
// long they may take. The last piece also reads past what the earlier ones have
// deleted: 30 GB, or 100 million clicks a day, at 250 MB a second.
const (
	rollBlocks  = 50_000
	rollTimeout = 2 * time.Minute
)

// The purge of one table, from a place in clicks_by_address on. What is purged
// leaves that index: a day that is done is one probe, and one that is not is read
// from the place where the last batch ended, past no row that is dead since. A row
// that somebody holds is left for the next run. ctid tells one row, because the
// hours of $1 and $2 lie in one partition.
//
//	$1, $2  the first instant and the end
//	$3–$5   the place
//	$6      how many rows
const (
	purgeDay   = purgeFrom + `clicks` + purgeUpdate + `clicks` + purgeLast
	purgeStray = purgeFrom + `clicks_default` + purgeUpdate + `clicks_default` + purgeLast

	purgeFrom = `
	with those as materialized (
		select c.ctid, c.workspace_id, c.ip_hash, c.clicked_at from `
	purgeUpdate = ` c
		where c.clicked_at >= $1 and c.clicked_at < $2
			and c.ip_hash is not null and (c.workspace_id, c.ip_hash, c.clicked_at) >= ($3, $4, $5)
		order by c.workspace_id, c.ip_hash, c.clicked_at
		limit $6
		for no key update skip locked
	), purged as (
		update `
	purgeLast = ` c set ip_hash = null, ip_prefix = null, ua_hash = null
		where c.clicked_at >= $1 and c.clicked_at < $2 and c.ctid = any (array(select t.ctid from those t))
	)
	select workspace_id, ip_hash, clicked_at, (select count(*) from those) as n
	from those
	order by workspace_id desc, ip_hash desc, clicked_at desc
	limit 1`
)

// purgePlace is where a batch ended.
type purgePlace struct {
	WorkspaceID uuid.UUID
	IPHash      []byte
	ClickedAt   time.Time
	N           int64 // rows of the batch
}

// PurgeClicks takes from clicks of before an instant what tells their visitors
// apart: the hashes of address and agent, and the address's prefix. It goes through
// the days, oldest first, in batches of retentionBatch, each its own transaction,
// and asks more before each. It returns how many clicks it purged; to repeat it
// changes nothing.
//
// It finds a click by the hash of its address, without which there is no prefix. A
// click whose address could not be read has the hash of its agent alone, and keeps
// it until its day is summed up: all who use that browser share it, and only in
// one month.
//
// A click's time is that of its id, which is at most five minutes off its receipt.
func (s *Store) PurgeClicks(ctx context.Context, before time.Time, more func() bool) (int64, error) {
	days, err := s.clickDays(ctx)
	if err != nil {
		return 0, fmt.Errorf("days of clicks: %w", err)
	}
	before = before.UTC()
	purged, err := s.purge(ctx, purgeStray, time.Time{}, before, more)
	for _, day := range days {
		if err != nil || !day.Before(before) {
			break
		}
		end := day.AddDate(0, 0, 1)
		if end.After(before) {
			end = before
		}
		var n int64
		n, err = s.purge(ctx, purgeDay, day, end, more)
		purged += n
	}
	return purged, err
}

func (s *Store) purge(ctx context.Context, sql string, first, end time.Time, more func() bool) (purged int64, err error) {
	for at := (purgePlace{IPHash: []byte{}, N: retentionBatch}); at.N == retentionBatch && more(); {
		rows, _ := s.pool.Query(ctx, sql, planned, first, end, at.WorkspaceID, at.IPHash, at.ClickedAt, retentionBatch)
		at, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[purgePlace])
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return purged, fmt.Errorf("clicks of %s: %w", first.Format(time.DateOnly), err)
		}
		purged += at.N
	}
	return purged, nil
}

// clickDays are the days that have a partition, in order.
func (s *Store) clickDays(ctx context.Context) ([]time.Time, error) {
	const query = `
		select to_date(right(c.relname, 8), 'YYYYMMDD') as day
		from pg_inherits i
		join pg_class c on c.oid = i.inhrelid
		where i.inhparent = 'clicks'::regclass and c.relname ~ '^clicks_[0-9]{8}$'
		order by day`
	rows, _ := s.pool.Query(ctx, query)
	return pgx.CollectRows(rows, pgx.RowTo[time.Time])
}

// RollClicks sums one day of clicks that ended 13 months ago up in click_days and
// drops it, or a piece of a large one, or a batch of such clicks without a
// partition, in one transaction. It returns how many clicks that were; false: there
// was nothing to do, or somebody else is doing it. A table that is in use for a
// second is an error, after which everything is as before.
func (s *Store) RollClicks(ctx context.Context) (clicks int64, did bool, err error) {
	return s.rollClicks(ctx, rollBlocks)
}

func (s *Store) rollClicks(ctx context.Context, blocks int) (clicks int64, did bool, err error) {
	const (
		set  = `select set_config('statement_timeout', $1, true)`
		call = `select roll_clicks($1, $2)`
	)
	var rolled *int64
	err = s.InTx(ctx, func(tx *Tx) error {
		if _, err := tx.Exec(ctx, set, strconv.FormatInt(rollTimeout.Milliseconds(), 10)); err != nil {
			return err
		}
		return tx.QueryRow(ctx, call, retentionBatch, blocks).Scan(&rolled)
	})
	if err != nil || rolled == nil {
		return 0, false, err
	}
	return *rolled, true, nil
}

// DropDeadLetters deletes up to limit records of before an instant that could not
// be stored, and returns how many. They hold what clicks hold.
func (s *Store) DropDeadLetters(ctx context.Context, before time.Time, limit int) (int64, error) {
	tag, err := s.pool.Exec(ctx, dropDeadLetters, before, limit)
	return tag.RowsAffected(), err
}

const dropDeadLetters = `
	delete from click_dead_letters
	where id = any (array(select id from click_dead_letters where created_at < $1 order by created_at limit $2))`
