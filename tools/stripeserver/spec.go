package stripeserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stripe/stripe-mock/spec"
)

// parseSpec parses an OpenAPI document. It returns the same as json.Unmarshal, without the
// paths that the server does not serve, which are two thirds of the document. With the race
// detector, json.Unmarshal takes several seconds, because each schema decodes its JSON three
// times, and so does each schema in it. parseSpec decodes each schema once.
func parseSpec(encoded []byte) (*spec.Spec, error) {
	var all struct {
		Components struct{ Schemas map[string]*schema }
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
		var operations map[spec.HTTPVerb]*operation
		if err := json.Unmarshal(value, &operations); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		served[spec.Path(path)] = convertMap(operations, (*operation).convert)
	}
	return &spec.Spec{Components: spec.Components{Schemas: convertMap(all.Components.Schemas, (*schema).convert)}, Paths: served}, nil
}

// isServed reports whether the server serves a path, which can contain names of parameters.
func isServed(path string) bool {
	return path == accountPath || slices.ContainsFunc(resources, func(r *resource) bool {
		return path == r.path() || strings.HasPrefix(path, r.path()+"/")
	})
}

// operation is the JSON of a spec.Operation. Its fields replace those of the
// embedded type, which have the same names in JSON.
type operation struct {
	spec.Operation
	Parameters  []*parameter                          `json:"parameters"`
	RequestBody *requestBody                          `json:"requestBody"`
	Responses   map[spec.StatusCode]operationResponse `json:"responses"`
}

func (o *operation) convert() *spec.Operation {
	converted := o.Operation
	converted.Parameters = convertSlice(o.Parameters, func(p *parameter) *spec.Parameter {
		converted := p.Parameter
		converted.Schema = p.Schema.convert()
		return &converted
	})
	if o.RequestBody != nil {
		converted.RequestBody = &spec.RequestBody{Content: convertMap(o.RequestBody.Content, mediaType.convert), Required: o.RequestBody.Required}
	}
	converted.Responses = convertMap(o.Responses, func(r operationResponse) spec.Response {
		return spec.Response{Description: r.Description, Content: convertMap(r.Content, mediaType.convert)}
	})
	return &converted
}

type parameter struct {
	spec.Parameter
	Schema *schema `json:"schema"`
}

type requestBody struct {
	spec.RequestBody
	Content map[string]mediaType `json:"content"`
}

type operationResponse struct {
	spec.Response
	Content map[string]mediaType `json:"content"`
}

type mediaType struct {
	Schema *schema `json:"schema"`
}

func (m mediaType) convert() spec.MediaType { return spec.MediaType{Schema: m.Schema.convert()} }

// schema is the JSON of a spec.Schema. Its fields replace those of the embedded type.
type schema struct {
	plainSchema
	AdditionalProperties *additionalProperties      `json:"additionalProperties"`
	AnyOf                []*schema                  `json:"anyOf"`
	Items                *schema                    `json:"items"`
	Properties           map[string]*schema         `json:"properties"`
	XExpansionResources  *struct{ OneOf []*schema } `json:"x-expansionResources"`
}

// plainSchema has the fields of spec.Schema, but not its method UnmarshalJSON.
type plainSchema spec.Schema

func (s *schema) convert() *spec.Schema {
	if s == nil {
		return nil
	}
	converted := spec.Schema(s.plainSchema)
	converted.AdditionalPropertiesAllowed = true
	if s.AdditionalProperties != nil {
		converted.AdditionalPropertiesAllowed = s.AdditionalProperties.allowed
		converted.AdditionalProperties = s.AdditionalProperties.schema.convert()
	}
	converted.AnyOf = convertSlice(s.AnyOf, (*schema).convert)
	converted.Items = s.Items.convert()
	converted.Properties = convertMap(s.Properties, (*schema).convert)
	if s.XExpansionResources != nil {
		converted.XExpansionResources = &spec.ExpansionResources{OneOf: convertSlice(s.XExpansionResources.OneOf, (*schema).convert)}
	}
	return &converted
}

// additionalProperties is a boolean or a schema.
type additionalProperties struct {
	allowed bool
	schema  *schema
}

func (a *additionalProperties) UnmarshalJSON(encoded []byte) error {
	if encoded[0] != '{' {
		return json.Unmarshal(encoded, &a.allowed)
	}
	a.allowed = true
	return json.Unmarshal(encoded, &a.schema)
}

func convertSlice[From, To any](from []From, convert func(From) To) []To {
	if from == nil {
		return nil
	}
	to := make([]To, len(from))
	for i, value := range from {
		to[i] = convert(value)
	}
	return to
}

func convertMap[K comparable, From, To any](from map[K]From, convert func(From) To) map[K]To {
	if from == nil {
		return nil
	}
	to := make(map[K]To, len(from))
	for key, value := range from {
		to[key] = convert(value)
	}
	return to
}
