package notification_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

var scanPattern = regexp.MustCompile(`\S+ \S+ Scan .*on notification\S*|Seq Scan on notification\S*|Index .*on notification\S*`)

// The statements read ranges of the primary key, in each weekly partition, and do not
// sort the feed. The list merges the ranges of the categories, so it sorts at most one
// page of each category. Postgres must choose these plans with and without statistics.
func TestStatements_ReadRangesOfThePrimaryKey(t *testing.T) {
	f := newFixture(t)
	now := f.Now()
	if _, err := postgres.EnsureWeekPartitions(t.Context(), f.DB, now.AddDate(0, 0, -180), now); err != nil {
		t.Fatal(err)
	}
	f.fill(30000)
	f.Exec(`insert into notification_reads (user_id, mode, category, day, notification_id, read_at)
		select md5((n % 100)::text)::uuid, mode, category, day, id, $1 from (select *, row_number() over () as n from notifications) x`, now)
	read := f.notify(notification.Type(affiliate.EventCommissionCreated))
	list := f.reader.Ranges(nil, "")
	if err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		if err := notifications.MarkRead(t.Context(), tx, f.reader.User, read, now); err != nil {
			return err
		}
		_, err := notifications.MarkAllRead(t.Context(), tx, f.reader, f.reader.Ranges(nil, notification.CategoryPayouts), now, now)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	args := map[string]any(notifications.Arguments(f.reader, list, now))
	args["limit"], args["offset"], args["reach"] = 20, 0, 20
	args["id"], args["day"] = read.ID, notifications.DayOf(read.ID)
	args["item_modes"], args["item_categories"] = []string{string(f.Scope.Mode)}, []string{string(notification.CategoryCommissions)}
	args["item_ids"], args["item_days"] = []notification.ID{read.ID}, []time.Time{notifications.DayOf(read.ID)}
	check := func(when string) {
		for name, sql := range map[string]string{
			"list": notifications.ListSQL(false), "list of unread": notifications.ListSQL(true),
			"count": notifications.CountSQL(false), "count of unread": notifications.CountSQL(true), "entry": notifications.EntrySQL,
			"times of reading": notifications.ReadTimesSQL,
		} {
			plan := f.plan(notifications.RangePlan, sql, args)
			scans := scanPattern.FindAllString(plan, -1)
			if len(scans) == 0 {
				t.Errorf("%s, %s: the plan has no scan of notifications\n%s", name, when, plan)
			}
			if n := strings.Count(plan, "Sort Key"); n > 2 || strings.HasPrefix(name, "count") && n > 0 {
				t.Errorf("%s, %s: the plan sorts %d times, want at most the page and the rows that the page is selected from\n%s", name, when, n, plan)
			}
			if strings.Contains(plan, "Gather") {
				t.Errorf("%s, %s: the plan is parallel, so it may read more than the ranges\n%s", name, when, plan)
			}
			for _, scan := range scans {
				if !strings.Contains(scan, "_pkey on") {
					t.Errorf("%s, %s: the plan has the step %q, want index scans of primary keys", name, when, scan)
				}
			}
		}
	}
	check("without statistics")
	f.VacuumAnalyze("notifications", "notification_reads", "notification_watermarks", "notification_dismissals")
	check("with statistics")
}
