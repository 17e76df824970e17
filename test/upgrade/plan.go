package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/tributary-hq/tributary/tools/commits"
)

const (
	migrationsFolder = "storage/postgres/migrations"
	// firstCompatible is the number of the first migration that must be compatible: the
	// binaries of the commit before the migration must work on the schema after the
	// migration. Earlier migrations were written before this rule existed.
	firstCompatible = 9
)

// plan is the commit whose binaries are tested on the current schema.
type plan struct {
	commit string
	// migrations contains the migrations that are missing in the commit.
	migrations []string
	reason     string
}

// choose returns the plan of a run. If base names a commit, the plan tests this commit.
// Otherwise it tests the newest commit without the newest migration. If this commit also
// lacks a migration that need not be compatible, the plan tests the commit before HEAD.
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
	newest := migrationsFolder + "/" + names[len(names)-1]
	added, err := commits.Git(ctx, "log", "-1", "--format=%H", "--diff-filter=A", "--", newest)
	if err != nil {
		return p, err
	}
	base = "HEAD" // for a migration that is not committed yet
	if added != "" {
		base = added + "^"
	}
	p, err = planFor(ctx, base, names, "the newest commit without the newest migration")
	if err != nil || allCompatible(p.migrations) {
		return p, err
	}
	return planFor(ctx, "HEAD~1", names, fmt.Sprintf("the commit before HEAD, because the newest commit without the newest migration lacks migrations before %04d", firstCompatible))
}

func planFor(ctx context.Context, base string, present []string, reason string) (plan, error) {
	commit, err := commits.Resolve(ctx, base)
	if err != nil {
		return plan{}, err
	}
	listed, err := commits.Git(ctx, "ls-tree", "--name-only", commit, migrationsFolder+"/")
	if err != nil {
		return plan{}, err
	}
	p := plan{commit: commit, reason: reason}
	for _, name := range present {
		if !slices.Contains(strings.Fields(listed), migrationsFolder+"/"+name) {
			p.migrations = append(p.migrations, name)
		}
	}
	return p, nil
}

// allCompatible reports whether the list has at least one migration, and every migration
// in it must be compatible.
func allCompatible(migrations []string) bool {
	for _, name := range migrations {
		number, _, _ := strings.Cut(name, "_")
		if n, err := strconv.Atoi(number); err != nil || n < firstCompatible {
			return false
		}
	}
	return len(migrations) > 0
}
