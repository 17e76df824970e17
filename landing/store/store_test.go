package store_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

var now = time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)

// fixture is a store with a connection for statements of tests.
type fixture struct {
	*store.Store
	t   *testing.T
	url string
	sql *pgx.Conn
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, url: pgtest.New(t)}
	check(t, store.Migrate(t.Context(), f.url))
	var err error
	f.Store, err = store.Open(t.Context(), f.url, nil)
	check(t, err)
	t.Cleanup(f.Close)
	f.sql, err = pgx.Connect(t.Context(), f.url)
	check(t, err)
	t.Cleanup(func() { _ = f.sql.Close(context.Background()) })
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	_, err := f.sql.Exec(f.t.Context(), sql, args...)
	check(f.t, err)
}

// texts returns the first column of the rows of a query.
func (f *fixture) texts(sql string, args ...any) []string {
	f.t.Helper()
	rows, _ := f.sql.Query(f.t.Context(), sql, args...)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check(f.t, err)
	return list
}

// addContact adds a message with the given text and returns its id.
func (f *fixture) addContact(text string, at time.Time) uuid.UUID {
	f.t.Helper()
	m := store.ContactMessage{ID: affiliate.NewID[affiliate.ID[store.ContactMessage]](at).UUID, CreatedAt: at, Name: "Ada", Email: "ada@example.com", Message: text}
	check(f.t, f.AddContactMessage(f.t.Context(), m))
	return m.ID
}

func TestMigrate_InParallelAndRepeated(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	if _, err := store.Open(t.Context(), url, nil); err == nil || !strings.Contains(err.Error(), "run `landing migrate` first") {
		t.Errorf("Open without the schema returned %v, want an error that names `landing migrate`", err)
	}
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			if err := store.Migrate(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	check(t, store.Migrate(t.Context(), url))
	s, err := store.Open(t.Context(), url, nil)
	check(t, err)
	s.Close()
}

func TestOpen_ComparesSchemaVersions(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into landing.goose_db_version (version_id, is_applied) values (9999, true)`)
	f.exec(`insert into landing_river.river_migration (line, version) values ('main', 9999)`)
	s, err := store.Open(t.Context(), f.url, nil)
	if err != nil {
		t.Fatalf("Open with a newer schema: %v", err)
	}
	s.Close()
	for _, older := range []string{
		`delete from landing_river.river_migration where version > 5`,
		`delete from landing.goose_db_version where version_id > 0`,
	} {
		f.exec(older)
		if _, err := store.Open(t.Context(), f.url, nil); err == nil || !strings.Contains(err.Error(), "run `landing migrate` first") {
			t.Errorf("Open after %q returned %v, want an error that names `landing migrate`", older, err)
		}
	}
}

// The schemas of the landing service contain all its tables, so a database that it shares
// with the core has no other new tables.
func TestMigrate_UsesOwnSchemas(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tables := f.texts(`select schemaname || '.' || tablename from pg_tables where schemaname like 'landing%' order by 1`)
	for _, want := range []string{"landing.contact_messages", "landing.goose_db_version", "landing.waitlist_entries", "landing_river.river_job"} {
		if !slices.Contains(tables, want) {
			t.Errorf("the tables are %v, want also %s", tables, want)
		}
	}
}

// docs/operations/landing.md has these statements for a user that has no other rights.
func TestMigrate_WithUserThatOwnsOnlyTheSchemas(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	admin, err := pgx.Connect(t.Context(), database)
	check(t, err)
	user := "landing_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	t.Cleanup(func() {
		_, err := admin.Exec(context.Background(), `drop owned by `+user+` cascade; drop role `+user)
		if err != nil {
			t.Error(err)
		}
		_ = admin.Close(context.Background())
	})
	_, err = admin.Exec(t.Context(), `create role `+user+` login password 'secret'; create table of_core (id int);
		create schema landing authorization `+user+`; create schema landing_river authorization `+user)
	check(t, err)
	u, err := url.Parse(database)
	check(t, err)
	u.User = url.UserPassword(user, "secret")
	check(t, store.Migrate(t.Context(), u.String()))
	s, err := store.Open(t.Context(), u.String(), nil)
	check(t, err)
	defer s.Close()
	check(t, s.AddToWaitlist(t.Context(), "ada@example.com", now))
	check(t, s.AddContactMessage(t.Context(), store.ContactMessage{ID: uuid.New(), CreatedAt: now, Name: "Ada", Email: "ada@example.com", Message: "0123456789"}))
	_, err = s.Purge(t.Context(), now, 10)
	check(t, err)
	conn, err := pgx.Connect(t.Context(), u.String())
	check(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, sql := range []string{`select * from of_core`, `delete from of_core`} {
		if _, err := conn.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s returned %v, want permission denied", sql, err)
		}
	}
}

// The page about personal data lists every column of the service.
func TestMigrate_PrivacyPageListsColumns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	page, err := os.ReadFile("../../docs/privacy.md")
	check(t, err)
	columns := f.texts(`select table_name || '.' || column_name from information_schema.columns where table_schema = 'landing' and table_name <> 'goose_db_version'`)
	if len(columns) != 8 {
		t.Errorf("the schema has the columns %v, want 8", columns)
	}
	for _, column := range columns {
		if !strings.Contains(string(page), "`"+column+"`") {
			t.Errorf("docs/privacy.md does not list the column %s of the landing service: add it to tools/privacydocs/page.md", column)
		}
	}
}

func TestAddToWaitlist_ParallelSignupsAreOneRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var running sync.WaitGroup
	for i := range 20 {
		running.Go(func() {
			if err := f.AddToWaitlist(t.Context(), "ada@example.com", now.Add(time.Duration(i)*time.Hour)); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if n, err := f.CountWaitlist(t.Context()); err != nil || n != 1 {
		t.Errorf("CountWaitlist = %d, %v; want 1", n, err)
	}
	check(t, f.AddToWaitlist(t.Context(), "bert@example.com", now))
	if n, err := f.CountWaitlist(t.Context()); err != nil || n != 2 {
		t.Errorf("CountWaitlist = %d, %v; want 2", n, err)
	}
}

func TestAddToWaitlist_RepetitionKeepsTimeOfFirstSignup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	check(t, f.AddToWaitlist(t.Context(), "ada@example.com", now))
	check(t, f.AddToWaitlist(t.Context(), "ada@example.com", now.AddDate(0, 6, 0)))
	got := f.texts(`select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD') from landing.waitlist_entries`)
	if len(got) != 1 || got[0] != "2026-11-27" {
		t.Errorf("the times are %v, want that of the first sign-up", got)
	}
}

// A statement that writes nothing does not wait until the write-ahead log is on disk, so
// its response would be faster.
func TestAddToWaitlist_WritesAlsoForRepetition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, name := range []string{"new", "repeated"} {
		plan := strings.Join(f.texts(`explain (analyze, wal, costs off, timing off) `+store.AddToWaitlistSQL, "ada@example.com", now), "\n")
		if !strings.Contains(plan, "WAL: records=") {
			t.Errorf("the %s sign-up writes nothing:\n%s", name, plan)
		}
	}
}

func TestContactMessages_NewestFirstInPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []uuid.UUID
	for i := range 5 {
		ids = append(ids, f.addContact(fmt.Sprint("message number ", i), now.Add(time.Duration(i)*time.Second)))
	}
	slices.Reverse(ids)
	var got []uuid.UUID
	for before := uuid.Nil; ; before = got[len(got)-1] {
		page, err := f.ContactMessages(t.Context(), before, 2)
		check(t, err)
		if len(page) == 0 {
			break
		}
		for _, m := range page {
			got = append(got, m.ID)
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("the pages contain %v, want %v", got, ids)
	}
}

func TestMarkMailed_StoresTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.addContact("a message for you", now)
	if m, found, err := f.ContactMessage(t.Context(), id); err != nil || !found || m.MailedAt != nil || m.Message != "a message for you" || !m.CreatedAt.Equal(now) {
		t.Errorf("ContactMessage = %+v, %v, %v; want the message, not mailed", m, found, err)
	}
	check(t, f.MarkMailed(t.Context(), id, now.Add(time.Minute)))
	if m, _, err := f.ContactMessage(t.Context(), id); err != nil || m.MailedAt == nil || !m.MailedAt.Equal(now.Add(time.Minute)) {
		t.Errorf("ContactMessage = %+v, %v; want the time of the mail", m, err)
	}
	if _, found, err := f.ContactMessage(t.Context(), uuid.New()); err != nil || found {
		t.Errorf("an unknown id: found = %v, %v; want false", found, err)
	}
}

// A message without its job would never be mailed.
func TestAddContactMessage_StoresNothingWithoutJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`alter table landing_river.river_job rename to gone`)
	err := f.AddContactMessage(t.Context(), store.ContactMessage{ID: uuid.New(), CreatedAt: now, Name: "Ada", Email: "ada@example.com", Message: "0123456789"})
	if err == nil {
		t.Error("AddContactMessage returned no error although the job could not be inserted")
	}
	if n := len(f.texts(`select id::text from landing.contact_messages`)); n != 0 {
		t.Errorf("%d messages are stored, want none", n)
	}
}

func TestPurge_DeletesRowsOfTwelveMonths(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limit := now.AddDate(-1, 0, 0)
	for name, at := range map[string]time.Time{
		"older": limit.Add(-time.Hour), "exact": limit, "younger": limit.Add(time.Millisecond), "new": now,
	} {
		check(t, f.AddToWaitlist(t.Context(), name+"@example.com", at))
		f.addContact(name+" message", at)
	}
	for i := range 7 { // more than one batch
		check(t, f.AddToWaitlist(t.Context(), fmt.Sprintf("batch%d@example.com", i), limit.Add(-time.Minute)))
	}
	purged, err := f.Purge(t.Context(), now, 3)
	if want := (store.Purged{Waitlist: 9, Contacts: 2}); err != nil || purged != want {
		t.Errorf("Purge = %+v, %v; want %+v", purged, err, want)
	}
	if got := f.texts(`select email from landing.waitlist_entries order by 1`); !slices.Equal(got, []string{"new@example.com", "younger@example.com"}) {
		t.Errorf("the waitlist has %v, want only the rows younger than 12 months", got)
	}
	if got := f.texts(`select message from landing.contact_messages order by 1`); !slices.Equal(got, []string{"new message", "younger message"}) {
		t.Errorf("the contact messages are %v, want only those younger than 12 months", got)
	}
}

// On 29 February, the day 12 months before does not exist.
func TestPurge_KeepsRowsUntilTwelveMonthsInLeapYear(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	check(t, f.AddToWaitlist(t.Context(), "march@example.com", time.Date(2027, 3, 1, 8, 0, 0, 0, time.UTC)))
	purged, err := f.Purge(t.Context(), time.Date(2028, 2, 29, 12, 0, 0, 0, time.UTC), 10)
	if err != nil || purged.Waitlist != 0 {
		t.Errorf("Purge = %+v, %v; want that the row is kept until 1 March", purged, err)
	}
}

func TestPurge_UsesIndexes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into landing.waitlist_entries (email, created_at)
		select n || '@example.com', $1::timestamptz - n * interval '1 minute' from generate_series(1, 50000) n`, now)
	f.exec(`insert into landing.contact_messages (id, created_at, name, email, message)
		select gen_random_uuid(), $1::timestamptz - n * interval '1 minute', 'Ada', 'ada@example.com', 'a message ' || n from generate_series(1, 50000) n`, now)
	pgtest.VacuumAnalyze(t, f.sql, "landing.waitlist_entries", "landing.contact_messages")
	for _, test := range []struct{ sql, byAge, key string }{
		{store.PurgeWaitlistSQL, "Index Scan using waitlist_entries_by_age", "waitlist_entries_pkey"},
		{store.PurgeContactsSQL, "Index Scan using contact_messages_by_age", "contact_messages_pkey"},
	} {
		plan := strings.Join(f.texts(`explain `+test.sql, now.AddDate(1, 0, 0), 1000), "\n")
		if !strings.Contains(plan, test.byAge) || !strings.Contains(plan, test.key) || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "Sort") {
			t.Errorf("the plan does not use %s and %s:\n%s", test.byAge, test.key, plan)
		}
	}
}

func TestEnqueueLostMails_ReadsAllPages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for i := range 7 {
		f.addContact(fmt.Sprint("message number ", i), now)
	}
	f.exec(`delete from landing_river.river_job where args->>'message' in (select id::text from landing.contact_messages where message in ('message number 1', 'message number 6'))`)
	for _, want := range []int{2, 0} {
		if n, err := f.EnqueueLostMails(t.Context(), 3); err != nil || n != want {
			t.Errorf("EnqueueLostMails = %d, %v; want %d", n, err, want)
		}
	}
	if n := len(f.texts(`select id::text from landing_river.river_job where kind = 'mail_contact' and queue = 'mail'`)); n != 7 {
		t.Errorf("%d jobs are stored, want one of each message", n)
	}
}

func TestEnqueueLostMails_ReadsJobsOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`insert into landing.contact_messages (id, created_at, name, email, message, mailed_at)
		select gen_random_uuid(), $1, 'Ada', 'ada@example.com', 'a message ' || n, case when n % 20 = 0 then null else $1::timestamptz end from generate_series(1, 50000) n`, now)
	f.exec(`insert into landing_river.river_job (kind, args, max_attempts, queue, state)
		select 'mail_contact', jsonb_build_object('message', id), 25, 'mail', 'available' from landing.contact_messages where mailed_at is null`)
	f.exec(`insert into landing_river.river_job (kind, args, max_attempts, queue, state)
		select 'mail_contact', jsonb_build_object('message', gen_random_uuid()), 25, 'mail', 'available' from generate_series(1, 20000)`)
	pgtest.VacuumAnalyze(t, f.sql, "landing.contact_messages", "landing_river.river_job")
	plan := strings.Join(f.texts(`explain `+store.UnmailedSQL, uuid.Nil, 1000), "\n")
	if !strings.Contains(plan, "contact_messages_unmailed") || strings.Contains(plan, "Nested Loop") {
		t.Errorf("the plan does not use the index, or reads all jobs for each message:\n%s", plan)
	}
}
