package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// debianBins matches the folders of Debian's Postgres commands, one for each major
// version. They are not on the PATH.
const debianBins = "/usr/lib/postgresql/*/bin"

var (
	errNoPostgres = errors.New("the Postgres server is not installed: install it (Debian: apt-get install postgresql), " +
		"set PG_BINDIR to the folder of initdb and postgres, or set TRIBUTARY_DATABASE_URL to a running server " +
		"(for tests TRIBUTARY_TEST_DATABASE_URL)")
	errNoRedis = errors.New("the Redis server is not installed: install redis-server or valkey-server (Debian: apt-get install redis-server), " +
		"or set TRIBUTARY_REDIS_URL to a running server (for tests TRIBUTARY_TEST_REDIS_URL)")
)

// PostgresCommands returns the folder of the server commands of Postgres, for callers that
// start a cluster in their own way.
func PostgresCommands(ctx context.Context) (string, error) { return findPostgres(ctx) }

// findPostgres returns the folder of the server commands. If they are missing and the
// caller may install packages, findPostgres installs them.
func findPostgres(ctx context.Context) (string, error) {
	bin, err := locatePostgres(ctx, debianBins)
	if err != nil || bin != "" {
		return bin, err
	}
	if err := Install(ctx, "postgresql"); err != nil {
		return "", fmt.Errorf("%w; %w", errNoPostgres, err)
	}
	bin, err = locatePostgres(ctx, debianBins)
	if err == nil && bin == "" {
		err = errNoPostgres
	}
	return bin, err
}

// locatePostgres looks for the folder of the server commands: first in PG_BINDIR, then
// where packages install them. It returns "" if it finds no folder.
func locatePostgres(ctx context.Context, versions string) (string, error) {
	if bin := os.Getenv("PG_BINDIR"); bin != "" {
		if !hasPostgres(bin) {
			return "", fmt.Errorf("PG_BINDIR: %s does not contain initdb and postgres", bin)
		}
		return bin, nil
	}
	// pg_config may be installed without the server, with the client library.
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		if bin := strings.TrimSpace(string(out)); hasPostgres(bin) {
			return bin, nil
		}
	}
	highest, found := -1, ""
	dirs, err := filepath.Glob(versions)
	if err != nil {
		return "", err
	}
	for _, bin := range dirs {
		major, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
		if err == nil && major > highest && hasPostgres(bin) {
			highest, found = major, bin
		}
	}
	if found != "" {
		return found, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil && hasPostgres(filepath.Dir(path)) {
		return filepath.Dir(path), nil
	}
	return "", nil
}

func hasPostgres(bin string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(bin, name)); err != nil {
			return false
		}
	}
	return true
}

// findRedis returns the path of the server command. If the command is missing and the
// caller may install packages, findRedis installs it.
func findRedis(ctx context.Context) (string, error) {
	if path := locateRedis(); path != "" {
		return path, nil
	}
	if err := Install(ctx, "redis-server"); err != nil {
		return "", fmt.Errorf("%w; %w", errNoRedis, err)
	}
	if path := locateRedis(); path != "" {
		return path, nil
	}
	return "", errNoRedis
}

func locateRedis() string {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// installScript installs a package and prevents the package from starting its services.
// For this it uses Debian's hook policy-rc.d, which it creates and removes itself. If the
// machine already has this hook, the script does not change it.
const installScript = `set -e
hook=/usr/sbin/policy-rc.d
if [ ! -e "$hook" ]; then
	trap 'rm -f "$hook"' EXIT
	printf '#!/bin/sh\nexit 101\n' > "$hook"
	chmod 755 "$hook"
fi
apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$1"
`

// Install installs a Debian package. It prints the output, because the installation takes
// a while and changes the machine. Only one process installs at a time. Otherwise the
// first process to finish would remove the hook policy-rc.d while the second still needs
// it.
func Install(ctx context.Context, pkg string) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("not installed automatically: this needs root")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("not installed automatically: there is no apt-get")
	}
	lock, err := os.OpenFile("/run/lock/tributary-install", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	fmt.Fprintln(os.Stderr, "installing "+pkg)
	env := append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	update := exec.CommandContext(ctx, "apt-get", "-o", "DPkg::Lock::Timeout=300", "update")
	update.Env = env
	if err := run(update, os.Stderr); err != nil {
		return err
	}
	// The installation is not cancelled and does not receive Ctrl-C, because an
	// interrupted package manager leaves packages partly configured.
	add := exec.Command("sh", "-c", installScript, "install", pkg) //nolint:noctx // see above
	add.Env = env
	add.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return run(add, os.Stderr)
}

// run runs a command, writes its output to log, and waits until the command ends. If the
// command fails, the error contains the end of the output.
func run(cmd *exec.Cmd, log io.Writer) error {
	out := &output{next: log}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, out.tail())
	}
	return nil
}
