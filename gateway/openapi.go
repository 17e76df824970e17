package gateway

import (
	"io"
	"net/http"
	"strconv"

	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/gateway/reference"
	"github.com/tributary-hq/tributary/gen/openapi"
)

// handleDocuments adds the routes that do not call the core: the OpenAPI document and
// the reference page.
func (g *gateway) handleDocuments() error {
	if err := g.mux.HandlePath(http.MethodGet, contract.OpenAPIPath, serveOpenAPI); err != nil {
		return err
	}
	handlers, err := reference.Handlers()
	if err != nil {
		return err
	}
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
