package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/gateway/contract"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// build makes the document of the routes.
func build(routes []contract.Route, prose *texts) (object, error) {
	b := &builder{prose: prose, schemas: map[string]object{}, origin: map[string]string{}, outputs: map[protoreflect.FullName]bool{}}
	for _, r := range routes {
		if r.RPC != nil && contract.SuccessStatus(r.FullMethod) != http.StatusNoContent {
			b.collect(r.RPC.Output())
		}
	}
	var order []string
	paths := map[string]object{}
	var tags []object
	tagged := map[string]bool{}
	for _, r := range routes {
		operation, err := b.operation(r)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.Verb, r.Template, err)
		}
		path := r.Path()
		if paths[path] == nil {
			order = append(order, path)
		}
		item := paths[path]
		set(&item, strings.ToLower(r.Verb), operation)
		paths[path] = item
		if tag := tagOf(r); !tagged[tag] {
			tagged[tag] = true
			entry := object{{"name", tag}}
			if r.RPC != nil {
				if text := prose.tags[string(r.RPC.Parent().Name())]; text != "" {
					set(&entry, "description", text)
				}
			}
			tags = append(tags, entry)
		}
	}
	slices.Sort(order)
	var pathObject object
	for _, path := range order {
		set(&pathObject, path, paths[path])
	}
	b.schemas["Error"] = errorSchema()
	var schemas object
	for _, name := range slices.Sorted(maps.Keys(b.schemas)) {
		set(&schemas, name, b.schemas[name])
	}
	return object{
		{"openapi", "3.0.3"},
		{"info", object{
			{"title", "Tributary API"},
			{"version", "v1"},
			{"description", "Affiliate programmes for merchants. Amounts are integers in minor units, timestamps are RFC 3339 in UTC, " +
				"every error is the one Error schema, whose `code` is stable and whose `message` is not. " +
				"In a request null counts as absent, except in a PATCH, where it clears the field."},
		}},
		{"servers", []object{{{"url", "/"}}}},
		{"tags", tags},
		{"paths", pathObject},
		{"components", object{
			{"schemas", schemas},
			{"responses", object{{"Error", object{
				{"description", "The request was refused, or failed."},
				{"headers", object{
					{"X-Request-Id", object{{"description", "The id under which the request is logged."}, {"schema", object{{"type", "string"}}}}},
					{"Retry-After", object{{"description", "With 429 and 503: seconds to wait."}, {"schema", object{{"type", "integer"}}}}},
				}},
				{"content", jsonContent("Error")},
			}}}},
			{"parameters", object{{"Mode", object{
				{"name", "X-Mode"},
				{"in", "header"},
				{"description", "Which half of the workspace to work in."},
				{"schema", object{{"type", "string"}, {"enum", []string{"test", "live"}}, {"default", "live"}}},
			}}}},
			{"securitySchemes", object{
				{"bearerAuth", object{
					{"type", "http"},
					{"scheme", "bearer"},
					{"bearerFormat", "JWT"},
					{"description", "The access token of a logged-in merchant or partner."},
				}},
				{"secretKey", object{
					{"type", "http"},
					{"scheme", "bearer"},
					{"description", "A secret key, sk_test_… or sk_live_…, which carries its mode. For servers only."},
				}},
			}},
		}},
	}, nil
}

type builder struct {
	prose   *texts
	schemas map[string]object
	// origin remembers what a schema was made from, so that two things never
	// share a name.
	origin map[string]string
	// outputs are the messages that answers hold.
	outputs map[protoreflect.FullName]bool
}

func (b *builder) operation(r contract.Route) (object, error) {
	key := strings.ToLower(r.Verb) + " " + r.Path()
	operation := object{{"tags", []string{tagOf(r)}}}
	if r.RPC == nil {
		set(&operation, "summary", "This document.")
		set(&operation, "operationId", "getOpenAPI")
		set(&operation, "security", []object{})
		set(&operation, "responses", object{
			{"200", object{{"description", "The OpenAPI document."}, {"content", object{{"application/json", object{{"schema", object{{"type", "object"}}}}}}}}},
			{"4XX", errorResponse},
			{"5XX", errorResponse},
		})
		return operation, nil
	}
	if text := b.prose.operations[key]; text != "" {
		summary, rest, _ := strings.Cut(strings.ReplaceAll(text, "\n", " "), ". ")
		set(&operation, "summary", strings.TrimSuffix(summary, ".")+".")
		if rest != "" {
			set(&operation, "description", text)
		}
	}
	id := strings.ToLower(string(r.RPC.Name()[:1])) + string(r.RPC.Name()[1:])
	if r.Binding > 0 {
		id += strconv.Itoa(r.Binding + 1)
	}
	set(&operation, "operationId", id)
	set(&operation, "security", security(r))
	parameters, err := b.parameters(r, key)
	if err != nil {
		return nil, err
	}
	if len(parameters) > 0 {
		set(&operation, "parameters", parameters)
	}
	if r.HasBody {
		name, required, err := b.requestBody(r, key)
		if err != nil {
			return nil, err
		}
		set(&operation, "requestBody", object{{"required", required}, {"content", jsonContent(name)}})
	}
	status := contract.SuccessStatus(r.FullMethod)
	success := object{{"description", http.StatusText(status)}}
	switch {
	case r.Download():
		text := object{{"type", "string"}}
		set(&success, "content", object{{"text/csv", object{{"schema", text}}}})
	case status != http.StatusNoContent:
		name, err := b.output(r.RPC.Output())
		if err != nil {
			return nil, err
		}
		set(&success, "content", jsonContent(name))
	}
	responses := object{{strconv.Itoa(status), success}}
	if contract.Bulk(r.FullMethod) {
		partly := append(object{{"description", "Some failed; results says which."}}, success[1:]...)
		responses = append(responses, member{"207", partly})
	}
	if contract.MayBeAccepted(r.FullMethod) {
		later := append(object{{"description", "Taken; it takes effect later."}}, success[1:]...)
		responses = append(responses, member{"202", later})
	}
	set(&operation, "responses", append(responses, object{{"4XX", errorResponse}, {"5XX", errorResponse}}...))
	return operation, nil
}

func (b *builder) parameters(r contract.Route, key string) ([]any, error) {
	var parameters []any
	for _, field := range r.PathFields {
		parameters = append(parameters, object{
			{"name", field.JSONName()}, {"in", "path"}, {"required", true}, {"schema", object{{"type", "string"}}},
		})
	}
	if !r.HasBody {
		fields := r.RPC.Input().Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			if r.InPath(field) {
				continue
			}
			schema, err := b.field(field, inQuery)
			if err != nil {
				return nil, err
			}
			parameter := object{{"name", field.JSONName()}, {"in", "query"}}
			if text := b.prose.parameters[key+" "+field.JSONName()]; text != "" {
				set(&parameter, "description", text)
			}
			set(&parameter, "schema", schema)
			parameters = append(parameters, parameter)
			if field.JSONName() == "pageSize" {
				parameters = append(parameters, object{
					{"name", "limit"}, {"in", "query"}, {"description", "Alias of pageSize; give one of them."}, {"schema", schema},
				})
			}
		}
	}
	if needed, taken := contract.IdempotencyKey(r.FullMethod); taken {
		parameters = append(parameters, object{
			{"name", "Idempotency-Key"},
			{"in", "header"},
			{"required", needed},
			{"description", "Names the request, so that it can be sent again: within 24 hours the same body gets the first answer with Idempotent-Replayed: true, another body 409 IDEMPOTENCY_KEY_REUSED."},
			{"schema", object{{"type", "string"}, {"pattern", contract.IdempotencyKeyPattern}}},
		})
	}
	if slices.Contains(access(r), bearer) {
		parameters = append(parameters, object{{"$ref", "#/components/parameters/Mode"}})
	}
	return parameters, nil
}

// What a route asks for. The core's policy decides; the document follows the
// split of the paths in SPEC.md section 4.
const (
	bearer    = "bearerAuth"
	secretKey = "secretKey"
)

func access(r contract.Route) []string {
	under := func(prefix string) bool { return r.Template == prefix || strings.HasPrefix(r.Template, prefix+"/") }
	ends := func(suffix string) bool { return strings.HasSuffix(r.Template, suffix) }
	switch {
	case r.RPC == nil || under("/api/v1/health") || under("/api/v1/auth"):
		return nil
	case under("/api/v1/attribution"):
		return []string{secretKey}
	case under("/api/v1/conversions") && r.Verb == http.MethodGet && !ends("/attribution"):
		return []string{secretKey, bearer}
	case under("/api/v1/conversions") && !ends("/attribution") && !ends("/reattribute"):
		return []string{secretKey}
	default:
		return []string{bearer}
	}
}

func security(r contract.Route) []object {
	alternatives := []object{}
	for _, scheme := range access(r) {
		alternatives = append(alternatives, object{{scheme, []string{}}})
	}
	return alternatives
}

func tagOf(r contract.Route) string {
	if r.RPC == nil {
		return "Document"
	}
	return strings.TrimSuffix(string(r.RPC.Parent().Name()), "Service")
}

var errorResponse = object{{"$ref", "#/components/responses/Error"}}

func jsonContent(schema string) object {
	return object{{"application/json", object{{"schema", reference(schema)}}}}
}

func reference(schema string) object { return object{{"$ref", "#/components/schemas/" + schema}} }

func errorSchema() object {
	var codes []string
	values := affiliatev1.ErrorReason(0).Descriptor().Values()
	for i := range values.Len() {
		if proto.HasExtension(values.Get(i).Options(), affiliatev1.E_Error) {
			codes = append(codes, strings.TrimPrefix(string(values.Get(i).Name()), "ERROR_REASON_"))
		}
	}
	text := object{{"type", "string"}}
	return object{
		{"type", "object"},
		{"description", "The body of every error."},
		{"required", []string{"statusCode", "message", "error", "code"}},
		{"properties", object{
			{"statusCode", object{{"type", "integer"}, {"description", "The HTTP status."}}},
			{"message", object{{"type", "string"}, {"description", "For people; may change at any time."}}},
			{"error", object{{"type", "string"}, {"description", "The text of the HTTP status."}}},
			{"code", object{{"type", "string"}, {"description", "Stable; new ones may be added."}, {"enum", codes}}},
			{"details", object{
				{"type", "array"},
				{"description", "With VALIDATION_ERROR only: all that is wrong."},
				{"items", object{
					{"type", "object"},
					{"required", []string{"field", "message"}},
					{"properties", object{{"field", text}, {"message", text}}},
				}},
			}},
		}},
	}
}
