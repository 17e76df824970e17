package httpedge

import "net/http"

// RequestIDHeader contains the request id in requests and responses.
const RequestIDHeader = "X-Request-Id"

// maxRequestID is the greatest length of an id that a client sends. It is limited because
// the id is returned and logged.
const maxRequestID = 128

// RequestID returns the client's X-Request-Id if it is valid (see ValidRequestID), and
// otherwise a new id from newID.
func RequestID(r *http.Request, newID func() string) string {
	id := r.Header.Get(RequestIDHeader)
	if ValidRequestID(id) {
		return id
	}
	return newID()
}

// ValidRequestID reports whether id consists of 1 to 128 visible ASCII characters. Other
// characters could break a log line or a header.
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
