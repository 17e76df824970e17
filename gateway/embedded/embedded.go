// Package embedded serves the pages that are compiled into the binary.
package embedded

import (
	"embed"
	"net/http"
	"path"
	"strconv"
)

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
}

// Handlers returns the handlers of files in the top folder of an embed.FS, by path. pathOf
// returns the path of a file. policy is the Content-Security-Policy of the pages.
func Handlers(files embed.FS, policy string, pathOf func(file string) string) (map[string]http.HandlerFunc, error) {
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
		handlers[pathOf(entry.Name())] = serve(content, contentTypes[path.Ext(entry.Name())], policy)
	}
	return handlers, nil
}

// serve returns a handler that responds with content. Caches may store the response for
// five minutes. This is the same time as for the OpenAPI document, so that the page that
// shows the document changes at about the same time. Other hosts do not learn the address
// of a page, because it can contain a token.
func serve(content []byte, contentType, policy string) http.HandlerFunc {
	length := strconv.Itoa(len(content))
	return func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", length)
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(content)
	}
}
