package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/tools/commits"
)

const (
	migrationsFolder = "storage/postgres/migrations"
	// firstMigration creates the whole schema of an empty database.
	firstMigration = "0001_schema.sql"
)

// plan is the commit whose binaries are tested on the current schema.
type plan struct {
	commit string
	// migrations contains the migrations that are missing in the commit.
	migrations []string
	reason     string
}

// choose returns the plan of a run. If base names a commit, the plan tests this commit.
// Otherwise it tests the newest commit without the newest migration. If the first migration
// is the only one, the plan tests the last commit that changed it.
func choose(ctx context.Context, base string) (p plan, err error) {
	present, err := os.ReadDir(migrationsFolder)
	if err != nil {
		return p, err
	}
	names := make([]string, len(present))
	for i, entry := range present {
		names[i] = entry.Name()
	}
	if base != "" {
		return planFor(ctx, base, names, "selected by BASE")
	}
	newest := names[len(names)-1]
	if newest == firstMigration {
		base, err = commits.Git(ctx, "log", "-1", "--format=%H", "--", migrationsFolder+"/"+firstMigration)
		if err != nil {
			return p, err
		}
		return planFor(ctx, base, names, "the last commit that changed "+firstMigration+", which no migration follows")
	}
	added, err := commits.Git(ctx, "log", "-1", "--format=%H", "--diff-filter=A", "--", migrationsFolder+"/"+newest)
	if err != nil {
		return p, err
	}
	base = "HEAD" // for a migration that is not committed yet
	if added != "" {
		base = added + "^"
	}
	return planFor(ctx, base, names, "the newest commit without the newest migration")
}

// planFor returns the plan that tests a commit. It returns an error if the commit has a
// migration that does not exist any more, because its databases cannot be migrated.
func planFor(ctx context.Context, base string, present []string, reason string) (plan, error) {
	commit, err := commits.Resolve(ctx, base)
	if err != nil {
		return plan{}, err
	}
	listed, err := commits.Git(ctx, "ls-tree", "--name-only", commit, migrationsFolder+"/")
	if err != nil {
		return plan{}, err
	}
	p := plan{commit: commit, reason: reason, migrations: slices.Clone(present)}
	for _, path := range strings.Fields(listed) {
		n := slices.Index(p.migrations, filepath.Base(path))
		if n < 0 {
			return plan{}, fmt.Errorf("%.12s has the migration %s, which is now part of %s: its databases cannot be migrated",
				commit, filepath.Base(path), firstMigration)
		}
		p.migrations = slices.Delete(p.migrations, n, n+1)
	}
	return p, nil
}
