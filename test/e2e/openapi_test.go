package e2e_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tributary-hq/tributary/gen/openapi"
)

// operation is the part of the OpenAPI document that describes a route.
type operation struct {
	id        string
	segments  []string
	responses map[string]any
}

// operations returns the operations of the OpenAPI document by HTTP method.
var operations = sync.OnceValue(func() map[string][]operation {
	var document struct {
		Paths map[string]map[string]struct {
			OperationID string
			Responses   map[string]any
		}
	}
	if err := json.Unmarshal([]byte(openapi.Document), &document); err != nil {
		panic(err)
	}
	found := map[string][]operation{}
	for template, verbs := range document.Paths {
		for verb, described := range verbs {
			verb = strings.ToUpper(verb)
			found[verb] = append(found[verb], operation{described.OperationID, strings.Split(template, "/"), described.Responses})
		}
	}
	return found
})

// findOperation returns the operation that matches a path, or nil. If several operations
// match, it returns the operation with the most literal segments.
func findOperation(verb, path string) *operation {
	parts := strings.Split(path, "/")
	var best *operation
	most := -1
	for i, o := range operations()[verb] {
		if len(o.segments) != len(parts) {
			continue
		}
		literal := 0
		for j, segment := range o.segments {
			switch {
			case segment == parts[j]:
				literal++
			case !strings.HasPrefix(segment, "{"):
				literal = -len(parts)
			}
		}
		if literal > most {
			best, most = &operations()[verb][i], literal
		}
	}
	return best
}

// checkDocumented checks that the OpenAPI document describes the status of a response. It
// ignores GET requests with a body and unknown routes, because the document does not
// describe them.
func checkDocumented(t testing.TB, request *http.Request, status int) {
	t.Helper()
	verb := request.Method
	if verb == http.MethodHead {
		verb = http.MethodGet
	}
	o := findOperation(verb, request.URL.EscapedPath())
	if o == nil || verb == http.MethodGet && request.Body != nil {
		return
	}
	if _, ok := o.responses[strconv.Itoa(status)]; !ok {
		t.Errorf("%s %s: status %d is not in the OpenAPI document", request.Method, strings.Join(o.segments, "/"), status)
	}
}

// The OpenAPI description of POST /v1/clicks is written by hand. Therefore this test
// compares the description with a response.
func testClickMatchesOpenAPI(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	f.click(t)
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
				Required   []string
			}
		}
	}
	if err := json.Unmarshal([]byte(openapi.Document), &document); err != nil {
		t.Fatal(err)
	}
	schema := document.Components.Schemas["Click"]
	var click map[string]any
	response := f.sys.click(t, f.publicKey, object{"referral_code": f.code}).wantStatus(http.StatusCreated)
	if err := json.Unmarshal([]byte(response.body), &click); err != nil {
		t.Fatal(err)
	}
	for name := range click {
		if schema.Properties[name] == nil {
			t.Errorf("the field %s is in the response but not in the schema Click", name)
		}
	}
	for _, name := range schema.Required {
		if _, ok := click[name]; !ok {
			t.Errorf("the required field %s of the schema Click is missing in the response %s", name, response.body)
		}
	}
}
