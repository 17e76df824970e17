package stripeserver

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// answer is a response of the API.
type answer struct {
	status      int
	contentType string
	body        []byte
	retryAfter  string // seconds; empty for none
	replayed    bool   // the answer to an earlier request with the same idempotency key
}

// write sends the answer.
func (a answer) write(w http.ResponseWriter, r apiRequest) {
	a.writeHeader(w, r)
	_, _ = w.Write(a.body) // an error means that the client has disconnected
}

// writeHalf sends the header of the complete answer and half of its body. net/http then
// closes the connection.
func (a answer) writeHalf(w http.ResponseWriter, r apiRequest) {
	a.writeHeader(w, r)
	_, _ = w.Write(a.body[:len(a.body)/2]) // an error means that the client has disconnected
}

func (a answer) writeHeader(w http.ResponseWriter, r apiRequest) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	h.Set("Request-Id", newID("req_"))
	if version := r.Header.Get("Stripe-Version"); version != "" {
		h.Set("Stripe-Version", version)
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		h.Set("Idempotency-Key", key)
	}
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if a.retryAfter != "" {
		h.Set("Retry-After", a.retryAfter)
	}
	w.WriteHeader(a.status)
}

// jsonAnswer returns an answer with a JSON body.
func jsonAnswer(status int, value any) answer {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("stripeserver: encode a response: %v", err))
	}
	return answer{status: status, contentType: "application/json", body: body}
}

func success(value any) answer { return jsonAnswer(http.StatusOK, value) }

// apiError is the body of Stripe's errors.
type apiError struct {
	Code    string `json:"code,omitempty"`
	DocURL  string `json:"doc_url,omitempty"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
	Type    string `json:"type"`
}

// The types of Stripe's errors.
const (
	invalidRequest   = "invalid_request_error"
	idempotencyError = "idempotency_error"
	serverError      = "api_error"
)

func failure(status int, e apiError) answer {
	if e.Type == "" {
		e.Type = invalidRequest
	}
	if e.Code != "" {
		e.DocURL = "https://stripe.com/docs/error-codes/" + strings.ReplaceAll(e.Code, "_", "-")
	}
	return jsonAnswer(status, map[string]apiError{"error": e})
}

// invalid returns the error for a parameter with a wrong value.
func invalid(param, message string) answer {
	return failure(http.StatusBadRequest, apiError{Message: message, Param: param})
}

// unsupported returns the error for a parameter that Stripe knows and this package does
// not implement.
func unsupported(param string) answer {
	return invalid(param, fmt.Sprintf("tools/stripeserver does not implement the parameter %s of this endpoint.", param))
}

// missing returns the error for an object that does not exist. name is the name of the
// type in Stripe's message. The status is 404 for the object of the path, and 400 for an
// object in a parameter.
func missing(status int, name, param, id string) answer {
	return failure(status, apiError{
		Code: "resource_missing", Param: param, Message: fmt.Sprintf("No such %s: '%s'", name, id),
	})
}

// newID returns a random id.
func newID(prefix string) string { return prefix + rand.Text()[:24] }
