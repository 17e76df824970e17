package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/gateway/contract"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/gen/openapi"
)

type schemaDoc struct {
	Ref                  string               `json:"$ref"`
	Type                 string               `json:"type"`
	Format               string               `json:"format"`
	Nullable             bool                 `json:"nullable"`
	Enum                 []any                `json:"enum"`
	AllOf                []schemaDoc          `json:"allOf"`
	Items                *schemaDoc           `json:"items"`
	Properties           map[string]schemaDoc `json:"properties"`
	Required             []string             `json:"required"`
	AdditionalProperties any                  `json:"additionalProperties"`
	Description          string               `json:"description"`
}

type parameterDoc struct {
	Ref      string `json:"$ref"`
	Name, In string
	Required bool
	Schema   schemaDoc
}

type contentDoc map[string]struct{ Schema schemaDoc }

type operationDoc struct {
	OperationID string
	Security    []map[string][]string
	Parameters  []parameterDoc
	RequestBody *struct {
		Required bool
		Content  contentDoc
	}
	Responses map[string]struct {
		Ref     string `json:"$ref"`
		Content contentDoc
	}
}

type document struct {
	OpenAPI    string
	Info       struct{ Title, Version string }
	Paths      map[string]map[string]operationDoc
	Components struct {
		Schemas         map[string]schemaDoc
		Responses       map[string]struct{ Content contentDoc }
		Parameters      map[string]parameterDoc
		SecuritySchemes map[string]struct{ Type, Scheme string }
	}
}

func readDocument(t *testing.T, text string) document {
	t.Helper()
	var d document
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOpenAPI_IsServedWithoutCredential(t *testing.T) {
	r := newRig(t, nil)
	response := r.do("GET", contract.OpenAPIPath, "")
	if response.status != 200 || response.body != openapi.Document || response.header.Get("Content-Type") != "application/json" || strings.Contains(response.header.Get("Cache-Control"), "no-store") {
		t.Errorf("%d %v", response.status, response.header)
	}
	if len(r.core.takeCalls()) > 0 {
		t.Error("the core was called")
	}
	d := readDocument(t, response.body)
	if d.OpenAPI != "3.0.3" || d.Info.Title != "Tributary API" || d.Info.Version == "" {
		t.Errorf("%s %v", d.OpenAPI, d.Info)
	}
}

// Each paged list documents the limit of its total. Two lists have no limit, because they
// cannot become long: the numbered versions of rules, and the at most ten webhook
// endpoints.
func TestOpenAPI_DocumentsCappedTotals(t *testing.T) {
	d := readDocument(t, openapi.Document)
	never := []string{"ListProgramRulesResponse", "ListWebhooksResponse"}
	found := map[bool]int{}
	for path, verbs := range d.Paths {
		operation := verbs["get"]
		if !slices.ContainsFunc(operation.Parameters, func(p parameterDoc) bool { return p.Name == "page" }) {
			continue
		}
		name := strings.TrimPrefix(operation.Responses["200"].Content["application/json"].Schema.Ref, "#/components/schemas/")
		capped := strings.Contains(d.Components.Schemas[name].Properties["total"].Description, `Total-Capped`)
		if found[capped]++; capped == slices.Contains(never, name) {
			t.Errorf("%s: the total of %s mentions Total-Capped: %v", path, name, capped)
		}
	}
	if found[true] < 15 || found[false] != len(never) {
		t.Errorf("lists: %v", found)
	}
	if stats := d.Components.Schemas["CommissionStats"].Properties["totalCount"].Description; !strings.Contains(stats, `Total-Capped`) {
		t.Errorf("stats: %s", stats)
	}
}

// The document contains exactly the routes that the gateway serves.
func TestOpenAPI_DocumentsAllRoutes(t *testing.T) {
	d := readDocument(t, openapi.Document)
	r := newRig(t, nil)
	served := map[string]bool{}
	for _, route := range allRoutes(t) {
		key := strings.ToLower(route.Verb) + " " + route.Path()
		served[key] = true
		operation, ok := d.Paths[route.Path()][strings.ToLower(route.Verb)]
		if !ok {
			t.Errorf("%s is not documented", key)
			continue
		}
		want := strconv.Itoa(http.StatusOK)
		if route.RPC != nil {
			want = strconv.Itoa(contract.SuccessStatus(route.FullMethod))
		}
		success, ok := operation.Responses[want]
		if !ok || (len(success.Content) == 0) != (want == "204") {
			t.Errorf("%s: success %s is wrong: %v", key, want, operation.Responses)
		}
		for status, response := range operation.Responses {
			if status >= "400" && d.Components.Responses[strings.TrimPrefix(response.Ref, "#/components/responses/")].Content == nil && response.Content == nil {
				t.Errorf("%s: the error %s has no body", key, status)
			}
		}
		if _, ok := operation.Responses["403"]; !ok {
			t.Errorf("%s: HTTPS_REQUIRED is missing", key)
		}
		if (operation.RequestBody != nil) != route.HasBody {
			t.Errorf("%s: body documented %v, accepted %v", key, operation.RequestBody != nil, route.HasBody)
		}
	}
	ids := map[string]bool{}
	for path, verbs := range d.Paths {
		for verb, operation := range verbs {
			if path == "/v1/clicks" {
				continue // served by the collector
			}
			if !served[verb+" "+path] {
				t.Errorf("%s %s is documented but has no route", verb, path)
			}
			probe := strings.NewReplacer("{", "", "}", "").Replace(path)
			if response := r.do(strings.ToUpper(verb), probe, ""); response.status == 404 || response.status == 405 {
				t.Errorf("%s %s is documented and answers %d", verb, path, response.status)
			}
			if ids[operation.OperationID] || operation.OperationID == "" {
				t.Errorf("operation id %q", operation.OperationID)
			}
			ids[operation.OperationID] = true
		}
	}
}

// The document contains the parameters and properties that the gateway accepts.
func TestOpenAPI_DocumentsAcceptedFields(t *testing.T) {
	d := readDocument(t, openapi.Document)
	routes, err := readRoutes(contract.Files())
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range routes {
		if route.RPC == nil {
			continue
		}
		operation := d.Paths[route.Path()][strings.ToLower(route.Verb)]
		where := route.Verb + " " + route.Path()
		var query, path, header []string
		for _, p := range operation.Parameters {
			switch p.In {
			case "query":
				query = append(query, p.Name)
			case "path":
				path = append(path, p.Name)
				if !p.Required {
					t.Errorf("%s: %s must be required", where, p.Name)
				}
			default:
				header = append(header, d.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")].Name)
			}
		}
		want := slices.Sorted(maps.Keys(route.query))
		slices.Sort(query)
		if !slices.Equal(query, want) {
			t.Errorf("%s: query %v, want %v", where, query, want)
		}
		for _, field := range route.PathFields {
			if !slices.Contains(path, field.JSONName()) || !strings.Contains(route.Path(), "{"+field.JSONName()+"}") {
				t.Errorf("%s: path %v", where, path)
			}
		}
		dashboard := slices.ContainsFunc(operation.Security, func(s map[string][]string) bool { return s["bearerAuth"] != nil })
		if dashboard != slices.Contains(header, "X-Mode") {
			t.Errorf("%s: headers %v with security %v", where, header, operation.Security)
		}
		if strings.Contains(route.Template, "/auth/") && len(operation.Security) != 0 || strings.HasSuffix(route.Template, "/conversions") && operation.Security[0]["secretKey"] == nil {
			t.Errorf("%s: security %v", where, operation.Security)
		}
		if !route.HasBody {
			continue
		}
		body := d.resolve(t, operation.RequestBody.Content["application/json"].Schema)
		got, taken := slices.Sorted(maps.Keys(body.Properties)), slices.Sorted(maps.Keys(route.body))
		if !slices.Equal(got, taken) || body.AdditionalProperties != false {
			t.Errorf("%s: body %v, want %v", where, got, taken)
		}
		if route.mask != nil && (len(body.Required) > 0 || operation.RequestBody.Required) {
			t.Errorf("%s: a PATCH requires %v", where, body.Required)
		}
		for name, property := range body.Properties {
			if property.Nullable == slices.Contains(body.Required, name) {
				t.Errorf("%s: %s nullable %v", where, name, property.Nullable)
			}
		}
	}
}

func (d document) resolve(t *testing.T, s schemaDoc) schemaDoc {
	t.Helper()
	if s.Ref == "" {
		return s
	}
	found, ok := d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	if !ok {
		t.Errorf("%s does not exist", s.Ref)
	}
	return found
}

// The schema of each response matches the JSON that the codec writes.
func TestOpenAPI_SchemasMatchCodec(t *testing.T) {
	d := readDocument(t, openapi.Document)
	for _, route := range allRoutes(t) {
		if route.RPC == nil || contract.SuccessStatus(route.FullMethod) == 204 {
			continue
		}
		operation := d.Paths[route.Path()][strings.ToLower(route.Verb)]
		if route.Download() {
			if _, ok := operation.Responses["200"].Content["text/csv"]; !ok {
				t.Errorf("%s is not documented as CSV", route.Path())
			}
			continue
		}
		schema := operation.Responses[strconv.Itoa(contract.SuccessStatus(route.FullMethod))].Content["application/json"].Schema
		d.compare(t, string(route.RPC.Output().Name()), schema, route.RPC.Output(), map[protoreflect.FullName]bool{})
	}
	for name, schema := range d.Components.Schemas {
		for property, s := range schema.Properties {
			if s.Format == "int64" && s.Type != "integer" {
				t.Errorf("%s.%s: int64 is a %s", name, property, s.Type)
			}
		}
	}
	reasons := affiliatev1.ErrorReason(0).Descriptor().Values().Len() - 1 // without the unspecified one
	if codes := d.Components.Schemas["Error"].Properties["code"].Enum; len(codes) != reasons || !slices.Contains(codes, any("VALIDATION_ERROR")) {
		t.Errorf("codes %v", codes)
	}
}

func (d document) compare(t *testing.T, where string, schema schemaDoc, desc protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) {
	t.Helper()
	if seen[desc.FullName()] {
		return
	}
	seen[desc.FullName()] = true
	if desc.FullName() == "google.protobuf.Struct" {
		return // an object of any content
	}
	schema = d.resolve(t, schema)
	if len(schema.Properties) != desc.Fields().Len() || len(schema.Required) != desc.Fields().Len() {
		t.Errorf("%s: %d properties, %d required, want %d", where, len(schema.Properties), len(schema.Required), desc.Fields().Len())
	}
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		property, ok := schema.Properties[field.JSONName()]
		at := fmt.Sprintf("%s.%s", where, field.JSONName())
		if !ok {
			t.Errorf("%s is not documented", at)
			continue
		}
		nulls := field.HasPresence() || field.Kind() == protoreflect.EnumKind && !field.IsList()
		if property.Nullable != nulls {
			t.Errorf("%s: nullable %v", at, property.Nullable)
		}
		if field.IsList() {
			if property.Type != "array" || property.Items == nil {
				t.Errorf("%s: %v", at, property)
				continue
			}
			property = *property.Items
		}
		switch {
		case field.IsMap():
			if property.Type != "object" {
				t.Errorf("%s: %v", at, property)
			}
		case field.Kind() == protoreflect.MessageKind && field.Message().FullName() == "google.protobuf.Timestamp":
			if property.Type != "string" || property.Format != "date-time" {
				t.Errorf("%s: %v", at, property)
			}
		case field.Kind() == protoreflect.MessageKind:
			if len(property.AllOf) == 1 {
				property = property.AllOf[0]
			}
			d.compare(t, at, property, field.Message(), seen)
		case field.Kind() == protoreflect.EnumKind:
			words, err := contract.EnumNames(field.Enum())
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range words {
				if !slices.Contains(property.Enum, any(word.Text)) {
					t.Errorf("%s: %v lacks %s", at, property.Enum, word.Text)
				}
			}
			if property.Nullable && !slices.Contains(property.Enum, nil) {
				t.Errorf("%s: null is not among %v", at, property.Enum)
			}
		default:
			want := map[protoreflect.Kind]string{protoreflect.StringKind: "string", protoreflect.BoolKind: "boolean", protoreflect.DoubleKind: "number"}[field.Kind()]
			if want == "" {
				want = "integer"
			}
			if property.Type != want {
				t.Errorf("%s: %s, want %s", at, property.Type, want)
			}
		}
	}
}
