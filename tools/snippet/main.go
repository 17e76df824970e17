// Command snippet builds the browser script: it bundles and minifies
// collector/snippet/src into collector/snippet/dist/script.js. The same sources always
// give the same output. The command removes the TypeScript types without checking them.
// An editor, or `npx -p typescript tsc -p collector/snippet`, checks them.
//
// It must run in the root of the checkout:
//
//	go run ./tools/snippet
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/tdewolff/minify/v2"
	"github.com/tdewolff/minify/v2/js"
)

const (
	entryFile  = "collector/snippet/src/main.ts"
	scriptFile = "collector/snippet/dist/script.js"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("snippet: ")
	script, err := build(".")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(scriptFile), 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(scriptFile, script, 0o644); err != nil {
		log.Fatal(err)
	}
}

// build returns the script that is built from the sources of a checkout.
func build(root string) ([]byte, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	result := api.Build(api.BuildOptions{
		AbsWorkingDir: root,
		EntryPoints:   []string{entryFile},
		Bundle:        true,
		Format:        api.FormatIIFE,
		Target:        api.ES2015,
		Platform:      api.PlatformBrowser,
		Charset:       api.CharsetASCII,
		LegalComments: api.LegalCommentsNone,

		MinifySyntax: true,
		// If the browser or the page lacks a feature, the script must do nothing.
		Banner: map[string]string{"js": "try{"},
		Footer: map[string]string{"js": "}catch(e){}"},
		// Without this, esbuild would read tsconfig.json, which is for editors.
		TsconfigRaw: "{}",
	})
	if faults := append(result.Errors, result.Warnings...); len(faults) > 0 {
		texts := api.FormatMessages(faults, api.FormatMessagesOptions{})
		return nil, fmt.Errorf("esbuild:\n%s", strings.Join(texts, ""))
	}
	// esbuild could minify the names too, but the result is 2% larger with gzip.
	var script bytes.Buffer
	if err := (&js.Minifier{Version: 2015}).Minify(minify.New(), &script, bytes.NewReader(result.OutputFiles[0].Contents), nil); err != nil {
		return nil, fmt.Errorf("minify: %w", err)
	}
	return script.Bytes(), nil
}
