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

// textsOf returns the English texts of a web application: those of both applications, its
// own, those of its areas, and the names of the languages.
func textsOf(t *testing.T, app string) string {
	t.Helper()
	files := []string{"web/src/i18n/en.ts"}
	for _, pattern := range []string{"en.ts", "*/en.ts"} {
		found, err := filepath.Glob(filepath.Join(root, "web/src", app, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			files = append(files, strings.TrimPrefix(filepath.ToSlash(path), root+"/"))
		}
	}
	var texts strings.Builder
	for _, file := range files {
		texts.WriteString(read(t, file))
	}
	_, languages, _ := strings.Cut(read(t, "web/src/app/texts.tsx"), "languages = ")
	texts.WriteString(languages[:strings.IndexByte(languages, '}')])
	return texts.String()
}

// consoleSection matches the section of a page that describes the console.
var consoleSection = regexp.MustCompile(`(?s)\n## In the console\n(.*?)(?:\n## |$)`)

// The guides, and the sections about the console, have the words on the screen in bold.
func TestGuides_NameTextsOfApplication(t *testing.T) {
	t.Parallel()
	type guide struct{ page, text, app string }
	guides := []guide{
		{"docs/partner-guide.md", read(t, "docs/partner-guide.md"), "portal"},
		{"docs/merchant/console.md", read(t, "docs/merchant/console.md"), "console"},
	}
	for _, page := range pages(t) {
		if section := consoleSection.FindStringSubmatch(read(t, page)); section != nil {
			guides = append(guides, guide{page, section[1], "console"})
		}
	}
	if len(guides) < 10 {
		t.Errorf("only %d pages describe an application", len(guides))
	}
	texts := map[string]string{"portal": textsOf(t, "portal"), "console": textsOf(t, "console")}
	bold := regexp.MustCompile(`\*\*([^*]+)\*\*`)
	for _, g := range guides {
		for _, match := range bold.FindAllStringSubmatch(g.text, -1) {
			if word := match[1]; !strings.HasSuffix(word, ".") && !strings.Contains(texts[g.app], `"`+word+`"`) {
				t.Errorf("%s has %q in bold, which is not a text of the %s", g.page, word, g.app)
			}
		}
	}
}
