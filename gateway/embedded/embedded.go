// Package embedded serves the files that are compiled into the binary.
package embedded

import (
	"embed"
	"net/http"
	"path"
	"strconv"

	"github.com/tributary-hq/tributary/httpedge"
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
		document := Document(content, contentTypes[path.Ext(entry.Name())])
		handlers[pathOf(entry.Name())] = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", policy)
			document(w, r)
		}
	}
	return handlers, nil
}

// Document returns a handler that responds with content, which it compresses for clients
// that accept gzip. Caches may store the response for five minutes, and the time is the
// same for all documents. So a page that shows another document changes at about the same
// time as the document. Other hosts do not learn the address of a page, because it can
// contain a token.
func Document(content []byte, contentType string) http.HandlerFunc {
	compressed, etag := httpedge.Gzip(content), httpedge.ETag(content)
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Etag", etag)
		h["Vary"] = append(h["Vary"][:len(h["Vary"]):len(h["Vary"])], "Accept-Encoding")
		if httpedge.ETagMatches(r.Header, etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		body := content
		if httpedge.AcceptsGzip(r.Header) {
			body = compressed
			h.Set("Content-Encoding", "gzip")
		}
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
}
