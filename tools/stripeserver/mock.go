package stripeserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/stripe/stripe-mock/embedded"
	"github.com/stripe/stripe-mock/param"
	"github.com/stripe/stripe-mock/server"
	"github.com/stripe/stripe-mock/spec"
)

// document is Stripe's OpenAPI document with its examples. It does not change.
type document struct {
	stub    *server.StubServer
	schemas map[string]*spec.Schema
	// fixtures has the JSON of the examples. They are encoded because stripe-mock uses the
	// decoded examples.
	fixtures map[string][]byte
}

// loadDocument parses the document that is embedded in stripe-mock.
var loadDocument = sync.OnceValues(func() (*document, error) {
	fixtures, err := server.LoadFixtures(embedded.OpenAPIFixtures, "")
	if err != nil {
		return nil, fmt.Errorf("load stripe-mock's fixtures: %w", err)
	}
	d := &document{fixtures: map[string][]byte{}}
	for name, value := range fixtures.Resources {
		encoded, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode stripe-mock's fixture %s: %w", name, err)
		}
		d.fixtures[string(name)] = encoded
	}
	openAPI, err := parseSpec(embedded.OpenAPISpec)
	if err != nil {
		return nil, fmt.Errorf("parse Stripe's OpenAPI document: %w", err)
	}
	d.schemas = openAPI.Components.Schemas
	d.stub, err = server.NewStubServer(fixtures, openAPI, false, false)
	if err != nil {
		return nil, fmt.Errorf("start stripe-mock: %w", err)
	}
	return d, nil
})

// parseSpec parses an OpenAPI document. It skips the paths that the server does not serve,
// which are two thirds of the document. With the race detector this saves some seconds.
func parseSpec(encoded []byte) (*spec.Spec, error) {
	var all struct {
		Components spec.Components
		Paths      map[string]json.RawMessage
	}
	if err := json.Unmarshal(encoded, &all); err != nil {
		return nil, err
	}
	served := map[spec.Path]map[spec.HTTPVerb]*spec.Operation{}
	for path, value := range all.Paths {
		if !isServed(path) {
			continue
		}
		var operations map[spec.HTTPVerb]*spec.Operation
		if err := json.Unmarshal(value, &operations); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		served[spec.Path(path)] = operations
	}
	return &spec.Spec{Components: all.Components, Paths: served}, nil
}

// isServed reports whether the server serves a path, which can contain names of parameters.
func isServed(path string) bool {
	return path == accountPath || slices.ContainsFunc(resources, func(r *resource) bool {
		return path == r.path() || strings.HasPrefix(path, r.path()+"/")
	})
}

// mustLoad returns the document. It panics if the document cannot be parsed.
func mustLoad() *document {
	d, err := loadDocument()
	if err != nil {
		panic("stripeserver: " + err.Error())
	}
	return d
}

// fixture returns a copy of stripe-mock's example of an object.
func (d *document) fixture(object string) map[string]any {
	encoded, found := d.fixtures[object]
	if !found {
		panic(fmt.Sprintf("stripeserver: stripe-mock has no example of the object %q", object))
	}
	return decode(encoded)
}

// mock returns stripe-mock's response to a request. stripe-mock only accepts keys of the
// test mode with a certain form, so it gets another key. If it panics, which some values of
// expand cause, the status is 500.
func (d *document) mock(r apiRequest) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = failure(http.StatusInternalServerError, apiError{Type: serverError, Message: fmt.Sprintf("stripe-mock panicked: %v", p)})
		}
	}()
	request := r.withBody()
	request.Header = r.Header.Clone()
	request.Header.Set("Authorization", "Bearer sk_test_stripeserver")
	recorder := httptest.NewRecorder()
	d.stub.HandleRequest(recorder, request)
	return answer{status: recorder.Code, contentType: recorder.Header().Get("Content-Type"), body: recorder.Body.Bytes()}
}

// params returns the parameters of the query and of the body. Texts, arrays and objects
// have the types string, []any and map[string]any.
func (r apiRequest) params() (map[string]any, error) {
	params, err := param.ParseParams(r.withBody())
	if err != nil {
		return nil, fmt.Errorf("parse the parameters: %w", err)
	}
	return params, nil
}

// withBody returns a shallow copy of the request whose body was not read yet.
func (r apiRequest) withBody() *http.Request {
	request := *r.Request
	request.Body = io.NopCloser(bytes.NewReader(r.body))
	return &request
}
