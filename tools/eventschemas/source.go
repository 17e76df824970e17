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

// source contains the parts of the source files that are not available by reflection.
type source struct {
	// comments maps fields (package.Type.Field) to their comments.
	comments map[string]string
	// values maps string types (package.Type) to the values of their exported constants,
	// in the order of declaration.
	values map[string][]string
}

// readSource reads the packages in the directories, without their tests.
func readSource(dirs []string) (source, error) {
	src := source{comments: map[string]string{}, values: map[string][]string{}}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return src, err
		}
		for _, entry := range entries {
			if !isSource(entry) {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, entry.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return src, err
			}
			if err := src.read(file); err != nil {
				return src, fmt.Errorf("%s: %w", entry.Name(), err)
			}
		}
	}
	return src, nil
}

func isSource(entry fs.DirEntry) bool {
	name := entry.Name()
	return !entry.IsDir() && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// read adds the types and constants of a file, including types inside functions.
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

func (s source) readFields(typeName string, fields *ast.StructType) {
	for _, field := range fields.Fields.List {
		text := field.Doc.Text()
		if text == "" {
			text = field.Comment.Text()
		}
		for _, name := range field.Names {
			if text != "" {
				s.comments[typeName+"."+name.Name] = strings.Join(strings.Fields(text), " ")
			}
		}
	}
}

// readConstant adds a constant if it is exported, has a named type, and its value is a
// string literal. It ignores other constants.
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

// meaning returns a field's comment as a sentence, with the field's JSON name instead of
// its Go name. The result is empty if the field has no comment.
func (s source) meaning(typeName, field, jsonName string) string {
	text := s.comments[typeName+"."+field]
	if rest, ok := strings.CutPrefix(text, field+" "); ok {
		text = jsonName + " " + rest
	} else if first, size := utf8.DecodeRuneInString(text); size > 0 {
		text = string(unicode.ToUpper(first)) + text[size:]
	}
	if text != "" && !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}
