// Command upgrade checks that the binaries of an earlier commit work on the current
// schema of the database. This is necessary because in an upgrade `core migrate` runs
// while the processes of the earlier version are still running.
//
//	make schema                  test the newest commit without the newest migration
//	make schema BASE=<commit>    test the given commit
//
// If no migration follows 0001_schema.sql, the first form tests the last commit that changed
// this file. The schema then stays the same, and the command checks that the binaries of both
// commits work at the same time. A commit whose migrations became a part of 0001_schema.sql
// cannot be tested.
//
// The command needs the history of the repository, an empty Postgres and a Redis. Their
// addresses are in TRIBUTARY_TEST_DATABASE_URL and TRIBUTARY_TEST_REDIS_URL.
// tools/withservers starts such servers.
//
// The command migrates a database with the earlier commit's core. It starts two cores, two
// gateways and two collectors of that commit behind a proxy, and sends them requests. While
// the requests continue, it migrates the database with the current core, replaces each
// process in turn by the current version, and then each process in turn by the earlier
// version again, which is how an operator goes back. The requests call every GET route, and
// the routes that write to most tables.
//
// The run fails in these cases: a status is 500 or more; a request gets no response; a
// kind of write request never succeeds; an acknowledged click or sale is not stored; the log
// of a core contains an error; a process does not stop cleanly.
//
// The command does not test the current binaries on an earlier schema, because a core
// does not start on an earlier schema.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/tools/commits"
)

// phase is the time for which requests are sent before the migration, after the
// migration, and after each replacement.
const phase = 4 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		stop()
		os.Exit(1)
	}
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "upgrade: "+format+"\n", args...) }

func run(ctx context.Context) (err error) {
	p, err := choose(ctx, os.Getenv("BASE"))
	if err != nil {
		return err
	}
	say("testing the binaries of %.12s: %s", p.commit, p.reason)
	say("migrations that are new for them: %s", cmp.Or(strings.Join(p.migrations, ", "), "none"))
	dir, err := os.MkdirTemp("", "tributary-upgrade-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	source, before, after := filepath.Join(dir, "source"), filepath.Join(dir, "before"), filepath.Join(dir, "after")
	for _, folder := range []string{source, before, after} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := commits.Extract(ctx, p.commit, source); err != nil {
		return err
	}
	for from, to := range map[string]string{source: before, ".": after} {
		if err := commits.Build(ctx, from, to, "./cmd/core", "./cmd/gateway", "./cmd/collector"); err != nil {
			return err
		}
	}
	say("built in %s", time.Since(began).Round(time.Second))
	return upgrade(ctx, dir, before, after)
}

// upgrade migrates the database while the earlier binaries run, replaces all processes by
// the current version, and then goes back. The folders before and after contain the earlier
// and the current binaries.
func upgrade(ctx context.Context, dir, before, after string) (err error) {
	s, err := newSystem(ctx, dir)
	if err != nil {
		return err
	}
	if err := s.migrate(ctx, before); err != nil {
		return err
	}
	defer s.stop()
	if err := s.start(ctx, before); err != nil {
		return err
	}
	l, err := newLoad(ctx, s.gateway, s.collector)
	if err != nil {
		return errors.Join(fmt.Errorf("prepare the load: %w", err), s.logs())
	}
	defer func() { err = errors.Join(l.verdict(), err, s.logs()) }()
	err = l.sendDuring(ctx, func(ctx context.Context) error {
		for _, step := range []struct {
			what string
			do   func() error
		}{
			{"the earlier binaries run on their own schema", func() error { return nil }},
			{"the schema is migrated", func() error { return s.migrate(ctx, after) }},
			{"each process is replaced by the current version", func() error { return s.replace(ctx, after) }},
			{"each process is replaced by the earlier version again", func() error { return s.replace(ctx, before) }},
		} {
			say("%s", step.what)
			if err := step.do(); err != nil {
				return fmt.Errorf("%s: %w", step.what, err)
			}
			if err := sleep(ctx, phase); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.awaitStored(ctx, l.clicks.Load(), l.acknowledgedSales())
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
