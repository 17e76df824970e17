package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMigrate_CanRunAgain(t *testing.T) {
	url := pgtest.New(t)
	for range 2 {
		if err := postgres.Migrate(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
}

// A call that waits for the lock of the migrations must not hold a snapshot, because the call with the
// lock creates indexes concurrently and waits for all snapshots.
func TestMigrate_ConcurrentCallsOfAnEmptyDatabase(t *testing.T) {
	url := pgtest.New(t)
	revertMigrations(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	results := make(chan error, 3)
	for range cap(results) {
		go func() { results <- postgres.Migrate(ctx, url) }()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// The migration 0009 creates an index of the partitions of deliveries. While an index is built,
// calls can create deliveries. A run after an interruption completes the indexes.
func TestMigrate_BuildsIndexesOfPartitionsConcurrently(t *testing.T) {
	url := pgtest.New(t)
	revertMigrations(t, url)
	ctx := t.Context()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(ctx, 8); err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := db.ExecContext(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`select ensure_week_partitions('webhook_deliveries', '2026-03-02', '2026-03-15')`)
	if _, err := provider.UpTo(ctx, 9); err != nil {
		t.Fatal(err)
	}
	// Earlier runs were interrupted before this index was attached, and while that one was built.
	exec(`create index webhook_deliveries_20260302_by_type on webhook_deliveries_20260302 (workspace_id, endpoint_id, event_type, id)`)
	exec(`create index webhook_deliveries_20260309_by_type on webhook_deliveries_20260309 (workspace_id)`)
	exec(`update pg_index set indisvalid = false where indexrelid = 'webhook_deliveries_20260309_by_type'::regclass`)
	snapshot, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = snapshot.Rollback() }()
	if _, err := snapshot.ExecContext(ctx, `select from goose_db_version`); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(ctx, url) }()
	pgtest.Eventually(t, "an index is built and waits for the snapshot", func() bool {
		var waiting bool
		err := db.QueryRowContext(ctx, `
			select exists (select from pg_stat_progress_create_index where datname = current_database() and phase = 'waiting for old snapshots')`).Scan(&waiting)
		return err == nil && waiting
	})
	exec(`set lock_timeout = '1s'; insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, created_at)
		select gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), day, 'test', gen_random_uuid(), 'click.created', 1, now()
		from unnest(array['2026-03-03', '2026-03-10', '2026-12-01']::date[]) day`)
	if err := snapshot.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	var complete, attached int
	if err := db.QueryRowContext(ctx, `
		select count(*) filter (where i.indisvalid and pg_get_indexdef(i.indexrelid) like '%(workspace_id, endpoint_id, event_type, id)'), count(*) - 1
		from pg_partition_tree('webhook_deliveries_by_type') t join pg_index i on i.indexrelid = t.relid`).Scan(&complete, &attached); err != nil {
		t.Fatal(err)
	}
	if complete != 4 || attached != 3 {
		t.Errorf("%d indexes are complete and %d are attached, want 4 and 3", complete, attached)
	}
}

// A migration that does not get a lock must not wait for it for a long time, because calls
// would wait for the migration.
func TestMigrate_WaitsForLocksInShortTurns(t *testing.T) {
	url := pgtest.New(t)
	revertMigrations(t, url)
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// Each migration inserts a row into this table.
	if _, err := tx.Exec(ctx, "lock table goose_db_version in share mode"); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- postgres.Migrate(ctx, url) }()
	for range 2 {
		for _, want := range []int{1, 0} {
			pgtest.Eventually(t, "the number of migrations that wait changes", func() bool {
				var waiting int
				err := tx.QueryRow(ctx, `
					select count(*) from pg_locks
					where database = (select oid from pg_database where datname = current_database())
						and relation = 'goose_db_version'::regclass and not granted`).Scan(&waiting)
				if err != nil {
					t.Fatal(err)
				}
				return waiting == want
			})
		}
	}
	select {
	case err := <-migrated:
		t.Fatalf("Migrate returned %v without the lock", err)
	default:
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}

// revertMigrations deletes all tables of a database except the one with the schema version,
// which is then empty.
func revertMigrations(t *testing.T, url string) {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), "drop schema public cascade; create schema public"); err != nil {
		t.Fatal(err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if version, err := provider.GetDBVersion(t.Context()); err != nil || version != 0 {
		t.Fatalf("the schema version is %d, %v, want 0", version, err)
	}
}

// The migration 0004 gives each existing workspace a slug of its own.
func TestMigrate_ExistingWorkspacesGetSlugs(t *testing.T) {
	url := pgtest.New(t)
	revertMigrations(t, url)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	// The last characters of the ids are the digits of the names' positions.
	const insert = `
		insert into workspaces (id, name, currency, timezone, created_at, updated_at)
		select ('0193f2e0-0000-7000-8000-00000000000' || n)::uuid, name, 'EUR', 'UTC', now(), now()
		from unnest(array['Acme Shop', 'Twin', 'TWIN!', 'Portal', 'Ab', '日本', 'The name of a company that is very long']) with ordinality as t (name, n)`
	if _, err := db.ExecContext(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	rows, err := db.QueryContext(t.Context(), `select regexp_replace(slug, '[0-9a-f]{12}$', '…') from workspaces order by id`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for _, want := range []string{"acme-shop", "twin-…", "twin-…", "portal-…", "ab-…", "…", "the-name-of-a-company-that"} {
		var got string
		if rows.Next(); rows.Scan(&got) != nil || got != want {
			t.Errorf("the slug is %q, want %q", got, want)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

// The first migration replaced those of unreleased versions. Its number is among their
// numbers, so the number alone does not show that a database has other tables.
func TestMigrate_RefusesTablesOfUnreleasedVersions(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	f.Exec(`create table stats_hours ()`)
	f.Exec(`insert into goose_db_version (version_id, is_applied) values (61, true)`)
	const want = "run `make reset`"
	if err := postgres.Migrate(t.Context(), f.URL); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Migrate returned %v, want an error with %q", err, want)
	}
	if _, err := postgres.CheckSchema(t.Context(), f.URL); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("CheckSchema returned %v, want an error with %q", err, want)
	}
}

// The migrations of River create GIN indexes on the arguments of jobs. Migrate must drop
// these indexes, because no statement uses them. All indexes that River rebuilds each
// night must exist.
func TestMigrate_CreatesOnlyNeededQueueIndexes(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	if gin := f.Texts(`select indexdef from pg_indexes where schemaname = 'river' and indexdef like '%USING gin%'`); len(gin) != 0 {
		t.Errorf("the schema river has the GIN indexes %q, want none", gin)
	}
	cfg := &river.Config{}
	if _, err := f.DB.WorkerClient(cfg); err != nil {
		t.Fatal(err)
	}
	for _, name := range cfg.ReindexerIndexNames {
		if f.Count(`select count(*) from pg_indexes where schemaname = 'river' and indexname = $1`, name) != 1 {
			t.Errorf("the index %s will be rebuilt but does not exist", name)
		}
	}
	if len(cfg.ReindexerIndexNames) == 0 {
		t.Error("River rebuilds no index")
	}
}

// A foreign key that deletes or changes rows of another table needs no privilege on it,
// so it could change append-only tables.
func TestForeignKeys_ChangeNoRows(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	keys := f.Texts(`select conname from pg_constraint where contype = 'f' and connamespace = 'public'::regnamespace and (confdeltype not in ('a', 'r') or confupdtype not in ('a', 'r'))`)
	if len(keys) != 0 {
		t.Errorf("the foreign keys %q change rows", keys)
	}
	if all := f.Count(`select count(*) from pg_constraint where contype = 'f' and connamespace = 'public'::regnamespace`); all < 50 {
		t.Errorf("the schema has only %d foreign keys", all)
	}
}

// The role of the service must not have the privilege to change or delete rows of the
// append-only tables.
func TestAppendOnlyTables_RejectChanges(t *testing.T) {
	conn := pgtest.AsService(t, pgtest.New(t))
	for table, column := range map[string]string{
		"program_rules": "rules", "attribution_decisions": "trace", "commission_history": "actor", "ledger_entries": "amount_cents",
		"audit_log": "actor", "account_audit_log": "action",
	} {
		for _, statement := range []string{
			"update " + table + " set " + column + " = " + column,
			"delete from " + table,
			"truncate " + table,
		} {
			_, err := conn.Exec(t.Context(), statement)
			var pgErr *pgconn.PgError
			if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
				t.Errorf("%s returned %v, want the error code 42501 (insufficient_privilege)", statement, err)
			}
		}
	}
}

func TestEnsureClickPartitions_MovesClicksFromDefaultPartition(t *testing.T) {
	url := pgtest.New(t)
	conn := pgtest.AsService(t, url)
	ctx := t.Context()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)
	const insert = `
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code,
		  received_at, expires_at, created_at, consent, is_bot)
		values (gen_random_uuid(), gen_random_uuid(), $1, 'test', gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 'code', $1, $1, $1, 'unknown', false)`
	if _, err := conn.Exec(ctx, insert, at); err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: url, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if n, err := postgres.StrayClicks(ctx, db); err != nil || n != 1 {
		t.Fatalf("StrayClicks returned %d, %v, want 1", n, err)
	}
	made, err := postgres.EnsureClickPartitions(ctx, db, at.AddDate(0, 0, -1), at.AddDate(0, 0, 1))
	if err != nil || made != 3 {
		t.Fatalf("EnsureClickPartitions made %d partitions, %v, want 3", made, err)
	}
	if n, err := postgres.StrayClicks(ctx, db); err != nil || n != 0 {
		t.Fatalf("after the move, StrayClicks returned %d, %v, want 0", n, err)
	}
	var partition string
	if err := conn.QueryRow(ctx, `select tableoid::regclass::text from clicks`).Scan(&partition); err != nil || partition != "clicks_20260304" {
		t.Fatalf("the click is in the partition %q, %v, want clicks_20260304", partition, err)
	}
	if made, err = postgres.EnsureClickPartitions(ctx, db, at.AddDate(0, 0, -1), at.AddDate(0, 0, 1)); err != nil || made != 0 {
		t.Fatalf("a second call made %d partitions, %v, want 0", made, err)
	}
}
