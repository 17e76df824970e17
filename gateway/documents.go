package gateway

import (
	"embed"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/gen/openapi"
	"github.com/tributary-hq/tributary/httpedge"
)

// accountPages are the pages to which the links in mails lead: they verify an address, set a
// new password, accept an invitation, or disable the mails of a category.
//
// A GET request changes nothing. The token is in the fragment of the link. Browsers do not send
// the fragment to the server. Only the token of an unsubscribe link is in the query, because mail
// programs post to this link (RFC 8058). A script sends the token to the API when the user
// submits the form of the page, so the pages do not work without JavaScript.
//
//go:embed pages
var accountPages embed.FS

// reference is the API reference, a page on which the JavaScript library Redoc displays the
// OpenAPI document. `make reference` downloads Redoc from npm.
//
//go:embed reference/index.html reference/reference.js reference/redoc-*.js
var reference embed.FS

// The Content-Security-Policies of the pages. The pages load nothing from other hosts. Redoc
// needs inline styles, and a web worker for its search.
const (
	accountPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
		"form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
	docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; " +
		"connect-src 'self'; worker-src blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)

// unsubscribePage is the path of the page that disables mails. It is also the path of the
// API to which mail programs post.
const unsubscribePage = "/api/v1/notifications/unsubscribe"

// accountPath returns the path of a file of accountPages. The path of a page is the name of
// its file without the extension, except for unsubscribePage.
func accountPath(file string) string {
	switch page, isPage := strings.CutSuffix(file, ".html"); {
	case !isPage:
		return "/pages/" + file
	case page == "unsubscribe":
		return unsubscribePage
	default:
		return "/" + page
	}
}

// referencePath returns the path of a file of reference.
func referencePath(file string) string { return strings.TrimSuffix("/docs/"+file, "/index.html") }

var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
}

// handleDocuments adds the routes that do not call the core: the OpenAPI document, the
// reference page and the pages to which the links in mails lead.
func (g *gateway) handleDocuments() error {
	if err := g.handleDocument(contract.OpenAPIPath, []byte(openapi.Document), "application/json", ""); err != nil {
		return err
	}
	for _, folder := range []struct {
		files        embed.FS
		name, policy string
		pathOf       func(file string) string
	}{
		{reference, "reference", docsPolicy, referencePath},
		{accountPages, "pages", accountPolicy, accountPath},
	} {
		entries, err := folder.files.ReadDir(folder.name)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			content, err := folder.files.ReadFile(path.Join(folder.name, entry.Name()))
			if err != nil {
				return err
			}
			if err := g.handleDocument(folder.pathOf(entry.Name()), content, contentTypes[path.Ext(entry.Name())], folder.policy); err != nil {
				return err
			}
		}
	}
	return nil
}

// handleDocument adds the route of a document, which it compresses for clients that accept
// gzip. policy is the Content-Security-Policy of a page, or "". Caches may store the response
// for five minutes. The time is the same for all documents, so that the reference page and the
// OpenAPI document that it shows change at about the same time. Referrer-Policy keeps browsers
// from sending the address of a page to other hosts, because the address can contain a token.
func (g *gateway) handleDocument(path string, content []byte, contentType, policy string) error {
	r := contract.Route{Verb: http.MethodGet, Template: path, Facts: contract.Facts{Status: http.StatusOK}}
	g.routes[r.Verb+" "+path] = &route{Route: r}
	compressed, etag := httpedge.Gzip(content), httpedge.ETag(content)
	return g.mux.HandlePath(r.Verb, path, func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		// The request of the mux has no headers.
		requestHeader, h := callFrom(r.Context()).request.Header, w.Header()
		if policy != "" {
			h.Set("Content-Security-Policy", policy)
		}
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Etag", etag)
		h["Vary"] = append(h["Vary"][:len(h["Vary"]):len(h["Vary"])], "Accept-Encoding")
		if httpedge.ETagMatches(requestHeader, etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		body := content
		if httpedge.AcceptsGzip(requestHeader) {
			body = compressed
			h.Set("Content-Encoding", "gzip")
		}
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})
}
