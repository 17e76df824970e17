// Package localhost protects the HTTP servers of development from websites. A website can
// reach a server on loopback with DNS rebinding, but its requests then have a Host header
// that names the website.
package localhost

import (
	"net"
	"net/http"
	"strings"
)

// Allow reports whether the Host header of a request names this machine. The port is
// ignored. If it returns false, it has sent an error with the status 403.
func Allow(w http.ResponseWriter, r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	switch strings.ToLower(strings.Trim(host, "[]")) {
	case "localhost", "127.0.0.1", "::1":
		return true
	}
	http.Error(w, "The Host header must be localhost, 127.0.0.1 or [::1].", http.StatusForbidden)
	return false
}
