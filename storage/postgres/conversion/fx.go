package conversion

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// findRates reads all rates of the given currencies and days, with any base currency. The
// recursive part steps from one of the few base currencies to the next, so that each
// look-up reads one range of the primary key. The limit of 8 only keeps the planner from
// joining the whole table. The range has eight days with one rate each, so the limit
// leaves out no rate.
const findRates = `
	with recursive bases as (
		(select base from fx_rates order by base limit 1)
		union all
		select (select r.base from fx_rates r where r.base > b.base order by r.base limit 1)
		from bases b
		where b.base is not null
	)
	select r.base, r.quote, r.date, r.rate::text as rate
	from bases b
	cross join unnest($1::text[]) as q (quote)
	cross join lateral (
		select f.base, f.quote, f.date, f.rate from fx_rates f
		where f.base = b.base and f.quote = q.quote and f.date between $2 and $3
		limit 8
	) r`

// queueRates queues a statement that reads the rates from the currency of the sale to the
// currencies of the candidates' programmes. It queues nothing if all these programmes use
// the currency of the sale, or if the conversion has no amount.
func queueRates(batch *pgx.Batch, c conversion.Conversion, in *attribution.Inputs) {
	from, day := c.Currency, attribution.FXDay(c.OccurredAt)
	currencies := foreignCurrencies(from, in)
	if len(currencies) == 0 {
		return
	}
	batch.Queue(findRates, append(currencies, from), day.Add(-attribution.MaxFXAge), day).Query(func(rows pgx.Rows) error {
		loaded, err := pgx.CollectRows(rows, pgx.RowToStructByName[attribution.FXRate])
		if err != nil {
			return err
		}
		in.Rates = make(map[string]attribution.FXRate, len(currencies))
		for _, to := range currencies {
			if rate, ok := attribution.FindRate(loaded, from, to, day); ok {
				in.Rates[to] = rate
			}
		}
		return nil
	})
}

// foreignCurrencies returns the currencies of the candidates' programmes that differ
// from the currency of the sale. The result is empty for a conversion without an amount.
func foreignCurrencies(from string, in *attribution.Inputs) []string {
	if from == "" {
		return nil
	}
	var earners []attribution.Earner
	if in.FoundClick != nil {
		earners = append(earners, in.FoundClick.Earner)
	}
	if in.FoundPromoCode != nil {
		earners = append(earners, in.FoundPromoCode.Earner)
	}
	if in.Customer != nil && in.Customer.Binding != nil {
		earners = append(earners, in.Customer.Binding.Earner)
	}
	if in.Assigned != nil {
		earners = append(earners, *in.Assigned)
	}
	var currencies []string
	for _, earner := range earners {
		if earner.Currency != from && !slices.Contains(currencies, earner.Currency) {
			currencies = append(currencies, earner.Currency)
		}
	}
	return currencies
}

// loadChunk is the maximum number of rates that one statement stores.
const loadChunk = 10_000

// upsertRates inserts new rates and updates stored rates whose value has changed. It does
// not write a rate that is already stored with the same value.
const upsertRates = `
	insert into fx_rates as r (base, quote, date, rate, loaded_at)
	select base, quote, date, rate, $1
	from unnest($2::text[], $3::text[], $4::date[], $5::numeric[]) as t (base, quote, date, rate)
	on conflict (base, quote, date) do update set rate = excluded.rate, loaded_at = excluded.loaded_at
	where r.rate <> excluded.rate
	returning xmax = 0 as new`

// PutRates stores exchange rates in the given order, and replaces stored rates of the same pair and date.
func PutRates(ctx context.Context, tx *postgres.Tx, rates []attribution.FXRate, at time.Time) (stored attribution.FXLoad, err error) {
	for chunk := range slices.Chunk(rates, loadChunk) {
		isNew, err := putRates(ctx, tx, chunk, at)
		if err != nil {
			return stored, fmt.Errorf("store exchange rates: %w", err)
		}
		for _, added := range isNew {
			if added {
				stored.New++
			} else {
				stored.Changed++
			}
		}
		stored.Same += len(chunk) - len(isNew)
	}
	return stored, nil
}

// putRates returns for each rate that it has written whether the rate is new.
func putRates(ctx context.Context, tx *postgres.Tx, rates []attribution.FXRate, at time.Time) ([]bool, error) {
	var bases, quotes, values []string
	var dates []time.Time
	for _, r := range rates {
		bases, quotes = append(bases, r.Base), append(quotes, r.Quote)
		dates, values = append(dates, r.Date), append(values, r.Rate)
	}
	return postgres.Values[bool](ctx, tx, upsertRates, at, bases, quotes, dates, values)
}
