// Package pgtest gives each test a Postgres database of its own.
//
// Model: one template database holds the migrated, empty schema; its name carries
// the hash of the migrations, so a changed migration makes another template. A
// test's database is a copy of it, which costs a fraction of migrating, and is
// dropped when the test ends. A Fixture is such a database with a store on it and
// ways to put there what a test of a service starts from.
//
// Guaranteed: tests may run in parallel, in one binary and in many, and see
// nothing of each other's rows; the template is made once, however many ask for
// it first; a template that was interrupted half way is never copied.
//
// Not promised: what Postgres keeps per cluster (roles, the load, the number of
// connections) is shared, and the templates of earlier migrations stay on a
// server that outlives the run. `make test` starts a new one each time.
//
// Packages that storage/postgres imports, and its own tests, use it from an
// external test package (postgres_test).
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
	environment = "TRIBUTARY_TEST_DATABASE_URL"

	// templateLock is the advisory lock under which templates are made. There is
	// one for all of them: migrations may touch what the cluster shares.
	templateLock = 0x7472696275746172 // "tributar"

	// templateTimeout bounds making the template, or waiting until another binary
	// has; copyTimeout bounds one copy, with every core busy.
	templateTimeout = 2 * time.Minute
	copyTimeout     = time.Minute
)

// New returns the URL of a new database with all migrations applied and no rows.
// It is dropped when the test ends, whoever is still connected. The test fails
// when there is no server.
func New(t testing.TB) string {
	t.Helper()
	server := os.Getenv(environment)
	if server == "" {
		t.Fatal("no Postgres for tests: run `make test`, or set " + environment)
	}
	template, err := templateOf(server)
	if err != nil {
		t.Fatalf("pgtest: make the template database: %v", err)
	}
	name := "tributary_test_" + randomSuffix()
	// By file, and not page by page through the log, a copy costs half the time. It
	// makes checkpoints, which write what all tests have changed in the buffers.
	if err := administer(server, copyTimeout, "CREATE DATABASE "+name+" TEMPLATE "+template+" STRATEGY FILE_COPY"); err != nil {
		t.Fatalf("pgtest: copy the template database: %v", err)
	}
	t.Cleanup(func() {
		if err := administer(server, copyTimeout, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop the test's database: %v", err)
		}
	})
	database, err := databaseURL(server, name)
	if err != nil {
		t.Fatalf("pgtest: %s: %v", environment, err)
	}
	return database
}

// templates remembers what this binary has seen complete, by server.
var templates struct {
	sync.Mutex
	complete map[string]string
}

func templateOf(server string) (string, error) {
	templates.Lock()
	defer templates.Unlock()
	if name, ok := templates.complete[server]; ok {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), templateTimeout)
	defer cancel()
	name := "tributary_tpl_" + short(postgres.MigrationsHash())
	if err := makeTemplate(ctx, server, name); err != nil {
		return "", err
	}
	if templates.complete == nil {
		templates.complete = make(map[string]string)
	}
	templates.complete[server] = name
	return name, nil
}

// makeTemplate migrates under another name and renames at the end: the name alone
// says that a template is complete.
func makeTemplate(ctx context.Context, server, name string) (err error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	// Closing also releases the lock.
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
	if err := postgres.Migrate(ctx, database); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	for _, sql := range []string{
		// A database that somebody is connected to cannot be copied.
		"ALTER DATABASE " + unfinished + " WITH ALLOW_CONNECTIONS false",
		"ALTER DATABASE " + unfinished + " RENAME TO " + name,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// administrators are the idle connections to the servers' own databases, by server.
// They stay open until the binary ends: a new connection costs Postgres about as
// much as the copy of a database.
var administrators struct {
	sync.Mutex
	idle map[string][]*pgx.Conn
}

// administer runs a statement on the server's own database.
func administer(server string, limit time.Duration, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := takeAdministrator(ctx, server)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, sql); err != nil {
		return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	administrators.Lock()
	defer administrators.Unlock()
	if administrators.idle == nil {
		administrators.idle = make(map[string][]*pgx.Conn)
	}
	administrators.idle[server] = append(administrators.idle[server], conn)
	return nil
}

func takeAdministrator(ctx context.Context, server string) (*pgx.Conn, error) {
	administrators.Lock()
	if idle := administrators.idle[server]; len(idle) > 0 {
		conn := idle[len(idle)-1]
		administrators.idle[server] = idle[:len(idle)-1]
		administrators.Unlock()
		return conn, nil
	}
	administrators.Unlock()
	return pgx.Connect(ctx, server)
}

// databaseURL is the server's URL with another database in it.
func databaseURL(server, name string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", errors.New("it has to be a postgres:// URL")
	}
	u.Path = "/" + name
	return u.String(), nil
}

// short keeps a name below the 63 bytes that Postgres cuts names at.
func short(hash string) string { return hash[:min(len(hash), 16)] }

func randomSuffix() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
