package check

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// StoreResults replaces the stored results of the given checks. at is the time of the
// run.
func StoreResults(ctx context.Context, db *postgres.DB, results []affiliate.CheckResult, at time.Time) error {
	const store = `
		insert into check_results as r (name, compared, violated, checked_at)
		select name, compared, violated, $4 from unnest($1::text[], $2::bigint[], $3::bigint[]) t (name, compared, violated)
		on conflict (name) do update set compared = excluded.compared, violated = excluded.violated, checked_at = excluded.checked_at
		where r.checked_at < excluded.checked_at`
	var names []string
	var compared, violated []int64
	for _, r := range results {
		names, compared, violated = append(names, r.Name), append(compared, r.Compared), append(violated, r.Violated)
	}
	if _, err := db.Exec(ctx, store, names, compared, violated, at); err != nil {
		return fmt.Errorf("store the results of the consistency checks: %w", err)
	}
	return nil
}

// Latest returns the latest result of each check of this binary, without the
// violations. CheckedAt is nil for a check that has never run.
func Latest(ctx context.Context, db *postgres.DB) ([]affiliate.LatestCheck, error) {
	const read = `
		select c.name, coalesce(r.violated, 0) as violated, r.checked_at
		from unnest($1::text[]) c (name)
		left join check_results r on r.name = c.name`
	names := make([]string, 0, len(checks)+1)
	for _, c := range checks {
		names = append(names, c.name)
	}
	rows, _ := db.Query(ctx, read, append(names, clockCheck))
	latest, err := pgx.CollectRows(rows, pgx.RowToStructByName[affiliate.LatestCheck])
	if err != nil {
		return nil, fmt.Errorf("read the results of the consistency checks: %w", err)
	}
	return latest, nil
}
