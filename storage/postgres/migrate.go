package postgres

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/tributary-hq/tributary/storage/pgsession"
)

//go:embed migrations/*.sql
var migrations embed.FS

// queueSchema is the schema with the tables of River, the job queue. appRole owns the
// tables, because River rebuilds their indexes, and only an owner can do this.
const queueSchema = "river"

const (
	// lockTimeout is the longest time that a statement of a migration waits for a lock. In this
	// time, calls that use the same table wait for the migration. It is shorter than Postgres's
	// deadlock_timeout (1 s). If a migration and a call wait for each other, the migration
	// therefore fails, and the call continues.
	lockTimeout = "500ms"
	// lockAttempts is the number of times that Migrate tries a migration that does not get
	// its locks. lockPause is the time between two attempts, in which waiting calls run.
	lockAttempts = 60
	lockPause    = 2 * time.Second
)

// Migrate brings the database at url to this binary's schema version. The user in url must own
// the schema. A second call changes nothing. Several processes can call Migrate at the same
// time. Migrate returns an error if the connections do not keep their sessions
// (pgsession.Check), because then the lock of the migrations has no effect.
//
// Migrate works while the service runs. Each migration is one transaction, except those that
// only create indexes of large tables, and the indexes of partitions (buildPartitionIndexes). If it does not get a lock within lockTimeout, because a
// call uses the table, it is rolled back and tried again, for about two minutes.
func Migrate(ctx context.Context, url string) error {
	if err := pgsession.Check(ctx, url); err != nil {
		return err
	}
	config, err := pgsession.ParsePool(url)
	if err != nil {
		return err
	}
	config.MaxConns = 2
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set lock_timeout = '"+lockTimeout+"'")
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()

	// A separate connection keeps the lock during the whole run, so that concurrent
	// migrations of one database run one after the other.
	lockConn, err := pgsession.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = lockConn.Close(ctx) }()
	if err := lockMigrations(ctx, lockConn); err != nil {
		return fmt.Errorf("migration lock: %w", err)
	}

	if err := refuseUnreleasedSchema(ctx, lockConn); err != nil {
		return err
	}
	if err := prepareRole(ctx, lockConn); err != nil {
		return err
	}
	if err := migrateTables(ctx, lockConn, pool); err != nil {
		return err
	}
	// The service reads the schema version from goose's table (CheckSchema). It may
	// connect as a user who does not own the table but has the privileges of appRole.
	if _, err := pool.Exec(ctx, "grant select on "+goose.DefaultTablename+" to "+appRole); err != nil {
		return fmt.Errorf("migrate tables: %w", err)
	}
	return migrateQueue(ctx, config)
}

// lockMigrations waits for the lock of the migrations. pg_advisory_lock would wait with a snapshot,
// for which CREATE INDEX CONCURRENTLY in the other process waits: both would wait forever.
func lockMigrations(ctx context.Context, conn *pgx.Conn) error {
	for {
		var locked bool
		err := conn.QueryRow(ctx, `select pg_try_advisory_lock(7305804402567017330)`).Scan(&locked)
		if err != nil || locked {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockPause / 4):
		}
	}
}

func migrateTables(ctx context.Context, conn *pgx.Conn, pool *pgxpool.Pool) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	for attempt := 1; ; attempt++ {
		_, err := provider.Up(ctx)
		if err == nil {
			err = buildPartitionIndexes(ctx, conn, pool)
		}
		if err == nil {
			return nil
		}
		var pgErr *pgconn.PgError
		if attempt == lockAttempts || !errors.As(err, &pgErr) || pgErr.Code != codeLockTimeout && pgErr.Code != codeDeadlock {
			return fmt.Errorf("migrate tables: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("migrate tables: %w", errors.Join(ctx.Err(), err))
		case <-time.After(lockPause):
		}
	}
}

func migrateQueue(ctx context.Context, config *pgxpool.Config) error {
	config = config.Copy()
	config.AfterConnect = prepareConn(nil)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
		Schema: queueSchema,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("queue migrations: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate queue: %w", err)
	}
	for _, index := range unusedQueueIndexes {
		if _, err := pool.Exec(ctx, "drop index if exists "+queueSchema+"."+index); err != nil {
			return fmt.Errorf("migrate queue: %w", err)
		}
	}
	return nil
}

// unusedQueueIndexes are River's indexes for searching jobs by their arguments and
// metadata. The service never searches for jobs. Each job would update these indexes
// three times: when it is inserted, started and completed.
var unusedQueueIndexes = []string{"river_job_args_index", "river_job_metadata_index"}

// MigrationsHash returns a hash that changes with every change of a migration file.
// Tests use it in the name of their template database.
func MigrationsHash() string {
	sum := sha256.New()
	entries, err := fs.ReadDir(migrations, "migrations")
	if err != nil {
		panic("embedded migrations: " + err.Error())
	}
	for _, entry := range entries {
		body, err := migrations.ReadFile("migrations/" + entry.Name())
		if err != nil {
			panic("embedded migrations: " + err.Error())
		}
		fmt.Fprintf(sum, "%s %d\n", entry.Name(), len(body))
		sum.Write(body)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// appRole is the database role with which the service works. The role cannot change or
// delete rows of the append-only tables.
const appRole = "tributary_app"

// SQLSTATE codes: the role exists already, and the user lacks a privilege.
const (
	codeDuplicateObject       = "42710"
	codeInsufficientPrivilege = "42501"
)

// prepareRole creates appRole, makes the migrating user a member of it and creates the
// queue's schema. It skips a step if the result already exists. A user without CREATEROLE
// can therefore migrate if an administrator has created the role and granted it to the
// user.
//
// The user must be a member of the role: only a member can make the role the owner of a
// schema, and the service connects as this user and switches to the role.
func prepareRole(ctx context.Context, conn *pgx.Conn) error {
	var user string
	var roleExists, isMember, schemaExists bool
	err := conn.QueryRow(ctx, `
		select current_user, r.oid is not null, coalesce(pg_has_role(current_user, r.oid, 'member'), false),
			exists (select from pg_namespace where nspname = $2)
		from (values ($1)) as wanted (name) left join pg_roles r on r.rolname = wanted.name`,
		appRole, queueSchema).Scan(&user, &roleExists, &isMember, &schemaExists)
	if err != nil {
		return fmt.Errorf("role %s: %w", appRole, err)
	}
	quoted := pgx.Identifier{user}.Sanitize()
	create, grant := "create role "+appRole+" nologin", "grant "+appRole+" to "+quoted
	if !roleExists {
		switch err := ignoreConcurrent(exec(ctx, conn, create)); {
		case sqlState(err) == codeInsufficientPrivilege:
			return fmt.Errorf("role %s does not exist and %s is not allowed to create roles: run `%s; %s` once as an administrator, or give %[2]s the attribute CREATEROLE",
				appRole, quoted, create, grant)
		case err != nil:
			return fmt.Errorf("role %s: %w", appRole, err)
		}
		// A superuser counts as a member of every role, also of the new role. The
		// membership is therefore checked again, and the grant may not be necessary.
		if err := conn.QueryRow(ctx, "select pg_has_role(current_user, $1, 'member')", appRole).Scan(&isMember); err != nil {
			return fmt.Errorf("role %s: %w", appRole, err)
		}
	}
	if !isMember {
		switch err := ignoreConcurrent(exec(ctx, conn, grant)); {
		case sqlState(err) == codeInsufficientPrivilege:
			return fmt.Errorf("%s is not a member of role %s: run `%s` once as an administrator", quoted, appRole, grant)
		case err != nil:
			return fmt.Errorf("role %s: %w", appRole, err)
		}
	}
	if !schemaExists {
		if err := exec(ctx, conn, "create schema "+queueSchema+" authorization "+appRole); err != nil {
			return fmt.Errorf("schema %s: %w", queueSchema, err)
		}
	}
	return nil
}

func exec(ctx context.Context, conn *pgx.Conn, sql string) error {
	_, err := conn.Exec(ctx, sql)
	return err
}

// ignoreConcurrent returns nil if the error says that the role or membership exists
// already. Roles belong to the whole cluster, so a concurrent migration of another
// database may have created the role or the membership.
func ignoreConcurrent(err error) error {
	if slices.Contains([]string{codeDuplicateObject, CodeUniqueViolation}, sqlState(err)) {
		return nil
	}
	return err
}

// sqlState returns the SQLSTATE of a server error, and an empty string for other
// errors.
func sqlState(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

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
