package httpedge

import (
	"mime"
	"net/http"
	"strings"
)

// IsPlainJSON reports whether the headers declare the body as JSON in UTF-8 without
// compression. If there is no Content-Type, the body counts as JSON.
func IsPlainJSON(h http.Header) bool {
	for _, encoding := range h["Content-Encoding"] {
		if !strings.EqualFold(strings.TrimSpace(encoding), "identity") {
			return false
		}
	}
	types := h["Content-Type"]
	if len(types) == 0 {
		return true
	}
	if len(types) == 1 && types[0] == "application/json" {
		return true
	}
	media, parameters, err := mime.ParseMediaType(types[0])
	if err != nil || len(types) > 1 || media != "application/json" {
		return false
	}
	charset, hasCharset := parameters["charset"]
	return !hasCharset || strings.EqualFold(charset, "utf-8")
}
