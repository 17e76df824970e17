package gateway

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/gateway/site"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/gen/openapi"
	"github.com/tributary-hq/tributary/httpedge"
)

// portalPages is the pattern of the pages of the portal.
const portalPages = "/portal/{path=**}"

// descriptionTimeout bounds the call of the core for the description of a page.
const descriptionTimeout = 2 * time.Second

// handleDocuments adds the routes that are not in the OpenAPI document: the document itself and
// the site.
func (g *gateway) handleDocuments() error {
	if err := g.handleOpenAPI(); err != nil {
		return err
	}
	for pattern, page := range site.Patterns {
		err := g.handlePath(pattern, func(c *call, r *http.Request) {
			if page != "" {
				g.Site.ServePage(c, c.request, page, g.describe(c, r, pattern))
			} else if !g.Site.ServeFile(c, c.request, c.path["file"]) {
				g.refuse(c, refusal{reason: affiliate.ReasonNotFound})
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// describe returns the description of the public page of a programme. It is empty for other pages
// and if the core does not return the programme. The core counts the call in the rate limit zone
// of the same operation of the API.
func (g *gateway) describe(c *call, r *http.Request, pattern string) site.Description {
	if pattern != portalPages {
		return site.Description{}
	}
	slugs, mode := strings.Split(c.path["path"], "/"), affiliatev1.Mode_MODE_LIVE
	if slugs[0] == "test" {
		slugs, mode = slugs[1:], affiliatev1.Mode_MODE_TEST
	}
	// Other pages of the portal begin with a slug that no workspace has.
	if len(slugs) != 2 || account.ReservedSlug(slugs[0]) {
		return site.Description{}
	}
	ctx, cancel := context.WithTimeout(g.outgoingContext(r), descriptionTimeout)
	defer cancel()
	program, err := g.portal.GetPortalProgram(ctx, &affiliatev1.GetPortalProgramRequest{WorkspaceSlug: slugs[0], ProgramSlug: slugs[1], Mode: mode})
	if err != nil {
		return site.Description{}
	}
	body, err := marshaler{}.Marshal(program)
	if err != nil {
		panic(err) // the API returns the same message, so it can be encoded
	}
	return site.Description{
		Title:   program.GetName() + " · " + program.GetBranding().GetName(),
		Text:    cmp.Or(program.GetDescription(), program.GetRate()),
		Program: body,
	}
}

// handlePath adds a route for GET that is not in the OpenAPI document. The request of the call has
// the headers of the client.
func (g *gateway) handlePath(pattern string, handle func(c *call, r *http.Request)) error {
	r := contract.Route{Verb: http.MethodGet, Template: pattern, Facts: contract.Facts{Status: http.StatusOK}}
	g.routes[r.Verb+" "+pattern] = &route{Route: r}
	return g.mux.HandlePath(r.Verb, pattern, func(_ http.ResponseWriter, r *http.Request, _ map[string]string) {
		handle(callFrom(r.Context()), r)
	})
}

// handleOpenAPI adds the route of the OpenAPI document. Caches may store it for five minutes.
func (g *gateway) handleOpenAPI() error {
	document := []byte(openapi.Document)
	compressed, etag := httpedge.Gzip(document), httpedge.ETag(document)
	return g.handlePath(contract.OpenAPIPath, func(c *call, _ *http.Request) {
		h := c.Header()
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Etag", etag)
		if httpedge.ETagMatches(c.request.Header, etag) {
			httpedge.VaryByEncoding(h)
			c.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", "application/json")
		httpedge.WriteGzip(c, c.request.Header, document, func() []byte { return compressed })
	})
}
