package privacy_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// restore returns a new database with the contents of a backup.
func restore(t *testing.T, backup string, now func() time.Time) *pgtest.Fixture {
	t.Helper()
	f := &pgtest.Fixture{TB: t, URL: pgtest.New(t), Now: now}
	var err error
	if f.SQL, err = pgxpool.New(t.Context(), f.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.SQL.Close)
	f.Exec(`drop schema public cascade`)
	f.Exec(`drop schema river cascade`)
	f.Exec(`create schema public`)
	run(t, "pg_restore", "--dbname="+f.URL, backup)
	if f.DB, err = postgres.Open(t.Context(), postgres.Config{URL: f.URL, ErasureKeys: pgtest.ErasureKeys}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.DB.Close)
	return f
}
