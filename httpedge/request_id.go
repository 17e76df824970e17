package httpedge

import "net/http"

// RequestIDHeader carries the request id in and out (SPEC.md section 9).
const RequestIDHeader = "X-Request-Id"

// maxRequestID bounds an id taken from a client, which is echoed and logged.
const maxRequestID = 128

// RequestID is the client's X-Request-Id when it is 1 to 128 visible ASCII
// characters, else a fresh one from mint: anything else could split a log line
// or a header.
func RequestID(r *http.Request, mint func() string) string {
	id := r.Header.Get(RequestIDHeader)
	if ValidRequestID(id) {
		return id
	}
	return mint()
}

// ValidRequestID reports whether id may be echoed and logged.
func ValidRequestID(id string) bool {
	if len(id) == 0 || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
