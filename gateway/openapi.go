package gateway

import (
	"maps"
	"net/http"

	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/gateway/embedded"
	"github.com/tributary-hq/tributary/gateway/pages"
	"github.com/tributary-hq/tributary/gateway/reference"
	"github.com/tributary-hq/tributary/gen/openapi"
)

// handleDocuments adds the routes that do not call the core: the OpenAPI document, the
// reference page and the pages to which the links in mails lead. Their handlers get the
// request of the client, because the request of the mux has no headers.
func (g *gateway) handleDocuments() error {
	document := embedded.Document([]byte(openapi.Document), "application/json")
	serveOpenAPI := func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		document(w, callFrom(r.Context()).request)
	}
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
		serve := func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
			handler(w, callFrom(r.Context()).request)
		}
		if err := g.mux.HandlePath(r.Verb, path, serve); err != nil {
			return err
		}
	}
	return nil
}
