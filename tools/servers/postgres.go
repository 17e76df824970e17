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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// maxConnections is enough for the test binaries of several packages at the same
	// time.
	maxConnections = 200
	// orphanTimeout limits the wait for the child processes of a killed Postgres. They
	// use the shared memory of Postgres until they notice that Postgres has ended.
	orphanTimeout = 10 * time.Second
)

// PostgresConfig configures a server that StartPostgres starts.
type PostgresConfig struct {
	// Dir is the folder of the server. No other server may use it. If it is missing or
	// empty, StartPostgres creates a cluster in it, with the superuser tributary and an
	// empty database tributary. A caller that is root must use a folder from DataDir or
	// TempDir.
	Dir string
	// Port is the port on 127.0.0.1. Default 0: a free port, which may differ at each
	// start.
	Port int
	// Durable keeps the default settings of Postgres. The default is false, for tests:
	// nothing is synced to disk, so a crash of the machine may destroy the whole
	// cluster; autovacuum and JIT compilation are disabled.
	Durable bool
	// Primary is the port of a primary on 127.0.0.1. At its first start, the server copies
	// the primary. It then is its standby with the application name standby, until it is
	// promoted. Default 0: the server is a primary.
	Primary int
	// Log receives the output of Postgres. Default: the output is discarded.
	Log io.Writer
}

// StartPostgres starts a private Postgres and returns when it accepts connections. ctx
// limits the start only; the server keeps running when ctx ends. The server has no Unix
// socket, so Dir may have any length.
//
// StartPostgres returns an error if another live process runs a server in the folder. If
// the process that used the folder before has ended without stopping its server,
// StartPostgres cleans up the folder (see reclaim).
func StartPostgres(ctx context.Context, cfg PostgresConfig) (*Server, error) {
	bin, err := findPostgres(ctx)
	if err != nil {
		return nil, err
	}
	// The commands run inside the folder, where a relative path would have another
	// meaning.
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := createAccessible(cfg.Dir); err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := reachable(cfg.Dir); err != nil {
			return nil, fmt.Errorf("postgres cannot work in %s: %w; use the folder that DataDir returns", cfg.Dir, err)
		}
	}
	deadline := time.Now().Add(orphanTimeout)
	for attempt := 1; ; attempt++ {
		s, err := startPostgres(ctx, bin, cfg)
		switch {
		case err == nil:
			return s, nil
		case cfg.Port == 0 && attempt < freePortAttempts && PortTaken(err):
		case strings.Contains(err.Error(), "pre-existing shared memory block") && time.Now().Before(deadline):
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
		// Fast shutdown: closes connections and writes a checkpoint.
		stopSignal: syscall.SIGINT,
		// Immediate shutdown: also ends the child processes. SIGKILL would not end them.
		forceSignal: syscall.SIGQUIT,
	})
	if err != nil {
		return nil, err
	}
	s.URL = fmt.Sprintf("postgres://tributary@127.0.0.1:%d/tributary?sslmode=disable", port)
	return s, s.await(ctx, func() bool { return postgresReady(pidFile, s.Pid) })
}

// preparePostgres makes sure that a cluster exists and is not running. It returns the
// port on which the server must listen.
func preparePostgres(ctx context.Context, bin, cluster, pidFile string, cfg PostgresConfig) (int, error) {
	if err := reclaim(ctx, cluster, pidFile, syscall.SIGINT); err != nil {
		return 0, fmt.Errorf("postgres: %w", err)
	}
	port, err := choosePort("postgres", cfg.Port)
	if err != nil {
		return 0, err
	}
	if cfg.Primary != 0 {
		return port, copyCluster(ctx, bin, cluster, cfg)
	}
	return port, initCluster(ctx, bin, cluster, cfg)
}

// initCluster creates the cluster in a temporary folder and renames the folder when the
// cluster is complete. So an interrupted first start leaves no incomplete cluster.
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
	if err := chownToPostgres(unfinished); err != nil {
		return err
	}
	initdb := []string{
		filepath.Join(bin, "initdb"), "-D", unfinished, "-U", "tributary",
		"--auth=trust", "-E", "UTF8", "--locale=C.UTF-8",
	}
	if !cfg.Durable {
		initdb = append(initdb, "--no-sync")
	}
	// The single-user mode needs no client program. A machine may have only the server.
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
			return fmt.Errorf("create a Postgres cluster in %s: %w", cluster, err)
		}
	}
	return os.Rename(unfinished, cluster)
}

// durability returns additional settings for a cluster that is not durable.
//
// synchronous_commit stays on. Without fsync it costs nothing. If it were off, a VACUUM
// directly after a commit could not mark pages as visible to all transactions before the
// write-ahead log is written. The plans of the next statements would then depend on the
// moment of this write.
//
// autovacuum is off because it would change the statistics and visible pages of a
// database while a test checks query plans, and because it takes time from the tests.
// JIT compilation is off because the service disables it too, and because tests run most
// statements once.
//
// shared_buffers is small because each new database causes checkpoints, which write the
// changed buffers. Most test runs store the data folder in a file system in memory, where
// reading a page again is cheap.
func durability(durable bool) []string {
	if durable {
		return nil
	}
	return []string{"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "autovacuum=off", "-c", "jit=off", "-c", "shared_buffers=32MB"}
}

// copyCluster creates the cluster of a standby as a copy of its primary.
func copyCluster(ctx context.Context, bin, cluster string, cfg PostgresConfig) error {
	if _, err := os.Stat(cluster); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Mkdir(cluster, 0o700); err != nil {
		return err
	}
	if err := chownToPostgres(cluster); err != nil {
		return err
	}
	primary := fmt.Sprintf("host=127.0.0.1 port=%d user=tributary application_name=standby", cfg.Primary)
	argv, err := asPostgres([]string{
		filepath.Join(bin, "pg_basebackup"), "--dbname=" + primary, "--pgdata=" + cluster, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast",
	}, "TERM")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = cluster
	if err := run(cmd, cfg.Log); err != nil {
		return fmt.Errorf("copy the primary to %s: %w", cluster, err)
	}
	return nil
}

// postgresReady reports whether the server is ready. Like pg_ctl, it reads the pid file:
// the first line is the process id, the eighth is the state.
func postgresReady(pidFile string, pid int) bool {
	text, err := os.ReadFile(pidFile)
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) >= 8 && lines[0] == strconv.Itoa(pid) && slices.Contains([]string{"ready", "standby"}, strings.TrimSpace(lines[7]))
}

// asPostgres returns a command that runs argv as the user postgres if the caller is
// root, because Postgres does not run as root. The kernel sends deathSignal to the
// command when its parent process ends. A change of the user clears this setting of the
// kernel, so setpriv sets it again. setpriv replaces itself with the command, so both
// have the same process id.
func asPostgres(argv []string, deathSignal string) ([]string, error) {
	if os.Geteuid() != 0 {
		return argv, nil
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return nil, errors.New("postgres does not run as root and setpriv is missing: install util-linux or work as another user")
	}
	return append(
		[]string{setpriv, "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=" + deathSignal, "--"},
		argv...,
	), nil
}

func chownToPostgres(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("postgres does not run as root: %w (Debian's package postgresql creates that user)", err)
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
