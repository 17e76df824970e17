package analytics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// keyArrays are the keys of sums as parallel arrays, for unnest.
type keyArrays struct {
	programs, participants, links  []uuid.UUID
	dimensions, values, currencies []string
	days                           []time.Time
}

func (k *keyArrays) add(key analytics.Key) {
	k.programs, k.participants, k.links = append(k.programs, key.Program.UUID), append(k.participants, key.Participant.UUID), append(k.links, key.Link.UUID)
	k.dimensions, k.values, k.currencies = append(k.dimensions, string(key.Dimension)), append(k.values, key.Value), append(k.currencies, key.Currency)
	k.days = append(k.days, key.Day.Time())
}

func (k *keyArrays) args(scope affiliate.Scope) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode,
		"programs": k.programs, "participants": k.participants, "links": k.links,
		"dimensions": k.dimensions, "values": k.values, "currencies": k.currencies, "days": k.days,
	}
}

const (
	unnestKeys = `unnest(@programs::uuid[], @participants::uuid[], @dimensions::text[], @days::date[], @values::text[], @currencies::text[], @links::uuid[])`
	keyColumns = `program_id, participant_id, dimension, day, value, currency, link_id`
	sameKey    = `
		s.workspace_id = @workspace and s.mode = @mode and s.program_id = k.program_id and s.participant_id = k.participant_id
		and s.dimension = k.dimension and s.day = k.day and s.value = k.value and s.currency = k.currency and s.link_id = k.link_id`

	selectSums = `
		select s.program_id, s.participant_id, s.dimension, s.day, s.value, s.currency, s.link_id, s.quarters
		from ` + unnestKeys + ` as k (` + keyColumns + `)
		cross join lateral (select * from analytics_days s where ` + sameKey + ` limit 1) as s`
	// takeValueSums deletes the sums of values that are no longer counted separately.
	takeValueSums = `
		delete from analytics_days s
		using unnest(@dimensions::text[], @days::date[], @values::text[]) as k (dimension, day, value)
		where s.workspace_id = @workspace and s.mode = @mode and s.dimension = k.dimension and s.day = k.day and s.value = k.value
			and s.dimension <> ''
		returning s.program_id, s.participant_id, s.dimension, s.day, s.value, s.currency, s.link_id, s.quarters`
	deleteSums = `
		delete from analytics_days s
		using ` + unnestKeys + ` as k (` + keyColumns + `)
		where ` + sameKey
	storeSums = `
		insert into analytics_days (workspace_id, mode, ` + keyColumns + `,
			clicks, unique_clicks, bot_clicks, conversions, signups, new_customers, approved, paid,
			orders, revenue_cents, refunded_cents, commission_cents, quarters)
		select @workspace, @mode, ` + keyColumns + `,
			nullif(clicks, 0), nullif(unique_clicks, 0), nullif(bot_clicks, 0), nullif(conversions, 0),
			nullif(signups, 0), nullif(new_customers, 0), nullif(approved, 0), nullif(paid, 0),
			nullif(orders, 0), nullif(revenue_cents, 0), nullif(refunded_cents, 0), nullif(commission_cents, 0), quarters
		from unnest(@programs::uuid[], @participants::uuid[], @dimensions::text[], @days::date[], @values::text[], @currencies::text[], @links::uuid[],
			@c0::bigint[], @c1::bigint[], @c2::bigint[], @c3::bigint[], @c4::bigint[], @c5::bigint[],
			@c6::bigint[], @c7::bigint[], @c8::bigint[], @c9::bigint[], @c10::bigint[], @c11::bigint[], @quarters::bytea[])
			as k (` + keyColumns + `, clicks, unique_clicks, bot_clicks, conversions, signups, new_customers, approved, paid,
				orders, revenue_cents, refunded_cents, commission_cents, quarters)
		on conflict (workspace_id, mode, program_id, participant_id, dimension, day, value, currency, link_id) do update
		set clicks = excluded.clicks, unique_clicks = excluded.unique_clicks, bot_clicks = excluded.bot_clicks,
			conversions = excluded.conversions, signups = excluded.signups, new_customers = excluded.new_customers,
			approved = excluded.approved, paid = excluded.paid, orders = excluded.orders,
			revenue_cents = excluded.revenue_cents, refunded_cents = excluded.refunded_cents,
			commission_cents = excluded.commission_cents, quarters = excluded.quarters`
)

// maxKeys is the maximum number of sums in one statement. A statement with as many sums takes
// some tenths of a second.
const maxKeys = 5000

// Sums returns the stored sums with the keys of the given sums.
func Sums(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, of analytics.Sums) (analytics.Sums, error) {
	sums := analytics.Sums{}
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(of)), maxKeys) {
		var keys keyArrays
		for _, key := range chunk {
			keys.add(key)
		}
		found, err := collectSums(tx.Query(ctx, selectSums, keys.args(scope)))
		if err != nil {
			return nil, fmt.Errorf("read sums of the analytics: %w", err)
		}
		maps.Copy(sums, found)
	}
	return sums, nil
}

// selectClickSums selects sums of values with clicks, of all links of a participant.
const selectClickSums = `
	select s.program_id, s.participant_id, s.dimension, s.day, s.value, s.currency, s.link_id, s.quarters
	from analytics_days s
	where s.workspace_id = $1 and s.mode = $2 and s.participant_id = $3 and s.dimension = any($4)
		and s.program_id = (select t.program_id from participants t where t.workspace_id = $1 and t.mode = $2 and t.id = $3)
		and num_nonnulls(s.clicks, s.bot_clicks) > 0
	limit $5`

// ClickSums returns at most limit sums of values of a participant that have clicks.
func ClickSums(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, participant affiliate.ParticipantID, dimensions []analytics.Dimension, limit int,
) (analytics.Sums, error) {
	sums, err := collectSums(tx.Query(ctx, selectClickSums, scope.Workspace, scope.Mode, participant, dimensions, limit))
	if err != nil {
		return nil, fmt.Errorf("read sums of clicks: %w", err)
	}
	return sums, nil
}

// TakeValueSums deletes the sums of values and returns them.
func TakeValueSums(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, values map[analytics.DayValues][]string) (analytics.Sums, error) {
	args := valueArgs(scope, values)
	sums, err := collectSums(tx.Query(ctx, takeValueSums, args))
	if err != nil {
		return nil, fmt.Errorf("take sums of values: %w", err)
	}
	return sums, nil
}

// deleteUnused deletes values that have no sums any more.
const deleteUnused = `
	delete from analytics_values v
	using unnest(@dimensions::text[], @days::date[], @values::text[]) as k (dimension, day, value)
	where v.workspace_id = @workspace and v.mode = @mode and v.dimension = k.dimension and v.day = k.day and v.value = k.value
		and not exists (
			select from analytics_days s
			where s.workspace_id = @workspace and s.mode = @mode and s.dimension = k.dimension and s.day = k.day and s.value = k.value and s.dimension <> '')`

// StoreSums stores sums. It deletes the sums whose numbers are all zero, and the values that
// have no sums any more.
func StoreSums(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, sums analytics.Sums) error {
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(sums)), maxKeys) {
		if err := writeSums(ctx, tx, scope, sums, chunk); err != nil {
			return err
		}
	}
	return nil
}

func writeSums(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, sums analytics.Sums, keys []analytics.Key) error {
	var stored, deleted keyArrays
	var counts [len(analytics.Counts{})][]int64
	var quarters [][]byte
	for _, key := range keys {
		q := sums[key]
		if len(*q) == 0 {
			deleted.add(key)
			continue
		}
		stored.add(key)
		for i, n := range q.Total() {
			counts[i] = append(counts[i], n)
		}
		quarters = append(quarters, q.Encode())
	}
	batch := &pgx.Batch{}
	if len(stored.days) > 0 {
		args := stored.args(scope)
		for i := range counts {
			args[fmt.Sprintf("c%d", i)] = counts[i]
		}
		args["quarters"] = quarters
		batch.Queue(storeSums, args)
	}
	if len(deleted.days) > 0 {
		args := deleted.args(scope)
		batch.Queue(deleteSums, args)
		batch.Queue(deleteUnused, args)
	}
	return send(ctx, tx, "store sums of the analytics", batch)
}

func collectSums(rows pgx.Rows, err error) (analytics.Sums, error) {
	if err != nil {
		return nil, err
	}
	sums := analytics.Sums{}
	var key analytics.Key
	var day time.Time
	var encoded []byte
	_, err = pgx.ForEachRow(rows, []any{&key.Program, &key.Participant, &key.Dimension, &day, &key.Value, &key.Currency, &key.Link, &encoded}, func() error {
		quarters, err := analytics.DecodeQuarters(encoded)
		key.Day = analytics.DayOf(day)
		sums[key] = &quarters
		return err
	})
	return sums, err
}
