package inventory

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// column is a column of the migrated database.
type column struct {
	Table, Name, Type string
	Nullable          bool
}

// schemaColumns returns the columns of all tables of the database by name, for example
// users.email. Partitions are left out. The name of a table contains the schema unless
// it is the schema of the service.
func schemaColumns(t *testing.T) map[string]column {
	t.Helper()
	f := pgtest.Open(t, time.Now)
	const query = `
		select case when n.nspname = 'public' then '' else n.nspname || '.' end || c.relname as "table", a.attname as name,
			format_type(a.atttypid, a.atttypmod) as type, not a.attnotnull as nullable
		from pg_class c
		join pg_namespace n on n.oid = c.relnamespace
		join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		where c.relkind in ('r', 'p', 'm', 'f') and not c.relispartition and n.nspname not in ('pg_catalog', 'information_schema')`
	rows, _ := f.SQL.Query(t.Context(), query)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[column])
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string]column{}
	for _, c := range found {
		columns[c.Table+"."+c.Name] = c
	}
	return columns
}

// listedColumns returns the names of all columns in the inventory, and the names of the
// tables and schemas whose columns are not listed.
func listedColumns(t *testing.T) (columns map[string]bool, unlisted []string) {
	t.Helper()
	columns = map[string]bool{}
	for _, table := range Tables() {
		if table.Unlisted != "" {
			unlisted = append(unlisted, table.Name)
		}
		for _, group := range table.Columns {
			for _, name := range group.Names {
				if columns[table.Name+"."+name] {
					t.Errorf("the inventory lists %s.%s twice", table.Name, name)
				}
				columns[table.Name+"."+name] = true
			}
		}
	}
	return columns, unlisted
}

func TestInventory_ListsExactlyTheColumnsOfTheDatabase(t *testing.T) {
	schema := schemaColumns(t)
	listed, unlisted := listedColumns(t)
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(schema)) {
		if listed[name] {
			continue
		}
		table := schema[name].Table
		i := slices.IndexFunc(unlisted, func(entry string) bool {
			prefix, isSchema := strings.CutSuffix(entry, "*")
			return entry == table || isSchema && strings.HasPrefix(table, prefix)
		})
		if i < 0 {
			t.Errorf("the column %s is not classified: add it to the inventory in storage/postgres/privacy", name)
			continue
		}
		used[unlisted[i]] = true
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if _, exists := schema[name]; !exists {
			t.Errorf("the inventory lists %s, but the database has no such column", name)
		}
	}
	for _, entry := range unlisted {
		if !used[entry] {
			t.Errorf("the inventory lists %s, but the database has no such table", entry)
		}
	}
}

// An erasure can only do with a value what its type and its constraints allow.
func TestInventory_ActionsAreAllowedByTheColumns(t *testing.T) {
	schema := schemaColumns(t)
	for _, table := range Tables() {
		for _, group := range table.Columns {
			for _, name := range group.Names {
				c := schema[table.Name+"."+name]
				for _, erasure := range Erasures() {
					if action := table.Effect(group, erasure); !c.allows(action) {
						t.Errorf("%s.%s: the erasure of a %s cannot be %q, because the type is %s and null is allowed: %t",
							table.Name, name, erasure, action, c.Type, c.Nullable)
					}
				}
			}
		}
	}
}

func (c column) allows(action Action) bool {
	isList := strings.HasSuffix(c.Type, "[]")
	isJSON := strings.HasPrefix(c.Type, "json")
	switch action {
	case Null:
		return c.Nullable
	case Pseudonym:
		return c.Type == "text"
	case Emptied:
		return c.Type == "text" || c.Type == "bytea" || isJSON || isList
	case Redacted:
		return c.Type == "text" || c.Type == "bytea" || isJSON || isList
	case NotConcerned, Kept, RowDeleted:
		return true
	}
	return false
}

func TestInventory_DescribesTables(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range Tables() {
		if seen[table.Name] {
			t.Errorf("the inventory lists the table %s twice", table.Name)
		}
		seen[table.Name] = true
		for what, text := range map[string]string{"Row": table.Row, "Kept": table.Kept} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %s is %q, want sentences", table.Name, what, text)
			}
		}
		if (table.Unlisted == "") == (len(table.Columns) == 0) {
			t.Errorf("%s must have either columns or a reason why they are not listed", table.Name)
		}
	}
	for _, area := range Areas() {
		if area.Title == "" || area.Data == "" || area.Purpose == "" || area.Kept == "" {
			t.Errorf("the area %q has no title, data, purpose or retention", area.Title)
		}
	}
}

func TestInventory_DescribesColumns(t *testing.T) {
	for _, table := range Tables() {
		for _, group := range table.Columns {
			for _, fault := range faults(table, group) {
				t.Errorf("%s, %s: %s", table.Name, strings.Join(group.Names, ", "), fault)
			}
		}
	}
}

// faults returns what is wrong with the description of columns.
func faults(table Table, group Columns) (found []string) {
	if len(group.Names) == 0 {
		found = append(found, "no names")
	}
	if group.Class == Business {
		if len(group.Subjects) > 0 || group.Effects != (Effects{Workspace: group.Effects.Workspace}) {
			found = append(found, "a business column has a subject, or an erasure of a person changes it")
		}
		if (group.Contents == "") != (group.Effects == Effects{}) {
			found = append(found, "a business column must have contents if the erasure of the workspace changes it")
		}
		return found
	}
	if len(group.Subjects) == 0 || group.Contents == "" || strings.ContainsAny(group.Contents, ".;") {
		found = append(found, "the subjects or the contents are missing, or the contents are more than one phrase")
	}
	for _, subject := range group.Subjects {
		for _, erasure := range erasuresOf(table, subject) {
			if table.Effect(group, erasure) == NotConcerned {
				found = append(found, "data of a "+string(subject)+" needs an action of the erasure of a "+string(erasure))
			}
		}
	}
	for _, erasure := range Erasures() {
		if group.Class == Personal && table.Effect(group, erasure) == Kept && group.Note == "" {
			found = append(found, "the erasure of a "+string(erasure)+" keeps a personal column without a note")
		}
	}
	return found
}

// erasuresOf returns the erasures that concern the data of a subject in a table. The data
// of a partner in a table with rows of workspaces belongs to a participation.
func erasuresOf(table Table, subject Subject) []Erasure {
	switch subject {
	case Partner:
		if slices.ContainsFunc(table.Columns, func(c Columns) bool { return slices.Contains(c.Names, "workspace_id") }) {
			return []Erasure{ParticipantErasure, AccountErasure, WorkspaceErasure}
		}
		return []Erasure{AccountErasure}
	case Member:
		return []Erasure{WorkspaceErasure}
	case Buyer, Visitor:
		return []Erasure{WorkspaceErasure, BuyerErasure}
	}
	return nil
}

func TestFaults_FindsIncompleteDescriptions(t *testing.T) {
	scoped := Table{Columns: []Columns{{Names: []string{"workspace_id"}, Class: Business}}}
	text := Columns{Names: []string{"text"}, Class: Personal, Subjects: []Subject{Partner}, Contents: "text"}
	for name, tc := range map[string]struct {
		table  Table
		change func(*Columns)
		want   int
	}{
		"no effect at all":                    {Table{}, func(*Columns) {}, 1},
		"no effect in a table of a workspace": {scoped, func(*Columns) {}, 3},
		"row deleted": {
			Table{Deleted: []Erasure{AccountErasure}},
			func(*Columns) {}, 0,
		},
		"kept without a note": {Table{}, func(c *Columns) { c.Effects.Account = Kept }, 1},
		"kept with a note":    {Table{}, func(c *Columns) { c.Effects.Account, c.Note = Kept, "A reason." }, 0},
		"pseudonymous and kept": {
			Table{},
			func(c *Columns) { c.Class, c.Effects.Account = Pseudonymous, Kept }, 0,
		},
		"no subject":                {Table{}, func(c *Columns) { c.Subjects = nil }, 1},
		"no contents":               {Table{}, func(c *Columns) { c.Contents, c.Effects.Account = "", Null }, 1},
		"no names":                  {Table{}, func(c *Columns) { c.Names, c.Effects.Account = nil, Null }, 1},
		"two sentences as contents": {Table{}, func(c *Columns) { c.Contents, c.Effects.Account = "text; text", Null }, 1},
		"business with a subject":   {Table{}, func(c *Columns) { c.Class, c.Contents = Business, "" }, 1},
		"business with contents":    {Table{}, func(c *Columns) { c.Class, c.Subjects = Business, nil }, 1},
		"business that a person's erasure changes": {
			Table{},
			func(c *Columns) { c.Class, c.Subjects, c.Effects.Buyer = Business, nil, Null }, 1,
		},
		"visitor without a buyer's effect": {Table{}, func(c *Columns) { c.Subjects, c.Effects.Workspace = []Subject{Visitor}, Null }, 1},
		"member":                           {Table{}, func(c *Columns) { c.Subjects, c.Effects.Workspace = []Subject{Member}, Null }, 0},
		"kept by another erasure":          {Table{}, func(c *Columns) { c.Effects.Account, c.Effects.Buyer = Null, Kept }, 1},
	} {
		columns := text
		tc.change(&columns)
		if found := faults(tc.table, columns); len(found) != tc.want {
			t.Errorf("%s: found %q, want %d faults", name, found, tc.want)
		}
	}
}
