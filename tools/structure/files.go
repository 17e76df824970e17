package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// file is a source file.
type file struct {
	path   string // relative to the root of the checkout, with slashes
	src    []byte
	syntax *ast.File
	lines  int
	// table says that more than half of the lines belong to one composite literal, or to
	// one group of constants, outside functions.
	table bool
}

// skipped are folders without hand-written Go code.
var skipped = []string{"gen", "third_party", "node_modules", "bin", "dist"}

// sourceFiles returns the source files below root, ordered by path.
func sourceFiles(root fs.FS) ([]file, error) {
	var files []file
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skipped, d.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if ast.IsGenerated(syntax) {
			return nil
		}
		f := file{path: name, src: src, syntax: syntax, lines: bytes.Count(src, []byte("\n"))}
		f.table = 2*longestLiteral(set, syntax) > f.lines
		files = append(files, f)
		return nil
	})
	return files, err
}

// longestLiteral returns the number of lines of the longest composite literal or group of
// constants outside functions.
func longestLiteral(set *token.FileSet, syntax *ast.File) int {
	longest := 0
	for _, decl := range syntax.Decls {
		ast.Inspect(decl, func(n ast.Node) bool {
			literal := false
			switch n := n.(type) {
			case *ast.FuncDecl, *ast.FuncLit:
				return false
			case *ast.CompositeLit:
				literal = true
			case *ast.GenDecl:
				literal = n.Tok == token.CONST
			}
			if literal {
				longest = max(longest, set.Position(n.End()).Line-set.Position(n.Pos()).Line+1)
			}
			return true
		})
	}
	return longest
}

// isHarness reports whether the file, or the folder, is harness code: tests of the whole
// system, tools, the development server, clients, code of the documentation, and packages
// for tests, whose names end in "test".
func isHarness(name string) bool {
	for _, folder := range []string{"test/", "tools/", "bench/", "clients/", "docs/", "cmd/dev/"} {
		if strings.HasPrefix(name+"/", folder) {
			return true
		}
	}
	return strings.HasSuffix(name, "test") || strings.HasSuffix(path.Dir(name), "test")
}

// fileLimits returns the numbers about files that have a limit.
func fileLimits(files []file) []number {
	perPackage := map[string]int{}
	var large, long []string
	for _, f := range files {
		perPackage[path.Dir(f.path)]++
		if f.lines > maxFileLines && !f.table {
			long = append(long, fmt.Sprintf("%s (%d)", f.path, f.lines))
		}
	}
	largest := ""
	for _, folder := range slices.Sorted(maps.Keys(perPackage)) {
		if perPackage[folder] > maxPackageFiles {
			large = append(large, fmt.Sprintf("%s (%d)", folder, perPackage[folder]))
		}
		if perPackage[folder] > perPackage[largest] {
			largest = folder
		}
	}
	packages := limited("packages with more than 25 source files", large, 0)
	packages.value += fmt.Sprintf(" (largest: %s with %d)", largest, perPackage[largest])
	return []number{packages, limited("files with more than 400 lines that are not tables", long, 0)}
}

// sizes returns the numbers about files that have no limit.
func sizes(files []file) []number {
	product, harness := 0, 0
	var root, below60, below100, inTx []string
	for _, f := range files {
		if isHarness(f.path) {
			harness += f.lines
		} else {
			product += f.lines
		}
		if path.Dir(f.path) == "storage/postgres" {
			root = append(root, f.path)
		}
		if f.lines < 60 {
			below60 = append(below60, f.path)
		}
		if f.lines < 100 {
			below100 = append(below100, f.path)
		}
		for range methods(f.syntax, "InTx") {
			inTx = append(inTx, f.path)
		}
	}
	return []number{
		counted("source files in the root of storage/postgres", root),
		counted("declarations of a method InTx, with those in interfaces", inTx),
		counted("files below 60 lines", below60),
		counted("files below 100 lines", below100),
		{title: "lines of product code", value: strconv.Itoa(product), limit: -1},
		{title: "lines of harness code", value: strconv.Itoa(harness), limit: -1},
	}
}

// methods returns the declarations of a method of types and interfaces.
func methods(syntax *ast.File, name string) []*ast.Ident {
	var found []*ast.Ident
	ast.Inspect(syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv != nil && n.Name.Name == name {
				found = append(found, n.Name)
			}
		case *ast.InterfaceType:
			for _, method := range n.Methods.List {
				for _, id := range method.Names {
					if id.Name == name {
						found = append(found, id)
					}
				}
			}
		}
		return true
	})
	return found
}
