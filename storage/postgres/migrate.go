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
	// lockTimeout is the longest time that a statement of a migration waits for a lock. In
	// this time, calls that use the same table wait for the migration. It is shorter than
	// Postgres's deadlock_timeout (1 s), so that of a migration and a call that wait for
	// each other, the migration fails.
	lockTimeout = "500ms"
	// lockAttempts is the number of times that Migrate tries a migration that does not get
	// its locks. lockPause is the time between two attempts, in which waiting calls run.
	lockAttempts = 60
	lockPause    = 2 * time.Second
)

// Migrate brings the database at url to this binary's schema version. The user in url
// must own the schema. A second call changes nothing. Several processes can call
// Migrate at the same time. Migrate returns an error if the connections do not keep their
// sessions (pgsession.Check), because then the lock of the migrations excludes nothing.
//
// Migrate works while the service runs. Each migration is one transaction. If it does not
// get a lock at once, because a call uses the table, it is rolled back and tried again, for
// about two minutes.
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
	if _, err := lockConn.Exec(ctx, `select pg_advisory_lock(7305804402567017330)`); err != nil {
		return fmt.Errorf("migration lock: %w", err)
	}

	if err := refuseUnreleasedSchema(ctx, lockConn); err != nil {
		return err
	}
	if err := prepareRole(ctx, lockConn); err != nil {
		return err
	}
	if err := migrateTables(ctx, pool); err != nil {
		return err
	}
	// The service reads the schema version from goose's table (CheckSchema). It may
	// connect as a user who does not own the table but has the privileges of appRole.
	if _, err := pool.Exec(ctx, "grant select on "+goose.DefaultTablename+" to "+appRole); err != nil {
		return fmt.Errorf("migrate tables: %w", err)
	}
	return migrateQueue(ctx, config)
}

func migrateTables(ctx context.Context, pool *pgxpool.Pool) error {
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
