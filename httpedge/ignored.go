package httpedge

import (
	"fmt"
	"net/http"
	"strings"
)

// IgnoredFieldsHeader is the response header that lists the unknown keys of a request
// body. It is used by routes that are called by many versions of clients. These routes
// ignore unknown keys instead of rejecting the request.
const IgnoredFieldsHeader = "Ignored-Fields"

// maxIgnored bounds the length of the header, because the client chooses the names.
const maxIgnored = 1024

// SetIgnoredFields sets IgnoredFieldsHeader to the paths of the ignored keys, separated
// by ", ". Bytes other than letters, digits, "_", "-", ".", "[" and "]" are
// percent-encoded. If the list is too long, it is cut and ends with "...". If paths is
// empty, no header is set.
func SetIgnoredFields(h http.Header, paths []string) {
	if len(paths) == 0 {
		return
	}
	var b strings.Builder
	for i, path := range paths {
		name := encodePath(path)
		if b.Len()+len(name) > maxIgnored {
			b.WriteString("...")
			break
		}
		b.WriteString(name)
		if i < len(paths)-1 {
			b.WriteString(", ")
		}
	}
	h.Set(IgnoredFieldsHeader, b.String())
}

func encodePath(path string) string {
	plain := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-.[]", c) >= 0
	}
	var b strings.Builder
	for i := range len(path) {
		if plain(path[i]) {
			b.WriteByte(path[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", path[i])
		}
	}
	return b.String()
}
