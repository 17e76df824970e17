package gateway

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
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
		t.Fatalf("unexpected error: %v", err)
	}
	return d
}

func TestOpenAPI_IsServedWithoutCredential(t *testing.T) {
	f := newFixture(t, nil)
	response := f.do("GET", contract.OpenAPIPath, "")
	if response.status != 200 || response.body != openapi.Document || response.header.Get("Content-Type") != "application/json" || strings.Contains(response.header.Get("Cache-Control"), "no-store") {
		t.Errorf("status %d with headers %v, want 200 with the document as JSON that caches may store", response.status, response.header)
	}
	if calls := f.core.takeCalls(); len(calls) > 0 {
		t.Errorf("the core received the calls %v, want none", calls)
	}
	d := readDocument(t, response.body)
	if d.OpenAPI != "3.0.3" || d.Info.Title != "Tributary API" || d.Info.Version == "" {
		t.Errorf("OpenAPI %s with the info %+v, want 3.0.3 with the title Tributary API and a version", d.OpenAPI, d.Info)
	}
}

// The total of a paged list has a limit. The description of the total must mention the
// header Total-Capped, which tells clients that the limit is reached. Some totals have no
// limit. Lists of versions of programme rules, of service tokens and of webhook endpoints, of
// which a workspace has few, cannot become long. A breakdown of the analytics counts all its values.
func TestOpenAPI_DocumentsCappedTotals(t *testing.T) {
	d := readDocument(t, openapi.Document)
	unlimited := []string{"AnalyticsBreakdown", "ListLedgerBalancesResponse", "ListProgramRulesResponse", "ListServiceTokensResponse", "ListWebhooksResponse"}
	count := map[bool]int{}
	seen := map[string]bool{}
	for path, verbs := range d.Paths {
		operation := verbs["get"]
		if !slices.ContainsFunc(operation.Parameters, func(p parameterDoc) bool { return p.Name == "page" }) {
			continue
		}
		name := strings.TrimPrefix(operation.Responses["200"].Content["application/json"].Schema.Ref, "#/components/schemas/")
		if _, isList := d.Components.Schemas[name].Properties["total"]; !isList || seen[name] {
			continue
		}
		seen[name] = true
		capped := strings.Contains(d.Components.Schemas[name].Properties["total"].Description, `Total-Capped`)
		count[capped]++
		if want := !slices.Contains(unlimited, name); capped != want {
			t.Errorf("%s: the total of %s mentions Total-Capped: %t, want %t", path, name, capped, want)
		}
	}
	if count[true] < 15 || count[false] != len(unlimited) {
		t.Errorf("%d lists mention Total-Capped and %d do not, want at least 15 and %d", count[true], count[false], len(unlimited))
	}
	if description := d.Components.Schemas["CommissionStats"].Properties["totalCount"].Description; !strings.Contains(description, `Total-Capped`) {
		t.Errorf("the description of CommissionStats.totalCount is %q, want Total-Capped in it", description)
	}
}

// The document contains the routes that the gateway serves, the route /v1/clicks of the
// collector, and no others.
func TestOpenAPI_DocumentsAllRoutes(t *testing.T) {
	d := readDocument(t, openapi.Document)
	f := newFixture(t, nil)
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
			want = strconv.Itoa(route.Status)
		}
		success, ok := operation.Responses[want]
		if !ok || (len(success.Content) == 0) != (want == "204") {
			t.Errorf("%s: documented responses %v, want %s with a body unless it is 204", key, operation.Responses, want)
		}
		for status, response := range operation.Responses {
			if status >= "400" && d.Components.Responses[strings.TrimPrefix(response.Ref, "#/components/responses/")].Content == nil && response.Content == nil {
				t.Errorf("%s: the documented error %s has no body", key, status)
			}
		}
		if _, ok := operation.Responses["403"]; !ok {
			t.Errorf("%s: the error 403, which every route has, is not documented", key)
		}
		if got := operation.RequestBody != nil; got != route.HasBody {
			t.Errorf("%s: a request body is documented: %t, want %t", key, got, route.HasBody)
		}
	}
	ids := map[string]bool{}
	for path, verbs := range d.Paths {
		for verb, operation := range verbs {
			if path == "/v1/clicks" {
				continue // The collector serves this path.
			}
			if !served[verb+" "+path] {
				t.Errorf("%s %s is documented but has no route", verb, path)
			}
			filledPath := strings.NewReplacer("{", "", "}", "").Replace(path)
			if response := f.do(strings.ToUpper(verb), filledPath, ""); response.status == 404 || response.status == 405 {
				t.Errorf("%s %s is documented, but the gateway responds with %d", verb, path, response.status)
			}
			if ids[operation.OperationID] || operation.OperationID == "" {
				t.Errorf("%s %s: the operation id %q is empty or is used twice", verb, path, operation.OperationID)
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
		t.Fatalf("unexpected error: %v", err)
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
					t.Errorf("%s: the path parameter %s is not required", where, p.Name)
				}
			default:
				header = append(header, d.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")].Name)
			}
		}
		// The other spellings of a name are accepted and not documented.
		var want, accepted []string
		for name, field := range route.query {
			if slices.Contains(contract.QueryNames(route.Route, field.fd), name) {
				want = append(want, name)
			}
		}
		for name, field := range route.body {
			if name == field.name {
				accepted = append(accepted, name)
			}
		}
		slices.Sort(want)
		slices.Sort(accepted)
		slices.Sort(query)
		if !slices.Equal(query, want) {
			t.Errorf("%s: documented query parameters %v, want %v", where, query, want)
		}
		for _, field := range route.PathFields {
			if !slices.Contains(path, field.JSONName()) || !strings.Contains(route.Path(), "{"+field.JSONName()+"}") {
				t.Errorf("%s: documented path parameters %v, want %s among them", where, path, field.JSONName())
			}
		}
		isDashboard := slices.ContainsFunc(operation.Security, func(s map[string][]string) bool { return s["bearerAuth"] != nil })
		if isDashboard != slices.Contains(header, "X-Mode") {
			t.Errorf("%s: documented headers %v with security %v, want X-Mode if and only if the security has bearerAuth", where, header, operation.Security)
		}
		needsLogin := regexp.MustCompile(`/(resend-verification|(email|password)/change|totp|sessions|account)\b`).MatchString(route.Template)
		if strings.Contains(route.Template, "/auth/") && isDashboard != needsLogin {
			t.Errorf("%s: documented security %v, want bearerAuth: %t", where, operation.Security, needsLogin)
		}
		if strings.HasSuffix(route.Template, "/conversions") && operation.Security[0]["secretKey"] == nil {
			t.Errorf("%s: documented security %v, want secretKey first", where, operation.Security)
		}
		if !route.HasBody || route.RawBody != nil {
			continue
		}
		body := d.resolve(t, operation.RequestBody.Content["application/json"].Schema)
		got := slices.Sorted(maps.Keys(body.Properties))
		if !slices.Equal(got, accepted) || body.AdditionalProperties != false {
			t.Errorf("%s: documented body %v (additional properties %v), want %v (additional properties false)", where, got, body.AdditionalProperties, accepted)
		}
		if route.mask != nil && (len(body.Required) > 0 || operation.RequestBody.Required) {
			t.Errorf("%s: documented required fields of a PATCH %v (body required: %t), want none", where, body.Required, operation.RequestBody.Required)
		}
		for name, property := range body.Properties {
			if want := !slices.Contains(body.Required, name); property.Nullable != want {
				t.Errorf("%s: the field %s is documented as nullable: %t, want %t", where, name, property.Nullable, want)
			}
		}
	}
}

// resolve returns the schema that s refers to, or s itself if it is not a reference.
func (d document) resolve(t *testing.T, s schemaDoc) schemaDoc {
	t.Helper()
	if s.Ref == "" {
		return s
	}
	schema, ok := d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	if !ok {
		t.Errorf("the schema %s does not exist", s.Ref)
	}
	return schema
}

// The schema of each response matches the JSON that the codec writes.
func TestOpenAPI_SchemasMatchCodec(t *testing.T) {
	d := readDocument(t, openapi.Document)
	for _, route := range allRoutes(t) {
		if route.RPC == nil || route.Status == 204 {
			continue
		}
		operation := d.Paths[route.Path()][strings.ToLower(route.Verb)]
		if route.Download() {
			mediaType := "text/csv"
			switch {
			case strings.HasSuffix(route.Path(), "/stream"):
				mediaType = "text/event-stream"
			case strings.HasSuffix(route.Path(), "/exports/{token}"):
				mediaType = "application/json"
			case strings.HasSuffix(route.Path(), "/logos/{digest}"):
				mediaType = "image/png"
			}
			if _, ok := operation.Responses["200"].Content[mediaType]; !ok {
				t.Errorf("%s: the documented response is not %s", route.Path(), mediaType)
			}
			continue
		}
		schema := operation.Responses[strconv.Itoa(route.Status)].Content["application/json"].Schema
		d.compare(t, string(route.RPC.Output().Name()), schema, route.RPC.Output(), map[protoreflect.FullName]bool{})
	}
	for name, schema := range d.Components.Schemas {
		for property, s := range schema.Properties {
			if s.Format == "int64" && s.Type != "integer" {
				t.Errorf("%s.%s: the type of the int64 is %s, want integer", name, property, s.Type)
			}
		}
	}
	reasons := affiliatev1.ErrorReason(0).Descriptor().Values().Len() - 1 // without the zero value
	if codes := d.Components.Schemas["Error"].Properties["code"].Enum; len(codes) != reasons || !slices.Contains(codes, any("VALIDATION_ERROR")) {
		t.Errorf("documented error codes %v, want %d codes with VALIDATION_ERROR among them", codes, reasons)
	}
}

// compare checks that schema describes the JSON of the message desc. seen contains the
// messages that were already checked.
func (d document) compare(t *testing.T, where string, schema schemaDoc, desc protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) {
	t.Helper()
	if seen[desc.FullName()] {
		return
	}
	seen[desc.FullName()] = true
	if desc.FullName() == "google.protobuf.Struct" {
		return // A Struct has no schema.
	}
	schema = d.resolve(t, schema)
	required := 0
	for i := range desc.Fields().Len() {
		if !contract.OmitIfAbsent(desc.Fields().Get(i)) {
			required++
		}
	}
	properties := desc.Fields().Len()
	if key := contract.PageSizeKey(desc); key != "" { // a key that the message does not have
		properties, required = properties+1, required+1
		if schema.Properties[key].Type != "integer" {
			t.Errorf("%s: the property %s has the type %q, want integer", where, key, schema.Properties[key].Type)
		}
	}
	if len(schema.Properties) != properties || len(schema.Required) != required {
		t.Errorf("%s: %d documented properties, %d of them required; want %d and %d", where, len(schema.Properties), len(schema.Required), properties, required)
	}
	for i := range desc.Fields().Len() {
		field := desc.Fields().Get(i)
		property, ok := schema.Properties[field.JSONName()]
		path := fmt.Sprintf("%s.%s", where, field.JSONName())
		if !ok {
			t.Errorf("%s is not documented", path)
			continue
		}
		nullable := !contract.OmitIfAbsent(field) && (field.HasPresence() || field.Kind() == protoreflect.EnumKind && !field.IsList())
		if property.Nullable != nullable {
			t.Errorf("%s is documented as nullable: %t, want %t", path, property.Nullable, nullable)
		}
		if field.IsList() {
			if property.Type != "array" || property.Items == nil {
				t.Errorf("%s is documented as %+v, want an array with items", path, property)
				continue
			}
			property = *property.Items
		}
		switch {
		case field.IsMap():
			if property.Type != "object" {
				t.Errorf("%s is documented as %+v, want an object", path, property)
			}
		case field.Kind() == protoreflect.MessageKind && field.Message().FullName() == "google.protobuf.Timestamp":
			if property.Type != "string" || property.Format != "date-time" {
				t.Errorf("%s is documented as %+v, want a string with the format date-time", path, property)
			}
		case field.Kind() == protoreflect.MessageKind:
			if len(property.AllOf) == 1 {
				property = property.AllOf[0]
			}
			d.compare(t, path, property, field.Message(), seen)
		case field.Kind() == protoreflect.EnumKind:
			names, err := contract.EnumNames(field.Enum())
			if err != nil {
				t.Fatalf("unexpected error: %v", err)
			}
			for _, name := range names {
				if !slices.Contains(property.Enum, any(name.Text)) {
					t.Errorf("%s: the documented values %v do not contain %s", path, property.Enum, name.Text)
				}
			}
			if property.Nullable && !slices.Contains(property.Enum, nil) {
				t.Errorf("%s: the documented values %v do not contain null", path, property.Enum)
			}
		default:
			want := map[protoreflect.Kind]string{protoreflect.StringKind: "string", protoreflect.BoolKind: "boolean", protoreflect.DoubleKind: "number"}[field.Kind()]
			if want == "" {
				want = "integer"
			}
			if property.Type != want {
				t.Errorf("%s has the documented type %s, want %s", path, property.Type, want)
			}
		}
	}
}
