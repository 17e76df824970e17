package httpedge

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tributary-hq/tributary/affiliate"
)

// Envelope is the body of every error response (docs/errors.md).
type Envelope struct {
	StatusCode int              `json:"statusCode"`
	Message    string           `json:"message"`
	Error      string           `json:"error"`
	Code       affiliate.Reason `json:"code"`
	// Details is set only for VALIDATION_ERROR.
	Details []Detail `json:"details,omitempty"`
}

// Detail is one violation of a VALIDATION_ERROR.
type Detail struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// WriteError writes an error response with the envelope as its body. It keeps the headers
// that the caller has set (Retry-After, Allow, CORS, request id). It replaces headers
// that describe another body, such as its length and encoding. If reason is
// VALIDATION_ERROR, the details have a sentence for each violation. The field names in
// violations must be in the client's spelling.
func WriteError(w http.ResponseWriter, status int, reason affiliate.Reason, message string, violations ...affiliate.Violation) {
	WriteErrorWithFields(w, status, reason, message, nil, violations...)
}

// WriteErrorWithFields is WriteError with additional fields in the body. object is a JSON
// object with these fields, or nil. It must not be empty and must not contain a field of
// the envelope.
func WriteErrorWithFields(w http.ResponseWriter, status int, reason affiliate.Reason, message string, object []byte, violations ...affiliate.Violation) {
	envelope := Envelope{StatusCode: status, Message: message, Error: http.StatusText(status), Code: reason}
	if reason == affiliate.ReasonValidation {
		for _, v := range violations {
			envelope.Details = append(envelope.Details, Detail{Field: v.Field, Message: v.Sentence()})
		}
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	// Encode cannot fail, because the envelope contains only strings and ints.
	_ = encoder.Encode(envelope)
	if object != nil {
		body.Truncate(body.Len() - len("}\n"))
		body.WriteByte(',')
		body.Write(bytes.TrimPrefix(object, []byte("{")))
		body.WriteByte('\n')
	}

	h := w.Header()
	h.Del("Content-Encoding")
	h.Del("Etag")
	h.Del("Last-Modified")
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(envelope.StatusCode)
	_, _ = w.Write(body.Bytes())
}
