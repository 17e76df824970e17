package analytics_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/analytics"
	"github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
	rollups "github.com/tributary-hq/tributary/storage/postgres/analytics"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// breakdown returns the metrics of a value, and those of the other values. The value must be among
// the first hundred by refunds.
func (f *fixture) breakdown(dimension affiliatev1.AnalyticsDimension, value string) (row *affiliatev1.AnalyticsRow, other *affiliatev1.AnalyticsMetrics) {
	f.Helper()
	req := &request{GroupBy: dimension, PageSize: new(int32(100)), Metric: new("refundedCents")}
	got, err := f.service.GetAnalyticsBreakdown(f.asOwner(), req)
	if err != nil {
		f.Fatal(err)
	}
	for _, row := range got.GetRows() {
		if row.GetValue() == value {
			return row, got.GetOther()
		}
	}
	return &affiliatev1.AnalyticsRow{}, got.GetOther()
}

// tail is the newest part of a click stream.
type tail []click.Click

func (t tail) Find(_ context.Context, id affiliate.ClickID) (click click.Click, ok bool, err error) {
	for _, c := range t {
		if c.ID == id {
			return c, true, nil
		}
	}
	return click, false, nil
}

// A conversion can be attributed to a click that ingestion has not stored yet. It gets the values
// of the click when the click is stored.
func TestFold_ConversionBeforeItsClick(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	stored := f.UnstoredClick(f.pat, func(c *click.Click) { c.Country = "NP" })
	service := conversion.New(conversion.Config{
		DB: f.DB, Tail: tail{stored}, HashKeys: affiliate.HashKeys{[]byte("key of the tests")}, Now: f.clock.Now, Log: slog.New(slog.DiscardHandler),
	})
	_, err := service.ReportConversion(f.asKey(), &affiliatev1.ReportConversionRequest{
		ExternalTransactionId: "sale", AmountCents: new(int64(1000)), Currency: new("EUR"), ClickId: new(stored.ID.String()),
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.addWaiting()
	country := affiliatev1.AnalyticsDimension_ANALYTICS_DIMENSION_COUNTRY
	if row, _ := f.breakdown(country, "NP"); row.GetConversions() != 0 {
		t.Errorf("before the click is stored, its country has %d conversions", row.GetConversions())
	}
	if err := clicks.Store(t.Context(), f.DB, []click.Click{stored}); err != nil {
		t.Fatal(err)
	}
	if row, _ := f.breakdown(country, "NP"); row.GetConversions() != 1 || row.GetClicks() != 1 {
		t.Errorf("after the click is stored, its country has %d conversions and %d clicks, want 1 and 1", row.GetConversions(), row.GetClicks())
	}
	f.wantTrueReports()
}

// A value that was replaced by others, and is then counted separately again, never has negative
// numbers. The numbers from before stay in the sum of the other values.
func TestFold_RefundAfterValueWasReplaced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	click := f.NewClick(f.pat)
	_, err := f.conversions.ReportConversion(f.asKey(), &affiliatev1.ReportConversionRequest{
		ExternalTransactionId: "first", AmountCents: new(int64(1000)), Currency: new("EUR"), ClickId: new(click.ID.String()),
		EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, SubId: new("reused"),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.addWaiting()
	var junk []string
	for n := range 1001 {
		junk = append(junk, fmt.Sprint("junk-", n))
	}
	f.Exec(`update analytics_values set weight = 0`) // so that a single click replaces the value
	f.storeSubIDs(junk...)
	f.addWaiting()
	subID := affiliatev1.AnalyticsDimension_ANALYTICS_DIMENSION_SUB_ID
	if row, other := f.breakdown(subID, "reused"); row.GetConversions() != 0 || other.GetConversions() != 1 {
		t.Fatalf("the value has %d conversions and the others %d, want 0 and 1", row.GetConversions(), other.GetConversions())
	}
	f.storeSubIDs("reused")
	f.addWaiting()
	if _, err := f.conversions.RefundConversion(f.asKey(), &affiliatev1.RefundConversionRequest{ExternalTransactionId: "first", ExternalRefundId: "r1"}); err != nil {
		t.Fatal(err)
	}
	row, other := f.breakdown(subID, "reused")
	if row.GetClicks() != 1 || row.GetCommissionCents() != 0 || row.GetRevenueCents()+other.GetRevenueCents() != 1000 ||
		row.GetRefundedCents()+other.GetRefundedCents() != 1000 || other.GetCommissionCents() != 0 {
		t.Errorf("the value has %v and the others %v, want the click, and the refunded sale without a commission together", row, other)
	}
	f.WantCount(0, "sums with a negative number", `
		select count(*) from analytics_days where least(clicks, conversions, orders, revenue_cents, refunded_cents, commission_cents, approved, paid) < 0`)
	f.wantNoViolations("after the refund")
}

// A workspace whose entries cannot be added does not stop the others.
func TestWork_ContinuesAfterErrorOfOneWorkspace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	other := f.NewShop(affiliate.ModeLive)
	f.storeSubIDs("a")
	f.Exec(`update analytics_log set conversions = array[gen_random_uuid()]`)
	f.Exec(`insert into analytics_locks (workspace_id, mode, version) values ($1, $2, 9223372036854775807)`, f.Scope.Workspace, f.Scope.Mode) // the next version fails
	other.NewClick(other.Join("Olga"))
	if err := f.worker.Work(t.Context(), nil); err == nil || !strings.Contains(err.Error(), f.Scope.Workspace.String()) {
		t.Errorf("Work returned %v, want an error that names the workspace", err)
	}
	f.WantCount(1, "clicks of the other workspace", `select sum(clicks) from analytics_days where workspace_id = $1 and dimension = '' and link_id <> $2`,
		other.Scope.Workspace, "00000000-0000-0000-0000-000000000000")
	f.WantCount(1, "entries in the log", `select count(*) from analytics_log`)
}

// A backlog with many clicks, links and values is added in transactions of a limited size.
func TestWork_AddsLargeBacklog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	const batches, size, links = 6, 5000, 500
	var ids [links]affiliate.LinkID
	for i := range ids {
		ids[i] = affiliate.NewID[affiliate.LinkID](f.clock.Now())
	}
	for range batches {
		stored := make([]click.Click, size)
		for n := range stored {
			stored[n] = f.UnstoredClick(f.pat, func(c *click.Click) {
				c.Link, c.SubID, c.Country = ids[n%links], strconv.Itoa(n%2000), "DE"
			})
		}
		if err := clicks.Store(t.Context(), f.DB, stored); err != nil {
			t.Fatal(err)
		}
	}
	f.addWaiting()
	f.WantCount(0, "entries in the log", `select count(*) from analytics_log`)
	f.WantCount(batches*size, "clicks", `select sum(clicks) from analytics_days where dimension = '' and participant_id = $1`, f.pat.ID)
	f.WantCount(batches*size, "clicks by sub id", `select sum(clicks) from analytics_days where dimension = 'sub_id' and participant_id = $1`, f.pat.ID)
	f.WantCount(1000, "values", `select count(*) from analytics_values where dimension = 'sub_id'`)
}

// The erasure of a participant with many values needs several transactions.
func TestErase_ParticipantWithManyValues(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t, time.Now())
	const days, values = 6, 1000
	for day := range days {
		at := f.clock.Now().AddDate(0, 0, -day)
		stored := make([]click.Click, values)
		for n := range stored {
			stored[n] = f.UnstoredClick(f.quinn, func(c *click.Click) {
				c.ID = affiliate.NewID[affiliate.ClickID](at)
				c.ClickedAt, c.ReceivedAt, c.SubID, c.Country = at, at, fmt.Sprint("visitor-", n), "DE"
			})
		}
		if err := clicks.Store(t.Context(), f.DB, stored); err != nil {
			t.Fatal(err)
		}
	}
	f.addWaiting()
	f.WantCount(days*values, "sums", `select count(*) from analytics_days where dimension = 'sub_id' and participant_id = $1`, f.quinn.ID)
	f.eraseQuinn() // checks that no sum is left
	f.WantCount(0, "values", `select count(*) from analytics_values where dimension = 'sub_id'`)
	f.WantCount(days*values, "clicks", `select sum(clicks) from analytics_days where dimension = '' and participant_id = $1`, f.quinn.ID)
}

// An erasure also removes the values of clicks that were deleted because of their age.
func TestErase_ConversionsOfDeletedClicks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	f.addHistory()
	f.addWaiting()
	f.Exec(`delete from clicks`)
	f.eraseQuinn() // checks that no sum of a personal value is left
	f.WantCount(0, "conversions with a personal value", `
		select count(*) from analytics_conversions
		where participant_id = $1 and concat(dimension_values[5], dimension_values[6], dimension_values[7], dimension_values[8], dimension_values[9], dimension_values[10]) <> ''`,
		f.quinn.ID)
}

// An attempt to get a lock that another transaction has does not wait.
func TestTryLock_DoesNotWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	f.storeSubIDs("a")
	f.addWaiting() // creates the lock
	ctx := t.Context()
	err := f.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if locked, err := rollups.TryLock(ctx, tx, f.Scope); err != nil || !locked {
			t.Errorf("the first TryLock returned %t, %v", locked, err)
		}
		return f.DB.InTx(ctx, func(tx *postgres.Tx) error {
			locked, err := rollups.TryLock(ctx, tx, f.Scope)
			if locked {
				t.Error("two transactions have the lock")
			}
			return err
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// The metric shows how long the oldest change waits.
func TestCollector_ShowsOldestEntry(t *testing.T) {
	t.Parallel()
	f := newFixture(t, time.Now())
	registry := prometheus.NewRegistry()
	registry.MustRegister(analytics.NewGauges(f.DB, f.clock.Now))
	oldest := func() float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil || len(families) != 2 || families[0].GetName() != "tributary_analytics_oldest_entry_seconds" {
			t.Fatalf("the metrics are %v, %v; want the age and the counter of failures", families, err)
		}
		return families[0].GetMetric()[0].GetGauge().GetValue()
	}
	if age := oldest(); age != 0 {
		t.Errorf("the age is %v without entries, want 0", age)
	}
	f.storeSubIDs("a")
	f.Exec(`update analytics_log set created_at = $1`, f.clock.Now().Add(-time.Minute))
	if age := oldest(); age < 59 || age > 61 {
		t.Errorf("the age is %v, want 60", age)
	}
}
