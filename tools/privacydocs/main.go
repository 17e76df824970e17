// Command privacydocs writes docs/privacy.md, which explains to data protection officers
// which personal data the service has. The text is in page.md. The tables are generated
// from the inventory in storage/postgres/privacy/inventory.
//
// It must run in the root of the checkout:
//
//	go run ./tools/privacydocs
package main

import (
	_ "embed"
	"log"
	"os"
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
