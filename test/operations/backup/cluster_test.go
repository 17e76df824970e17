//go:build operations

package backup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/test/operations/process"
	"github.com/tributary-hq/tributary/tools/servers"
)

// cluster is a Postgres as an operator runs it: a cluster of the user postgres with a Unix
// socket, WAL archiving and pgBackRest. A setting of deploy/backup is replaced only if it
// is the path of a folder.
type cluster struct {
	t    *testing.T
	dir  string
	bin  string // folder of the server commands
	port string
	// env is the environment of Postgres and of the commands of the user postgres.
	env     []string
	running *process.Process
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

// repository returns the folder of the backups.
func (c *cluster) repository() string { return filepath.Join(c.dir, "repository") }

func newCluster(t *testing.T, dir string) *cluster {
	t.Helper()
	if _, err := exec.LookPath("pgbackrest"); err != nil {
		if err := servers.Install(t.Context(), "pgbackrest"); err != nil {
			t.Fatal("pgbackrest is not installed: ", err)
		}
	}
	bin, err := servers.PostgresCommands(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	address, err := servers.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(address[0])
	c := &cluster{t: t, dir: dir, bin: bin, port: port}
	for _, name := range []string{"repository", "spool", "log", "lock", "socket", "home", "etc", "etc/conf.d"} {
		c.mkdir(filepath.Join(dir, name))
	}
	c.install("pgbackrest.conf", "etc/pgbackrest.conf")
	c.install("postgresql.conf", "etc/backup.conf")
	c.write("etc/conf.d/passphrase.conf", "[global]\nrepo1-cipher-pass=a passphrase\n")
	c.env = []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "HOME=" + c.file("home"), "PGUSER=postgres", "PGHOST=" + c.file("socket"), "PGPORT=" + port,
		"PGBACKREST_CONFIG=" + c.file("etc/pgbackrest.conf"), "PGBACKREST_CONFIG_INCLUDE_PATH=" + c.file("etc/conf.d"),
		"PGBACKREST_REPO1_PATH=" + c.repository(), "PGBACKREST_SPOOL_PATH=" + c.file("spool"), "PGBACKREST_LOG_PATH=" + c.file("log"),
		"PGBACKREST_LOCK_PATH=" + c.file("lock"), "PGBACKREST_PG1_PATH=" + c.data(), "PGBACKREST_PG1_PORT=" + port,
		"PGBACKREST_PG1_SOCKET_PATH=" + c.file("socket"),
	}
	return c
}

func (c *cluster) file(name string) string { return filepath.Join(c.dir, name) }

// mkdir creates an empty folder of the user postgres.
func (c *cluster) mkdir(path string) {
	c.t.Helper()
	if err := errors.Join(os.Mkdir(path, 0o700), c.chown(path)); err != nil {
		c.t.Fatal(err)
	}
}

// install copies a file of deploy/backup.
func (c *cluster) install(from, to string) {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(configFile, from))
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(to, string(text))
}

func (c *cluster) write(name, text string) {
	c.t.Helper()
	if err := errors.Join(os.WriteFile(c.file(name), []byte(text), 0o600), c.chown(c.file(name))); err != nil {
		c.t.Fatal(err)
	}
}

// chown gives a file to the user postgres if the test is root.
func (c *cluster) chown(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(account.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(account.Gid)
	if err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
}

// asPostgres returns the beginning of a command that runs as the user postgres. The kernel
// ends the command when the test ends.
func asPostgres() []string {
	if os.Geteuid() != 0 {
		return nil
	}
	return []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=INT", "--"}
}

// try runs a script as the user postgres. Settings are added to the environment.
func (c *cluster) try(script string, settings ...string) (string, error) {
	c.t.Helper()
	return shell(c.t, asPostgres(), append(c.env[:len(c.env):len(c.env)], settings...), c.file("home"), script)
}

// run is like try and fails the test on an error.
func (c *cluster) run(script string, settings ...string) string {
	c.t.Helper()
	out, err := c.try(script, settings...)
	if err != nil {
		c.t.Fatalf("%s\nends with %v:\n%s", script, err, out)
	}
	return out
}

// create creates an empty cluster with the sample configuration.
func (c *cluster) create() {
	c.t.Helper()
	c.mkdir(c.data())
	c.run(fmt.Sprintf("%s/initdb -D %s -U postgres --auth-local=peer --auth-host=trust -E UTF8 --locale=C.UTF-8 >/dev/null", c.bin, c.data()))
	c.run(fmt.Sprintf("echo \"include '%s'\" >> %s/postgresql.conf", c.file("etc/backup.conf"), c.data()))
}

// start starts Postgres. It does not wait until Postgres accepts connections, because that
// can take long after a restore.
func (c *cluster) start() {
	c.t.Helper()
	c.running = process.StartCommand(c.t, c.env, "postgres", append(asPostgres(),
		c.bin+"/postgres", "-D", c.data(), "-p", c.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="+c.file("socket"),
		"-c", "max_connections=200", "-c", "timezone=UTC")...)
}

// awaitWritable waits until Postgres accepts changes.
func (c *cluster) awaitWritable() {
	c.t.Helper()
	process.Await(c.t, "Postgres is not in recovery", func() error {
		out, err := c.try("psql -AXqt -c 'select pg_is_in_recovery()'")
		if err == nil && out != "f" {
			err = errors.New(out)
		}
		return err
	})
}

// destroy kills Postgres and deletes its data.
func (c *cluster) destroy() {
	c.t.Helper()
	c.running.Kill(c.t)
	// The other processes of Postgres notice the end of their parent and end too. Until then
	// they can create files.
	process.Await(c.t, "all processes of Postgres have ended", func() error {
		folders, err := filepath.Glob("/proc/[0-9]*/cwd")
		for _, folder := range folders {
			if at, _ := os.Readlink(folder); at == c.data() { // an error means that the process has ended
				err = fmt.Errorf("%s is the data folder", folder)
			}
		}
		return err
	})
	if err := os.RemoveAll(c.data()); err != nil {
		c.t.Fatal(err)
	}
}

// url returns the URL of the database of the service for a user.
func (c *cluster) url(user string) string {
	return "postgres://" + user + "@" + net.JoinHostPort("127.0.0.1", c.port) + "/tributary?sslmode=disable"
}

// query runs a statement as an administrator and returns its first value as text.
func (c *cluster) query(sql string, args ...any) string {
	c.t.Helper()
	conn, err := pgx.Connect(c.t.Context(), c.url("postgres"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	var value *string
	if err := conn.QueryRow(c.t.Context(), sql, args...).Scan(&value); err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
	if value == nil {
		return ""
	}
	return *value
}

// archiveWAL waits until all changes so far are in the archive.
func (c *cluster) archiveWAL() {
	c.t.Helper()
	segment := c.query("select pg_walfile_name(pg_switch_wal())")
	process.Await(c.t, segment+" is archived", func() error {
		if last := c.query("select last_archived_wal from pg_stat_archiver"); strings.Compare(last, segment) < 0 {
			return fmt.Errorf("the last archived segment is %s", last)
		}
		return nil
	})
}
