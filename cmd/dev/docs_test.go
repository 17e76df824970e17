package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the module, relative to this test.
const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestReadme_ContainsWalkthrough(t *testing.T) {
	t.Parallel()
	_, rest, found := strings.Cut(read(t, "README.md"), "<!-- walkthrough:")
	_, rest, opened := strings.Cut(rest, "```sh\n")
	block, _, closed := strings.Cut(rest, "```")
	if want := strings.Join(walkthrough(folderName+"/env"), "\n") + "\n"; !found || !opened || !closed || block != want {
		t.Errorf("README.md contains the walkthrough\n%s\nmake run prints\n%s", block, want)
	}
}

// settingNames returns the names of the settings in a text. It returns NAME for
// NAME_FILE.
func settingNames(text string) map[string]bool {
	names := map[string]bool{}
	for _, name := range regexp.MustCompile(`TRIBUTARY_[A-Z0-9_]*[A-Z0-9]`).FindAllString(text, -1) {
		names[strings.TrimSuffix(name, "_FILE")] = true
	}
	delete(names, "TRIBUTARY_NAME") // a placeholder in comments
	return names
}

func TestSettingsDocument_NamesEverySetting(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	sources, err := filepath.Glob(filepath.Join(root, "cmd/settings/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if !strings.HasSuffix(source, "_test.go") {
			body, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(body)
		}
	}
	known, documented := settingNames(code.String()), settingNames(read(t, "docs/operations/settings.md"))
	if len(known) == 0 {
		t.Fatal("no settings found in the code")
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !documented[name] {
			t.Errorf("docs/operations/settings.md does not name %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		if !known[name] {
			t.Errorf("docs/operations/settings.md names %s, which is not a setting", name)
		}
	}
}

// link matches a relative link. Its groups are the file, which is empty for a link to a
// section of the same page, and the section.
var link = regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]*))?\)`)

// sections returns the anchors of the titles on a page, as GitHub makes them. Lines in code
// blocks are no titles.
func sections(text string) map[string]bool {
	anchors, inCode := map[string]bool{}, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			inCode = !inCode
		}
		if title := strings.TrimLeft(line, "#"); !inCode && title != line {
			title = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			anchors[strings.ReplaceAll(title, " ", "-")] = true
		}
	}
	return anchors
}

func TestDocuments_LinksPointToFilesAndSections(t *testing.T) {
	t.Parallel()
	documents := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md", "docs/*/*/*.md", "clients/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			documents = append(documents, rel)
		}
	}
	for _, document := range documents {
		for _, m := range link.FindAllStringSubmatch(read(t, document), -1) {
			target := document
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(document), m[1])
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s contains a link to a missing file: %v", document, err)
				continue
			}
			if m[2] != "" && strings.HasSuffix(target, ".md") && !sections(read(t, target))[m[2]] {
				t.Errorf("%s contains a link to the section %s of %s, which does not exist", document, m[2], target)
			}
		}
	}
}
