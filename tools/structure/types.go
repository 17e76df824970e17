package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// program is the type-checked product code of some packages.
type program struct {
	root     string // absolute path of the checkout
	module   string
	set      *token.FileSet
	packages []*packages.Package
}

// load type-checks the packages that match the patterns.
func load(root string, patterns ...string) (program, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return program{}, err
	}
	p := program{root: root, set: token.NewFileSet()}
	found, err := packages.Load(&packages.Config{
		Dir:  root,
		Fset: p.set,
		Mode: packages.NeedName | packages.NeedModule | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
	}, patterns...)
	if err != nil {
		return p, err
	}
	for _, pkg := range found {
		for _, err := range pkg.Errors {
			return p, err
		}
		if pkg.Module == nil {
			return p, errors.New(pkg.PkgPath + " belongs to no module")
		}
		p.module = pkg.Module.Path
		if !isHarness(p.folder(pkg.Types)) {
			p.packages = append(p.packages, pkg)
		}
	}
	return p, nil
}

// folder returns the folder of a package of this module, relative to the root.
func (p program) folder(pkg *types.Package) string {
	return strings.TrimPrefix(pkg.Path(), p.module+"/")
}

// arrow is a dependency between two files or folders.
type arrow struct{ from, to string }

// arrows returns the arrows between the files below affiliate, each with the name of an
// identifier that causes it. There is an arrow from one file to another if the first one
// uses a type, function, variable or constant that the second one declares outside
// functions. Uses of methods and fields are not counted.
func (p program) arrows() map[arrow]string {
	found := map[arrow]string{}
	for _, pkg := range p.packages {
		for id, used := range pkg.TypesInfo.Uses {
			if used.Pkg() == nil || used.Parent() != used.Pkg().Scope() {
				continue
			}
			a := arrow{p.file(id.Pos()), p.file(used.Pos())}
			if a.from != a.to && strings.HasPrefix(a.from, "affiliate/") && strings.HasPrefix(a.to, "affiliate/") {
				found[a] = max(found[a], id.Name)
			}
		}
	}
	return found
}

func (p program) file(pos token.Pos) string {
	name, err := filepath.Rel(p.root, p.set.Position(pos).Filename)
	if err != nil {
		return ""
	}
	return filepath.ToSlash(name)
}

// arrowLimits returns the numbers about the arrows below affiliate. A circle of folders
// is a circle between the folders directly below affiliate, each with its subfolders.
func (p program) arrowLimits() []number {
	files := p.arrows()
	folders := map[arrow]string{}
	for a := range files {
		up := arrow{topic(a.from), topic(a.to)}
		if up.from != up.to {
			folders[up] = max(folders[up], a.from+" uses "+files[a])
		}
	}
	back := limited("arrows back up below affiliate", backArrows(files), maxBackArrows)
	back.value += fmt.Sprintf(" of %d", len(files))
	return []number{limited("circles of folders below affiliate", backArrows(folders), 0), back}
}

// topic returns the folder of a file, cut to affiliate or a folder directly below it.
func topic(name string) string {
	parts := strings.Split(path.Dir(name), "/")
	return strings.Join(parts[:min(len(parts), 2)], "/")
}

// backArrows returns the arrows that point back up: those that close a circle when the
// arrows are followed depth first, in the order of the names. Each has the shortest circle
// that it closes, because another arrow of the circle may be the one to remove.
func backArrows(arrows map[arrow]string) []string {
	next := map[string][]string{}
	for _, a := range slices.SortedFunc(maps.Keys(arrows), func(a, b arrow) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	}) {
		next[a.from] = append(next[a.from], a.to)
	}
	const onPath, done = 1, 2
	state := map[string]int{}
	var back []string
	var follow func(from string)
	follow = func(from string) {
		state[from] = onPath
		for _, to := range next[from] {
			switch state[to] {
			case onPath:
				back = append(back, circle(arrows, next, arrow{from, to}))
			case done:
			default:
				follow(to)
			}
		}
		state[from] = done
	}
	for _, from := range slices.Sorted(maps.Keys(next)) {
		if state[from] != done {
			follow(from)
		}
	}
	return back
}

// circle returns the shortest circle that begins with the arrow, with the identifiers that
// cause its arrows.
func circle(arrows map[arrow]string, next map[string][]string, first arrow) string {
	paths := map[string]string{first.to: fmt.Sprintf("%s → %s (%s)", first.from, first.to, arrows[first])}
	queue := []string{first.to}
	for paths[first.from] == "" {
		from := queue[0]
		queue = queue[1:]
		for _, to := range next[from] {
			if paths[to] == "" {
				paths[to] = fmt.Sprintf("%s → %s (%s)", paths[from], to, arrows[arrow{from, to}])
				queue = append(queue, to)
			}
		}
	}
	return paths[first.from]
}

// interfaces returns the numbers of interfaces between server and storage: the interfaces
// of one side that types of the other side implement, or types that embed a type of the
// other side. A type that inherits all methods from an embedded type is not counted as
// another implementation. Test code is not counted.
func (p program) interfaces() []number {
	var declared, concrete []*types.Named
	for _, pkg := range p.packages {
		for _, name := range pkg.Types.Scope().Names() {
			named := namedType(pkg.Types.Scope().Lookup(name))
			switch {
			case named == nil:
			case types.IsInterface(named):
				declared = append(declared, named)
			default:
				concrete = append(concrete, named)
			}
		}
	}
	methods := 0
	var all, single []string
	for _, named := range declared {
		face := named.Underlying().(*types.Interface)
		side := p.side(named)
		other := map[string]string{"server": "storage", "storage": "server"}[side]
		if other == "" || face.NumMethods() == 0 || !face.IsMethodSet() {
			continue
		}
		crosses := false
		var by []string
		for _, c := range concrete {
			if !implements(c, face) {
				continue
			}
			crosses = crosses || p.side(c) == other
			if !slices.ContainsFunc(embedded(c), func(e types.Type) bool { return implements(e, face) }) {
				by = append(by, p.name(c))
			}
		}
		if !crosses {
			continue
		}
		methods += face.NumMethods()
		name := fmt.Sprintf("%s (%d methods): %s", p.name(named), face.NumMethods(), strings.Join(by, ", "))
		all = append(all, name)
		if len(by) == 1 {
			single = append(single, name)
		}
	}
	n := counted("interfaces between server and storage", all)
	n.value += fmt.Sprintf(" (with %d methods)", methods)
	return []number{n, counted("… of them with one implementation", single)}
}

// namedType returns the type that the object declares, or nil if it is not a type or has
// type parameters.
func namedType(object types.Object) *types.Named {
	name, ok := object.(*types.TypeName)
	if !ok || name.IsAlias() {
		return nil
	}
	named, ok := name.Type().(*types.Named)
	if !ok || named.TypeParams() != nil {
		return nil
	}
	return named
}

func implements(t types.Type, face *types.Interface) bool {
	return types.Implements(t, face) || types.Implements(types.NewPointer(t), face)
}

// embedded returns the embedded types of a struct, without pointers.
func embedded(t *types.Named) []types.Type {
	fields, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	var found []types.Type
	for f := range fields.Fields() {
		if pointer, ok := f.Type().(*types.Pointer); ok && f.Embedded() {
			found = append(found, pointer.Elem())
		} else if f.Embedded() {
			found = append(found, f.Type())
		}
	}
	return found
}

// side returns server or storage if the type, or a type that it embeds, is declared there.
func (p program) side(t *types.Named) string {
	if t.Obj().Pkg() == nil {
		return ""
	}
	top, _, _ := strings.Cut(p.folder(t.Obj().Pkg()), "/")
	if top == "server" || top == "storage" {
		return top
	}
	for _, e := range embedded(t) {
		if named, ok := e.(*types.Named); ok && p.side(named) != "" {
			return p.side(named)
		}
	}
	return ""
}

func (p program) name(t *types.Named) string { return p.folder(t.Obj().Pkg()) + "." + t.Obj().Name() }

// exportedNames returns the number of exported identifiers outside functions, and of
// exported methods, in the root of affiliate.
func (p program) exportedNames() number {
	var names []string
	for _, pkg := range p.packages {
		if p.folder(pkg.Types) != "affiliate" {
			continue
		}
		for _, name := range pkg.Types.Scope().Names() {
			if ast.IsExported(name) {
				names = append(names, name)
			}
			if named, ok := pkg.Types.Scope().Lookup(name).Type().(*types.Named); ok && named.Obj().Name() == name {
				for m := range named.Methods() {
					if m.Exported() {
						names = append(names, name+"."+m.Name())
					}
				}
			}
		}
	}
	return counted("exported names in the root of affiliate, with methods", names)
}
