package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// source is what source files say that types at run time do not.
type source struct {
	// comments of struct fields, by package.Type.Field.
	comments map[string]string
	// values of the exported constants of a string type, by package.Type, as they
	// are declared.
	values map[string][]string
}

// readSource reads the packages in folders, without their tests.
func readSource(dirs []string) (source, error) {
	said := source{comments: map[string]string{}, values: map[string][]string{}}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return said, err
		}
		for _, entry := range entries {
			if !isSource(entry) {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, entry.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return said, err
			}
			if err := said.read(file); err != nil {
				return said, fmt.Errorf("%s: %w", entry.Name(), err)
			}
		}
	}
	return said, nil
}

func isSource(entry fs.DirEntry) bool {
	name := entry.Name()
	return !entry.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// read takes in a file. Types inside of functions count too.
func (s source) read(file *ast.File) error {
	var failed error
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.TypeSpec:
			if fields, ok := node.Type.(*ast.StructType); ok {
				s.readFields(file.Name.Name+"."+node.Name.Name, fields)
			}
		case *ast.ValueSpec:
			if err := s.readConstant(file.Name.Name, node); err != nil {
				failed = err
			}
		}
		return true
	})
	return failed
}

func (s source) readFields(of string, fields *ast.StructType) {
	for _, field := range fields.Fields.List {
		text := field.Doc.Text()
		if text == "" {
			text = field.Comment.Text()
		}
		for _, name := range field.Names {
			if text != "" {
				s.comments[of+"."+name.Name] = strings.Join(strings.Fields(text), " ")
			}
		}
	}
}

// readConstant takes in a constant of a named type whose value is a string.
func (s source) readConstant(pkg string, spec *ast.ValueSpec) error {
	kind, ok := spec.Type.(*ast.Ident)
	if !ok || len(spec.Values) != 1 || !spec.Names[0].IsExported() {
		return nil
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return nil
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return err
	}
	name := pkg + "." + kind.Name
	s.values[name] = append(s.values[name], value)
	return nil
}

// meaning is a field's comment as a sentence, with the name that receivers know
// in the place of Go's; empty without a comment.
func (s source) meaning(of, field, name string) string {
	text := s.comments[of+"."+field]
	if rest, ok := strings.CutPrefix(text, field+" "); ok {
		text = name + " " + rest
	} else if first, size := utf8.DecodeRuneInString(text); size > 0 {
		text = string(unicode.ToUpper(first)) + text[size:]
	}
	if text != "" && !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
