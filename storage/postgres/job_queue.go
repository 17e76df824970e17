package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// selectJobQueues reads the state of queues from River's index on state, queue, priority
// and time. It searches the index once for each of River's four priorities, because
// within a priority the first entry is the oldest job. It counts at most 1,000 jobs.
const selectJobQueues = `
	select q.queue,
		(select min(first.scheduled_at)
		from generate_series(1, 4) p (priority)
		cross join lateral (
			select j.scheduled_at from ` + queueSchema + `.river_job j
			where j.state = 'available' and j.queue = q.queue and j.priority = p.priority
			order by j.scheduled_at limit 1
		) first) as oldest_waiting,
		(select count(*) from (
			select from ` + queueSchema + `.river_job j where j.state = 'retryable' and j.queue = q.queue limit 1000
		) counted) as retrying
	from unnest($1::text[]) q (queue)`

// JobQueueStats returns the state of each of the given queues.
func (db *DB) JobQueueStats(ctx context.Context, queues []string) ([]affiliate.JobQueueStats, error) {
	rows, _ := db.Query(ctx, selectJobQueues, queues)
	stats, err := pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.JobQueueStats])
	if err != nil {
		return nil, fmt.Errorf("read the state of the job queue: %w", err)
	}
	return stats, nil
}
