package postgres_test

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/tools/servers"
)

// Roles belong to the whole database server. Therefore this test starts its own server,
// on which no other test has created the role of the service.
func TestMigrate_WithoutCreateRole(t *testing.T) {
	t.Parallel()
	dir, err := servers.MemoryDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	server, err := servers.StartPostgres(t.Context(), servers.PostgresConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	admin := func(statements ...string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(t.Context()) }()
		for _, sql := range statements {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
	admin(`create role "the owner" login nosuperuser nocreaterole nocreatedb`, `create database owned owner "the owner"`)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	target.User, target.Path = url.User("the owner"), "/owned"
	checkMigrateFails := func(want ...string) {
		t.Helper()
		err := postgres.Migrate(t.Context(), target.String())
		if err == nil {
			t.Fatalf("Migrate succeeded, want an error with %q", want)
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("Migrate returned the error %q, want an error that contains %q", err, text)
			}
		}
	}

	checkMigrateFails(`tributary_app does not exist`, "`create role tributary_app nologin; grant tributary_app to \"the owner\"`", "CREATEROLE")
	admin("create role tributary_app nologin")
	checkMigrateFails(`"the owner" is not a member of role tributary_app`, "`grant tributary_app to \"the owner\"`")
	admin(`grant tributary_app to "the owner"`)
	for range 2 {
		if err := postgres.Migrate(t.Context(), target.String()); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := postgres.CheckSchema(t.Context(), target.String()); err != nil || v.Newer() {
		t.Errorf("CheckSchema after the migration returned %+v, %v, want a current schema", v, err)
	}
	// The service can also connect as another member of its role.
	admin("create role service login in role tributary_app")
	target.User = url.User("service")
	if v, err := postgres.CheckSchema(t.Context(), target.String()); err != nil || v.Newer() {
		t.Errorf("CheckSchema as another member of the role returned %+v, %v, want a current schema", v, err)
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: target.String()})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
}
