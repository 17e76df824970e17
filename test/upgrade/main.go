// Command upgrade checks that the binaries of an earlier commit work on the current
// schema of the database. This is necessary because in an upgrade `core migrate` runs
// while the processes of the earlier version are still running.
//
//	make schema                  test the newest commit without the newest migration
//	make schema BASE=<commit>    test the given commit
//
// The command needs the history of the repository, an empty Postgres and a Redis. Their
// addresses are in TRIBUTARY_TEST_DATABASE_URL and TRIBUTARY_TEST_REDIS_URL.
// tools/withservers starts such servers.
//
// The command migrates a database with the earlier commit's core. It starts that commit's
// core, gateway and collector, and sends them requests. While they run, it migrates the
// database with the current core. Then it restarts the earlier binaries and repeats the
// requests. The requests call every GET route, and the routes that write to most tables.
// The run fails in these cases: a status is 500 or more; a request gets no response; a
// kind of write request never succeeds; an acknowledged click is not stored; the log of
// the core contains an error.
//
// The command does not test the current binaries on an earlier schema, because a core
// does not start on an earlier schema.
package main

import (
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
// migration, and after the restart.
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
	say("migrations that are new for them: %s", strings.Join(p.migrations, ", "))
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
	if err := commits.Build(ctx, source, before, "./cmd/core", "./cmd/gateway", "./cmd/collector"); err != nil {
		return err
	}
	if err := commits.Build(ctx, ".", after, "./cmd/core"); err != nil {
		return err
	}
	say("built in %s", time.Since(began).Round(time.Second))
	return upgrade(ctx, dir, before, after)
}

// upgrade migrates the database while the earlier binaries run, and then restarts them.
// The folders before and after contain the earlier and the current binaries.
func upgrade(ctx context.Context, dir, before, after string) (err error) {
	s, err := newSystem(ctx, dir, before)
	if err != nil {
		return err
	}
	if err := s.migrate(ctx, before); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	l, err := newLoad(ctx, s.gateway, s.collector)
	if err != nil {
		return errors.Join(fmt.Errorf("prepare the load: %w", err), s.logs())
	}
	defer func() { err = errors.Join(l.verdict(), err, s.logs()) }()
	say("running the earlier binaries on their own schema, then during and after the migration")
	err = l.sendDuring(ctx, func(ctx context.Context) error {
		if err := sleep(ctx, phase); err != nil {
			return err
		}
		if err := s.migrate(ctx, after); err != nil {
			return err
		}
		return sleep(ctx, phase)
	})
	if err != nil {
		return err
	}
	say("running the earlier binaries after a restart on the current schema")
	s.stop()
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("the earlier binaries do not start on the current schema: %w", err)
	}
	if err := l.sendDuring(ctx, func(ctx context.Context) error { return sleep(ctx, phase) }); err != nil {
		return err
	}
	return s.awaitClicks(ctx, l.clicks.Load())
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
