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

// Roles belong to the whole cluster, so this test has its own server, on which no
// other test has created the service's role.
func TestMigrate_WithoutCreateRole(t *testing.T) {
	t.Parallel()
	dir, err := servers.TempDir()
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
	refused := func(want ...string) {
		t.Helper()
		err := postgres.Migrate(t.Context(), target.String())
		if err == nil {
			t.Fatal("the database was migrated")
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("the error does not contain %q: %v", text, err)
			}
		}
	}

	refused(`tributary_app does not exist`, "`create role tributary_app nologin; grant tributary_app to \"the owner\"`", "CREATEROLE")
	admin("create role tributary_app nologin")
	refused(`"the owner" is not a member of role tributary_app`, "`grant tributary_app to \"the owner\"`")
	admin(`grant tributary_app to "the owner"`)
	for range 2 {
		if err := postgres.Migrate(t.Context(), target.String()); err != nil {
			t.Fatal(err)
		}
	}
	if v, err := postgres.CheckSchema(t.Context(), target.String()); err != nil || v.Newer() {
		t.Errorf("the migrated schema: %+v, %v", v, err)
	}
	// The service can also connect as another member of its role.
	admin("create role service login in role tributary_app")
	target.User = url.User("service")
	if v, err := postgres.CheckSchema(t.Context(), target.String()); err != nil || v.Newer() {
		t.Errorf("the schema as the service's own user: %+v, %v", v, err)
	}
	store, err := postgres.Open(t.Context(), postgres.Config{URL: target.String()})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
}
