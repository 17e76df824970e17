package analytics

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// countColumns are the columns of analytics.Counts, in its order.
var countColumns = [len(analytics.Counts{})]string{
	"clicks", "unique_clicks", "bot_clicks", "conversions", "signups", "new_customers", "approved", "paid",
	"orders", "revenue_cents", "refunded_cents", "commission_cents",
}

// eachCount returns a list with one element for each of countColumns. The name of the column replaces %s.
func eachCount(element string) string {
	elements := make([]string, len(countColumns))
	for i, name := range countColumns {
		elements[i] = strings.ReplaceAll(element, "%s", name)
	}
	return strings.Join(elements, ", ")
}

// sumRow is a stored sum without the columns of analytics.Counts.
type sumRow struct {
	analytics.Key
	Quarters analytics.Quarters `sql:"bytea"`
}

const sameKey = `
	s.workspace_id = @workspace and s.mode = @mode and s.program_id = k.program_id and s.participant_id = k.participant_id
	and s.dimension = k.dimension and s.day = k.day and s.value = k.value and s.currency = k.currency and s.link_id = k.link_id`

var (
	sumColumns = postgres.Columns[sumRow]("s")
	selectSums = `
		select ` + sumColumns + `
		from ` + postgres.Unnest[analytics.Key]("k") + `
		cross join lateral (select * from analytics_days s where ` + sameKey + ` limit 1) as s`
	// takeValueSums deletes the sums of values that are no longer counted separately.
	takeValueSums = `
		delete from analytics_days s
		using ` + postgres.Unnest[dayValue]("k") + `
		where s.workspace_id = @workspace and s.mode = @mode and s.dimension = k.dimension and s.day = k.day and s.value = k.value
			and s.dimension <> ''
		returning ` + sumColumns
	deleteSums = `
		delete from analytics_days s
		using ` + postgres.Unnest[analytics.Key]("k") + `
		where ` + sameKey
	storeSums = `
		insert into analytics_days (workspace_id, mode, ` + postgres.Names[sumRow]() + `, ` + eachCount("%s") + `)
		select @workspace, @mode, ` + postgres.Names[sumRow]() + `, ` + eachCount("nullif(%s, 0)") + `
		from unnest(` + postgres.ArrayParams[sumRow]() + `, ` + eachCount("@%s::bigint[]") + `)
			as k (` + postgres.Names[sumRow]() + `, ` + eachCount("%s") + `)
		on conflict (workspace_id, mode, program_id, participant_id, dimension, day, value, currency, link_id) do update
		set ` + eachCount("%s = excluded.%s") + `, quarters = excluded.quarters`
)

// maxKeys is the maximum number of sums in a statement, which takes some tenths of a
// second.
const maxKeys = 5000

// Sums returns the stored sums with the keys of the given sums.
func Sums(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, of analytics.Sums) (analytics.Sums, error) {
	sums := analytics.Sums{}
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(of)), maxKeys) {
		found, err := listSums(ctx, tx, "read sums of the analytics", selectSums, postgres.Arrays(scope, chunk))
		if err != nil {
			return nil, err
		}
		maps.Copy(sums, found)
	}
	return sums, nil
}

// selectClickSums selects the sums that have clicks, for all links of a participant.
var selectClickSums = `
	select ` + sumColumns + `
	from analytics_days s
	where s.workspace_id = $1 and s.mode = $2 and s.participant_id = $3 and s.dimension = any($4)
		and s.program_id = (select t.program_id from participants t where t.workspace_id = $1 and t.mode = $2 and t.id = $3)
		and num_nonnulls(s.clicks, s.bot_clicks) > 0
	limit $5`

// ClickSums returns a participant's sums of the given dimensions that have clicks, at most limit of them.
func ClickSums(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, participant affiliate.ParticipantID, dimensions []analytics.Dimension, limit int,
) (analytics.Sums, error) {
	return listSums(ctx, tx, "read sums of clicks", selectClickSums, scope.Workspace, scope.Mode, participant, dimensions, limit)
}

// TakeValueSums deletes the sums of values and returns them.
func TakeValueSums(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, values map[analytics.DayValues][]string) (analytics.Sums, error) {
	return listSums(ctx, tx, "take sums of values", takeValueSums, valueArgs(scope, values))
}

// deleteUnused deletes values that have no sums any more.
var deleteUnused = `
	delete from analytics_values v
	using ` + postgres.Unnest[dayValue]("k") + `
	where v.workspace_id = @workspace and v.mode = @mode and v.dimension = k.dimension and v.day = k.day and v.value = k.value
		and not exists (
			select from analytics_days s
			where s.workspace_id = @workspace and s.mode = @mode and s.dimension = k.dimension and s.day = k.day and s.value = k.value and s.dimension <> '')`

// StoreSums stores sums. It deletes the rows of empty sums, and then the values that have no sums any more.
func StoreSums(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, sums analytics.Sums) error {
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(sums)), maxKeys) {
		if err := writeSums(ctx, tx, scope, sums, chunk); err != nil {
			return err
		}
	}
	return nil
}

func writeSums(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, sums analytics.Sums, keys []analytics.Key) error {
	var stored []sumRow
	var deleted []analytics.Key
	var counts [len(countColumns)][]int64
	for _, key := range keys {
		q := *sums[key]
		if len(q) == 0 {
			deleted = append(deleted, key)
			continue
		}
		stored = append(stored, sumRow{key, q})
		for i, n := range q.Total() {
			counts[i] = append(counts[i], n)
		}
	}
	batch := &pgx.Batch{}
	if len(stored) > 0 {
		args := postgres.Arrays(scope, stored)
		for i, name := range countColumns {
			args[name] = counts[i]
		}
		batch.Queue(storeSums, args)
	}
	if len(deleted) > 0 {
		args := postgres.Arrays(scope, deleted)
		batch.Queue(deleteSums, args)
		batch.Queue(deleteUnused, args)
	}
	return postgres.Send(ctx, tx, batch)
}

// listSums returns the sums that a statement selects.
func listSums(ctx context.Context, tx *postgres.Tx, what, sql string, args ...any) (analytics.Sums, error) {
	rows, err := postgres.List[sumRow](ctx, tx, sql, args...)
	sums := make(analytics.Sums, len(rows))
	for i := range rows {
		sums[rows[i].Key] = &rows[i].Quarters
	}
	return sums, err
}

const selectValues = `
	select value, weight from analytics_values
	where workspace_id = $1 and mode = $2 and dimension = $3 and day = $4`

// dayValue is a value of a dimension in a day.
type dayValue struct {
	analytics.DayValues
	Value string
}

// weightedValue is a value that is counted separately, with its weight.
type weightedValue struct {
	dayValue
	Weight int64
}

var (
	deleteValues = `
		delete from analytics_values v
		using ` + postgres.Unnest[dayValue]("k") + `
		where v.workspace_id = @workspace and v.mode = @mode and v.dimension = k.dimension and v.day = k.day and v.value = k.value`
	storeValues = `
		insert into analytics_values (workspace_id, mode, ` + postgres.Names[weightedValue]() + `)
		select @workspace, @mode, k.*
		from ` + postgres.Unnest[weightedValue]("k") + `
		on conflict (workspace_id, mode, dimension, day, value) do update set weight = excluded.weight`
)

// Values returns the values that are counted separately, with their weights.
func Values(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, of []analytics.DayValues) (analytics.Weights, error) {
	kept := analytics.Weights{}
	batch := &pgx.Batch{}
	for _, key := range of {
		batch.Queue(selectValues, scope.Workspace, scope.Mode, key.Dimension, key.Day.Time()).Query(func(rows pgx.Rows) error {
			weights := map[string]int64{}
			kept[key] = weights
			var value string
			var weight int64
			_, err := pgx.ForEachRow(rows, []any{&value, &weight}, func() error { weights[value] = weight; return nil })
			return err
		})
	}
	return kept, postgres.Send(ctx, tx, batch)
}

// StoreValues stores the weights of values that are counted separately, and deletes the values in the map deleted.
func StoreValues(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, stored analytics.Weights, deleted map[analytics.DayValues][]string) error {
	batch := &pgx.Batch{}
	if len(deleted) > 0 {
		batch.Queue(deleteValues, valueArgs(scope, deleted))
	}
	var rows []weightedValue
	for key, values := range stored {
		for value, weight := range values {
			rows = append(rows, weightedValue{dayValue{key, value}, weight})
		}
	}
	if len(rows) > 0 {
		batch.Queue(storeValues, postgres.Arrays(scope, rows))
	}
	return postgres.Send(ctx, tx, batch)
}

func valueArgs(scope affiliate.Scope, values map[analytics.DayValues][]string) pgx.NamedArgs {
	var rows []dayValue
	for key, list := range values {
		for _, value := range list {
			rows = append(rows, dayValue{key, value})
		}
	}
	return postgres.Arrays(scope, rows)
}
