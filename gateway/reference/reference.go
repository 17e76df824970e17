// Package reference serves the API reference, a page on which Redoc renders the OpenAPI
// document.
//
// The page loads nothing from other hosts: its Content-Security-Policy forbids it, and
// Redoc's bundle is embedded. `make reference` fetches the bundle from npm.
package reference

import (
	"embed"
	"net/http"
	"strconv"
)

// Path is the address of the page. The addresses of its files start with it.
const Path = "/docs"

//go:embed index.html reference.js redoc-*.js
var files embed.FS

// policy is the Content-Security-Policy of the page. Redoc needs inline styles, and a
// worker for its search.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src blob:"

// Handlers returns a handler for each address.
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

// serve returns a handler that responds with content. Caches may keep it for five
// minutes, like the OpenAPI document, so that page and document change together.
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
