package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/tributary-hq/tributary/storage/pgsession"
)

// codeUndefinedTable is the SQLSTATE of a table that does not exist.
const codeUndefinedTable = "42P01"

// SchemaVersions has the numbers of two migrations: Database is the last migration in
// the database, and Known is the last migration that this binary has.
type SchemaVersions struct{ Database, Known int64 }

// Newer reports whether the database has migrations that this binary does not have.
// A new migration also works with the binaries of the previous release, so the service
// can run on this schema during an upgrade.
func (v SchemaVersions) Newer() bool { return v.Database > v.Known }

// CheckSchema compares the schema of the database at url with the migrations of this
// binary. It returns an error if the database lacks any of these migrations, or if the
// connections do not keep their sessions (pgsession.Check).
//
// It connects as the user in url and does not switch to appRole, because in an old
// schema appRole is not allowed to read the version.
func CheckSchema(ctx context.Context, url string) (v SchemaVersions, err error) {
	if v.Known, err = lastMigration(); err != nil {
		return v, err
	}
	if err := pgsession.Check(ctx, url); err != nil {
		return v, err
	}
	conn, err := pgsession.Connect(ctx, url)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := refuseUnreleasedSchema(ctx, conn); err != nil {
		return v, err
	}
	// The newest row of each migration shows whether it is applied.
	const find = `
		select coalesce(max(version_id), 0) from (
			select distinct on (version_id) version_id, is_applied from ` + goose.DefaultTablename + ` order by version_id, id desc
		) as newest where is_applied`
	err = conn.QueryRow(ctx, find).Scan(&v.Database)
	switch {
	case sqlState(err) == codeUndefinedTable:
		return v, errors.New("the database has no schema: run `core migrate` first")
	case sqlState(err) == codeInsufficientPrivilege:
		return v, fmt.Errorf("read the schema's version: %w: run `core migrate` first, which grants the privilege", err)
	case err != nil:
		return v, fmt.Errorf("read the schema's version: %w", err)
	}
	if v.Database < v.Known {
		return v, fmt.Errorf("the schema is at migration %d and this core needs %d: run `core migrate` first", v.Database, v.Known)
	}
	return v, nil
}

// refuseUnreleasedSchema returns an error if the tables were created by the migrations of an
// unreleased version, which 0001_schema.sql has replaced. Later migrations have the same
// numbers, so goose would skip them. Only these databases have the table stats_hours.
func refuseUnreleasedSchema(ctx context.Context, conn *pgx.Conn) error {
	var unreleased bool
	if err := conn.QueryRow(ctx, "select to_regclass('stats_hours') is not null").Scan(&unreleased); err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if unreleased {
		return errors.New("the tables of the database are of an unreleased version and cannot be migrated: run `make reset`, or use an empty database")
	}
	return nil
}

// lastMigration returns the number of this binary's last migration.
func lastMigration() (last int64, err error) {
	entries, err := fs.ReadDir(migrations, "migrations")
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		number, _, _ := strings.Cut(entry.Name(), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("migration %s: its name does not begin with a number", entry.Name())
		}
		last = max(last, n)
	}
	return last, nil
}
