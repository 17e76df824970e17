// Command privacydocs writes docs/privacy.md, which explains to data protection officers
// which personal data the service has. The text is in page.md. The tables are generated
// from the inventory in storage/postgres/privacy/inventory.
//
// It must run in the root of the checkout:
//
//	go run ./tools/privacydocs
package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"text/template"

	"github.com/tributary-hq/tributary/storage/postgres/privacy/inventory"
)

const docsFile = "docs/privacy.md"

// page is a text/template. The functions in document generate its tables.
//
//go:embed page.md
var page string

func main() {
	log.SetFlags(0)
	log.SetPrefix("privacydocs: ")
	text, err := document(page, inventory.Areas())
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(docsFile, []byte(text), 0o644); err != nil { //nolint:gosec // a source file
		log.Fatal(err)
	}
}

// document returns the text of the page with the tables of the areas.
func document(page string, areas []inventory.Area) (string, error) {
	parsed, err := template.New("page.md").Funcs(template.FuncMap{
		"categories": func() string { return categories(areas) },
		"erasure":    func(name string) (string, error) { return erasureTable(areas, name) },
		"tables":     func() string { return tables(areas) },
	}).Parse(page)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := parsed.Execute(&b, nil); err != nil {
		return "", err
	}
	return b.String(), nil
}

// nothing is the text of a table cell if there is nothing to say.
const nothing = "–"

// categories returns the table of all categories of data.
func categories(areas []inventory.Area) string {
	var b strings.Builder
	b.WriteString("| Category | Data | Persons | Purpose | Kept for, without an erasure |\n|---|---|---|---|---|\n")
	for _, area := range areas {
		fmt.Fprintf(&b, "| [%s](#%s) | %s. | %s | %s. | %s. |\n",
			area.Title, anchor(area.Title), cell(area.Data), persons(area.Subjects()), cell(area.Purpose), cell(area.Kept))
	}
	return b.String()
}

// persons lists subjects in the plural.
func persons(subjects []inventory.Subject) string {
	names := make([]string, len(subjects))
	for i, subject := range subjects {
		names[i] = string(subject) + "s"
	}
	return cmp.Or(strings.Join(names, ", "), nothing)
}

// effects are the headings of the effects of an erasure, in the order of the page.
var effects = []struct {
	heading string
	actions []inventory.Action
}{
	{"Rows deleted", []inventory.Action{inventory.RowDeleted}},
	{"Replaced by a pseudonym", []inventory.Action{inventory.Pseudonym}},
	{"Removed", []inventory.Action{inventory.Null, inventory.Emptied}},
	{"Redacted", []inventory.Action{inventory.Redacted}},
	{"Kept", []inventory.Action{inventory.Kept}},
}

// erasureTable returns the table of the effects of an erasure. Each row is an area.
func erasureTable(areas []inventory.Area, name string) (string, error) {
	erasure := inventory.Erasure(name)
	if !slices.Contains(inventory.Erasures(), erasure) {
		return "", fmt.Errorf("there is no erasure of a %s", name)
	}
	var b strings.Builder
	b.WriteString("| Category | Effect |\n|---|---|\n")
	for _, area := range areas {
		var sentences []string
		for _, effect := range effects {
			if found := affected(area, erasure, effect.actions); len(found) > 0 {
				sentences = append(sentences, "**"+effect.heading+":** "+strings.Join(found, "; ")+".")
			}
		}
		if len(sentences) > 0 {
			fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", area.Title, anchor(area.Title), cell(strings.Join(sentences, " ")))
		}
	}
	return b.String(), nil
}

// affected describes the data of an area on which an erasure has one of the actions. It
// describes deleted rows by their table. It leaves out ids that are kept because other
// rows refer to them.
func affected(area inventory.Area, erasure inventory.Erasure, actions []inventory.Action) []string {
	var found []string
	for _, table := range area.Tables {
		for _, columns := range table.Columns {
			action := table.Effect(columns, erasure)
			if !slices.Contains(actions, action) || action == inventory.Kept && columns.Note == "" {
				continue
			}
			text := columns.Contents
			if action == inventory.RowDeleted {
				text = tableLink(table)
			}
			if !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	return found
}

// tables returns the lists of the tables of all areas.
func tables(areas []inventory.Area) string {
	var b strings.Builder
	for _, area := range areas {
		fmt.Fprintf(&b, "\n### %s\n", area.Title)
		for _, table := range area.Tables {
			fmt.Fprintf(&b, "\n#### Table `%s`\n\n%s **Kept:** %s\n", table.Name, table.Row, table.Kept)
			if table.Unlisted != "" {
				fmt.Fprintf(&b, "\n**No personal data:** %s\n", table.Unlisted)
				continue
			}
			writeColumns(&b, table)
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// writeColumns writes the columns of a table. Business columns that no erasure changes
// are only listed.
func writeColumns(b *strings.Builder, table inventory.Table) {
	var rows, notes, business []string
	for _, columns := range table.Columns {
		if columns.Class == inventory.Business && columns.Effects == (inventory.Effects{}) {
			business = append(business, columns.Names...)
			continue
		}
		var row strings.Builder
		fmt.Fprintf(&row, "| %s | %s | %s | %s |", codes(columns.Names), cell(columns.Contents), columns.Class, persons(columns.Subjects))
		for _, erasure := range inventory.Erasures() {
			fmt.Fprintf(&row, " %s |", cmp.Or(string(table.Effect(columns, erasure)), nothing))
		}
		rows = append(rows, row.String())
		if columns.Note != "" {
			notes = append(notes, codes(columns.Names)+": "+columns.Note)
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n| Columns | Contents | Class | Persons | Participant | Partner account | Workspace | Buyer |\n|---|---|---|---|---|---|---|---|\n")
		b.WriteString(strings.Join(rows, "\n") + "\n")
	}
	for _, note := range notes {
		b.WriteString("\n" + note + "\n")
	}
	if len(business) > 0 {
		b.WriteString("\nBusiness data: " + codes(business) + ".\n")
	}
}

// codes returns names as a list in code style.
func codes(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

func tableLink(table inventory.Table) string {
	return "[`" + table.Name + "`](#" + anchor("Table "+table.Name) + ")"
}

// anchor returns the fragment that GitHub gives to a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(heading))
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
