package build_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/web/build"
)

const folder = ".."

// The tests of functions that need no browser are written in TypeScript, next to the functions.
func TestFunctions(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	err = filepath.WalkDir(filepath.Join(folder, "src"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".test.ts") {
			tests = append(tests, path)
		}
		return err
	})
	if err != nil || len(tests) == 0 {
		t.Fatalf("found the tests %q (error %v), want some", tests, err)
	}
	out := t.TempDir()
	result := api.Build(api.BuildOptions{
		EntryPoints: tests, Outdir: out, Bundle: true, Write: true, Platform: api.PlatformNode, Format: api.FormatESModule, Charset: api.CharsetUTF8, OutExtension: map[string]string{".js": ".mjs"},
	})
	if len(result.Errors) > 0 {
		t.Fatal(result.Errors)
	}
	built := make([]string, len(result.OutputFiles))
	for i, file := range result.OutputFiles {
		built[i] = file.Path
	}
	report, err := exec.CommandContext(t.Context(), node, append([]string{"--test"}, built...)...).CombinedOutput()
	if err != nil || !regexp.MustCompile(`(?m)^# pass [1-9]`).Match(report) {
		t.Errorf("node --test: %v\n%s", err, report)
	}
}

// Every notification has a German sentence with the same facts.
func TestSentences_AreThoseOfTheService(t *testing.T) {
	t.Parallel()
	facts := func(text string) string {
		found := regexp.MustCompile(`\{[a-z]+\}`).FindAllString(text, -1)
		slices.Sort(found)
		return strings.Join(slices.Compact(found), " ")
	}
	for audience, file := range map[affiliate.AccountKind]string{affiliate.Partner: "partnerSentences.ts", affiliate.Merchant: "memberSentences.ts"} {
		source, err := os.ReadFile(filepath.Join(folder, "src/app/notifications", file))
		if err != nil {
			t.Fatal(err)
		}
		german := map[string]string{}
		for _, entry := range regexp.MustCompile(`"([a-z_]+\.[a-z_]+)": \[\s*((?:"[^"]*",?\s*){2})\]`).FindAllSubmatch(source, -1) {
			german[string(entry[1])] = string(entry[2])
		}
		rules := 0
		for _, rule := range notification.Rules() {
			if rule.Audience != audience {
				continue
			}
			rules++
			if text, ok := german[string(rule.Type)]; !ok || facts(text) != facts(rule.Title+rule.Body) {
				t.Errorf("the German sentence of %s in %s is %q, want one with the facts %q", rule.Type, file, text, facts(rule.Title+rule.Body))
			}
		}
		if len(german) != rules {
			t.Errorf("there are %d German sentences in %s and %d notifications", len(german), file, rules)
		}
	}
}

// The pages format amounts with the same numbers of decimals as the service.
func TestFormat_HasTheExponentsOfTheService(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(filepath.Join(folder, "src/i18n/format.ts"))
	if err != nil {
		t.Fatal(err)
	}
	exponents := map[string]int{}
	for _, line := range regexp.MustCompile(`digits\((\d), "([A-Z ]+)"\)`).FindAllStringSubmatch(string(source), -1) {
		count, _ := strconv.Atoi(line[1])
		for currency := range strings.FieldsSeq(line[2]) {
			exponents[currency] = count
		}
	}
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, a := range letters {
		for _, b := range letters {
			for _, c := range letters {
				currency, known := affiliate.ParseCurrency(string([]rune{a, b, c}))
				if !known {
					continue
				}
				got, listed := exponents[currency]
				if !listed {
					got = 2
				}
				if want := affiliate.CurrencyExponent(currency); got != want {
					t.Errorf("%s has %d decimals in format.ts, want %d", currency, got, want)
				}
			}
		}
	}
}

func TestBuild_IsRepeatable(t *testing.T) {
	t.Parallel()
	copied := t.TempDir()
	for _, name := range []string{"src", "package.json", "tsconfig.json"} {
		if err := copyTree(filepath.Join(folder, name), filepath.Join(copied, "web", name)); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"web/node_modules": folder + "/node_modules", "clients": folder + "/../clients"} {
		absolute, err := filepath.Abs(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(absolute, filepath.Join(copied, link)); err != nil {
			t.Fatal(err)
		}
	}
	web := filepath.Join(copied, "web")
	var first map[string]string
	for range 2 {
		if err := build.Build(web); err != nil {
			t.Fatal(err)
		}
		files := readTree(t, filepath.Join(web, "dist"))
		if first == nil {
			first = files
		}
		if len(files) != len(first) || len(files) < 5 {
			t.Fatalf("the second build has %d files, want the %d of the first", len(files), len(first))
		}
		for name, content := range files {
			if first[name] != content {
				t.Errorf("%s differs between two builds", name)
			}
		}
	}
}

func copyTree(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600)
}

func readTree(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, path))
		files[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
