package analytics_test

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/click"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/analytics"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// storeSubIDs stores a click for each sub id, all of them received now.
func (f *fixture) storeSubIDs(ids ...string) {
	f.Helper()
	stored := make([]click.Click, len(ids))
	for i, id := range ids {
		stored[i] = f.UnstoredClick(f.pat, func(c *click.Click) { c.SubID = id })
	}
	if err := clicks.Store(f.Context(), f.DB, stored); err != nil {
		f.Fatal(err)
	}
}

// A visitor who sends clicks with ever new sub ids can neither make the tables grow without limit
// nor hide the sub ids with many clicks. No click is lost.
func TestBreakdown_ManyValues(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t, time.Now())
	const rounds, junk = 6, 2500
	for round := range rounds {
		var ids []string
		for n := range junk {
			ids = append(ids, fmt.Sprintf("junk-%d-%d", round, n))
		}
		for range 100 {
			ids = append(ids, "newsletter")
		}
		f.storeSubIDs(ids...)
		f.addWaiting()
	}
	req := &request{GroupBy: affiliatev1.AnalyticsDimension_ANALYTICS_DIMENSION_SUB_ID, PageSize: new(int32(100))}
	got, err := f.service.GetAnalyticsBreakdown(f.asOwner(), req)
	if err != nil {
		t.Fatal(err)
	}
	if top := got.GetRows()[0]; top.GetValue() != "newsletter" || top.GetClicks() != rounds*100 {
		t.Errorf("the first row is %v, want newsletter with %d clicks", top, rounds*100)
	}
	counted := got.GetOther().GetClicks()
	for page := int32(1); ; page++ {
		req.Page = &page
		rows, err := f.service.GetAnalyticsBreakdown(f.asOwner(), req)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows.GetRows()) == 0 {
			break
		}
		for _, row := range rows.GetRows() {
			counted += row.GetClicks()
		}
	}
	if want := int64(rounds * (junk + 100)); counted != want || got.GetTotal() > 1000 {
		t.Errorf("the %d rows and the others have %d clicks, want %d", got.GetTotal(), counted, want)
	}
	f.WantCount(1000, "values", `select count(*) from analytics_values where dimension = 'sub_id'`)
	f.WantCount(2*1001, "sums of values and others", `select count(*) from analytics_days where dimension = 'sub_id'`)
}

// Each click and each conversion is counted exactly once, although requests and jobs of several
// processes add the same entries at the same time, and some of them crash before their commit.
func TestFold_CountsOnceUnderConcurrencyAndCrashes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	f.addClicks(f.pat, 20)
	var commits, crashes, failed atomic.Int64
	crashing := f.OpenHooked(func(sql string, _ []any) error {
		if sql == "commit" && commits.Add(1)%2 == 1 {
			crashes.Add(1)
			return errors.New("the process ends")
		}
		return nil
	})
	service := analytics.New(crashing, slog.New(slog.DiscardHandler), f.clock.Now)
	var working, writing sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		working.Go(func() {
			for {
				if err := service.AddAll(f.Context(), f.Scope.Workspace); err != nil {
					failed.Add(1)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for range 2 {
		writing.Go(func() {
			for range 30 {
				stored := f.UnstoredClick(f.quinn, func(c *click.Click) { c.SubID, c.Country = "s", "DE" })
				if err := clicks.Store(f.Context(), f.DB, []click.Click{stored}); err != nil {
					t.Errorf("StoreClicks: %v", err)
				}
			}
		})
	}
	for range 40 {
		f.report()
	}
	writing.Wait()
	close(done)
	working.Wait()
	if crashes.Load() == 0 || failed.Load() != crashes.Load() {
		t.Errorf("AddAll failed %d times, want once for each of the %d crashes", failed.Load(), crashes.Load())
	}
	f.wantTrueReports()
	f.WantCount(0, "entries in the log", `select count(*) from analytics_log`)
	f.wantNoViolations("after all processes have ended")
}

// A request contains everything that was stored before it, also while the job does not run.
func TestSummary_ContainsWhatWasStoredBefore(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	for n := range 3 {
		f.storeSubIDs("a")
		for name, get := range map[string]func() (*affiliatev1.AnalyticsSummary, error){
			"workspace": func() (*affiliatev1.AnalyticsSummary, error) {
				return f.service.GetAnalyticsSummary(f.asOwner(), &request{})
			},
			"partner": func() (*affiliatev1.AnalyticsSummary, error) {
				return f.service.GetPartnerAnalyticsSummary(f.asPat(), &request{})
			},
		} {
			got, err := get()
			if err != nil || got.GetMetrics().GetClicks() != int64(n+1) {
				t.Errorf("the summary of the %s is %v, %v, want %d clicks", name, got, err, n+1)
			}
		}
	}
}

// Recount counts what is missing in the log, and repairs sums that differ from the rows, while
// clicks arrive.
func TestRecount_RepairsSums(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t, time.Date(2026, 5, 20, 11, 0, 0, 0, time.UTC))
	f.addHistory()
	if err := f.service.AddAll(f.Context(), f.Scope.Workspace); err != nil {
		t.Fatal(err)
	}
	f.addHistory()
	f.Exec(`delete from analytics_log`)
	f.Exec(`update analytics_days set clicks = clicks + 1 where ctid in (select ctid from analytics_days where clicks > 0 limit 50)`)
	f.Exec(`update analytics_days set quarters = '\x' where ctid in (select ctid from analytics_days limit 50)`)
	f.Exec(`delete from analytics_days where ctid in (select ctid from analytics_days limit 50)`)
	f.Exec(`delete from analytics_values where ctid in (select ctid from analytics_values limit 20)`)
	f.Exec(`update analytics_customers set activity = '\x', first_at = now() where ctid in (select ctid from analytics_customers limit 3)`)
	f.Exec(`update analytics_cohorts set conversions = 7`)
	f.Exec(`update analytics_conversions set amount_cents = 0, commission_cents = 5, customer_ref = 'other' where conversion_id in (select conversion_id from analytics_conversions limit 3)`)
	var arriving sync.WaitGroup
	arriving.Go(func() {
		for range 20 {
			f.storeSubIDs("late")
			if _, err := f.service.GetAnalyticsSummary(f.asOwner(), &request{}); err != nil {
				t.Error(err)
			}
		}
	})
	counted, err := f.service.Recount(f.Context(), f.Scope, f.clock.Now().AddDate(0, 0, -61), f.clock.Now())
	arriving.Wait()
	if err != nil || counted.Days != 62 || counted.Clicks < 200 || counted.Conversions != int64(len(f.sales)) {
		t.Errorf("Recount returned %+v, %v, want 62 days, all clicks and %d conversions", counted, err, len(f.sales))
	}
	f.wantTrueReports()
	f.wantNoViolations("after the recount")
}

// An entry that cannot be read does not stop the others. Recount counts its clicks.
func TestFold_LeavesOutInvalidEntry(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	f.storeSubIDs("a", "b")
	f.Exec(`update analytics_log set clicks = substring(clicks for octet_length(clicks) - 1)`)
	f.storeSubIDs("c")
	for _, tc := range []struct {
		before func()
		clicks int64
	}{
		{func() {}, 1},
		{func() {
			if _, err := f.service.Recount(f.Context(), f.Scope, f.clock.Now(), f.clock.Now()); err != nil {
				t.Fatal(err)
			}
		}, 3},
	} {
		tc.before()
		got, err := f.service.GetAnalyticsSummary(f.asOwner(), &request{})
		if err != nil || got.GetMetrics().GetClicks() != tc.clicks {
			t.Errorf("the summary has %d clicks, %v, want %d", got.GetMetrics().GetClicks(), err, tc.clicks)
		}
	}
}
