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

// debianBins is where Debian keeps the server commands of each major version of
// Postgres; they are on nobody's PATH.
const debianBins = "/usr/lib/postgresql/*/bin"

var (
	errNoPostgres = errors.New("no Postgres on this machine: install it (Debian: apt-get install postgresql), " +
		"name the folder of initdb and postgres in PG_BINDIR, or set TRIBUTARY_DATABASE_URL to a running server " +
		"(for tests TRIBUTARY_TEST_DATABASE_URL)")
	errNoRedis = errors.New("no Redis on this machine: install redis-server or valkey-server (Debian: apt-get install redis-server), " +
		"or set TRIBUTARY_REDIS_URL to a running server (for tests TRIBUTARY_TEST_REDIS_URL)")
)

// findPostgres returns the folder of the server commands, installing them when
// they are missing and it may.
func findPostgres(ctx context.Context) (string, error) {
	bin, err := lookPostgres(ctx, debianBins)
	if err != nil || bin != "" {
		return bin, err
	}
	if err := Install(ctx, "postgresql"); err != nil {
		return "", fmt.Errorf("%w; %w", errNoPostgres, err)
	}
	bin, err = lookPostgres(ctx, debianBins)
	if err == nil && bin == "" {
		err = errNoPostgres
	}
	return bin, err
}

// lookPostgres looks where a person said, then where packages put the commands.
// No answer and no error means that there is none.
func lookPostgres(ctx context.Context, versions string) (string, error) {
	if bin := os.Getenv("PG_BINDIR"); bin != "" {
		if !holdsPostgres(bin) {
			return "", fmt.Errorf("PG_BINDIR: %s does not hold initdb and postgres", bin)
		}
		return bin, nil
	}
	// pg_config comes with the client library too, without the server beside it.
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		if bin := strings.TrimSpace(string(out)); holdsPostgres(bin) {
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
		if err == nil && major > highest && holdsPostgres(bin) {
			highest, found = major, bin
		}
	}
	if found != "" {
		return found, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil && holdsPostgres(filepath.Dir(path)) {
		return filepath.Dir(path), nil
	}
	return "", nil
}

func holdsPostgres(bin string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(bin, name)); err != nil {
			return false
		}
	}
	return true
}

// findRedis returns the server command, installing it when it is missing and it
// may.
func findRedis(ctx context.Context) (string, error) {
	if path := lookRedis(); path != "" {
		return path, nil
	}
	if err := Install(ctx, "redis-server"); err != nil {
		return "", fmt.Errorf("%w; %w", errNoRedis, err)
	}
	if path := lookRedis(); path != "" {
		return path, nil
	}
	return "", errNoRedis
}

func lookRedis() string {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// installScript refuses the packages' wish to start their services through
// Debian's own hook for that, put there and taken away by the script itself so
// that it does not outlive us. A machine that has the hook has decided already.
const installScript = `set -e
hook=/usr/sbin/policy-rc.d
if [ ! -e "$hook" ]; then
	trap 'rm -f "$hook"' EXIT
	printf '#!/bin/sh\nexit 101\n' > "$hook"
	chmod 755 "$hook"
fi
apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$1"
`

// Install brings a Debian package, in plain sight: it takes a while and changes
// the machine. Two processes install one after the other: the first to end would
// take the hook away from under the second.
func Install(ctx context.Context, pkg string) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("not installed by itself: that needs root")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("not installed by itself: there is no apt-get")
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
	// Not cancelled and out of Ctrl-C's reach: a package manager cut short leaves
	// the machine half configured.
	add := exec.Command("sh", "-c", installScript, "install", pkg) //nolint:noctx // see above
	add.Env = env
	add.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return run(add, os.Stderr)
}

// run runs a command to its end; its output goes to log, and into the error
// when it fails.
func run(cmd *exec.Cmd, log io.Writer) error {
	out := &output{next: log}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, out.tail())
	}
	return nil
}
