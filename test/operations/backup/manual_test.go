//go:build operations

// Package backup runs the commands of docs/operations/backup.md and the configuration in
// deploy/backup on a real cluster: backups, a disaster, restores, and failures of the
// backups.
package backup

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

const (
	page       = "../../../docs/operations/backup.md"
	configFile = "../../../deploy/backup"
)

// manual has the commands of the page by the title of their section.
type manual struct {
	blocks map[string][]string
	used   map[string]bool
}

var section = regexp.MustCompile("(?ms)^#+ ([^\n]+)$|^```sh\n(.*?)^```$")

func readManual(t *testing.T) *manual {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	m := &manual{blocks: map[string][]string{}, used: map[string]bool{}}
	title := ""
	for _, match := range section.FindAllStringSubmatch(string(text), -1) {
		if match[1] != "" {
			title = match[1]
		} else {
			m.blocks[title] = append(m.blocks[title], match[2])
		}
	}
	return m
}

// block returns the nth code block of a section.
func (m *manual) block(t *testing.T, title string, n int) string {
	t.Helper()
	if n >= len(m.blocks[title]) {
		t.Fatalf("%s: the section %q has %d code blocks, want more", page, title, len(m.blocks[title]))
	}
	m.used[title+m.blocks[title][n]] = true
	return m.blocks[title][n]
}

// wantAllUsed fails the test if a code block of the page was not run.
func (m *manual) wantAllUsed(t *testing.T) {
	t.Helper()
	for title, blocks := range m.blocks {
		for _, block := range blocks {
			if !m.used[title+block] {
				t.Errorf("%s: no test runs this code block of %q:\n%s", page, title, block)
			}
		}
	}
}

// shell runs a script as bash does in a terminal, but ends at the first error. It returns
// the output.
func shell(t *testing.T, argv, env []string, dir, script string) (string, error) {
	t.Helper()
	argv = append(argv, "bash", "-c", "set -eu -o pipefail\n"+script)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, dir
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}
