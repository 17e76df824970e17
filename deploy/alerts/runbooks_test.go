package alerts

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	runbookURL    = "https://github.com/tributary-hq/tributary/blob/main/docs/operations/runbooks/"
	runbookFolder = "../../docs/operations/runbooks"
)

// runbookSections are the sections of each runbook, in their order.
var runbookSections = []string{"Meaning", "Impact", "What the service does", "Diagnosis", "Action"}

// Each alert has the labels and annotations that a receiver needs, and a runbook. The page
// about monitoring lists it.
func TestRules_HaveRunbooks(t *testing.T) {
	monitoring, err := os.ReadFile("../../docs/operations/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, r := range readRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts[r.Alert] = true
		severity := r.Labels["severity"]
		if severity != "page" && severity != "ticket" || len(r.Labels) != 1 || r.For == "" {
			t.Errorf("%s: %s has the labels %v and for %q, want a severity and a duration", r.file, r.Alert, r.Labels, r.For)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Annotations["runbook_url"] != runbookURL+r.Alert+".md" {
			t.Errorf("%s: %s has the annotations %v, want summary, description and the runbook_url %s%s.md", r.file, r.Alert, r.Annotations, runbookURL, r.Alert)
		}
		if row := "| [" + r.Alert + "](runbooks/" + r.Alert + ".md) | " + severity + " | " + r.Annotations["summary"] + " |"; !bytes.Contains(monitoring, []byte(row)) {
			t.Errorf("docs/operations/monitoring.md does not contain the line %s", row)
		}
	}
	for _, r := range readRunbooks(t) {
		if !alerts[r.name] {
			t.Errorf("the runbook %s belongs to no alert", r.name)
		}
		delete(alerts, r.name)
		var sections []string
		for line := range strings.Lines(r.text) {
			if section, ok := strings.CutPrefix(line, "## "); ok {
				sections = append(sections, strings.TrimSpace(section))
			}
		}
		if !strings.HasPrefix(r.text, "# "+r.name+"\n") || !slices.Equal(sections, runbookSections) {
			t.Errorf("the runbook %s has the sections %q, want the title %s and the sections %q", r.name, sections, r.name, runbookSections)
		}
	}
	for name := range alerts {
		t.Errorf("the alert %s has no runbook", name)
	}
}

type runbook struct{ name, text string }

func readRunbooks(t *testing.T) []runbook {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(runbookFolder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []runbook
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, runbook{strings.TrimSuffix(filepath.Base(page), ".md"), string(text)})
	}
	return all
}

// codeBlocks matches the blocks of code of a page, with their language.
var codeBlocks = regexp.MustCompile("(?s)```(\\w+)\n(.*?)```")

// blocks returns the blocks of code of a language in all runbooks.
func blocks(t *testing.T, language string) []query {
	t.Helper()
	var found []query
	for _, r := range readRunbooks(t) {
		for _, match := range codeBlocks.FindAllStringSubmatch(r.text, -1) {
			if match[1] == language {
				found = append(found, query{"runbook " + r.name, match[2]})
			}
		}
	}
	return found
}

func runbookQueries(t *testing.T) []query {
	t.Helper()
	return blocks(t, "promql")
}

// Postgres accepts the statements of the runbooks.
func TestRunbooks_HaveValidStatements(t *testing.T) {
	f := pgtest.Open(t, time.Now)
	statements := blocks(t, "sql")
	if len(statements) < 10 {
		t.Fatalf("the runbooks have only %d statements", len(statements))
	}
	for _, s := range statements {
		t.Log(s.where)
		f.Exec("explain " + s.expr)
	}
}
