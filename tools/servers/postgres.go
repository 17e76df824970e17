package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// maxConnections leaves room for the test binaries of every package at once.
	maxConnections = 200
	// orphanTimeout bounds the wait for the children of a killed Postgres, which
	// hold its shared memory until they notice.
	orphanTimeout = 10 * time.Second
)

// PostgresConfig says how StartPostgres runs its server.
type PostgresConfig struct {
	// Dir belongs to this server alone. Missing or empty: a cluster is made in it,
	// with the superuser tributary and an empty database tributary. Root takes it
	// from DataDir or TempDir.
	Dir string
	// Port of 127.0.0.1. Default 0: any free one, another at each start.
	Port int
	// Durable keeps Postgres' safe defaults. Default false, for tests: nothing is
	// synced to disk, so a crash of the machine may lose the whole cluster, and
	// autovacuum and JIT compilation are off.
	Durable bool
	// Log gets what Postgres prints. Default: nobody.
	Log io.Writer
}

// StartPostgres starts a private Postgres and returns when it answers. ctx bounds
// the start, not the server's life. There is no Unix socket, hence no limit on
// the length of Dir.
//
// A folder that another live process runs a server in is refused; what a dead
// one left behind is cleared, see reclaim.
func StartPostgres(ctx context.Context, cfg PostgresConfig) (*Server, error) {
	bin, err := findPostgres(ctx)
	if err != nil {
		return nil, err
	}
	// The commands work inside the folder, where a relative path means another.
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := makeOpen(cfg.Dir); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := reachable(cfg.Dir); err != nil {
			return nil, fmt.Errorf("postgres cannot work in %s: %w; take the folder that DataDir answers", cfg.Dir, err)
		}
	}
	giveUp := time.Now().Add(orphanTimeout)
	for attempt := 1; ; attempt++ {
		s, err := startPostgres(ctx, bin, cfg)
		switch {
		case err == nil:
			return s, nil
		case cfg.Port == 0 && attempt < freePortAttempts && PortTaken(err):
		case strings.Contains(err.Error(), "pre-existing shared memory block") && time.Now().Before(giveUp):
			time.Sleep(10 * pollEvery)
		default:
			return nil, err
		}
	}
}

func startPostgres(ctx context.Context, bin string, cfg PostgresConfig) (*Server, error) {
	lock, err := lockFolder(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	cluster := filepath.Join(cfg.Dir, "cluster")
	pidFile := filepath.Join(cluster, "postmaster.pid")
	port, err := preparePostgres(ctx, bin, cluster, pidFile, cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	argv := append(
		[]string{
			filepath.Join(bin, "postgres"), "-D", cluster, "-p", strconv.Itoa(port),
			"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
			"-c", "max_connections=" + strconv.Itoa(maxConnections), "-c", "timezone=UTC", "-c", "log_timezone=UTC",
		},
		durability(cfg.Durable)...,
	)
	argv, err = asPostgres(argv, "INT")
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s, err := launch(command{
		name: "postgres",
		argv: argv,
		dir:  cluster,
		log:  cfg.Log,
		lock: lock,
		// "fast": cuts connections and writes a checkpoint.
		quit: syscall.SIGINT,
		// "immediate": ends the children too, which SIGKILL would leave behind.
		force: syscall.SIGQUIT,
	})
	if err != nil {
		return nil, err
	}
	s.URL = fmt.Sprintf("postgres://tributary@127.0.0.1:%d/tributary?sslmode=disable", port)
	return s, s.await(ctx, func() bool { return postgresReady(pidFile, s.Pid) })
}

// preparePostgres leaves a cluster that nobody runs, and a port for it.
func preparePostgres(ctx context.Context, bin, cluster, pidFile string, cfg PostgresConfig) (int, error) {
	if err := reclaim(ctx, cluster, pidFile, syscall.SIGINT); err != nil {
		return 0, fmt.Errorf("postgres: %w", err)
	}
	port, err := choosePort("postgres", cfg.Port)
	if err != nil {
		return 0, err
	}
	return port, initCluster(ctx, bin, cluster, cfg)
}

// initCluster makes the cluster beside its place and moves it there when it is
// whole, so that an interrupted first start leaves nothing that looks like one.
func initCluster(ctx context.Context, bin, cluster string, cfg PostgresConfig) error {
	if _, err := os.Stat(cluster); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	unfinished := cluster + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		return err
	}
	if err := giveToPostgres(unfinished); err != nil {
		return err
	}
	initdb := []string{
		filepath.Join(bin, "initdb"), "-D", unfinished, "-U", "tributary",
		"--auth=trust", "-E", "UTF8", "--locale=C.UTF-8",
	}
	if !cfg.Durable {
		initdb = append(initdb, "--no-sync")
	}
	// The single-user mode needs no client program, which a bare server may lack.
	create := append(
		[]string{filepath.Join(bin, "postgres"), "--single", "-D", unfinished, "-c", "exit_on_error=on"},
		append(durability(cfg.Durable), "postgres")...,
	)
	for _, step := range []struct {
		argv  []string
		stdin string
	}{
		{initdb, ""},
		{create, "CREATE DATABASE tributary\n"},
	} {
		argv, err := asPostgres(step.argv, "TERM")
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir = unfinished
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		cmd.Stdin = strings.NewReader(step.stdin)
		if err := run(cmd, cfg.Log); err != nil {
			return fmt.Errorf("make a Postgres cluster in %s: %w", cluster, err)
		}
	}
	return os.Rename(unfinished, cluster)
}

// durability returns the settings that a cluster of tests has and a durable one has
// not.
//
// synchronous_commit stays on. Without fsync it costs nothing, and a VACUUM right
// after an asynchronous commit does not mark the pages as visible to all, so the
// plans of the next statements would depend on when the log was written.
//
// Autovacuum would change the statistics and the visible pages of a database while
// a test looks at its plans, and takes time from the tests. JIT compilation is off
// because the service turns it off, too, and tests run most statements once.
//
// The buffers are few because each new database makes checkpoints, which write those
// that changed. Most runs work in memory, where reading a page again costs little.
func durability(durable bool) []string {
	if durable {
		return nil
	}
	return []string{"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum=off", "-c", "jit=off", "-c", "shared_buffers=32MB"}
}

// postgresReady reads the pid file as pg_ctl does: the process on its first line,
// the state on its eighth.
func postgresReady(pidFile string, pid int) bool {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) >= 8 && lines[0] == strconv.Itoa(pid) && strings.TrimSpace(lines[7]) == "ready"
}

// asPostgres returns the command as the user postgres runs it when we are root,
// whom Postgres refuses. The change of user would clear the kernel's order to
// signal the child at our death, so setpriv renews it. setpriv replaces itself by
// the command: the process id is the command's.
func asPostgres(argv []string, onDeath string) ([]string, error) {
	if os.Geteuid() != 0 {
		return argv, nil
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return nil, errors.New("postgres does not run as root and setpriv is missing: install util-linux or work as another user")
	}
	return append(
		[]string{setpriv, "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=" + onDeath, "--"},
		argv...,
	), nil
}

func giveToPostgres(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("postgres does not run as root: %w (Debian's package postgresql makes that user)", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}
