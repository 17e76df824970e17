// Package pgtest creates a separate Postgres database for each test.
//
// A template database contains the schema after all migrations, without rows. Its name
// contains the hash of the migrations, so changed migrations get a new template. The
// database of a test is a copy of the template, which is much faster than running the
// migrations. It is dropped when the test ends, but Main lets later tests reuse the database of a Fixture. A
// Fixture is such a database with a postgres.DB and with methods that insert the rows that a test needs.
// Packages with another schema set Main.Migrate.
//
// The package guarantees:
//
//   - Tests may run in parallel, in one or several test binaries. They never read each
//     other's rows.
//   - The template is created once, even if many tests need it at the same time.
//   - A template whose creation was interrupted is never copied.
//
// It has these limits:
//
//   - The resources of the server are shared: its roles, its connections and its load.
//   - Templates of earlier migrations are not deleted from a server that runs longer
//     than the tests. `make test` starts a new server each time.
//
// Tests of storage/postgres, and of the packages that it imports, must use pgtest from
// an external test package (for example postgres_test) to avoid an import cycle.
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	serverVariable = "TRIBUTARY_TEST_DATABASE_URL"

	// templateLock is the advisory lock that is held while a template is created. All
	// templates use the same lock, because migrations may change roles and other
	// objects that the databases of a server share.
	templateLock = 0x7472696275746172 // "tributar"

	// templateTimeout limits the time to create the template, or to wait until another
	// test binary has created it. copyTimeout limits the time of one copy on a machine
	// with all cores busy.
	templateTimeout = 2 * time.Minute
	copyTimeout     = time.Minute
)

// New creates a database with all migrations applied and without rows, and returns its
// URL. The database is dropped when the test ends, even if connections to it are open.
// The test fails if the environment variable with the server's URL is not set.
func New(t testing.TB) string {
	t.Helper()
	name, url, err := create()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(name); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
	return url
}

// create copies the template database. It returns the name and the URL of the copy.
func create() (name, url string, err error) {
	server := os.Getenv(serverVariable)
	if server == "" {
		return "", "", errors.New("there is no Postgres server for tests: run `make test`, or set " + serverVariable)
	}
	template, err := ensureTemplate(server)
	if err != nil {
		return "", "", fmt.Errorf("create the template database: %w", err)
	}
	name = "tributary_test_" + randomSuffix()
	if url, err = databaseURL(server, name); err != nil {
		return "", "", fmt.Errorf("%s: %w", serverVariable, err)
	}
	// FILE_COPY takes half the time of the default strategy, which writes each page to
	// the write-ahead log. Its disadvantage is that it runs checkpoints, which write the
	// changed buffers of all tests to disk.
	if err := adminExec(server, copyTimeout, "CREATE DATABASE "+name+" TEMPLATE "+template+" STRATEGY FILE_COPY"); err != nil {
		return "", "", fmt.Errorf("copy the template database: %w", err)
	}
	return name, url, nil
}

func drop(name string) error {
	if err := adminExec(os.Getenv(serverVariable), copyTimeout, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

// templates caches, for each server, the name of the template database. The template
// exists and is complete: this test binary has checked or created it.
var templates struct {
	sync.Mutex
	complete map[string]string
	// migrate is Main.Migrate. It is set before the first test.
	migrate func(ctx context.Context, url string) error
}

// ensureTemplate returns the name of the template database on a server. It creates the
// template if it does not exist.
func ensureTemplate(server string) (string, error) {
	templates.Lock()
	defer templates.Unlock()
	if name, ok := templates.complete[server]; ok {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), templateTimeout)
	defer cancel()
	suffix, migrate := shortHash(postgres.MigrationsHash()), postgres.Migrate
	if templates.migrate != nil {
		suffix, migrate = randomSuffix(), templates.migrate
	}
	name := "tributary_tpl_" + suffix
	if err := createTemplate(ctx, server, name, migrate); err != nil {
		return "", err
	}
	if templates.complete == nil {
		templates.complete = make(map[string]string)
	}
	templates.complete[server] = name
	return name, nil
}

// createTemplate creates the template database if it does not exist. It runs the
// migrations in a database with another name and renames it at the end. A database with
// the name of the template is therefore always complete.
func createTemplate(ctx context.Context, server, name string, migrate func(ctx context.Context, url string) error) (err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	// Closing the connection also releases the lock.
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
		return err
	}
	var complete bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&complete); err != nil || complete {
		return err
	}
	unfinished := name + "_new"
	for _, sql := range []string{
		"DROP DATABASE IF EXISTS " + unfinished + " WITH (FORCE)",
		"CREATE DATABASE " + unfinished,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	database, err := databaseURL(server, unfinished)
	if err != nil {
		return err
	}
	if err := migrate(ctx, database); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	for _, sql := range []string{
		// Postgres cannot copy a database that has open connections.
		"ALTER DATABASE " + unfinished + " WITH ALLOW_CONNECTIONS false",
		"ALTER DATABASE " + unfinished + " RENAME TO " + name,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// adminConns holds, for each server, idle connections to the database in the server's
// URL. They stay open until the tests of the package have run, because opening a
// connection costs Postgres about as much as copying a database.
var adminConns struct {
	sync.Mutex
	idle map[string][]*pgx.Conn
}

// Main runs the tests of a package. With Main, a Fixture can use the database of an
// earlier test of the package again. After the tests, Main drops these databases and
// closes the idle connections of this package. Packages that search for leaked goroutines
// pass Main to goleak.VerifyTestMain.
type Main struct {
	*testing.M
	// Migrate creates the schema in an empty database, of which the databases of New are copies.
	// The default is postgres.Migrate, which Open needs.
	Migrate func(ctx context.Context, url string) error
}

// Run returns the exit code of the tests. The code is not 0 if a database cannot be
// dropped.
func (m Main) Run() int {
	idle.reuse, templates.migrate = true, m.Migrate
	code := m.M.Run()
	var errs []error
	for _, d := range idle.databases {
		errs = append(errs, d.drop())
	}
	if m.Migrate != nil {
		for _, name := range templates.complete {
			errs = append(errs, drop(name))
		}
	}
	closeIdle()
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	return code
}

func closeIdle() {
	adminConns.Lock()
	defer adminConns.Unlock()
	for _, idle := range adminConns.idle {
		for _, conn := range idle {
			_ = conn.Close(context.Background())
		}
	}
	clear(adminConns.idle)
}

// adminExec runs a statement in the database in the server's URL.
func adminExec(server string, limit time.Duration, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := adminConn(ctx, server)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, sql); err != nil {
		return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	adminConns.Lock()
	defer adminConns.Unlock()
	if adminConns.idle == nil {
		adminConns.idle = make(map[string][]*pgx.Conn)
	}
	adminConns.idle[server] = append(adminConns.idle[server], conn)
	return nil
}

// adminConn removes an idle connection from adminConns, or opens a new one.
func adminConn(ctx context.Context, server string) (*pgx.Conn, error) {
	adminConns.Lock()
	if idle := adminConns.idle[server]; len(idle) > 0 {
		conn := idle[len(idle)-1]
		adminConns.idle[server] = idle[:len(idle)-1]
		adminConns.Unlock()
		return conn, nil
	}
	adminConns.Unlock()
	return pgx.Connect(ctx, server)
}

// databaseURL returns the server's URL with the given database name.
func databaseURL(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", errors.New("the URL must start with postgres://")
	}
	u.Path = "/" + name
	return u.String(), nil
}

// shortHash returns the first 16 characters of a hash. Postgres cuts names after 63
// bytes.
func shortHash(hash string) string { return hash[:min(len(hash), 16)] }

func randomSuffix() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
