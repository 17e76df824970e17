// Package build builds the web applications of web/src. esbuild bundles them. npm only
// downloads the libraries (web/package-lock.json), so no other tool of JavaScript takes part.
//
// It guarantees that the same sources and libraries give the same files. It does not check
// types; `npm run check` in web does.
package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// assets is the folder of all files whose names contain a hash of their content.
const assets = "assets"

// pages maps the name of each page to its entry. The page is src/<entry>/index.html, and the
// script of the page is src/<entry>/main.
var pages = map[string]string{
	"console.html": "console/main.tsx", "portal.html": "portal/main.tsx", "reference.html": "reference/main.ts",
}

// options returns the options of esbuild for the folder web of a checkout.
func options(folder string) api.BuildOptions {
	entries := make([]string, 0, len(pages))
	for _, entry := range pages {
		entries = append(entries, path.Join("src", entry))
	}
	slices.Sort(entries)
	return api.BuildOptions{
		AbsWorkingDir: folder,
		EntryPoints:   entries,
		Outdir:        filepath.Join("dist", assets),
		EntryNames:    "[dir]-[hash]",
		ChunkNames:    "[name]-[hash]",
		AssetNames:    "[name]-[hash]",
		Outbase:       "src",
		Bundle:        true,
		Splitting:     true,
		Format:        api.FormatESModule,
		Platform:      api.PlatformBrowser,
		Target:        api.ES2022,
		JSX:           api.JSXAutomatic,
		// A comment with a license goes to a file next to the script.
		LegalComments:     api.LegalCommentsExternal,
		MinifySyntax:      true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		// The client of the API, which is in clients/typescript, uses the same libraries.
		NodePaths: []string{filepath.Join(folder, "node_modules")},
		Define:    map[string]string{"process.env.NODE_ENV": `"production"`},
		Metafile:  true,
		Plugins:   []api.Plugin{languages, redoc},
	}
}

// languages removes the texts of React Aria in languages that the applications do not have:
// two of them remain of more than thirty.
var languages = api.Plugin{Name: "languages", Setup: func(build api.PluginBuild) {
	build.OnLoad(api.OnLoadOptions{Filter: `react-(aria|stately)[^/]*/dist/private/intl/.*[a-z]{2}-[A-Z]{2}\.mjs$`}, func(args api.OnLoadArgs) (api.OnLoadResult, error) {
		switch path.Base(filepath.ToSlash(args.Path)) {
		case "en-US.mjs", "de-DE.mjs":
			return api.OnLoadResult{}, nil
		}
		empty := "export default {}"
		return api.OnLoadResult{Contents: &empty}, nil
	})
}}

// redoc replaces a module that the bundle of Redoc requires and that does not exist. Without a
// bundler it is undefined.
var redoc = api.Plugin{Name: "redoc", Setup: func(build api.PluginBuild) {
	build.OnResolve(api.OnResolveOptions{Filter: `^null$`}, func(api.OnResolveArgs) (api.OnResolveResult, error) {
		return api.OnResolveResult{Path: "null", Namespace: "empty"}, nil
	})
	build.OnLoad(api.OnLoadOptions{Filter: `.*`, Namespace: "empty"}, func(api.OnLoadArgs) (api.OnLoadResult, error) {
		empty := ""
		return api.OnLoadResult{Contents: &empty}, nil
	})
}}

// Build builds the applications of the folder web of a checkout into its folder dist. It
// replaces the files of an earlier build.
func Build(folder string) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	return write(folder, api.Build(options(folder)))
}

// Watch builds the applications, and builds them again after each change of their sources,
// until ctx ends. It calls built after each build. Pages that are open in a browser reload
// themselves when their files have changed.
func Watch(ctx context.Context, folder string, built func(error)) error {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	o := options(folder)
	o.Banner = map[string]string{"js": reload}
	o.Plugins = append(o.Plugins, api.Plugin{Name: "write", Setup: func(build api.PluginBuild) {
		build.OnEnd(func(result *api.BuildResult) (api.OnEndResult, error) {
			built(write(folder, *result))
			return api.OnEndResult{}, nil
		})
	}})
	builder, failed := api.Context(o)
	if failed != nil {
		return fmt.Errorf("esbuild: %w", failed)
	}
	defer builder.Dispose()
	if err := builder.Watch(api.WatchOptions{}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// reload requests the page from the gateway each second, and reloads it after a change. All
// scripts of a page contain this code. The first one that runs starts the timer, and the others do
// nothing.
const reload = `if(!window.reloads){window.reloads=1;let last;setInterval(async()=>{` +
	`if(document.hidden)return;const r=await fetch(location.pathname,{method:"HEAD"}).catch(()=>0);const e=r&&r.ok&&r.headers.get("etag");` +
	`if(e&&last&&e!==last)location.reload();last=e||last},1000)}`

// write writes the result of a build to dist, and the pages that load the scripts.
func write(folder string, result api.BuildResult) error {
	if len(result.Errors) > 0 {
		return fmt.Errorf("esbuild:\n%s", strings.Join(api.FormatMessages(result.Errors, api.FormatMessagesOptions{}), ""))
	}
	dist := filepath.Join(folder, "dist")
	if err := os.RemoveAll(filepath.Join(dist, assets)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dist, assets), 0o755); err != nil {
		return err
	}
	for _, file := range result.OutputFiles {
		// A file name with a hash is enough to find the licenses of a script.
		if err := os.WriteFile(file.Path, file.Contents, 0o644); err != nil {
			return err
		}
	}
	var built metafile
	if err := json.Unmarshal([]byte(result.Metafile), &built); err != nil {
		return err
	}
	for name, entry := range pages {
		template, err := os.ReadFile(filepath.Join(folder, "src", path.Dir(entry), "index.html"))
		if err != nil {
			return err
		}
		head, err := built.head(path.Join("src", entry))
		if err != nil {
			return err
		}
		page := strings.Replace(string(template), "</head>", head+"</head>", 1)
		if err := os.WriteFile(filepath.Join(dist, name), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// metafile is the part of esbuild's metafile that names the files of a page.
type metafile struct {
	Outputs map[string]struct {
		EntryPoint string `json:"entryPoint"`
		CSSBundle  string `json:"cssBundle"`
		// Inputs are the sources of the file.
		Inputs  map[string]struct{} `json:"inputs"`
		Imports []struct {
			Path string `json:"path"`
			Kind string `json:"kind"`
		} `json:"imports"`
	} `json:"outputs"`
}

// head returns the elements that load the files of an entry. The scripts that the entry
// imports are loaded at the same time as the entry. A script that is loaded later must not have
// CSS of its own, because nothing would load it.
//
// React Aria adds a style element to pages that have no element with the id
// react-aria-pressable-style. The policy of the pages forbids such elements, so the style
// sheet, which contains the same rules, has this id.
func (m metafile) head(entry string) (string, error) {
	var script string
	for file, output := range m.Outputs {
		if output.EntryPoint == entry {
			script = file
		}
	}
	var head strings.Builder
	css := m.Outputs[script].CSSBundle
	if css != "" {
		fmt.Fprintf(&head, "<link id=\"react-aria-pressable-style\" rel=\"stylesheet\" href=\"%s\">\n", address(css))
	}
	now, later := m.imports(script, "import-statement"), m.imports(script, "import-statement", "dynamic-import")
	for _, file := range later {
		for source := range m.Outputs[m.Outputs[file].CSSBundle].Inputs {
			if _, loaded := m.Outputs[css].Inputs[source]; !loaded {
				return "", fmt.Errorf("%s is used only by a script that is loaded later: import it in src/%s too", source, entry)
			}
		}
	}
	// The entry is the largest script, so it is requested first.
	fmt.Fprintf(&head, "<script type=\"module\" src=\"%s\"></script>\n", address(script))
	for _, file := range now {
		fmt.Fprintf(&head, "<link rel=\"modulepreload\" href=\"%s\">\n", address(file))
	}
	return head.String(), nil
}

// imports returns the files that a script imports, directly or not, sorted. kinds are the kinds
// of imports that count.
func (m metafile) imports(file string, kinds ...string) []string {
	var found []string
	var visit func(string)
	visit = func(file string) {
		for _, imported := range m.Outputs[file].Imports {
			if slices.Contains(kinds, imported.Kind) && !slices.Contains(found, imported.Path) {
				found = append(found, imported.Path)
				visit(imported.Path)
			}
		}
	}
	visit(file)
	slices.Sort(found)
	return found
}

// address returns the address of a built file on the gateway.
func address(file string) string { return "/" + assets + "/" + path.Base(file) }
