package e2e_test

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPortal_UsesEveryOperation checks that the portal uses each operation that partners may call,
// or that web/unused.md gives the reason why it does not.
func TestPortal_UsesEveryOperation(t *testing.T) {
	t.Parallel()
	offered := map[string]bool{}
	for _, r := range routes(t) {
		if routeRules[r.rpc].allows(partners) && routeRules[r.rpc].accepts != anyone && r.template == r.first {
			offered[r.String()] = true
		}
	}
	unused := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]+)` \\| [^|]{20,} \\|$").FindAllStringSubmatch(read(t, "../../web/unused.md"), -1) {
		unused[row[1]] = true
	}
	calls := portalCalls(t)
	for operation := range offered {
		used := slices.ContainsFunc(calls, func(call *regexp.Regexp) bool { return call.MatchString(operation) })
		switch {
		case used && unused[operation]:
			t.Errorf("web/src uses %s: remove it from web/unused.md", operation)
		case !used && !unused[operation]:
			t.Errorf("web/src does not use %s: use it, or give the reason in web/unused.md", operation)
		}
	}
	for _, operation := range slices.Sorted(maps.Keys(unused)) {
		if !offered[operation] {
			t.Errorf("web/unused.md has %s, which partners cannot call", operation)
		}
	}
}

// portalCalls returns the operations that the sources of the web applications call. A part of a path
// that a source inserts can be any name.
func portalCalls(t *testing.T) (calls []*regexp.Regexp) {
	t.Helper()
	call := regexp.MustCompile("(?:\\.(GET|POST|PUT|PATCH|DELETE)|(EventSource))\\(\\s*[\"`](/api/v1/[^\"`?]*)")
	// Both applications have notifications, at addresses of their own.
	feed := strings.NewReplacer("(feedOf(session)", "(`/api/v1/${kind}/notifications`", "${feedOf(session)}", "/api/v1/${kind}/notifications", "${feed}", "/api/v1/${kind}/notifications")
	inserted := regexp.MustCompile(`\\\$\\\{[^}]*\\\}`)
	parameter := regexp.MustCompile(`\\\{[A-Za-z]+\\\}`)
	err := fs.WalkDir(os.DirFS("../../web/src"), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.Contains(path, ".ts") {
			return err
		}
		for _, found := range call.FindAllStringSubmatch(feed.Replace(read(t, "../../web/src/"+path)), -1) {
			verb := found[1]
			if found[2] != "" {
				verb = "GET"
			}
			path := inserted.ReplaceAllLiteralString(regexp.QuoteMeta(found[3]), `[a-z-]+`)
			calls = append(calls, regexp.MustCompile("^"+verb+" "+parameter.ReplaceAllLiteralString(path, `\{[a-z_]+\}`)+"$"))
		}
		return nil
	})
	if err != nil || len(calls) < 20 {
		t.Fatalf("found %d calls (error %v), want more", len(calls), err)
	}
	return calls
}
