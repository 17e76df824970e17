// Package reference serves the API reference, a page on which the JavaScript library
// Redoc displays the OpenAPI document.
//
// The page loads nothing from other hosts. Its Content-Security-Policy forbids such
// requests, and Redoc is embedded in this package. `make reference` downloads Redoc from
// npm.
package reference

import (
	"embed"
	"net/http"

	"github.com/tributary-hq/tributary/gateway/embedded"
)

// Path is the path of the page. The paths of the files that the page needs begin with
// Path.
const Path = "/docs"

//go:embed index.html reference.js redoc-*.js
var files embed.FS

// policy is the Content-Security-Policy of the page. Redoc needs inline styles, and a web
// worker for its search.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; worker-src blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// Handlers returns the handlers of the page and its files, by path.
func Handlers() (map[string]http.HandlerFunc, error) { return embedded.Handlers(files, policy, pathOf) }

func pathOf(file string) string {
	if file == "index.html" {
		return Path
	}
	return Path + "/" + file
}
