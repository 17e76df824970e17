package click

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/storage/postgres"
)

// Clicks lose their data in two steps:
//
//	      after 90 days                               after 13 months
//	click ─── Purge ───▶ click without visitor data ─── Roll ───▶ daily sums
//
// Purge updates rows, and Postgres writes a new version of each updated row.
// Usually it reuses the space of old versions, so the partition grows by only about a
// tenth. The partition grows to twice its size if a long-running snapshot still needs
// the old versions. The space is freed when the partition is dropped.

// retentionBatch is the maximum number of clicks that one statement changes or deletes.
const retentionBatch = 5000

// rollBlocks is the number of blocks (8 kB) of a partition that one call of Roll replaces
// by sums: 1.2 million clicks, in about a minute on two busy cores.
//
// rollTimeout is the statement timeout of Roll. The last call for a partition also reads
// the blocks whose clicks earlier calls have deleted. The timeout is long enough to read
// 30 GB at 250 MB a second. A partition has this size at 100 million clicks a day.
const (
	rollBlocks  = 50_000
	rollTimeout = 2 * time.Minute
)

// purgeDay and purgeStray purge one batch of clicks, starting at a position in the index
// clicks_by_address. purgeDay purges clicks of a day's partition. purgeStray purges
// clicks in the default partition, which stores the clicks of days without a partition.
//
// A purged click is no longer in the index. If all clicks of a partition are purged,
// the statement therefore costs one search in the index. Otherwise the scan starts
// where the last batch ended and does not read the dead rows before this position. A
// row that another transaction has locked is left for the next run. ctid identifies a
// row because the times from $1 to $2 lie in one partition.
//
//	$1, $2  the period: its first instant and its end (exclusive)
//	$3–$5   the position in the index
//	$6      the maximum number of rows
const (
	purgeDay   = purgeFrom + `clicks` + purgeUpdate + `clicks` + purgeLast
	purgeStray = purgeFrom + `clicks_default` + purgeUpdate + `clicks_default` + purgeLast

	purgeFrom = `
	with batch as materialized (
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
		where c.clicked_at >= $1 and c.clicked_at < $2 and c.ctid = any (array(select t.ctid from batch t))
	)
	select workspace_id, ip_hash, clicked_at, (select count(*) from batch) as n
	from batch
	order by workspace_id desc, ip_hash desc, clicked_at desc
	limit 1`
)

// purgePosition is the position at which a batch ended.
type purgePosition struct {
	WorkspaceID uuid.UUID
	IPHash      []byte
	ClickedAt   time.Time
	N           int64 // rows in the batch
}

// Purge removes the visitor data (the hashes of the IP address and of the user agent, and
// the prefix of the IP address) from all clicks before the given time. It processes the
// days in order, oldest first, in batches of retentionBatch clicks. Each batch is a
// transaction. Purge calls mayContinue before each batch and stops when the result is
// false. It returns the number of purged clicks. It is safe to repeat the call.
//
// Purge finds clicks by their address hash. A click has an address prefix only if
// it has an address hash. A click whose address could not be parsed has only the user
// agent hash, which stays until the click is replaced by daily sums. That is
// acceptable: everyone who uses the same browser version has the same user agent hash,
// and the hash changes every month.
//
// Purge uses the time in a click's id, which differs from the time of its receipt by at most five minutes.
func Purge(ctx context.Context, db *postgres.DB, before time.Time, mayContinue func() bool) (int64, error) {
	days, err := clickDays(ctx, db)
	if err != nil {
		return 0, fmt.Errorf("read the partitions of clicks: %w", err)
	}
	before = before.UTC()
	purged, err := purge(ctx, db, purgeStray, time.Time{}, before, mayContinue)
	for _, day := range days {
		if err != nil || !day.Before(before) {
			break
		}
		end := day.AddDate(0, 0, 1)
		if end.After(before) {
			end = before
		}
		var n int64
		n, err = purge(ctx, db, purgeDay, day, end, mayContinue)
		purged += n
	}
	return purged, err
}

func purge(ctx context.Context, db *postgres.DB, sql string, first, end time.Time, mayContinue func() bool) (purged int64, err error) {
	for at := (purgePosition{IPHash: []byte{}, N: retentionBatch}); at.N == retentionBatch && mayContinue(); {
		rows, _ := db.Query(ctx, sql, postgres.PlanForArgs, first, end, at.WorkspaceID, at.IPHash, at.ClickedAt, retentionBatch)
		at, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[purgePosition])
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return purged, fmt.Errorf("purge clicks of %s: %w", first.Format(time.DateOnly), err)
		}
		purged += at.N
	}
	return purged, nil
}

// clickDays returns the days that have a partition, oldest first.
func clickDays(ctx context.Context, db *postgres.DB) ([]time.Time, error) {
	const query = `
		select to_date(right(c.relname, 8), 'YYYYMMDD') as day
		from pg_inherits i
		join pg_class c on c.oid = i.inhrelid
		where i.inhparent = 'clicks'::regclass and c.relname ~ '^clicks_[0-9]{8}$'
		order by day`
	return postgres.Values[time.Time](ctx, db, query)
}

// Roll replaces old clicks by the daily sums in click_days. A click is old if its day
// ended at least 13 months ago. A call replaces the clicks of one day and drops its
// partition, or replaces one piece of a large partition, or one batch of the default
// partition. It returns the number of replaced clicks. ok is false if there was nothing
// to do, or if another process is already doing it. If a partition cannot be locked
// within one second, Roll returns an error and changes nothing.
func Roll(ctx context.Context, tx *postgres.Tx) (clicks int64, ok bool, err error) {
	return rollClicks(ctx, tx, rollBlocks)
}

func rollClicks(ctx context.Context, tx *postgres.Tx, blocks int) (clicks int64, ok bool, err error) {
	const (
		set  = `select set_config('statement_timeout', $1, true)`
		call = `select roll_clicks($1, $2)`
	)
	if _, err := tx.Exec(ctx, set, strconv.FormatInt(rollTimeout.Milliseconds(), 10)); err != nil {
		return 0, false, err
	}
	var rolled *int64
	if err := tx.QueryRow(ctx, call, retentionBatch, blocks).Scan(&rolled); err != nil || rolled == nil {
		return 0, false, err
	}
	return *rolled, true, nil
}

// DropDeadLetters deletes at most limit dead letters that were created before the given
// time, and returns the number of deleted dead letters. Dead letters contain the same
// visitor data as clicks, so they must be deleted too.
func DropDeadLetters(ctx context.Context, db *postgres.DB, before time.Time, limit int) (int64, error) {
	tag, err := db.Exec(ctx, dropDeadLetters, before, limit)
	return tag.RowsAffected(), err
}

const dropDeadLetters = `
	delete from click_dead_letters
	where id = any (array(select id from click_dead_letters where created_at < $1 order by created_at limit $2))`
