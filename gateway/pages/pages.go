// Package pages serves the pages to which the links in mails lead: a page that verifies
// an address, a page that sets a new password, a page that accepts an invitation, and a
// page that disables the mails of a category.
//
// Guarantees: a GET request changes nothing. The token is in the fragment of the link,
// which browsers do not send to the server. Only the token of an unsubscribe link is in
// the query, because mail programs post to this link (RFC 8058). A script sends the token to the API when the
// user submits the form of the page. The pages load nothing from other hosts, and their
// Content-Security-Policy forbids such requests, inline scripts and frames.
//
// Not guaranteed: that the pages work without JavaScript.
package pages

import (
	"embed"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed *.html account.js account.css
var files embed.FS

const (
	// assets is the folder of the files that the pages load.
	assets = "/pages"
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
}

// unsubscribePage is the path of the page that disables mails. It is also the path of the
// API to which mail programs post.
const unsubscribePage = "/api/v1/notifications/unsubscribe"

// Handlers returns the handlers of the pages and their files, by path. The path of a page
// is the name of its file without the extension, except for unsubscribePage.
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
		handler := serve(content, contentTypes[path.Ext(entry.Name())])
		page, isPage := strings.CutSuffix(entry.Name(), ".html")
		switch {
		case !isPage:
			handlers[assets+"/"+entry.Name()] = handler
		case page == "unsubscribe":
			handlers[unsubscribePage] = handler
		default:
			handlers["/"+page] = handler
		}
	}
	return handlers, nil
}

// serve returns a handler that responds with content. Caches may store the response for
// five minutes.
func serve(content []byte, contentType string) http.HandlerFunc {
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
