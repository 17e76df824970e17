package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/storage/postgres"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
)

const (
	reportDays   = 365
	dayQuarters  = 96
	yearQuarters = reportDays * dayQuarters
	// yearConversions is the number of conversions of each workspace. SCALE does not multiply
	// it.
	yearConversions = 1_000_000
	// reportPartners is the number of participants of a workspace. Each has one link.
	reportPartners = 20
	// The numbers of values of the dimensions. The clicks of a participant come from
	// partnerCountries of the countries. Each participant has its own sub ids. Together they
	// are as many as the service counts separately in a day. Every participant also has
	// clicks with other sub ids, which are counted together.
	reportCountries  = 50
	partnerCountries = 5
	reportDevices    = 3
	partnerSubIDs    = analytics.MaxValues / reportPartners
	// sellingSubIDs is the number of a participant's sub ids that have conversions.
	sellingSubIDs = 10
)

// year is a workspace with clicks and conversions in each quarter of an hour of the 365
// UTC days that end today.
type year struct {
	listedProgram
	first     analytics.Day
	clicks    int
	scope     affiliate.Scope
	currency  string
	owners    []analytics.Owner              // the participants with their links
	customers map[string]*analytics.Customer // with a conversion
}

func (y *year) allClicks() int    { return y.clicks }
func (y *year) allCustomers() int { return len(y.customers) }
func (y *year) subIDs() int       { return reportPartners * partnerSubIDs }

// clicksInIndia returns the number of clicks from the second day to the last in the time
// zone of India. There the days begin at 18:30 UTC of the day before.
func (y *year) clicksInIndia() int {
	const begin = 18*4 + 2
	return reportPartners * (y.clicksBefore(yearQuarters-dayQuarters+begin) - y.clicksBefore(begin))
}

// clicksBefore returns the number of clicks of a participant before a quarter of the year.
func (y *year) clicksBefore(quarter int) int {
	return y.clicks / reportPartners * quarter / yearQuarters
}

// period returns the parameters of the period that begins with a day of the year and ends
// with its last day.
func (y *year) period(firstDay int) string {
	first := y.first + analytics.Day(firstDay)
	return "dateFrom=" + first.Time().Format(time.DateOnly) + "&dateTo=" + (y.first + reportDays - 1).Time().Format(time.DateOnly)
}

// fill inserts participants, and the sums and counted conversions of the year. The clicks
// and conversions themselves do not exist. The rows of each day are inserted together and in
// random order, so that the rows that a report reads are not next to each other.
func (y *year) fill(ctx context.Context, db *database) error {
	if err := y.listedProgram.fill(ctx, db, reportPartners); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, db.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	y.scope.Mode = affiliate.ModeLive
	rows, err := conn.Query(ctx, `
		select p.workspace_id, p.currency, p.id, l.participant_id, l.id
		from programs p join links l on l.workspace_id = p.workspace_id and l.program_id = p.id where p.id = $1`, y.program)
	if err != nil {
		return err
	}
	var owner analytics.Owner
	_, err = pgx.ForEachRow(rows, []any{&y.scope.Workspace, &y.currency, &owner.Program, &owner.Participant, &owner.Link}, func() error {
		y.owners = append(y.owners, owner)
		return nil
	})
	if err != nil {
		return err
	}
	y.customers = map[string]*analytics.Customer{}
	// The seed is the same for both workspaces, so their conversions have the same values.
	random := rand.New(rand.NewPCG(1, 0))
	for day := range reportDays {
		sums := analytics.Sums{}
		y.addClicks(sums, day)
		made := y.addConversions(sums, day, random)
		sums.AddProgramSums()
		sums.DropEmpty()
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{"analytics_days"}, sumColumns, pgx.CopyFromRows(y.rowsOf(sums))); err != nil {
			return err
		}
		if _, err := conn.CopyFrom(ctx, pgx.Identifier{"analytics_conversions"}, conversionColumns, pgx.CopyFromRows(made)); err != nil {
			return err
		}
	}
	if err := y.storeCustomers(ctx, db); err != nil {
		return err
	}
	return execute(ctx, db.url, `
		insert into analytics_values (workspace_id, mode, dimension, day, value, weight)
		select workspace_id, mode, dimension, day, value, coalesce(clicks, 0) + 1000 * coalesce(conversions, 0)
		from analytics_days
		where workspace_id = '`+y.scope.Workspace.String()+`' and participant_id = '`+uuid.Nil.String()+`' and dimension <> '' and value <> '' and currency = ''`)
}

// storeCustomers stores the customers and their cohorts.
func (y *year) storeCustomers(ctx context.Context, db *database) error {
	store, err := postgres.Open(ctx, postgres.Config{URL: db.url})
	if err != nil {
		return err
	}
	defer store.Close()
	cohorts := analytics.CohortSums{}
	for _, customer := range y.customers {
		cohorts.AddCustomer(customer, 1)
	}
	for customers := range slices.Chunk(slices.Collect(maps.Values(y.customers)), 10_000) {
		err := store.InTx(ctx, func(tx *postgres.Tx) error { return rollups.StoreCustomers(ctx, tx, y.scope, customers, nil) })
		if err != nil {
			return err
		}
	}
	return store.InTx(ctx, func(tx *postgres.Tx) error { return rollups.AddCohorts(ctx, tx, y.scope, cohorts) })
}

// sumColumns are the columns of analytics_days. The counts are in the order of
// analytics.Counts.
var sumColumns = []string{
	"workspace_id", "mode", "program_id", "participant_id", "link_id", "dimension", "day", "value", "currency",
	"clicks", "unique_clicks", "bot_clicks", "conversions", "signups",
	"new_customers", "approved", "paid", "orders", "revenue_cents", "refunded_cents", "commission_cents", "quarters",
}

// rowsOf returns the rows of sums, in random order.
func (y *year) rowsOf(sums analytics.Sums) (rows [][]any) {
	for key, quarters := range sums {
		row := []any{y.scope.Workspace, y.scope.Mode, key.Program, key.Participant, key.Link, key.Dimension, key.Day.Time(), key.Value, key.Currency}
		for _, n := range quarters.Total() {
			if n == 0 {
				row = append(row, nil)
			} else {
				row = append(row, n)
			}
		}
		rows = append(rows, append(row, *quarters))
	}
	return rows
}

// addClicks adds the clicks of a day to the sums. The clicks of a participant are numbered
// from the start of the year. The number of a click determines its values. All clicks are
// unique.
func (y *year) addClicks(sums analytics.Sums, day int) {
	for p, owner := range y.owners {
		// add adds the clicks whose numbers have the given remainder, see matching.
		add := func(dimension analytics.Dimension, value string, remainder, divisor int) {
			quarters := make(analytics.Quarters, 0, dayQuarters)
			for quarter := range dayQuarters {
				from, to := y.clicksBefore(day*dayQuarters+quarter), y.clicksBefore(day*dayQuarters+quarter+1)
				if n := int64(matching(from, to, remainder, divisor)); n > 0 {
					quarters = append(quarters, analytics.QuarterCounts{Index: uint8(quarter), Counts: analytics.Counts{analytics.Clicks: n, analytics.UniqueClicks: n}})
				}
			}
			sums[analytics.Key{Owner: owner, Day: y.first + analytics.Day(day), Dimension: dimension, Value: value}] = &quarters
		}
		add(analytics.Total, "", 0, 1)
		for n := range partnerCountries {
			add(analytics.Country, countryOf(p, n), n, partnerCountries)
		}
		for n := range reportDevices {
			add(analytics.Device, deviceOf(n), n, reportDevices)
		}
		for n := range partnerSubIDs {
			add(analytics.SubID, subIDOf(p, n), n, partnerSubIDs+1)
		}
		add(analytics.SubID, analytics.OtherValues, partnerSubIDs, partnerSubIDs+1)
	}
}

// matching returns how many of the numbers from <= n < to have the given remainder when
// they are divided by divisor.
func matching(from, to, remainder, divisor int) int {
	return (to-remainder+divisor-1)/divisor - (from-remainder+divisor-1)/divisor
}

// countryOf returns the country of click n of a participant.
func countryOf(partner, n int) string {
	return fmt.Sprintf("C%02d", (partner*partnerCountries+n%partnerCountries)%reportCountries)
}

// deviceOf returns the device of click n.
func deviceOf(n int) string { return []string{"desktop", "mobile", "tablet"}[n%reportDevices] }

// subIDOf returns the sub id of click n of a participant.
func subIDOf(partner, n int) string { return fmt.Sprintf("sub-%02d-%02d", partner, n%partnerSubIDs) }

// conversionColumns are the columns of analytics_conversions that addConversions returns.
var conversionColumns = []string{
	"workspace_id", "mode", "conversion_id", "program_id", "participant_id", "link_id", "occurred_at", "event_type", "dimension_values", "customer_ref",
	"currency", "amount_cents", "refunded_cents", "commission_status", "commission_cents", "commission_currency",
}

// addConversions adds the conversions of a day to the sums and returns their rows. A
// customer has about two conversions.
func (y *year) addConversions(sums analytics.Sums, day int, random *rand.Rand) (rows [][]any) {
	first, end := yearConversions*day/reportDays, yearConversions*(day+1)/reportDays
	start := (y.first + analytics.Day(day)).Time()
	statuses := []commission.Status{commission.Pending, commission.Approved, commission.Paid, commission.Rejected}
	for n := first; n < end; n++ {
		at := start.Add(24 * time.Hour * time.Duration(n-first) / time.Duration(end-first)).Truncate(time.Millisecond)
		p := random.IntN(reportPartners)
		c := analytics.Conversion{
			ID: affiliate.NewID[affiliate.ConversionID](at), Owner: y.owners[p], OccurredAt: at, EventType: affiliate.Purchase,
			Customer: "customer-" + strconv.Itoa(random.IntN(yearConversions/2)), Currency: y.currency, AmountCents: 1000 + int64(n)%9000,
			Commission: statuses[n%len(statuses)], CommissionCents: 500, CommissionCurrency: y.currency,
		}
		click := analytics.ClickValues(&click.Click{
			Country: countryOf(p, random.IntN(partnerCountries)), Device: deviceOf(random.IntN(reportDevices)), SubID: subIDOf(p, random.IntN(sellingSubIDs)),
		})
		c.SetValues(&click, "", "")
		customer := y.customers[c.Customer]
		if customer == nil {
			customer = &analytics.Customer{Ref: c.Customer, First: c.ID, FirstAt: c.OccurredAt, Owner: c.Owner, Activity: analytics.Activity{}}
			y.customers[c.Customer], c.FirstOfCustomer = customer, true
		}
		customer.Activity.Add(&c, analytics.MonthOf(c.OccurredAt), 1)
		sums.AddConversion(&c, 1)
		rows = append(rows, []any{
			y.scope.Workspace, y.scope.Mode, c.ID, c.Program, c.Participant, c.Link, c.OccurredAt, c.EventType, c.Values[:], c.Customer,
			c.Currency, c.AmountCents, c.RefundedCents, c.Commission, c.CommissionCents, c.CommissionCurrency,
		})
	}
	return rows
}
