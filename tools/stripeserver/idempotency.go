package stripeserver

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// idempotencyKey is the value of the header Idempotency-Key in requests with an API key.
type idempotencyKey struct{ apiKey, value string }

// idempotentAnswer is the answer to the first request with an idempotency key.
type idempotentAnswer struct {
	request string // the method, the path and the parameters
	answer  answer
}

// once executes a request. If the request is a POST with an idempotency key and an earlier
// request with this key was executed, once returns the answer of that request. Requests
// that failed before they were executed, such as those without the permission, are not
// stored.
func (s *Server) once(r apiRequest, params map[string]any, execute func() answer) answer {
	value := r.Header.Get("Idempotency-Key")
	if r.Method != http.MethodPost || value == "" {
		return execute()
	}
	encoded, err := json.Marshal(params)
	if err != nil {
		panic(fmt.Sprintf("stripeserver: encode the parameters: %v", err))
	}
	request := r.Method + " " + r.URL.Path + " " + string(encoded)
	key := idempotencyKey{apiKey: r.key, value: value}
	first, repeated := s.idempotency[key]
	switch {
	case !repeated:
		first = idempotentAnswer{request: request, answer: execute()}
		s.idempotency[key] = first
		return first.answer
	case first.request != request:
		return failure(http.StatusBadRequest, apiError{Type: idempotencyError, Message: fmt.Sprintf(
			"Keys for idempotent requests can only be used with the same parameters they were first used with. "+
				"Try using a key other than '%s' if you meant to execute a different request.", value)})
	}
	first.answer.replayed = true
	return first.answer
}
