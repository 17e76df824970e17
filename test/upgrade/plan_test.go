package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/tools/commits"
)

func TestChoose(t *testing.T) {
	repository := t.TempDir()
	t.Chdir(repository)
	git(t, "init", "-q")
	commit := func(name string) string {
		t.Helper()
		appendLine(t, name)
		git(t, "add", "-A")
		git(t, "-c", "user.name=T", "-c", "user.email=t@example.com", "commit", "-q", "-m", name)
		hash, err := commits.Resolve(t.Context(), "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	migration := func(name string) string { return filepath.Join(migrationsFolder, name) }
	want := func(base, commit string, migrations ...string) {
		t.Helper()
		p, err := choose(t.Context(), base)
		if err != nil || p.commit != commit || !slices.Equal(p.migrations, migrations) {
			t.Errorf("choose(%q) = %+v, %v; want the commit %s, which lacks %q", base, p, err, commit, migrations)
		}
	}

	// The first migration replaces the migrations of the commits before it.
	commit(migration(firstMigration))
	unreleased := commit(migration("0002_old.sql"))
	git(t, "rm", "-q", migration("0002_old.sql"))
	first := commit(migration(firstMigration))
	want("", first)
	commit("code.go")
	want("", first)
	want(mustResolve(t, "HEAD"), mustResolve(t, "HEAD"))
	if _, err := choose(t.Context(), unreleased); err == nil || !strings.Contains(err.Error(), "0002_old.sql, which is now part of 0001_schema.sql") {
		t.Errorf("choose of a commit before the first migration returned %v, want an error that names 0002_old.sql", err)
	}

	appendLine(t, migration("0002_new.sql"))
	head := mustResolve(t, "HEAD")
	want("", head, "0002_new.sql") // the migration is not committed yet
	commit(migration("0002_new.sql"))
	want("", head, "0002_new.sql")
	commit("code.go")
	want("", head, "0002_new.sql")
	commit(migration("0002_new.sql")) // the migration is changed before its release
	want("", head, "0002_new.sql")
	second := mustResolve(t, "HEAD")
	commit(migration("0003_newer.sql"))
	want("", mustResolve(t, "HEAD~1"), "0003_newer.sql")
	want(second, second, "0003_newer.sql")
	want(first, first, "0002_new.sql", "0003_newer.sql")

	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, "clone", "-q", "--depth=1", "file://"+repository, shallow)
	t.Chdir(shallow)
	if _, err := choose(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "git fetch --unshallow") {
		t.Errorf("choose in a shallow clone returned %v, want the advice to run git fetch --unshallow", err)
	}
}

func mustResolve(t *testing.T, revision string) string {
	t.Helper()
	hash, err := commits.Resolve(t.Context(), revision)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// appendLine appends a line to a file and creates the file if necessary.
func appendLine(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("line\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}
