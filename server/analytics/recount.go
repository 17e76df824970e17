package analytics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/postgres"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
)

// RecountResult has the numbers of days, clicks and conversions that Recount has counted.
type RecountResult struct{ Days, Clicks, Conversions int64 }

// errBusy means that another transaction had the lock of the sums for a long time.
var errBusy = errors.New("another process changes the analytics")

// OldestDay returns the first UTC day whose clicks can be counted again. Clicks are deleted after
// 13 months. OldestDay adds two days as a reserve for the time zone and for the duration of a count.
func OldestDay(now time.Time) time.Time {
	return now.UTC().Truncate(24*time.Hour).AddDate(0, -13, 2)
}

// Recount counts the clicks and conversions of a workspace and mode from one UTC day to another
// again, and replaces the sums of these days. It also replaces all cohorts. It corrects
// sums that differ from the rows. It can run while the service runs, because each day is
// replaced in one transaction.
//
// It does not replace the sums of days before OldestDay, because their clicks were deleted. The
// conversions of these days are compared with their counted state like all others.
func (s *Service) Recount(ctx context.Context, scope affiliate.Scope, from, to time.Time) (RecountResult, error) {
	var total RecountResult
	first, last := analytics.DayOf(from), analytics.DayOf(to)
	// The new log entries make the next transactions count the conversions again.
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error { return rollups.LogConversions(ctx, tx, scope, first, last) })
	if err != nil {
		return total, err
	}
	if err := s.withoutEntries(ctx, scope, func(tx *postgres.Tx) error { return recountCohorts(ctx, tx, scope) }); err != nil {
		return total, fmt.Errorf("recount cohorts: %w", err)
	}
	for day := first; day <= last; day++ {
		if day < analytics.DayOf(OldestDay(s.now())) {
			continue
		}
		var counted RecountResult
		err := s.withoutEntries(ctx, scope, func(tx *postgres.Tx) (err error) {
			counted, err = recountDay(ctx, tx, scope, day)
			return err
		})
		if err != nil {
			return total, fmt.Errorf("recount %s: %w", day, err)
		}
		total.Days, total.Clicks, total.Conversions = total.Days+1, total.Clicks+counted.Clicks, total.Conversions+counted.Conversions
	}
	return total, nil
}

// withoutEntries runs fn in a transaction that has the lock of the sums, and in which the log of
// the workspace and mode has no entries.
//
// All statements of the transaction read the same snapshot. A click is therefore among the
// clicks that fn reads, or its entry is in the log after the transaction, but not both.
func (s *Service) withoutEntries(ctx context.Context, scope affiliate.Scope, fn func(tx *postgres.Tx) error) error {
	left := longBudget()
	for {
		if _, err := s.addEntries(ctx, scope, left); err != nil {
			return err
		}
		done := false
		err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
			done = false
			if err := rollups.UseSnapshot(ctx, tx); err != nil {
				return err
			}
			locked, err := rollups.TryLock(ctx, tx, scope)
			if err != nil || !locked {
				return err
			}
			for more := true; more; {
				if more, err = foldNext(ctx, tx, s.log, scope, s.now()); err != nil {
					return err
				}
			}
			done = true
			return fn(tx)
		})
		if err != nil || done {
			return err
		}
		if ok, err := left.pause(ctx); !ok {
			return cmp.Or(err, errBusy)
		}
	}
}

// recountDay replaces the sums of a day.
func recountDay(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, day analytics.Day) (counted RecountResult, err error) {
	if err := rollups.DeleteDay(ctx, tx, scope, day); err != nil {
		return counted, err
	}
	conversions, err := rollups.CountedOfDay(ctx, tx, scope, day)
	if err != nil {
		return counted, err
	}
	sums, weights := analytics.Sums{}, analytics.Weights{}
	for i := range conversions {
		sums.AddConversion(&conversions[i], 1)
		weights.AddConversion(&conversions[i], nil)
	}
	if err := addSums(ctx, tx, scope, sums, weights); err != nil {
		return counted, err
	}
	counted.Conversions = int64(len(conversions))
	err = rollups.EachClicksOfDay(ctx, tx, scope, day, func(clicks []click.Click) error {
		counted.Clicks += int64(len(clicks))
		sums, weights := analytics.Sums{}, analytics.Weights{}
		for i := range clicks {
			sums.AddClick(&clicks[i], weights)
		}
		if err := dropErased(ctx, tx, scope, sums); err != nil {
			return err
		}
		return addSums(ctx, tx, scope, sums, weights)
	})
	return counted, err
}

// recountCohorts replaces the customers and their cohorts.
func recountCohorts(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope) error {
	if err := rollups.DeleteCustomers(ctx, tx, scope); err != nil {
		return err
	}
	var last *analytics.Customer
	var customers []*analytics.Customer
	store := func() error {
		cohorts := analytics.CohortSums{}
		for _, customer := range customers {
			cohorts.AddCustomer(customer, 1)
		}
		if err := rollups.StoreCustomers(ctx, tx, scope, customers, nil); err != nil {
			return err
		}
		customers = nil
		return rollups.AddCohorts(ctx, tx, scope, cohorts)
	}
	err := rollups.EachCountedOfCustomers(ctx, tx, scope, func(conversions []analytics.Conversion) error {
		for i := range conversions {
			c := &conversions[i]
			if last == nil || last.Ref != c.Customer {
				last = &analytics.Customer{Ref: c.Customer, First: c.ID, FirstAt: c.OccurredAt, Owner: c.Owner, Activity: analytics.Activity{}}
				customers = append(customers, last)
			}
			last.Activity.Add(c, analytics.MonthOf(c.OccurredAt), 1)
		}
		// The conversions of the last customer may continue in the next part.
		all := customers
		customers = all[:len(all)-1]
		err := store()
		customers = all[len(all)-1:]
		return err
	})
	if err != nil {
		return err
	}
	return store()
}

// recountConversions subtracts the counted state of conversions from sums, and adds their current
// state. It inserts an entry into the log for the conversions whose click is not stored yet.
func recountConversions(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, ids []affiliate.ConversionID, now time.Time, sums analytics.Sums, weights analytics.Weights,
) error {
	if len(ids) == 0 {
		return nil
	}
	before, err := rollups.CountedConversions(ctx, tx, scope, ids)
	if err != nil {
		return err
	}
	after, err := rollups.CurrentConversions(ctx, tx, scope, ids)
	if err != nil {
		return err
	}
	var stored []analytics.Conversion
	var deleted, early []affiliate.ConversionID
	customers := map[string]bool{}
	for _, id := range ids {
		counted, wasCounted := before[id]
		current, exists := after[id]
		if wasCounted && exists {
			current.KeepClickValues(&counted)
			after[id] = current
		}
		if clickedAt, ok := current.Click.Time(); current.ClickDeleted && ok && now.Sub(clickedAt) < maxClickDelay {
			early = append(early, id)
		}
		switch {
		case exists && current != counted:
			stored = append(stored, current)
		case !exists && wasCounted:
			deleted = append(deleted, id)
		}
		customers[counted.Customer], customers[current.Customer] = true, true
	}
	if err := rollups.StoreCounted(ctx, tx, scope, stored, deleted); err != nil {
		return err
	}
	if len(early) > 0 {
		if err := rollups.AddEntry(ctx, tx, scope, analytics.LogEntry{Conversions: early}); err != nil {
			return err
		}
	}
	delete(customers, "")
	if err := recountCustomers(ctx, tx, scope, slices.Collect(maps.Keys(customers)), before, after); err != nil {
		return err
	}
	for _, counted := range before {
		sums.AddConversion(&counted, -1)
	}
	for id, current := range after {
		sums.AddConversion(&current, 1)
		if counted, ok := before[id]; ok {
			weights.AddConversion(&current, &counted)
		} else {
			weights.AddConversion(&current, nil)
		}
	}
	return nil
}

// recountCustomers changes the cohorts of customers whose conversions have changed. The map
// before has the counted state of the conversions, and the map after has the current state. It
// sets FirstOfCustomer in both maps, and adds to both the conversions that addFirsts adds.
func recountCustomers(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, refs []string, before, after map[affiliate.ConversionID]analytics.Conversion,
) error {
	if len(refs) == 0 {
		return nil
	}
	counted, err := rollups.Customers(ctx, tx, scope, refs)
	if err != nil {
		return err
	}
	current, err := rollups.Firsts(ctx, tx, scope, refs)
	if err != nil {
		return err
	}
	if err := addFirsts(ctx, tx, scope, refs, counted, current, before, after); err != nil {
		return err
	}
	cohorts := analytics.CohortSums{}
	activities := map[string]analytics.Activity{}
	for ref, customer := range counted {
		cohorts.AddCustomer(customer, -1)
		activities[ref] = customer.Activity
	}
	add := func(conversions map[affiliate.ConversionID]analytics.Conversion, sign int64) {
		for _, c := range conversions {
			if c.Customer == "" {
				continue
			}
			if activities[c.Customer] == nil {
				activities[c.Customer] = analytics.Activity{}
			}
			activities[c.Customer].Add(&c, analytics.MonthOf(c.OccurredAt), sign)
		}
	}
	add(before, -1)
	add(after, 1)
	var stored []*analytics.Customer
	var deleted []string
	for _, ref := range refs {
		customer := current[ref]
		if customer == nil {
			deleted = append(deleted, ref)
			continue
		}
		maps.Copy(customer.Activity, activities[ref])
		cohorts.AddCustomer(customer, 1)
		stored = append(stored, customer)
	}
	if err := rollups.StoreCustomers(ctx, tx, scope, stored, deleted); err != nil {
		return err
	}
	return rollups.AddCohorts(ctx, tx, scope, cohorts)
}
