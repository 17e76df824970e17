package analytics

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// UseSnapshot makes the transaction read one snapshot and allows long statements. It must be the
// first statement. If another transaction makes a conflicting change, the transaction is repeated.
func UseSnapshot(ctx context.Context, tx *postgres.Tx) error {
	if err := postgres.Exec(ctx, tx, `set transaction isolation level repeatable read`); err != nil {
		return err
	}
	return allowLongStatements(ctx, tx)
}

// allowLongStatements replaces the statement timeout of the transaction. The statements of a
// recount read all conversions of a workspace, or all clicks of a day.
func allowLongStatements(ctx context.Context, tx *postgres.Tx) error {
	return postgres.Exec(ctx, tx, `set local statement_timeout = '10min'`)
}

var (
	// logDays inserts entries of at most 1,000 conversions. These are near in time, so they change few sums.
	logDays = `
		insert into analytics_log (workspace_id, mode, conversions)
		select $1, $2, array_agg(id)
		from (
			select id, row_number() over (order by occurred_at) / 1000 as piece
			from (
				select id, occurred_at from conversions where workspace_id = $1 and mode = $2 and occurred_at >= $3 and occurred_at < $4
				union
				select conversion_id, occurred_at from analytics_conversions where workspace_id = $1 and mode = $2 and occurred_at >= $3 and occurred_at < $4
			) as c
		) as c
		group by piece`

	deleteValuesOfDay = `delete from analytics_values where workspace_id = $1 and mode = $2 and dimension = any($4) and day = $3`
	// These statements delete the sums of a day: by dimension value, by owner (participant and link), and by programme.
	deleteDayOfValues = `delete from analytics_days where workspace_id = $1 and mode = $2 and dimension = any($4) and day = $3 and dimension <> ''`
	deleteDayOfOwners = `
		delete from analytics_days
		where workspace_id = $1 and mode = $2 and program_id in (` + programsAndNone + `) and day = $3
			and dimension = '' and participant_id <> '00000000-0000-0000-0000-000000000000'`
	deleteDayOfPrograms = `
		delete from analytics_days
		where workspace_id = $1 and mode = $2 and program_id in (` + programsAndNone + `) and day = $3
			and dimension = '' and participant_id = '00000000-0000-0000-0000-000000000000'`
	programsAndNone = `
		select id from programs where workspace_id = $1 and mode = $2
		union all select '00000000-0000-0000-0000-000000000000'`

	countedOfDay = `
		select ` + countedColumns + `,
			exists (
				select from analytics_customers u
				where u.workspace_id = c.workspace_id and u.mode = c.mode and u.customer_ref = c.customer_ref and u.conversion_id = c.conversion_id
			) as is_first
		from analytics_conversions c
		where c.workspace_id = $1 and c.mode = $2 and c.occurred_at >= $3 and c.occurred_at < $4`

	// clicked_at, the time in a click's id, is near the time of receipt, so a day's clicks are in few partitions.
	clicksOfDay = `
		select ` + postgres.CountedClickColumns + ` from clicks
		where workspace_id = $1 and mode = $2 and received_at >= $3::timestamptz and received_at < $4::timestamptz
			and clicked_at >= $3::timestamptz - interval '1 hour' and clicked_at < $4::timestamptz + interval '1 hour'`
	countedOfCustomers = `
		select ` + countedColumns + ` from analytics_conversions c
		where c.workspace_id = $1 and c.mode = $2 and c.customer_ref is not null and c.program_id <> '00000000-0000-0000-0000-000000000000'
		order by c.customer_ref, c.occurred_at, c.conversion_id`

	deleteAllCustomers = `delete from analytics_customers where workspace_id = $1 and mode = $2`
	deleteAllCohorts   = `delete from analytics_cohorts where workspace_id = $1 and mode = $2`
)

const selectWorkspaces = `select id from workspaces order by id`

// Workspaces returns all workspaces.
func Workspaces(ctx context.Context, db *postgres.DB) ([]affiliate.WorkspaceID, error) {
	return postgres.Values[affiliate.WorkspaceID](ctx, db, selectWorkspaces)
}

// bounds returns the first instant of a span of days, and of the day after it.
func bounds(first, last analytics.Day) (from, end time.Time) { return first.Time(), (last + 1).Time() }

// LogConversions inserts log entries for a span of days. They contain the stored conversions and
// the conversions that are in the sums.
func LogConversions(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, first, last analytics.Day) error {
	if err := allowLongStatements(ctx, tx); err != nil {
		return err
	}
	from, end := bounds(first, last)
	return postgres.Exec(ctx, tx, logDays, scope.Workspace, scope.Mode, from, end)
}

// DeleteDay deletes all sums and values of a day.
func DeleteDay(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, day analytics.Day) error {
	batch := &pgx.Batch{}
	for _, sql := range []string{deleteValuesOfDay, deleteDayOfValues} {
		batch.Queue(sql, scope.Workspace, scope.Mode, day.Time(), analytics.Dimensions())
	}
	for _, sql := range []string{deleteDayOfOwners, deleteDayOfPrograms} {
		batch.Queue(sql, scope.Workspace, scope.Mode, day.Time())
	}
	return postgres.Send(ctx, tx, batch)
}

// CountedOfDay returns the conversions of a day with the values that were added to the sums.
func CountedOfDay(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, day analytics.Day) ([]analytics.Conversion, error) {
	type row struct {
		analytics.Conversion
		IsFirst bool
	}
	first, end := bounds(day, day)
	rows, err := postgres.List[row](ctx, tx, countedOfDay, scope.Workspace, scope.Mode, first, end)
	found := make([]analytics.Conversion, len(rows))
	for i, r := range rows {
		found[i] = r.Conversion
		found[i].FirstOfCustomer = r.IsFirst
	}
	return found, err
}

// EachClicksOfDay calls fn with all clicks that were received on a day, in parts.
func EachClicksOfDay(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, day analytics.Day, fn func(clicks []click.Click) error) error {
	first, end := bounds(day, day)
	return eachPart(ctx, tx, postgres.CountedClick, fn, clicksOfDay, scope.Workspace, scope.Mode, first, end)
}

// EachCountedOfCustomers calls fn with the conversions of all customers, with the values that
// were added to the sums, in parts. They are sorted by customer and time.
func EachCountedOfCustomers(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, fn func(conversions []analytics.Conversion) error) error {
	return eachPart(ctx, tx, pgx.RowToStructByName[analytics.Conversion], fn, countedOfCustomers, scope.Workspace, scope.Mode)
}

// DeleteCustomers deletes the sums of all customers and cohorts.
func DeleteCustomers(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope) error {
	batch := &pgx.Batch{}
	for _, sql := range []string{deleteAllCustomers, deleteAllCohorts} {
		batch.Queue(sql, scope.Workspace, scope.Mode)
	}
	return postgres.Send(ctx, tx, batch)
}

// eachPart calls fn with the rows of a query in parts of at most 20,000.
func eachPart[T any](ctx context.Context, tx *postgres.Tx, read pgx.RowToFunc[T], fn func([]T) error, sql string, args ...any) error {
	const what = "read for a new count"
	if err := postgres.Exec(ctx, tx, `declare parts no scroll cursor for `+sql, args...); err != nil {
		return err
	}
	for {
		// The statement is not prepared, because its columns depend on the cursor.
		rows, _ := tx.Query(ctx, `fetch 20000 from parts`, pgx.QueryExecModeExec)
		part, err := pgx.CollectRows(rows, read)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if len(part) == 0 {
			return postgres.Exec(ctx, tx, `close parts`)
		}
		if err := fn(part); err != nil {
			return err
		}
	}
}
