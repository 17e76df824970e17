package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/storage/postgres/privacy/inventory"
)

func currentDocument(t *testing.T) string {
	t.Helper()
	text, err := document(page, inventory.Areas())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDocument_CommittedPageIsCurrent(t *testing.T) {
	got, err := os.ReadFile("../../" + docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != currentDocument(t) {
		t.Errorf("%s is out of date: run go run ./tools/privacydocs", docsFile)
	}
}

func TestDocument_ListsEveryAreaTableAndColumn(t *testing.T) {
	text := currentDocument(t)
	for _, area := range inventory.Areas() {
		if !strings.Contains(text, "\n### "+area.Title+"\n") || !strings.Contains(text, "\n| ["+area.Title+"](#") {
			t.Errorf("the area %s is not on the page", area.Title)
		}
		for _, table := range area.Tables {
			_, section, found := strings.Cut(text, "\n#### Table `"+table.Name+"`\n")
			if !found {
				t.Errorf("the table %s is not on the page", table.Name)
				continue
			}
			section, _, _ = strings.Cut(section, "\n###")
			if !strings.Contains(section, table.Row+" **Kept:** "+table.Kept) {
				t.Errorf("the section of %s does not describe the table", table.Name)
			}
			for _, columns := range table.Columns {
				for _, name := range columns.Names {
					if !strings.Contains(section, "`"+name+"`") {
						t.Errorf("the section of %s does not contain the column %s", table.Name, name)
					}
				}
			}
		}
	}
}

func TestDocument_HeadingsAreUnique(t *testing.T) {
	text := currentDocument(t)
	headings := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := anchor(match[1])
		if headings[name] {
			t.Errorf("two headings have the anchor %s", name)
		}
		headings[name] = true
	}
}

// shop is a small inventory.
var shop = []inventory.Area{{
	Title: "Orders and more", Data: "Names", Purpose: "Delivery", Kept: "A day",
	Tables: []inventory.Table{
		{
			Name: "orders", Row: "An order.", Kept: "A day.",
			Columns: []inventory.Columns{
				{
					Names: []string{"id"}, Class: inventory.Pseudonymous, Subjects: []inventory.Subject{inventory.Buyer}, Contents: "id of the buyer",
					Effects: inventory.Effects{Buyer: inventory.Kept},
				},
				{
					Names: []string{"name", "nick"}, Class: inventory.Personal, Subjects: []inventory.Subject{inventory.Buyer, inventory.Visitor}, Contents: "name | nick",
					Effects: inventory.Effects{Workspace: inventory.Pseudonym, Buyer: inventory.Kept}, Note: "It is needed.",
				},
				{Names: []string{"shop"}, Class: inventory.Business, Contents: "name of the shop", Effects: inventory.Effects{Workspace: inventory.Emptied}},
				{Names: []string{"price", "day"}, Class: inventory.Business},
			},
		},
		{
			Name: "cart_items", Row: "An item.", Kept: "An hour.", Deleted: []inventory.Erasure{inventory.BuyerErasure, inventory.WorkspaceErasure},
			Columns: []inventory.Columns{{Names: []string{"buyer"}, Class: inventory.Pseudonymous, Subjects: []inventory.Subject{inventory.Buyer}, Contents: "id of the buyer"}},
		},
		{Name: "jobs.*", Row: "The jobs.", Kept: "A day.", Unlisted: "They have ids only."},
	},
}}

func TestDocument_DescribesCategories(t *testing.T) {
	want := "| Category | Data | Persons | Purpose | Kept for, without an erasure |\n|---|---|---|---|---|\n" +
		"| [Orders and more](#orders-and-more) | Names. | buyers, visitors | Delivery. | A day. |\n"
	if got := categories(shop); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDocument_DescribesErasures(t *testing.T) {
	const head = "| Category | Effect |\n|---|---|\n"
	for name, want := range map[string]string{
		"participant": head,
		"buyer": head + "| [Orders and more](#orders-and-more) | **Rows deleted:** [`cart_items`](#table-cart_items). " +
			"**Kept:** name \\| nick. |\n",
		"workspace": head + "| [Orders and more](#orders-and-more) | **Rows deleted:** [`cart_items`](#table-cart_items). " +
			"**Replaced by a pseudonym:** name \\| nick. **Removed:** name of the shop. |\n",
	} {
		if got, err := erasureTable(shop, name); err != nil || got != want {
			t.Errorf("the erasure of a %s: got\n%s%v\nwant\n%s", name, got, err, want)
		}
	}
}

func TestDocument_DescribesTables(t *testing.T) {
	const head = "| Columns | Contents | Class | Persons | Participant | Partner account | Workspace | Buyer |\n|---|---|---|---|---|---|---|---|\n"
	want := "### Orders and more\n\n#### Table `orders`\n\nAn order. **Kept:** A day.\n\n" + head +
		"| `id` | id of the buyer | pseudonymous | buyers | – | – | – | kept |\n" +
		"| `name`, `nick` | name \\| nick | personal | buyers, visitors | – | – | pseudonym | kept |\n" +
		"| `shop` | name of the shop | business | – | – | – | emptied | – |\n" +
		"\n`name`, `nick`: It is needed.\n\nBusiness data: `price`, `day`.\n" +
		"\n#### Table `cart_items`\n\nAn item. **Kept:** An hour.\n\n" + head +
		"| `buyer` | id of the buyer | pseudonymous | buyers | – | – | row deleted | row deleted |\n" +
		"\n#### Table `jobs.*`\n\nThe jobs. **Kept:** A day.\n\n**No personal data:** They have ids only.\n"
	if got := tables(shop); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDocument_RejectsUnknownErasure(t *testing.T) {
	if _, err := document(`{{erasure "visitor"}}`, shop); err == nil {
		t.Error("an erasure that does not exist was documented")
	}
}
