package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// EnsureClickPartitions creates the missing daily partitions of clicks from first to
// last, both included. It calls an SQL function that runs with the rights of the
// schema's owner, because the service's role owns no tables. It returns the number of
// new partitions.
func EnsureClickPartitions(ctx context.Context, db *DB, first, last time.Time) (int, error) {
	const call = `select ensure_click_partitions($1::date, $2::date)`
	return Value[int](ctx, db, call, first.UTC(), last.UTC())
}

// maxStrayCount is the highest number that StrayClicks counts, and StrayWeekRows in each table. It
// is enough for an alarm; the exact number does not matter.
const maxStrayCount = 1000

// StrayClicks returns the number of clicks in the default partition, but at most
// maxStrayCount. A click is stored in the default partition if its day has no partition.
func StrayClicks(ctx context.Context, db *DB) (int, error) {
	const query = `select count(*) from (select from clicks_default limit $1) as stray`
	return Value[int](ctx, db, query, maxStrayCount)
}

// weekTables are the tables with a partition for each week. Deliveries are before events,
// so that they are dropped first and every delivery has its event.
var weekTables = []string{"webhook_deliveries", "events", "notifications"}

// EnsureWeekPartitions creates the missing weekly partitions of events, deliveries and
// notifications for the days from first to last, both included. It returns the number of
// new partitions. Each table has its own transaction.
func EnsureWeekPartitions(ctx context.Context, db *DB, first, last time.Time) (int, error) {
	const call = `select ensure_week_partitions($1, $2::date, $3::date)`
	created, err := eachWeekTable(ctx, db, call, first.UTC(), last.UTC())
	return int(created), err
}

// StrayWeekRows returns the number of events, deliveries and notifications in the default
// partitions. It counts at most maxStrayCount rows of each table.
func StrayWeekRows(ctx context.Context, db *DB) (int, error) {
	const query = `
		select (select count(*) from (select from events_default limit $1) as stray)
			+ (select count(*) from (select from webhook_deliveries_default limit $1) as stray)
			+ (select count(*) from (select from notifications_default limit $1) as stray)`
	return Value[int](ctx, db, query, maxStrayCount)
}

// DropOldWeeks drops the weekly partitions of events, deliveries and notifications that
// that are so old that the API no longer returns them. From each default partition it deletes at
// most maxRows rows of the same age. It returns the number of dropped
// partitions and deleted rows. Each table has its own transaction. A transaction that locks
// one table while it waits for another table would make readers and writers wait too.
func DropOldWeeks(ctx context.Context, db *DB, maxRows int) (int64, error) {
	const call = `select drop_old_weeks($1, $2)`
	return eachWeekTable(ctx, db, call, maxRows)
}

// eachWeekTable calls an SQL function for each table with weekly partitions, until one
// call fails. The name of the table is the first argument of the function. eachWeekTable
// returns the sum of the function's results.
func eachWeekTable(ctx context.Context, db *DB, call string, args ...any) (sum int64, err error) {
	for _, table := range weekTables {
		var n int64
		if err := db.QueryRow(ctx, call, append([]any{table}, args...)...).Scan(&n); err != nil {
			return sum, fmt.Errorf("partitions of %s: %w", table, err)
		}
		sum += n
	}
	return sum, nil
}

// nextPartitionIndex finds a partition that lacks an index of its table. Its columns are the name of
// the missing index, whether it exists and is complete, and the statements that build and attach it.
const nextPartitionIndex = `
	select child.name, coalesce(built.indisvalid, false),
		regexp_replace(pg_get_indexdef(i.indexrelid), ' INDEX .* ON ONLY [^ ]+ ', format(' INDEX CONCURRENTLY %I ON %s ', child.name, h.inhrelid::regclass)),
		format('alter index %s attach partition %I', i.indexrelid::regclass, child.name)
	from pg_index i
	join pg_class parent on parent.oid = i.indexrelid and parent.relkind = 'I' and parent.relnamespace = current_schema()::regnamespace
	join pg_class root on root.oid = i.indrelid
	join pg_inherits h on h.inhparent = i.indrelid
	join pg_class part on part.oid = h.inhrelid
	cross join lateral (select replace(parent.relname, root.relname, part.relname) as name) child
	left join pg_index built on built.indexrelid = to_regclass(quote_ident(child.name))
	where not i.indisvalid and not exists (
		select from pg_inherits a join pg_index c on c.indexrelid = a.inhrelid where a.inhparent = i.indexrelid and c.indrelid = h.inhrelid)
	order by child.name
	limit 1`

// buildPartitionIndexes builds the indexes of partitions that migrations created ON ONLY the
// partitioned table. CREATE INDEX CONCURRENTLY cannot do this for the table, and a migration does not know the
// partitions of an installation. After an interruption, the next call continues: conn, which has no
// lock_timeout, drops an index that is not complete.
func buildPartitionIndexes(ctx context.Context, conn *pgx.Conn, pool *pgxpool.Pool) error {
	for {
		var name, build, attach string
		var built bool
		switch err := conn.QueryRow(ctx, nextPartitionIndex).Scan(&name, &built, &build, &attach); {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return fmt.Errorf("indexes of partitions: %w", err)
		}
		if !built {
			if err := exec(ctx, conn, "drop index concurrently if exists "+pgx.Identifier{name}.Sanitize()); err != nil {
				return fmt.Errorf("index %s: %w", name, err)
			}
			if err := exec(ctx, conn, build); err != nil {
				return fmt.Errorf("index %s: %w", name, err)
			}
		}
		if _, err := pool.Exec(ctx, attach); err != nil {
			return fmt.Errorf("index %s: %w", name, err)
		}
	}
}
