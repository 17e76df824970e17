package click_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// retentionFixture is a database for clicks, with a connection of the database owner.
type retentionFixture struct {
	*pgtest.Fixture
}

func newRetentionFixture(t *testing.T) retentionFixture {
	t.Helper()
	return retentionFixture{pgtest.Open(t, time.Now)}
}

// insertClicks inserts n clicks of a day. Their times are distributed over the day, and
// each visitor has three clicks. The clicks belong to two workspaces and both modes. Some
// come from bots, and some have no IP address.
func (f retentionFixture) insertClicks(day time.Time, n int) {
	f.Helper()
	f.Exec(`
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code, received_at, expires_at, created_at,
			consent, is_bot, is_unique, ip_hash, ip_prefix, ua_hash, country, device, browser, referrer_domain, utm_source, sub_id)
		select md5('workspace' || n % 2)::uuid, gen_random_uuid(), at, case when n % 3 = 0 then 'test' else 'live' end,
			md5('program' || n % 2)::uuid, md5('participant' || n % 5)::uuid, md5('link' || n % 5)::uuid, 'pat', at, at, at,
			'granted', n % 7 = 0, n % 7 <> 0 and n % 4 = 0,
			case when n % 11 > 0 then decode(md5('ip' || n / 3), 'hex') end, case when n % 11 > 0 then '203.0.113.0/24' end,
			case when n % 11 > 1 then decode(md5('ua' || n / 3), 'hex') end,
			case n % 4 when 0 then 'DE' when 1 then 'FR' end, 'mobile', case n % 2 when 0 then 'Firefox' else 'Safari' end,
			'blog' || n % 3 || '.example', case when n % 2 = 0 then 'mail' end, 'sub' || n
		from generate_series(1, $2) as n, lateral (select $1::timestamptz + n * (interval '24 hours' / ($2 + 1)) as at) as t`, day, n)
}

// partition creates the partitions of days.
func (f retentionFixture) partition(days ...time.Time) {
	f.Helper()
	for _, day := range days {
		if _, err := postgres.EnsureClickPartitions(f.Context(), f.DB, day, day); err != nil {
			f.Fatal(err)
		}
	}
}

// purge runs Purge for at most the given number of batches.
func (f retentionFixture) purge(before time.Time, batches int) (purged int64) {
	f.Helper()
	purged, err := clicks.Purge(f.Context(), f.DB, before, func() bool { batches--; return batches >= 0 })
	if err != nil {
		f.Fatal(err)
	}
	return purged
}

const allBatches = 1000

// countIdentifiable returns the number of clicks that still have data about their visitor
// and that match the SQL condition.
func (f retentionFixture) countIdentifiable(condition string, args ...any) int {
	f.Helper()
	return f.Count(`select count(*) from clicks where (ip_hash is not null or ip_prefix is not null or ua_hash is not null) and `+condition, args...)
}

func TestPurgeClicks_RemovesVisitorData(t *testing.T) {
	f := newRetentionFixture(t)
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	f.partition(day, day.AddDate(0, 0, 1), day.AddDate(0, 0, 2))
	f.insertClicks(day, 6000)
	f.insertClicks(day.AddDate(0, 0, 1), 500)
	f.insertClicks(day.AddDate(0, 0, 2), 500)
	f.insertClicks(day.AddDate(0, 0, -20), 110) // no partition for this day: stored in the default partition
	before := day.AddDate(0, 0, 2).Add(12 * time.Hour)
	due := f.countIdentifiable(`clicked_at < $1`, before)
	younger := f.countIdentifiable(`clicked_at >= $1`, before)
	const otherColumns = `select md5(string_agg(concat_ws(',', workspace_id, id, clicked_at, mode, received_at, country, is_unique, sub_id), ';' order by id)) from clicks`
	digest := f.Texts(otherColumns)[0]

	// The first batch has all 110 clicks of the default partition. Ten of these clicks
	// have nothing to purge. The second batch is full.
	if got := f.purge(before, 2); got != 100+clicks.RetentionBatch {
		t.Errorf("two batches purged %d clicks, want %d", got, 100+clicks.RetentionBatch)
	}
	remaining := f.countIdentifiable(`clicked_at < $1`, before)
	if remaining != due-100-clicks.RetentionBatch {
		t.Errorf("after two batches, %d clicks remain, want %d", remaining, due-100-clicks.RetentionBatch)
	}
	// The next call must continue where the first call ended.
	if got := f.purge(before, allBatches); int(got) != remaining || f.countIdentifiable(`clicked_at < $1`, before) != 0 {
		t.Errorf("the next call purged %d clicks, want all %d", got, remaining)
	}
	if got := f.countIdentifiable(`clicked_at >= $1`, before); got != younger {
		t.Errorf("%d younger clicks have visitor data, want %d", got, younger)
	}
	if got := f.purge(before, allBatches); got != 0 {
		t.Errorf("a repeated call purged %d clicks, want 0", got)
	}
	if f.Texts(otherColumns)[0] != digest {
		t.Error("a purge changed other columns")
	}
	// Call Purge again, with a limit that is one hour later.
	if got := f.purge(before.Add(time.Hour), allBatches); got == 0 || f.countIdentifiable(`clicked_at < $1`, before.Add(time.Hour)) != 0 ||
		f.countIdentifiable(`true`) != younger-int(got) {
		t.Errorf("the purge with a limit one hour later purged %d clicks, want all clicks of that hour", got)
	}
}

func TestPurgeClicks_ConcurrentRunsSkipLockedRows(t *testing.T) {
	f := newRetentionFixture(t)
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	f.partition(day)
	f.insertClicks(day, 12_000)
	due := f.countIdentifiable(`true`)
	// Another transaction locks one click.
	tx, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	var locked uuid.UUID
	if err := tx.QueryRow(t.Context(), `select id from clicks where ip_hash is not null limit 1 for no key update`).Scan(&locked); err != nil {
		t.Fatal(err)
	}
	var purged [2]int64
	var group sync.WaitGroup
	for i := range purged {
		group.Go(func() { purged[i] = f.purge(day.AddDate(0, 0, 1), allBatches) })
	}
	group.Wait()
	// A purge skips the batch that the other purge has locked, so clicks may remain.
	pgtest.Eventually(t, "only the locked click has visitor data", func() bool {
		purged[0] += f.purge(day.AddDate(0, 0, 1), allBatches)
		return f.countIdentifiable(`true`) <= 1
	})
	if got := int(purged[0] + purged[1]); got != due-1 || f.countIdentifiable(`id = $1`, locked) != 1 {
		t.Errorf("the purges have purged %v clicks, want %d in total, because one click is locked", purged, due-1)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.purge(day.AddDate(0, 0, 1), allBatches); got != 1 || f.countIdentifiable(`true`) != 0 {
		t.Errorf("after the lock was released, a purge has purged %d clicks, want 1", got)
	}
}

// sums returns the numbers of clicks in source, which is a table or a query in
// parentheses. It groups them by the given columns. Each line has the columns and the
// sums of one group.
func (f retentionFixture) sums(columns, source string) []string {
	f.Helper()
	return f.Texts(`select concat_ws('|', ` + columns + `, sum(clicks), sum(unique_clicks), sum(bot_clicks)) from ` + source + ` group by ` + columns + ` order by 1`)
}

const (
	scopeColumns = `workspace_id, mode, program_id, participant_id, link_id, day`
	allColumns   = scopeColumns + `, coalesce(country, '-'), coalesce(device, '-'), coalesce(browser, '-'), coalesce(os, '-'), coalesce(paid_platform, '-'),
		coalesce(referrer_domain, '-'), coalesce(utm_source, '-'), coalesce(utm_medium, '-'), coalesce(utm_campaign, '-')`
	// clickSums is a query over clicks. Its sums must be equal to the sums of click_days.
	clickSums = `(select *, (received_at at time zone 'UTC')::date as day, (not is_bot)::int as clicks, is_unique::int as unique_clicks, is_bot::int as bot_clicks from clicks) c`
)

// roll calls Roll. clicks is the number of clicks that it has moved to click_days.
// foundWork is false if there was nothing to do.
func (f retentionFixture) roll() (n int64, foundWork bool) {
	f.Helper()
	n, foundWork, err := f.tryRoll(clicks.Roll)
	if err != nil {
		f.Fatal(err)
	}
	return n, foundWork
}

// tryRoll calls roll in a transaction.
func (f retentionFixture) tryRoll(roll func(context.Context, *postgres.Tx) (int64, bool, error)) (n int64, foundWork bool, err error) {
	err = f.DB.InTx(f.Context(), func(tx *postgres.Tx) (err error) {
		n, foundWork, err = roll(f.Context(), tx)
		return err
	})
	return n, foundWork, err
}

// expiredDay returns the day that is n days before the last expired day. A day has
// expired if it ended at least 13 months ago. If n is negative, the day has not expired.
func expiredDay(n int) time.Time {
	now := time.Now().UTC().AddDate(0, -13, 0)
	return time.Date(now.Year(), now.Month(), now.Day()-1-n, 0, 0, 0, 0, time.UTC)
}

func equalTexts(t testing.TB, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") || len(want) == 0 {
		t.Errorf("%s: got %d lines, want %d; got\n%s\n\nwant\n%s", what, len(got), len(want), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRollClicks_SumsUpAndDropsExpiredDays(t *testing.T) {
	f := newRetentionFixture(t)
	days := []time.Time{expiredDay(2), expiredDay(1), expiredDay(0), expiredDay(-1), expiredDay(-30)}
	f.partition(days...)
	for i, day := range days {
		f.insertClicks(day, 300+i)
	}
	f.partition(expiredDay(3)) // an empty day
	// One click happened in the last minutes of a day and was received on the next day.
	f.Exec(`update clicks set received_at = $1 where id = (select id from clicks where clicked_at < $1 order by clicked_at desc limit 1)`, days[1])
	want := f.sums(allColumns, clickSums+` where clicked_at < '`+expiredDay(-1).Format(time.DateOnly)+` 00:00+00'`)

	for i, n := range []int64{0, 300, 301, 302} {
		if clicks, foundWork := f.roll(); !foundWork || clicks != n {
			t.Errorf("call %d of RollClicks returned %d clicks, %t, want %d, true", i, clicks, foundWork, n)
		}
	}
	for range 2 {
		if clicks, foundWork := f.roll(); foundWork {
			t.Errorf("RollClicks processed %d clicks that are younger than 13 months", clicks)
		}
	}
	equalTexts(t, "sums", f.sums(allColumns, "click_days"), want)
	if n := f.Count(`select count(*) from click_days where others`); n != 0 {
		t.Errorf("click_days has %d rows in which others is true, want 0", n)
	}
	if n := f.Count(`select count(*) from clicks`); n != 303+304 {
		t.Errorf("%d clicks remain, want %d", n, 303+304)
	}
	remaining := f.Texts(`select relname from pg_class where relname ~ '^clicks_\d{8}$' order by 1`)
	equalTexts(t, "partitions", remaining, []string{"clicks_" + days[3].Format("20060102"), "clicks_" + days[4].Format("20060102")})
}

func TestRollClicks_SumsUpClicksOfDefaultPartition(t *testing.T) {
	f := newRetentionFixture(t)
	f.insertClicks(expiredDay(3), 5500)
	f.insertClicks(expiredDay(0), 100)
	f.insertClicks(expiredDay(-2), 50)
	want := f.sums(allColumns, clickSums+` where clicked_at < '`+expiredDay(-1).Format(time.DateOnly)+` 00:00+00'`)
	for _, n := range []int64{clicks.RetentionBatch, 5600 - clicks.RetentionBatch} {
		if clicks, foundWork := f.roll(); !foundWork || clicks != n {
			t.Errorf("RollClicks returned %d clicks, %t, want %d, true", clicks, foundWork, n)
		}
	}
	if clicks, foundWork := f.roll(); foundWork || f.Count(`select count(*) from clicks`) != 50 {
		t.Errorf("RollClicks processed %d clicks, want 0, because the remaining 50 clicks are younger than 13 months", clicks)
	}
	equalTexts(t, "sums", f.sums(allColumns, "click_days"), want)
}

// Roll processes a large day in pieces of several table blocks. Between two pieces,
// the test updates some clicks, so that Postgres moves them to blocks that were already
// processed. It also rolls back one piece. Each click must still be counted once.
func TestRollClicks_ProcessesLargeDayInPieces(t *testing.T) {
	f := newRetentionFixture(t)
	f.partition(expiredDay(1), expiredDay(0))
	f.insertClicks(expiredDay(1), 2000)
	f.insertClicks(expiredDay(0), 10)
	want := f.sums(allColumns, clickSums)
	large := "clicks_" + expiredDay(1).Format("20060102")
	piece := func() int64 {
		t.Helper()
		clicks, foundWork, err := f.tryRoll(func(ctx context.Context, tx *postgres.Tx) (int64, bool, error) {
			return clicks.RollPiece(ctx, tx, 20)
		})
		if err != nil || !foundWork {
			t.Fatalf("RollPiece returned %t, %v, want true", foundWork, err)
		}
		if n := f.Count(`select (select count(*) from clicks) + (select sum(clicks + bot_clicks) from click_days)`); n != 2010 {
			t.Fatalf("clicks and click_days have %d clicks in total, want 2010", n)
		}
		return clicks
	}
	sum, pieces := piece(), 1
	f.VacuumAnalyze(large) // frees the space of the deleted clicks
	f.Exec(`update clicks set is_bot = is_bot where id in (select id from ` + large + ` where ctid >= '(30,0)' limit 5)`)
	if n := f.Count(`select count(*) from ` + large + ` where ctid < '(20,0)'`); n == 0 {
		t.Error("the update has not moved a click to a block that was already processed")
	}
	tx, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select roll_clicks(1, 20)`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for ; f.Count(`select count(*) from pg_class where relname = $1`, large) == 1; pieces++ {
		sum += piece()
	}
	if sum != 2000 || pieces < 3 {
		t.Errorf("%d clicks were processed in %d pieces, want 2000 in at least 3", sum, pieces)
	}
	if n := piece(); n != 10 {
		t.Errorf("%d clicks of the next day were processed, want 10", n)
	}
	equalTexts(t, "sums", f.sums(allColumns, "click_days"), want)
	if n := f.Count(`select count(*) from click_rolls`); n != 0 {
		t.Errorf("click_rolls has %d unfinished days, want 0", n)
	}
}

// A link must have at most 200 rows per day in click_days, even if visitors send
// arbitrary values. Roll sums up all rarer combinations of values in one row, in
// which others is true.
func TestRollClicks_LimitsRowsPerLinkAndDay(t *testing.T) {
	f := newRetentionFixture(t)
	f.partition(expiredDay(0))
	f.insertClicks(expiredDay(0), 5000)
	f.Exec(`update clicks set utm_campaign = sub_id where link_id = md5('link3')::uuid`)
	f.Exec(`update clicks set utm_campaign = 'one of many' where link_id = md5('link3')::uuid and sub_id ~ '3$' and clicked_at < $1`, expiredDay(0).Add(3*time.Hour))
	byLink := f.sums(scopeColumns, clickSums)
	frequent := f.sums(allColumns, clickSums+` where utm_campaign = 'one of many'`)
	if _, foundWork := f.roll(); !foundWork {
		t.Fatal("RollClicks had nothing to do")
	}
	equalTexts(t, "sums", f.sums(scopeColumns, "click_days"), byLink)
	equalTexts(t, "sums of the frequent combinations", f.sums(allColumns, `click_days where utm_campaign = 'one of many'`), frequent)
	if most := f.Count(`select max(n) from (select count(*) as n from click_days group by ` + scopeColumns + `) as d`); most != 200 {
		t.Errorf("the largest number of rows per link and day is %d, want 200", most)
	}
	if n := f.Count(`select count(*) from click_days where others and num_nulls(country, device, browser, referrer_domain, utm_source, utm_campaign) < 6`); n != 0 {
		t.Errorf("%d rows in which others is true have a value, want 0", n)
	}
}

func TestRollClicks_ConcurrentCallsCountOnce(t *testing.T) {
	f := newRetentionFixture(t)
	for n := range 6 {
		f.partition(expiredDay(n))
		f.insertClicks(expiredDay(n), 500)
	}
	want := f.sums(allColumns, clickSums)
	var rolled [2]int64
	var group sync.WaitGroup
	for i := range rolled {
		group.Go(func() {
			for f.Count(`select count(*) from clicks`) > 0 {
				n, _, err := f.tryRoll(clicks.Roll)
				if err != nil {
					t.Error(err)
					return
				}
				rolled[i] += n
			}
		})
	}
	group.Wait()
	if rolled[0]+rolled[1] != 3000 {
		t.Errorf("the two callers processed %v clicks, want 3000 in total", rolled)
	}
	equalTexts(t, "sums", f.sums(allColumns, "click_days"), want)
}

// If Roll cannot drop a partition because it is in use, it must change nothing. A
// later call must succeed.
func TestRollClicks_FailsWhileTableIsInUse(t *testing.T) {
	f := newRetentionFixture(t)
	f.partition(expiredDay(0))
	f.insertClicks(expiredDay(0), 100)
	reader, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := reader.Exec(t.Context(), `select from clicks limit 1`); err != nil {
		t.Fatal(err)
	}
	_, foundWork, err := f.tryRoll(clicks.Roll)
	pgErr := new(pgconn.PgError)
	if foundWork || !errors.As(err, &pgErr) || pgErr.Code != "55P03" {
		t.Errorf("RollClicks returned %t, %v, want false and the error code 55P03", foundWork, err)
	}
	if clicks, days := f.Count(`select count(*) from clicks`), f.Count(`select count(*) from click_days`); clicks != 100 || days != 0 {
		t.Errorf("clicks has %d rows and click_days has %d, want 100 and 0", clicks, days)
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, foundWork := f.roll(); !foundWork || n != 100 {
		t.Errorf("the later call returned %d clicks, %t, want 100, true", n, foundWork)
	}
}

// The database role of the service can drop partitions only with the function
// roll_clicks, which drops only expired days.
func TestRollClicks_ServiceRoleCannotDropOtherDays(t *testing.T) {
	f := newRetentionFixture(t)
	f.partition(expiredDay(0), expiredDay(-1))
	f.insertClicks(expiredDay(-1), 10)
	conn := pgtest.AsService(t, f.URL)
	for _, forbidden := range []string{
		`drop table clicks_` + expiredDay(0).Format("20060102"), `drop table clicks`,
		`alter table clicks detach partition clicks_` + expiredDay(-1).Format("20060102"),
		`insert into click_days select * from click_days`, `delete from click_days`, `update click_days set clicks = 0`,
		`insert into click_rolls values ('clicks_20200101', 0)`, `delete from clicks_default`, `update clicks_default set is_bot = false`,
	} {
		if _, err := conn.Exec(t.Context(), forbidden); err == nil {
			t.Errorf("the service's role was allowed to run %s", forbidden)
		}
	}
	// The function must work in another time zone, and with temporary tables that have
	// the names of the real tables.
	for _, setup := range []string{
		`create temporary table clicks (clicked_at timestamptz) partition by range (clicked_at)`,
		`create temporary table click_days (x integer)`, `set timezone = 'Pacific/Kiritimati'`,
		`set search_path = pg_temp, public`,
	} {
		if _, err := conn.Exec(t.Context(), setup); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := conn.Exec(t.Context(), `select public.roll_clicks(1000000, 1000000)`); err != nil {
			t.Fatal(err)
		}
	}
	if clicks, partitions := f.Count(`select count(*) from clicks`), f.Count(`select count(*) from pg_class where relname ~ '^clicks_\d{8}$'`); clicks != 10 || partitions != 1 {
		t.Errorf("%d clicks and %d partitions remain, want 10 and 1", clicks, partitions)
	}
}

func TestDropDeadLetters_DropsOldRecordsInBatches(t *testing.T) {
	f := newRetentionFixture(t)
	now := time.Now()
	for n := range 5 {
		f.Insert("click_dead_letters", pgtest.Row{"id": affiliate.NewID[affiliate.ClickID](now), "reason": "malformed", "record": []byte{1}, "created_at": now.Add(time.Duration(n) * time.Hour)})
	}
	for _, want := range []int64{2, 1, 0} {
		if n, err := clicks.DropDeadLetters(t.Context(), f.DB, now.Add(3*time.Hour), 2); err != nil || n != want {
			t.Errorf("DropDeadLetters dropped %d records, %v, want %d", n, err, want)
		}
	}
	if n := f.Count(`select count(*) from click_dead_letters`); n != 2 {
		t.Errorf("%d records remain, want 2", n)
	}
}

// A batch must open only the partition of its day. It must find the rows with the index
// on ip_hash, in the order of this index, and update them by ctid.
func TestPurgeClicks_ReadsOneDayByIndex(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	const rows = 8000
	f := newRetentionFixture(t)
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	if _, err := postgres.EnsureClickPartitions(t.Context(), f.DB, day.AddDate(0, 0, -10), day.AddDate(0, 0, 10)); err != nil {
		t.Fatal(err)
	}
	f.insertClicks(day, rows)
	f.insertClicks(day.AddDate(0, 0, 1), rows)
	f.insertClicks(day.AddDate(0, 0, -60), rows)
	f.Exec(`insert into click_dead_letters (id, reason, record, created_at) select gen_random_uuid(), '', '', $1::timestamptz + n * interval '1 minute' from generate_series(1, $2::integer) n`, day, rows)
	f.VacuumAnalyze()
	for table, args := range map[string][]any{
		"clicks_20260310": {day, day.AddDate(0, 0, 1)},
		"clicks_default":  {time.Time{}, day},
	} {
		sql := clicks.PurgeDaySQL
		if table == "clicks_default" {
			sql = clicks.PurgeStraySQL
		}
		plan := f.Plan(sql, append(args, uuid.Nil, []byte{}, time.Time{}, rows/4)...)
		for _, part := range []string{
			`Index Scan using ` + table + `_workspace_id_ip_hash_clicked_at_idx on ` + table,
			`Index Cond: \(\(ROW\(workspace_id, ip_hash, clicked_at\) >= .* AND \(clicked_at >= .*\) AND \(clicked_at < .*\)\)`,
			`Tid Scan on ` + table,
		} {
			if !regexp.MustCompile(part).MatchString(plan) {
				t.Errorf("the purge of %s: the plan does not contain %s\n%s", table, part, plan)
			}
		}
		opened := regexp.MustCompile(` on (clicks\w+)`).FindAllStringSubmatch(plan, -1)
		for _, on := range opened {
			if on[1] != table {
				t.Errorf("the purge of %s: the plan also opens %s\n%s", table, on[1], plan)
			}
		}
	}
	pgtest.CheckPlan(t, "DropDeadLetters", f.Plan(clicks.DropDeadLettersSQL, day.Add(time.Hour), rows/20), []string{"click_dead_letters_by_age"}, pgtest.ScansOf(""))
}
