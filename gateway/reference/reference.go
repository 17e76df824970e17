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
	"strconv"
)

// Path is the path of the page. The paths of the files that the page needs begin with
// Path.
const Path = "/docs"

//go:embed index.html reference.js redoc-*.js
var files embed.FS

// policy is the Content-Security-Policy of the page. Redoc needs inline styles, and a web
// worker for its search.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src blob:"

// Handlers returns the handlers of the page and its files, by path.
func Handlers() (map[string]http.HandlerFunc, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	handlers := make(map[string]http.HandlerFunc, len(entries))
	for _, entry := range entries {
		content, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, err
		}
		if entry.Name() == "index.html" {
			handlers[Path] = serve(content, "text/html; charset=utf-8")
			continue
		}
		handlers[Path+"/"+entry.Name()] = serve(content, "text/javascript; charset=utf-8")
	}
	return handlers, nil
}

// serve returns a handler that responds with content. Caches may store the response for
// five minutes. This is the same time as for the OpenAPI document, so that the page and
// the document change at about the same time.
func serve(content []byte, contentType string) http.HandlerFunc {
	length := strconv.Itoa(len(content))
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", length)
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Content-Security-Policy", policy)
		_, _ = w.Write(content)
	}
}
