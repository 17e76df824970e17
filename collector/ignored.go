package collector

import (
	"net/http"
	"strings"
)

// ignoredHeader names the fields of a body that were ignored because no version of the
// contract knows them.
const ignoredHeader = "Ignored-Fields"

// Bounds of the header. Fields beyond them are ignored without being named.
const (
	maxIgnored       = 10
	maxIgnoredLength = 64 // of one path, in bytes
)

// setIgnored names ignored fields in the response. It leaves out paths that are too
// long or that contain characters other than letters, digits, '_', '-' and '.'.
func setIgnored(h http.Header, paths []string) {
	var named []string
	for _, path := range paths {
		if len(named) < maxIgnored && len(path) <= maxIgnoredLength && path != "" && !strings.ContainsFunc(path, notInPath) {
			named = append(named, path)
		}
	}
	if named != nil {
		h[ignoredHeader] = []string{strings.Join(named, ", ")}
	}
}

func notInPath(r rune) bool { return r != '_' && notInHost(r) }
