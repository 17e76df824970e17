package main

import (
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/server"
)

// introduction is the beginning of the reference.
//
//go:embed introduction.md
var introduction string

// build returns the document with the routes and the click route of the collector.
func build(routes []contract.Route, prose *texts) (object, error) {
	examples, err := readExamples()
	if err != nil {
		return nil, fmt.Errorf("examples.json: %w", err)
	}
	b := &builder{examples: examples, prose: prose, schemas: map[string]object{}, errors: map[string]object{}, origin: map[string]string{}, outputs: map[protoreflect.FullName]bool{}}
	for _, r := range routes {
		if r.RPC != nil && r.Status != http.StatusNoContent {
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
			entry := object{{"name", tag}, {"x-displayName", tagNames[tag]}}
			if r.RPC != nil {
				name := string(r.RPC.Parent().Name())
				if text := withoutName(prose.tags[name], name); text != "" {
					set(&entry, "description", text)
				}
			}
			tags = append(tags, entry)
		}
	}
	click, err := b.click()
	if err != nil {
		return nil, err
	}
	order = append(order, clickPath)
	paths[clickPath] = object{{"post", click}}
	tags = append(tags, object{{"name", clickTag}, {"x-displayName", tagNames[clickTag]}, {"description", "Registers clicks. The collector serves this route on an address of its own."}})
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
	var errors object
	for _, name := range slices.Sorted(maps.Keys(b.errors)) {
		set(&errors, name, b.errors[name])
	}
	return object{
		{"openapi", "3.0.3"},
		{"info", object{
			{"title", "Tributary API"},
			{"version", "v1"},
			{"description", introduction},
		}},
		{"servers", []object{{{"url", "/"}}}},
		{"tags", tags},
		{"x-tagGroups", menu()},
		{"paths", pathObject},
		{"components", object{
			{"schemas", schemas},
			{"responses", errors},
			{"parameters", object{{"Mode", object{
				{"name", "X-Mode"},
				{"in", "header"},
				{"description", "The mode of the workspace: `test` or `live`. Test and live data are fully separate."},
				{"schema", object{{"type", "string"}, {"enum", []string{"test", "live"}}, {"default", "live"}}},
			}}}},
			{"securitySchemes", object{
				{"bearerAuth", object{
					{"type", "http"},
					{"scheme", "bearer"},
					{"bearerFormat", "JWT"},
					{"description", "The access token of a merchant or partner."},
				}},
				{"secretKey", object{
					{"type", "http"},
					{"scheme", "bearer"},
					{"description", "A secret key, `sk_test_…` or `sk_live_…`. The key determines the mode. It must only be used on servers."},
				}},
				{"serviceToken", object{
					{"type", "http"},
					{"scheme", "bearer"},
					{"description", "A service token, `st_test_…` or `st_live_…`. The token determines the mode, so `X-Mode` is ignored. Its role must permit the call."},
				}},
				{"participantToken", object{
					{"type", "http"},
					{"scheme", "bearer"},
					{"bearerFormat", "JWT"},
					{"description", "A token for one participation, from `POST /api/v1/programs/{programId}/partners/{participantId}/token`. It determines the mode, so `X-Mode` is ignored. Responses have the data of this participation only."},
				}},
				{"publicKey", object{
					{"type", "http"},
					{"scheme", "bearer"},
					{"description", "A public key, `pk_test_…` or `pk_live_…`. The key determines the mode. It can only register clicks."},
				}},
			}},
		}},
	}, nil
}

type builder struct {
	// examples maps operation ids to their examples.
	examples map[string]example
	prose    *texts
	// schemas maps the name of each schema to the schema.
	schemas map[string]object
	// errors maps the name of each error response to the response. The name consists of
	// the response's error codes, joined by "-".
	errors map[string]object
	// origin maps each schema's name to its source, so that claim can report an error if
	// two different schemas get the same name.
	origin map[string]string
	// outputs is the set of messages that responses contain.
	outputs map[protoreflect.FullName]bool
}

func (b *builder) operation(r contract.Route) (object, error) {
	key := strings.ToLower(r.Verb) + " " + r.Path()
	operation := object{{"tags", []string{tagOf(r)}}}
	if r.RPC == nil {
		set(&operation, "summary", title("getOpenAPI"))
		set(&operation, "description", "Returns this document. There is no rate limit.")
		set(&operation, "operationId", "getOpenAPI")
		set(&operation, "security", []object{})
		set(&operation, "responses", append(object{
			{"200", object{{"description", "The OpenAPI document."}, {"content", object{{"application/json", object{{"schema", object{{"type", "object"}}}}}}}}},
		}, b.errorResponses([]affiliate.Reason{affiliate.ReasonHTTPSRequired})...))
		return operation, nil
	}
	id := strings.ToLower(string(r.RPC.Name()[:1])) + string(r.RPC.Name()[1:])
	if r.Binding > 0 {
		id += strconv.Itoa(r.Binding + 1)
	}
	policy, ok := server.PolicyOf(r.FullMethod)
	if !ok {
		return nil, fmt.Errorf("%s has no policy", r.FullMethod)
	}
	set(&operation, "summary", title(id))
	set(&operation, "description", strings.TrimSpace(withoutName(b.prose.operations[key], string(r.RPC.Name()))+"\n\n"+limitText(r, policy)))
	set(&operation, "operationId", id)
	set(&operation, "security", security(policy))
	if policy.Zone != server.ZoneNone {
		set(&operation, "x-rate-limit-zone", string(policy.Zone))
	}
	parameters, err := b.parameters(r, policy, key)
	if err != nil {
		return nil, err
	}
	if len(parameters) > 0 {
		set(&operation, "parameters", parameters)
	}
	switch {
	case r.RawBody != nil:
		var content object
		for _, mediaType := range r.RawBodyTypes {
			schema := object{{"type", "object"}}
			if strings.HasPrefix(mediaType, "image/") {
				schema = object{{"type", "string"}, {"format", "binary"}}
			}
			set(&content, mediaType, object{{"schema", schema}})
		}
		if body := b.examples[id].Request; body != nil {
			content = withExample(content, body)
		} else if form := b.examples[id].Form; form != "" {
			content = withExample(content, formFields(form))
		} else if file := b.examples[id].File; file != "" {
			content = withExample(content, "(the bytes of "+file+")")
		}
		set(&operation, "requestBody", object{{"required", true}, {"content", content}})
	case r.HasBody:
		name, required, err := b.requestBody(r, key)
		if err != nil {
			return nil, err
		}
		content := jsonContent(name)
		if body := b.examples[id].Request; body != nil {
			content = withExample(content, body)
		}
		set(&operation, "requestBody", object{{"required", required}, {"content", content}})
	}
	responses, err := b.responses(r, policy, b.examples[id])
	if err != nil {
		return nil, err
	}
	set(&operation, "responses", responses)
	b.addCommand(&operation, id)
	return operation, nil
}

// addCommand adds the example as a curl command.
func (b *builder) addCommand(operation *object, id string) {
	if sample, ok := b.examples[id]; ok {
		set(operation, "x-codeSamples", []object{{{"lang", "Shell"}, {"label", "curl"}, {"source", sample.command()}}})
	}
}

// menu returns the groups of tags in the format that Redoc reads.
func menu() []object {
	var groups []object
	for _, group := range tagGroups {
		groups = append(groups, object{{"name", group.name}, {"tags", group.tags}})
	}
	return groups
}

func (b *builder) parameters(r contract.Route, policy server.Policy, key string) ([]any, error) {
	var parameters []any
	for _, field := range r.PathFields {
		parameters = append(parameters, object{
			{"name", field.JSONName()}, {"in", "path"}, {"required", true}, {"schema", object{{"type", "string"}}},
		})
	}
	if !r.HasBody || r.RawBody != nil {
		fields := r.RPC.Input().Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			if !r.InQuery(field) {
				continue
			}
			schema, err := b.field(field, inQuery)
			if err != nil {
				return nil, err
			}
			names := contract.QueryNames(r, field)
			parameter := object{{"name", names[0]}, {"in", "query"}}
			if text := b.prose.parameters[key+" "+field.JSONName()]; text != "" {
				set(&parameter, "description", text)
			}
			set(&parameter, "schema", schema)
			parameters = append(parameters, parameter)
			for _, alias := range names[1:] {
				parameters = append(parameters, object{
					{"name", alias}, {"in", "query"}, {"description", "Alias of `" + names[0] + "`. Only one of the two can be given."}, {"schema", schema},
				})
			}
		}
	}
	if required := r.RequiresKey; r.AcceptsKey {
		parameters = append(parameters, object{
			{"name", "Idempotency-Key"},
			{"in", "header"},
			{"required", required},
			{"description", "Identifies the request, so that it can be repeated safely. For at least 24 hours, a request with the same key and body " +
				"gets the first response, with the header `Idempotent-Replayed: true`. With another body it gets 409 IDEMPOTENCY_KEY_REUSED."},
			{"schema", object{{"type", "string"}, {"pattern", contract.IdempotencyKeyPattern}}},
		})
	}
	if policy.Accept&(server.MerchantToken|server.PartnerToken) != 0 {
		parameters = append(parameters, object{{"$ref", "#/components/parameters/Mode"}})
	}
	return parameters, nil
}

// withoutName removes the name of the service or RPC from the beginning of its comment.
// Readers of the document do not know these names.
func withoutName(text, name string) string {
	rest, ok := strings.CutPrefix(text, name+" ")
	if !ok || rest == "" {
		return text
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

func tagOf(r contract.Route) string {
	if r.RPC == nil {
		return "Document"
	}
	return strings.TrimSuffix(string(r.RPC.Parent().Name()), "Service")
}

func jsonContent(schema string) object {
	return object{{"application/json", object{{"schema", reference(schema)}}}}
}

func reference(schema string) object { return object{{"$ref", "#/components/schemas/" + schema}} }

// limitText describes the rate limit and the body limit of a route in sentences.
func limitText(r contract.Route, policy server.Policy) string {
	var sentences []string
	if policy.Zone == server.ZoneNone {
		sentences = append(sentences, "There is no rate limit.")
	} else {
		sentences = append(sentences, zoneText(string(policy.Zone)))
	}
	for _, second := range []server.Zone{policy.AccountZone, policy.WorkspaceZone} {
		if second != server.ZoneNone {
			sentences = append(sentences, zoneText(string(second)))
		}
	}
	if r.HasBody {
		sentences = append(sentences, fmt.Sprintf("The body may have up to %d KiB.", r.BodyLimit>>10))
	}
	return strings.Join(sentences, " ")
}

// limitSubjects says for each zone how its requests are counted.
var limitSubjects = map[string]string{
	"mail_provider": "per client address", "unsubscribe": "per client address",
	"conversions": "per secret key", "auth": "per client address", "general": "per user or key", "tracking": "per public key", "resend": "per account",
	"erasure": "per account", "buyer_erasure": "per workspace", "export": "per account", "landing": "per client address",
}

// zoneText describes the rate limit of a zone. The default is read from the tags of the
// settings.
func zoneText(zone string) string {
	name := contract.CamelCase(zone)
	limits, name := reflect.TypeFor[settings.Limits](), strings.ToUpper(name[:1])+name[1:]
	switch zone {
	case "tracking":
		limits = reflect.TypeFor[settings.Collector]()
	case "landing":
		limits, name = reflect.TypeFor[settings.Landing](), "Limit"
	}
	field, _ := limits.FieldByName(name)
	period := "60 seconds"
	if slices.Contains([]server.Zone{server.ZoneResend, server.ZoneErasure, server.ZoneBuyerErasure, server.ZoneExport}, server.Zone(zone)) {
		period = "an hour"
	}
	return fmt.Sprintf("Rate limit: `%s`, by default %s requests in %s %s.", zone, field.Tag.Get("envDefault"), period, limitSubjects[zone])
}
