// Package stripeserver is a stand-in for Stripe's API, for tests and for development. It
// stores objects in memory. stripe-mock, which runs in the same process, checks each
// request against Stripe's OpenAPI document.
//
// Guarantees: a request with a parameter that Stripe does not know gets an error, and so
// does a request with a parameter that this package does not implement for a resource
// that it stores. Reading an object returns what was stored, never an example of
// stripe-mock. The bodies of the errors for authentication, permissions, rate limits,
// idempotency and missing objects have the form of Stripe's errors. Requests with a Host
// header that does not name this machine are rejected, so that websites cannot use the
// server with DNS rebinding.
//
// Not guaranteed: that an object that a test stores has a state that Stripe allows. All
// keys use the same objects; accounts and modes do not separate them. Nothing happens by
// itself: no event is created when an object changes, no webhook is sent, and a promotion
// code does not expire. Resources that are not in the table of resources.go do not exist,
// except for the account. Operations of a resource that this package does not implement
// get stripe-mock's examples. stripe-mock prints each request to the standard output.
package stripeserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/tributary-hq/tributary/tools/localhost"
)

// maxBody is the maximum size of a request's body in bytes.
const maxBody = 1 << 20

// Server implements http.Handler. Its methods can be called concurrently.
type Server struct {
	document *document
	control  http.Handler

	mu          sync.Mutex
	objects     map[string]*storedObject // by id
	stored      int                      // the number of all objects that were stored, for their order
	secrets     map[string]string        // the secrets of webhook endpoints, by id
	accounts    map[string]string        // by key
	rejected    map[string]bool          // keys
	denied      map[string]map[string]bool
	faults      []*Fault
	requests    []Request
	idempotency map[idempotencyKey]idempotentAnswer
}

// storedObject is an object of Stripe. position is larger for objects that were stored
// later.
type storedObject struct {
	fields   map[string]any
	position int
}

// Request is a request that the server has received.
type Request struct {
	Method string
	Path   string
	Query  url.Values
}

// New returns a Server without objects. The first call in a process takes some seconds,
// because it parses Stripe's OpenAPI document.
func New() (*Server, error) {
	d, err := loadDocument()
	if err != nil {
		return nil, err
	}
	s := &Server{
		document:    d,
		objects:     map[string]*storedObject{},
		secrets:     map[string]string{},
		accounts:    map[string]string{},
		rejected:    map[string]bool{},
		denied:      map[string]map[string]bool{},
		idempotency: map[idempotencyKey]idempotentAnswer{},
	}
	s.control = s.controlHandler()
	return s, nil
}

// Put stores an object. It replaces the object with the same id, which keeps its position
// in lists. The object must have the fields id and object; otherwise Put panics. Later
// changes of the map have no effect on the stored object.
func (s *Server) Put(object map[string]any) {
	fields := deepCopy(object)
	if text(fields, "id") == "" || text(fields, "object") == "" {
		panic(fmt.Sprintf("stripeserver: the object %v has no id or no object field", object))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(fields)
}

// put stores an object without a copy. The secret of a webhook endpoint is stored
// separately because only the response that creates the endpoint contains it.
func (s *Server) put(fields map[string]any) {
	id := text(fields, "id")
	if secret := text(fields, "secret"); secret != "" && fields["object"] == "webhook_endpoint" {
		s.secrets[id] = secret
		delete(fields, "secret")
	}
	if o, found := s.objects[id]; found {
		o.fields = fields
		return
	}
	s.stored++
	s.objects[id] = &storedObject{fields: fields, position: s.stored}
}

// Object returns a copy of an object. Its values have the types that encoding/json
// returns; a number is a float64.
func (s *Server) Object(id string) (object map[string]any, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, found := s.objects[id]
	if !found {
		return nil, false
	}
	return deepCopy(o.fields), true
}

// Delete removes an object. An id that does not exist is no error.
func (s *Server) Delete(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, id)
	delete(s.secrets, id)
}

// Requests returns the requests to the API so far, oldest first. It includes requests that
// failed. It does not include requests to /_objects and /_events.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// apiRequest is a request whose body was read. The Body of the embedded request is empty.
type apiRequest struct {
	*http.Request

	body []byte
	key  string // the API key; empty if the request has none
}

// ServeHTTP implements http.Handler. It panics with http.ErrAbortHandler if the context of
// the request ends during the wait of a Fault.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !localhost.Allow(w, r) {
		return
	}
	if r.URL.Path == objectsPath || r.URL.Path == eventsPath {
		s.control.ServeHTTP(w, r)
		return
	}
	// net/http notices that the client has disconnected only after the body was read.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "The body cannot be read.", http.StatusBadRequest)
		return
	}
	request := apiRequest{Request: r, body: body, key: requestKey(r)}
	fault := s.recordRequest(r)
	if fault == nil {
		s.answer(request).write(w, request)
		return
	}
	s.serveFault(w, request, fault)
}

// recordRequest adds a request to the list that Requests returns. It returns the fault for
// the request, or nil.
func (s *Server) recordRequest(r *http.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query()})
	return s.takeFault(r)
}

// answer processes a request. Stripe checks the key first, then the permission, then the
// parameters.
func (s *Server) answer(r apiRequest) answer {
	if a, ok := s.authorize(r); !ok {
		return a
	}
	mocked := s.document.mock(r)
	if mocked.status >= 400 && mocked.status < 500 {
		return mocked
	}
	params, err := r.params()
	if err != nil {
		return invalid("", "Invalid request parameters.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.once(r, params, func() answer {
		if a, ok := s.stateful(r, params); ok {
			return a
		}
		return mocked
	})
}

// stateful answers a request from the stored objects. ok is false if the request is for
// something that is not stored.
func (s *Server) stateful(r apiRequest, params map[string]any) (a answer, ok bool) {
	if r.Method == http.MethodGet && r.URL.Path == accountPath {
		return s.account(r.key), true
	}
	resource, id, found := findResource(r.URL.Path)
	if !found {
		return answer{}, false
	}
	handle := resource.handler(r.Method, id)
	if handle == nil {
		return answer{}, false
	}
	if a, ok := s.checkExpand(resource, r.Method == http.MethodGet && id == "", params); !ok {
		return a, true
	}
	return handle(s, call{resource: resource, id: id, params: params, live: isLive(r.key)}), true
}

// account returns the account of a key.
func (s *Server) account(key string) answer {
	account := s.document.fixture("account")
	account["id"] = s.accountID(key)
	return success(account)
}

// deepCopy returns a copy of an object in which all values have the types that
// encoding/json returns. It panics if JSON has no form for a value.
func deepCopy(object map[string]any) map[string]any {
	encoded, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("stripeserver: encode an object: %v", err))
	}
	return decode(encoded)
}

// decode decodes a JSON object that this package has encoded.
func decode(encoded []byte) (object map[string]any) {
	if err := json.NewDecoder(bytes.NewReader(encoded)).Decode(&object); err != nil {
		panic(fmt.Sprintf("stripeserver: decode an object: %v", err))
	}
	return object
}

// text returns a field that contains text; empty if the field is absent or not text.
func text(object map[string]any, field string) string {
	value, _ := object[field].(string)
	return value
}

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
