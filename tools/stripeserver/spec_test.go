package stripeserver

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stripe/stripe-mock/embedded"
	"github.com/stripe/stripe-mock/spec"
)

// The test compares only a part of the document, because json.Unmarshal takes long.
func TestParseSpec_ReturnsSameAsUnmarshal(t *testing.T) {
	got, err := parseSpec(embedded.OpenAPISpec)
	if err != nil {
		t.Fatal(err)
	}
	var encoded struct {
		Components struct{ Schemas map[string]json.RawMessage }
		Paths      map[spec.Path]json.RawMessage
	}
	if err := json.Unmarshal(embedded.OpenAPISpec, &encoded); err != nil {
		t.Fatal(err)
	}
	if got, want := len(got.Components.Schemas), len(encoded.Components.Schemas); got != want {
		t.Errorf("%d schemas, want %d", got, want)
	}
	for _, name := range []string{"checkout.session", "charge", "deleted_customer"} {
		var want *spec.Schema
		if err := json.Unmarshal(encoded.Components.Schemas[name], &want); err != nil {
			t.Fatal(err)
		}
		if got := got.Components.Schemas[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("schema %s: got %v, want %v", name, got, want)
		}
	}
	for _, path := range []spec.Path{"/v1/charges", "/v1/promotion_codes/{promotion_code}"} {
		var want map[spec.HTTPVerb]*spec.Operation
		if err := json.Unmarshal(encoded.Paths[path], &want); err != nil {
			t.Fatal(err)
		}
		if got := got.Paths[path]; !reflect.DeepEqual(got, want) {
			t.Errorf("the operations of %s differ: got %v, want %v", path, got, want)
		}
	}
	if _, found := got.Paths["/v1/topups"]; found {
		t.Error("/v1/topups is parsed, but the server does not serve it")
	}
}
