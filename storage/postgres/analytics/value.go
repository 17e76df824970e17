package analytics

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	selectValues = `
		select value, weight from analytics_values
		where workspace_id = $1 and mode = $2 and dimension = $3 and day = $4`
	deleteValues = `
		delete from analytics_values v
		using unnest(@dimensions::text[], @days::date[], @values::text[]) as k (dimension, day, value)
		where v.workspace_id = @workspace and v.mode = @mode and v.dimension = k.dimension and v.day = k.day and v.value = k.value`
	storeValues = `
		insert into analytics_values (workspace_id, mode, dimension, day, value, weight)
		select @workspace, @mode, dimension, day, value, weight
		from unnest(@dimensions::text[], @days::date[], @values::text[], @weights::bigint[]) as k (dimension, day, value, weight)
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
	return kept, send(ctx, tx, "read values of the analytics", batch)
}

// StoreValues stores the weights of values that are counted separately, and deletes other values.
func StoreValues(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, stored analytics.Weights, deleted map[analytics.DayValues][]string) error {
	batch := &pgx.Batch{}
	if len(deleted) > 0 {
		batch.Queue(deleteValues, valueArgs(scope, deleted))
	}
	var arrays valueArrays
	var weights []int64
	for key, values := range stored {
		for value, weight := range values {
			arrays.add(key, value)
			weights = append(weights, weight)
		}
	}
	if len(weights) > 0 {
		args := arrays.args(scope)
		args["weights"] = weights
		batch.Queue(storeValues, args)
	}
	return send(ctx, tx, "store values of the analytics", batch)
}

// valueArrays are values as parallel arrays, for unnest.
type valueArrays struct {
	dimensions, values []string
	days               []time.Time
}

func (a *valueArrays) add(key analytics.DayValues, value string) {
	a.dimensions, a.days, a.values = append(a.dimensions, string(key.Dimension)), append(a.days, key.Day.Time()), append(a.values, value)
}

func (a *valueArrays) args(scope affiliate.Scope) pgx.NamedArgs {
	return pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "dimensions": a.dimensions, "days": a.days, "values": a.values}
}

func valueArgs(scope affiliate.Scope, values map[analytics.DayValues][]string) pgx.NamedArgs {
	var arrays valueArrays
	for key, list := range values {
		for _, value := range list {
			arrays.add(key, value)
		}
	}
	return arrays.args(scope)
}
