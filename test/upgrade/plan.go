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
	// firstRuled is the first migration that has to work with the binaries of the
	// commit before it. The rule is younger than the migrations before this one.
	firstRuled = 9
)

// plan says which commit's binaries run on the present schema.
type plan struct {
	commit string
	// migrations are those that the commit does not have.
	migrations []string
	why        string
}

// choose returns the plan of a run. A base that is named is taken as it is. Otherwise
// it is the newest commit without the newest migration. If a migration that this commit
// does not have is older than the rule, the binaries of the last commit run instead.
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
		return planFor(ctx, base, names, "BASE names it")
	}
	newest := migrationsFolder + "/" + names[len(names)-1]
	added, err := commits.Git(ctx, "log", "-1", "--format=%H", "--diff-filter=A", "--", newest)
	if err != nil {
		return p, err
	}
	base = "HEAD" // the newest migration is not committed yet
	if added != "" {
		base = added + "^"
	}
	p, err = planFor(ctx, base, names, "the newest migration came after it")
	if err != nil || ruled(p.migrations) {
		return p, err
	}
	return planFor(ctx, "HEAD~1", names, fmt.Sprintf("there is no migration from %04d on that is newer", firstRuled))
}

func planFor(ctx context.Context, base string, present []string, why string) (plan, error) {
	commit, err := commits.Resolve(ctx, base)
	if err != nil {
		return plan{}, err
	}
	listed, err := commits.Git(ctx, "ls-tree", "--name-only", commit, migrationsFolder+"/")
	if err != nil {
		return plan{}, err
	}
	p := plan{commit: commit, why: why}
	for _, name := range present {
		if !slices.Contains(strings.Fields(listed), migrationsFolder+"/"+name) {
			p.migrations = append(p.migrations, name)
		}
	}
	return p, nil
}

// ruled reports whether there are migrations and the rule holds for all of them.
func ruled(migrations []string) bool {
	for _, name := range migrations {
		number, _, _ := strings.Cut(name, "_")
		if n, err := strconv.Atoi(number); err != nil || n < firstRuled {
			return false
		}
	}
	return len(migrations) > 0
}
