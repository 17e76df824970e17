package analytics

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

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
	return kept, postgres.Send(ctx, tx, "read values of the analytics", batch)
}

// StoreValues stores the weights of values that are counted separately, and deletes other values.
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
	return postgres.Send(ctx, tx, "store values of the analytics", batch)
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
