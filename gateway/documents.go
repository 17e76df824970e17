package gateway

import (
	"net/http"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/gateway/site"
	"github.com/tributary-hq/tributary/gen/openapi"
	"github.com/tributary-hq/tributary/httpedge"
)

// handleDocuments adds the routes that do not call the core: the OpenAPI document and the site.
func (g *gateway) handleDocuments() error {
	if err := g.handleOpenAPI(); err != nil {
		return err
	}
	for pattern, page := range site.Patterns {
		err := g.handlePath(pattern, func(w http.ResponseWriter, c *call) {
			if page != "" {
				g.Site.ServePage(w, c.request, page, site.Description{})
			} else if !g.Site.ServeFile(w, c.request, c.path["file"]) {
				g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// handlePath adds a route for GET that does not call the core.
func (g *gateway) handlePath(pattern string, handle func(w http.ResponseWriter, c *call)) error {
	r := contract.Route{Verb: http.MethodGet, Template: pattern, Facts: contract.Facts{Status: http.StatusOK}}
	g.routes[r.Verb+" "+pattern] = &route{Route: r}
	return g.mux.HandlePath(r.Verb, pattern, func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		handle(w, callFrom(r.Context())) // the request of the mux has no headers
	})
}

// handleOpenAPI adds the route of the OpenAPI document. Caches may store it for five minutes.
func (g *gateway) handleOpenAPI() error {
	document := []byte(openapi.Document)
	compressed, etag := httpedge.Gzip(document), httpedge.ETag(document)
	return g.handlePath(contract.OpenAPIPath, func(w http.ResponseWriter, c *call) {
		h := w.Header()
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Etag", etag)
		if httpedge.ETagMatches(c.request.Header, etag) {
			httpedge.VaryByEncoding(h)
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", "application/json")
		httpedge.WriteGzip(w, c.request.Header, document, func() []byte { return compressed })
	})
}
