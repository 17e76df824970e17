package httpedge

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/tributary-hq/tributary/affiliate"
)

// Envelope is the body of every error (SPEC.md section 7).
type Envelope struct {
	StatusCode int              `json:"statusCode"`
	Message    string           `json:"message"`
	Error      string           `json:"error"`
	Code       affiliate.Reason `json:"code"`
	// Details are there for VALIDATION_ERROR only.
	Details []Detail `json:"details,omitempty"`
}

// Detail is one violation of a VALIDATION_ERROR.
type Detail struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// WriteError answers with the envelope. Headers that the caller has set
// (Retry-After, Allow, CORS, request id) stay; a body length or an encoding
// meant for a success is dropped. Violations, whose fields are spelled as the caller
// wrote them, become sentences. They are printed for VALIDATION_ERROR only.
func WriteError(w http.ResponseWriter, status int, reason affiliate.Reason, message string, violations ...affiliate.Violation) {
	envelope := Envelope{StatusCode: status, Message: message, Error: http.StatusText(status), Code: reason}
	if reason == affiliate.ReasonValidation {
		for _, v := range violations {
			envelope.Details = append(envelope.Details, Detail{Field: v.Field, Message: v.Sentence()})
		}
	}
	writeEnvelope(w, envelope, nil)
}

// WriteErrorWith is WriteError with further fields beside those of the envelope:
// those of a JSON object that is not empty and shares no name with it.
func WriteErrorWith(w http.ResponseWriter, status int, reason affiliate.Reason, message string, object []byte) {
	writeEnvelope(w, Envelope{StatusCode: status, Message: message, Error: http.StatusText(status), Code: reason}, object)
}

func writeEnvelope(w http.ResponseWriter, envelope Envelope, beside []byte) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	// Strings and ints: Encode cannot fail.
	_ = encoder.Encode(envelope)
	if beside != nil {
		body.Truncate(body.Len() - len("}\n"))
		body.WriteByte(',')
		body.Write(bytes.TrimPrefix(beside, []byte("{")))
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
