package stripeserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
