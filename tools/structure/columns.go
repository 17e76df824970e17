package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// columnPlaces returns how often a column of the table is written by hand, as the average
// of all columns. The places of a column are the migration and the lists that contain its
// name in snake case or as a Go name. A list is one of
//
//   - the fields of a struct,
//   - the keys of a composite literal, or its elements if it has no keys,
//   - a string, for example SQL,
//   - the other identifiers in a function,
//   - the fields of a proto message.
//
// A list counts if it has at least two fifths of the columns, and if the path of its file
// or the name of its declaration contains the singular of the table, or the declaration
// contains the name of the table as a string. So a statement about a few columns is not
// counted. A column may also be written without one of its words: commission_type as
// type, program_id as Program. Harness code is not counted.
func columnPlaces(root fs.FS, table string, files []file) (number, error) {
	columns, err := tableColumns(root, table)
	if err != nil {
		return number{}, err
	}
	c := columnCounter{table: table, column: map[string]string{}, minimum: (2*len(columns) + 4) / 5}
	for _, column := range columns {
		c.column[column] = column
	}
	for _, column := range columns {
		words := strings.Split(column, "_")
		for i := range words {
			short := strings.Join(slices.Delete(slices.Clone(words), i, i+1), "_")
			if _, taken := c.column[short]; !taken && len(short) > 3 {
				c.column[short] = column
			}
		}
	}
	for _, f := range files {
		if !isHarness(f.path) {
			c.source(f)
		}
	}
	protos, err := fs.Glob(root, "proto/*/*/*.proto")
	if err != nil {
		return number{}, err
	}
	for _, name := range protos {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return number{}, err
		}
		c.proto(name, string(text))
	}
	places := float64(len(columns)+c.places) / float64(max(1, len(columns)))
	return number{
		title: "places where a column of " + table + " is written, on average",
		value: fmt.Sprintf("%.1f (%d columns)", places, len(columns)), limit: -1, names: c.lists,
	}, nil
}

var (
	columnLine    = regexp.MustCompile(`(?m)^ +([a-z_]+) +[a-z]`)
	changedColumn = regexp.MustCompile(`(add|drop) column (?:if (?:not )?exists )?([a-z_]+)`)
	notColumns    = []string{"primary", "foreign", "check", "constraint", "unique", "exclude"}
)

// tableColumns returns the columns of a table after all migrations.
func tableColumns(root fs.FS, table string) ([]string, error) {
	names, err := fs.Glob(root, "storage/postgres/migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var columns []string
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		for statement := range strings.SplitSeq(strings.ReplaceAll(strings.ToLower(up), "public.", ""), ";\n") {
			if _, fields, ok := strings.Cut(statement, "create table "+table+" ("); ok {
				for _, m := range columnLine.FindAllStringSubmatch(fields, -1) {
					if !slices.Contains(notColumns, m[1]) {
						columns = append(columns, m[1])
					}
				}
			}
			if _, changes, ok := strings.Cut(statement, "alter table "+table+"\n"); ok {
				statement = "alter table " + table + " " + changes
			}
			if _, changes, ok := strings.Cut(statement, "alter table "+table+" "); ok {
				for _, m := range changedColumn.FindAllStringSubmatch(changes, -1) {
					if m[1] == "add" {
						columns = append(columns, m[2])
					} else {
						columns = slices.DeleteFunc(columns, func(c string) bool { return c == m[2] })
					}
				}
			}
		}
	}
	return columns, nil
}

// columnCounter counts the columns of a table in lists.
type columnCounter struct {
	table   string
	column  map[string]string // a name in snake case to its column
	minimum int               // number of columns from which on a list counts
	places  int
	lists   []string
	decl    string // path and name of the declaration that is read
	belongs bool   // the declaration belongs to the table
}

func (c *columnCounter) source(f file) {
	for _, decl := range f.syntax.Decls {
		nodes := []ast.Node{decl}
		if group, ok := decl.(*ast.GenDecl); ok {
			nodes = nil
			for _, spec := range group.Specs {
				nodes = append(nodes, spec)
			}
		}
		for _, node := range nodes {
			text := string(f.src[node.Pos()-f.syntax.FileStart : node.End()-f.syntax.FileStart])
			name := ""
			switch node := node.(type) {
			case *ast.FuncDecl:
				name = node.Name.Name
				if node.Recv != nil {
					name = text[node.Recv.Pos()-node.Pos():node.Recv.End()-node.Pos()] + " " + name
				}
			case *ast.TypeSpec:
				name = node.Name.Name
			case *ast.ValueSpec:
				name = node.Names[0].Name
			}
			c.begin(f.path, name, text)
			rest := c.read(node)
			if _, ok := node.(*ast.FuncDecl); ok {
				c.add("function", rest)
			}
		}
	}
}

// begin starts a declaration.
func (c *columnCounter) begin(path, name, text string) {
	c.decl = path + " " + name
	c.belongs = strings.Contains(strings.ToLower(c.decl), strings.TrimSuffix(c.table, "s")) || strings.Contains(text, `"`+c.table+`"`)
}

var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// read adds the lists inside a node and returns the identifiers outside these lists.
func (c *columnCounter) read(node ast.Node) []string {
	var rest []string
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			rest = append(rest, n.Name)
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				c.add("string", word.FindAllString(n.Value, -1))
			}
		case *ast.StructType:
			var names []string
			for _, field := range n.Fields.List {
				for _, name := range field.Names {
					names = append(names, name.Name)
				}
			}
			c.add("struct", names)
			return false
		case *ast.CompositeLit:
			if c.ofOtherTable(n) {
				return false
			}
			var names []string
			for _, element := range n.Elts {
				if pair, ok := element.(*ast.KeyValueExpr); ok {
					c.read(pair.Value)
					element = pair.Key
				}
				names = append(names, c.element(element)...)
			}
			c.add("literal", names)
			return false
		}
		return true
	})
	return rest
}

// ofOtherTable reports whether a literal is an entry for another table, such as
// {Name: "payout_batches", …}.
func (c *columnCounter) ofOtherTable(literal *ast.CompositeLit) bool {
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, isName := pair.Key.(*ast.Ident)
		if value, ok := pair.Value.(*ast.BasicLit); ok && isName && key.Name == "Name" && value.Kind == token.STRING {
			return value.Value != `"`+c.table+`"`
		}
	}
	return false
}

// element returns the names in an element of a literal, and adds the lists inside it.
func (c *columnCounter) element(element ast.Node) []string {
	var names []string
	ast.Inspect(element, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit, *ast.FuncLit:
			c.read(n)
			return false
		case *ast.Ident:
			names = append(names, n.Name)
		case *ast.BasicLit:
			if words := word.FindAllString(n.Value, -1); strings.Contains(n.Value, "\n") {
				c.add("string", words) // a text of several lines is a list of its own
			} else {
				names = append(names, words...)
			}
		}
		return true
	})
	return names
}

var (
	protoMessage = regexp.MustCompile(`(?ms)^message (\w+) \{(.*?)^\}`)
	protoField   = regexp.MustCompile(`(?m)^ +(?:repeated |optional )?[\w.]+ (\w+) = \d+`)
)

func (c *columnCounter) proto(path, text string) {
	for _, message := range protoMessage.FindAllStringSubmatch(text, -1) {
		var names []string
		for _, field := range protoField.FindAllStringSubmatch(message[2], -1) {
			names = append(names, field[1])
		}
		c.begin(path, message[1], "")
		c.add("message", names)
	}
}

// add counts the columns in a list.
func (c *columnCounter) add(kind string, names []string) {
	found := map[string]bool{}
	for _, name := range names {
		if column, ok := c.column[snakeCase(name)]; ok {
			found[column] = true
		}
	}
	if c.belongs && len(found) >= c.minimum {
		c.places += len(found)
		c.lists = append(c.lists, fmt.Sprintf("%s: %s of %d", c.decl, kind, len(found)))
	}
}

var wordStart = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// snakeCase returns FXRate as fx_rate.
func snakeCase(name string) string {
	return strings.ToLower(wordStart.ReplaceAllString(name, "${1}${3}_${2}${4}"))
}
