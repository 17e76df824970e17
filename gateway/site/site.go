// Package site serves the pages for people: the console of merchants' teams, the portal of
// partners, the API reference, and the pages to which the links in mails lead. The pages are applications that run in the
// browser and use the REST API (package web).
//
// It guarantees that a page cannot load anything from another host or run an inline script,
// that other sites can neither frame a page nor get a reference to its window, and that a
// browser shows the newest version of a page, because only files whose names contain a hash of
// their content are cached. GET changes nothing, and no page depends on a cookie.
package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tributary-hq/tributary/httpedge"
)

// The pages, which are files at the top of the built files.
const (
	consolePage   = "console.html"
	portalPage    = "portal.html"
	referencePage = "reference.html"
)

// Patterns maps the paths of the site, as patterns of the mux, to the page that is served
// there. The value is "" for the files of pages and for redirects.
//
// The last four paths are in mails that were sent before the portal existed, and in mails to
// members of workspaces. Mail programs post to the path of the unsubscribe page (RFC 8058).
var Patterns = map[string]string{
	"/assets/{file=*}":                  "",
	"/docs":                             referencePage,
	"/console":                          consolePage,
	"/console/{path=**}":                consolePage,
	"/portal":                           portalPage,
	"/portal/{path=**}":                 portalPage,
	"/verify-email":                     portalPage,
	"/reset-password":                   portalPage,
	"/accept-invite":                    portalPage,
	"/api/v1/notifications/unsubscribe": portalPage,
}

// The headers of pages. Redoc, which shows the reference, needs inline styles, and a web worker
// for its search.
const (
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
		"manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
	referencePolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
		"connect-src 'self'; worker-src blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
	permissions = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"
)

// Description describes the public page of a programme.
type Description struct {
	// Title and Text are shown in previews of links.
	Title, Text string
	// Program is the programme as the API returns it, so that the page does not request it.
	Program json.RawMessage
}

// Site serves the built files. It is safe for concurrent use.
type Site struct{ content atomic.Pointer[content] }

// New returns a site that serves the built files (web.Files). If a program was built
// without them, all pages explain this.
func New(files fs.FS) (*Site, error) {
	s := &Site{}
	return s, s.Load(files)
}

// content is what a site serves: the pages and files by name.
type content struct {
	pages map[string]*template.Template
	files map[string]*file
}

// file is a file that never changes, because its name contains a hash of its content.
type file struct {
	content    []byte
	compressed func() []byte // compresses the content once
}

// Load replaces the files that the site serves.
func (s *Site) Load(files fs.FS) error {
	loaded := &content{pages: map[string]*template.Template{}, files: map[string]*file{}}
	for _, page := range []string{consolePage, portalPage, referencePage} {
		text, err := fs.ReadFile(files, page)
		if err != nil {
			text = []byte(notBuilt)
		}
		if loaded.pages[page], err = template.New(page).Parse(string(text)); err != nil {
			return fmt.Errorf("site: %w", err)
		}
	}
	entries, err := fs.Glob(files, "assets/*")
	if err != nil {
		return err
	}
	for _, name := range entries {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		loaded.files[path.Base(name)] = &file{text, sync.OnceValue(func() []byte { return httpedge.Gzip(text) })}
	}
	s.content.Store(loaded)
	return nil
}

// notBuilt is the page of a program that was built without the applications.
const notBuilt = `<!DOCTYPE html>
<html lang="en">
<title>Not built</title>
<h1>This program contains no web pages</h1>
<p>It was built without them. Run <code>make build</code> instead of <code>go build</code>.</p>
<p>The API works: see <a href="/api/v1/openapi.json">its OpenAPI document</a>.</p>
</html>
`

// Built reports whether the files contain the applications.
func Built(files fs.FS) bool {
	_, err := fs.Stat(files, portalPage)
	return err == nil
}

// ServePage serves the page of a pattern. description is written into the page. Without a
// title, the page keeps its own, and empty fields are left out.
func (s *Site) ServePage(w http.ResponseWriter, r *http.Request, page string, description Description) {
	var body bytes.Buffer
	if err := s.content.Load().pages[page].Execute(&body, description); err != nil {
		panic(err) // the templates use only fields of Description
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	if page == referencePage {
		h.Set("Content-Security-Policy", referencePolicy)
	}
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", permissions)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Etag", httpedge.ETag(body.Bytes())) // pages under development compare it
	httpedge.WriteGzip(w, r.Header, body.Bytes(), func() []byte { return httpedge.Gzip(body.Bytes()) })
}

var contentTypes = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8",
}

// ServeFile serves a file of a page. found is false if there is no such file; nothing is
// written then.
func (s *Site) ServeFile(w http.ResponseWriter, r *http.Request, name string) (found bool) {
	f, found := s.content.Load().files[name]
	if !found {
		return false
	}
	h := w.Header()
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Type", contentTypes[path.Ext(name)])
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	httpedge.WriteGzip(w, r.Header, f.content, f.compressed)
	return true
}

// Redirect returns the address to which a request for a path without a page is redirected, or
// "". The fragment of the address, which browsers keep, may contain a token.
func Redirect(requested string) string {
	switch trimmed := strings.TrimRight(requested, "/"); {
	case requested == "/":
		return "/console" // its login leads partners to the portal
	case trimmed != requested && isPage(trimmed) && path.Clean(requested) == trimmed:
		return trimmed
	}
	return ""
}

// isPage reports whether a path leads to an application.
func isPage(requested string) bool {
	if requested == "/docs" {
		return true
	}
	for _, app := range []string{"/console", "/portal"} {
		if requested == app || strings.HasPrefix(requested, app+"/") {
			return true
		}
	}
	return false
}
