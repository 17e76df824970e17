package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/tributary-hq/tributary/storage/pgsession"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// queueSchema is the schema with the tables of River, the job queue.
	queueSchema = "landing_river"
	// versionTable contains the numbers of the applied migrations.
	versionTable = "landing.goose_db_version"
)

// Migrate brings the schemas of the landing service in the database at url to this
// binary's version. The user in url must be allowed to create schemas, or must own them. A
// second call changes nothing. Several processes can call Migrate at the same time.
//
// Migrate returns an error if the connections do not keep their sessions (pgsession.Check).
func Migrate(ctx context.Context, url string) error {
	if err := pgsession.Check(ctx, url); err != nil {
		return err
	}
	// A separate connection keeps the lock during the whole run, so that concurrent
	// migrations run one after the other.
	conn, err := pgsession.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, `select pg_advisory_lock(7305804402567017331)`); err != nil {
		return fmt.Errorf("migration lock: %w", err)
	}
	config, err := pgsession.ParsePool(url)
	if err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()
	for _, schema := range []string{"landing", queueSchema} {
		if err := createSchema(ctx, pool, schema); err != nil {
			return fmt.Errorf("schema %s: %w", schema, err)
		}
	}
	if err := withMigrations(pool, func(p *goose.Provider) error {
		_, err := p.Up(ctx)
		return err
	}); err != nil {
		return fmt.Errorf("migrate tables: %w", err)
	}
	migrator, err := queueMigrator(pool)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate queue: %w", err)
	}
	return nil
}

func queueMigrator(pool *pgxpool.Pool) (*rivermigrate.Migrator[pgx.Tx], error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: queueSchema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("queue migrations: %w", err)
	}
	return migrator, nil
}

// createSchema creates a schema if it does not exist. CREATE SCHEMA IF NOT EXISTS would
// require the privilege to create schemas even if the schema exists.
func createSchema(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	var exists bool
	err := pool.QueryRow(ctx, `select exists (select from pg_namespace where nspname = $1)`, schema).Scan(&exists)
	if err != nil || exists {
		return err
	}
	_, err = pool.Exec(ctx, "create schema "+schema)
	return err
}

func withMigrations(pool *pgxpool.Pool, fn func(*goose.Provider) error) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(versionTable))
	if err != nil {
		return err
	}
	return fn(provider)
}

var errOldSchema = errors.New("the database does not have the schema of this version: run `landing migrate` first")

// checkSchema returns an error if the database lacks a migration of this binary. It
// accepts a newer schema, so that the service can run during an upgrade.
func checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	var exists bool
	if err := pool.QueryRow(ctx, `select to_regclass($1) is not null`, versionTable).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		return errOldSchema
	}
	err := withMigrations(pool, func(p *goose.Provider) error {
		pending, err := p.HasPending(ctx)
		if err == nil && pending {
			err = errOldSchema
		}
		return err
	})
	if err != nil {
		return err
	}
	migrator, err := queueMigrator(pool)
	if err != nil {
		return err
	}
	result, err := migrator.Validate(ctx, nil)
	if err == nil && !result.OK {
		err = errOldSchema
	}
	return err
}
