package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// PgBouncerConfig configures a server that StartPgBouncer starts.
type PgBouncerConfig struct {
	// Dir is the folder of the server. No other server may use it. It is created if it
	// does not exist. A caller that is root must use a folder from DataDir or TempDir.
	Dir string
	// Database is the URL of a database on 127.0.0.1. Server.URL is a URL of the same
	// database behind PgBouncer. Clients connect without a password.
	Database string
	// Settings are additional settings for the section [pgbouncer] of the configuration,
	// for example pool_mode.
	Settings map[string]string
	// Log receives the output of PgBouncer. Default: the output is discarded.
	Log io.Writer
}

// StartPgBouncer starts a private PgBouncer in front of a database and returns when it
// accepts connections. ctx limits the start only; the server keeps running when ctx ends.
func StartPgBouncer(ctx context.Context, cfg PgBouncerConfig) (*Server, error) {
	bin, err := findPgBouncer(ctx)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(cfg.Database)
	if err != nil {
		return nil, errors.New("the database of PgBouncer must be a URL")
	}
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := createAccessible(cfg.Dir); err != nil {
		return nil, fmt.Errorf("pgbouncer: %w", err)
	}
	for attempt := 1; ; attempt++ {
		s, err := startPgBouncer(ctx, bin, target, cfg)
		if err == nil || attempt == freePortAttempts || !PortTaken(err) {
			return s, err
		}
	}
}

func startPgBouncer(ctx context.Context, bin string, target *url.URL, cfg PgBouncerConfig) (*Server, error) {
	lock, err := lockFolder(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("pgbouncer: %w", err)
	}
	port, err := choosePort("pgbouncer", 0)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	file := filepath.Join(cfg.Dir, "pgbouncer.ini")
	argv, err := asPostgres([]string{bin, file}, "INT")
	if err == nil {
		err = writePgBouncerConfig(file, port, target, cfg)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s, err := launch(command{
		name: "pgbouncer",
		argv: argv,
		dir:  cfg.Dir,
		log:  cfg.Log,
		lock: lock,
		// Immediate shutdown. SIGINT would wait until all clients have disconnected.
		stopSignal:  syscall.SIGTERM,
		forceSignal: syscall.SIGKILL,
	})
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	front := *target
	front.Host = address
	s.URL = front.String()
	return s, s.await(ctx, func() bool {
		conn, err := net.DialTimeout("tcp", address, healthCheckTimeout) //nolint:noctx // bounded by its own timeout
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// writePgBouncerConfig writes the configuration and the list of users.
func writePgBouncerConfig(file string, port int, target *url.URL, cfg PgBouncerConfig) error {
	users := filepath.Join(cfg.Dir, "users.txt")
	settings := map[string]string{
		"listen_addr": "127.0.0.1", "listen_port": strconv.Itoa(port), "unix_socket_dir": "", "auth_type": "trust", "auth_file": users,
	}
	for name, value := range cfg.Settings {
		if _, fixed := settings[name]; !fixed {
			settings[name] = value
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "[databases]\n* = host=%s port=%s\n\n[pgbouncer]\n", target.Hostname(), target.Port())
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s = %s\n", name, settings[name])
	}
	// PgBouncer runs as the user postgres and must read the files.
	return errors.Join(
		os.WriteFile(users, []byte(fmt.Sprintf("%q \"\"\n", target.User.Username())), 0o644), //nolint:gosec // no secret
		os.WriteFile(file, []byte(text.String()), 0o644),                                     //nolint:gosec // no secret
	)
}

// findPgBouncer returns the path of the server command. If the command is missing and the
// caller may install packages, findPgBouncer installs it.
func findPgBouncer(ctx context.Context) (string, error) {
	const debianPath = "/usr/sbin/pgbouncer" // not on the PATH of all users
	locate := func() string {
		for _, name := range []string{"pgbouncer", debianPath} {
			if path, err := exec.LookPath(name); err == nil {
				return path
			}
		}
		return ""
	}
	if path := locate(); path != "" {
		return path, nil
	}
	missing := errors.New("PgBouncer is not installed: install it (Debian: apt-get install pgbouncer)")
	if err := Install(ctx, "pgbouncer"); err != nil {
		return "", fmt.Errorf("%w; %w", missing, err)
	}
	if path := locate(); path != "" {
		return path, nil
	}
	return "", missing
}
