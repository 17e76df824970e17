package gateway

import (
	"io"
	"maps"
	"net/http"
	"strconv"

	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/gateway/pages"
	"github.com/tributary-hq/tributary/gateway/reference"
	"github.com/tributary-hq/tributary/gen/openapi"
)

// handleDocuments adds the routes that do not call the core: the OpenAPI document, the
// reference page and the pages to which the links in mails lead.
func (g *gateway) handleDocuments() error {
	if err := g.mux.HandlePath(http.MethodGet, contract.OpenAPIPath, serveOpenAPI); err != nil {
		return err
	}
	handlers, err := reference.Handlers()
	if err != nil {
		return err
	}
	accountPages, err := pages.Handlers()
	if err != nil {
		return err
	}
	maps.Copy(handlers, accountPages)
	for path, handler := range handlers {
		r := contract.Route{Verb: http.MethodGet, Template: path}
		g.routes[r.Verb+" "+path] = &route{Route: r, successStatus: http.StatusOK}
		serve := func(w http.ResponseWriter, r *http.Request, _ map[string]string) { handler(w, r) }
		if err := g.mux.HandlePath(r.Verb, path, serve); err != nil {
			return err
		}
	}
	return nil
}

// serveOpenAPI serves the OpenAPI document. Caches may store the document, because it
// changes only with a new version of the gateway.
func serveOpenAPI(w http.ResponseWriter, _ *http.Request, _ map[string]string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(openapi.Document)))
	h.Set("Cache-Control", "public, max-age=300")
	_, _ = io.WriteString(w, openapi.Document)
}
