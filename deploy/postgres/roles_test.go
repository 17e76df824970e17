// Package postgres tests the script that creates the roles of an installation.
package postgres

import (
	"bytes"
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	landingstore "github.com/tributary-hq/tributary/landing/store"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/servers"
)

// An administrator without superuser rights creates the roles, and a superuser changes them.
// The owner migrates, and the login role of the core works but changes no table. The log of
// the server has no value of a row that violates a constraint.
func TestRoles(t *testing.T) {
	dir, err := servers.MemoryDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	log, err := os.Create(filepath.Join(t.TempDir(), "postgres.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	server, err := servers.StartPostgres(t.Context(), servers.PostgresConfig{Dir: dir, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	as := func(user, database string) string {
		target, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		target.User, target.Path = url.User(user), "/"+database
		return target.String()
	}
	execute := func(address, sql string) error {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		_, err = conn.Exec(t.Context(), sql)
		return err
	}
	// The server of the tests has a superuser and a database with the names of the script.
	if err := execute(server.URL, "create role first superuser login; create role admin login createrole createdb"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"alter role tributary rename to second", "alter database tributary rename to other"} {
		if err := execute(as("first", "postgres"), sql); err != nil {
			t.Fatal(err)
		}
	}
	secrets := t.TempDir()
	for _, name := range []string{"owner", "database", "landing"} {
		if err := os.WriteFile(filepath.Join(secrets, name+"-password"), []byte(name+"'s\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin, err := servers.PostgresCommands(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"admin", "admin", "first"} {
		psql := exec.CommandContext(t.Context(), filepath.Join(bin, "psql"), "--no-psqlrc", "--quiet", "--file=roles.sql", as(user, "postgres"))
		psql.Env = append(os.Environ(), "SECRETS="+secrets)
		if out, err := psql.CombinedOutput(); err != nil {
			t.Fatalf("psql: %v\n%s", err, out)
		}
	}

	if err := postgres.Migrate(t.Context(), as("tributary", "tributary")); err != nil {
		t.Fatal(err)
	}
	serve := as("tributary_serve", "tributary")
	if v, err := postgres.CheckSchema(t.Context(), serve); err != nil || v.Newer() {
		t.Errorf("CheckSchema returned %+v, %v, want a current schema", v, err)
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: serve})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, sql := range []string{"drop table ledger_entries", "delete from ledger_entries", "create table mine ()", "create table landing.mine ()"} {
		if err := execute(serve, sql); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("%s as the role of the core: %v, want a lack of privileges", sql, err)
		}
	}
	const value = "value-of-a-user"
	conn, err := pgx.Connect(t.Context(), serve)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for _, want := range []string{"", "23505"} {
		const insert = "insert into check_results (name, compared, violated, checked_at) values ($1, 0, 0, now())"
		if _, err := conn.Exec(t.Context(), insert, value); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Fatalf("insert a row: %v, want %q", err, want)
		}
	}
	// The lines of the server pass through a pipe, so they arrive after its response.
	var logged []byte
	pgtest.Eventually(t, "the log has the violation", func() bool {
		logged, err = os.ReadFile(log.Name())
		return err != nil || bytes.Contains(logged, []byte("duplicate key value"))
	})
	if err != nil || strings.Contains(string(logged), value) {
		t.Errorf("the log of the server is\n%s, %v\nwant the violation without %s", logged, err, value)
	}
	forms := as("tributary_landing", "tributary")
	if err := landingstore.Migrate(t.Context(), forms); err != nil {
		t.Errorf("migrate the landing service: %v", err)
	}
	if err := execute(forms, "select from users"); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("read users as the role of the landing service: %v, want a lack of privileges", err)
	}
}
