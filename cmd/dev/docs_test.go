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

// The guide for partners has the words on the screen in bold.
func TestPartnerGuide_NamesTextsOfPortal(t *testing.T) {
	t.Parallel()
	texts := read(t, "web/src/i18n/en.ts") + read(t, "web/src/portal/en.ts")
	_, languages, _ := strings.Cut(read(t, "web/src/app/texts.tsx"), "languages = ")
	texts += languages[:strings.IndexByte(languages, '}')]
	guide := read(t, "docs/partner-guide.md")
	for _, bold := range regexp.MustCompile(`\*\*([^*]+)\*\*`).FindAllStringSubmatch(guide, -1) {
		if word := bold[1]; !strings.HasSuffix(word, ".") && !strings.Contains(texts, `"`+word+`"`) {
			t.Errorf("docs/partner-guide.md has %q in bold, which is not a text of the portal", word)
		}
	}
}
