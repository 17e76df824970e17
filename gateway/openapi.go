package gateway

import (
	"io"
	"net/http"
	"strconv"

	"github.com/tributary-hq/tributary/gen/openapi"
)

// serveDocument gives the OpenAPI document to anybody. It changes with a
// deployment only, so caches may keep it for a while.
func serveDocument(w http.ResponseWriter, _ *http.Request, _ map[string]string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(openapi.Document)))
	h.Set("Cache-Control", "public, max-age=300")
	_, _ = io.WriteString(w, openapi.Document)
}
