package main

import (
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/gateway/contract"
	landingv1 "github.com/tributary-hq/tributary/gen/landing/v1"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
)

// landingIntroduction is the beginning of the landing service's document.
//
//go:embed landing.md
var landingIntroduction string

// landingBodyKiB is the maximum size of a body.
const landingBodyKiB = 64

// buildLanding returns the document of the landing service. Its handler has no policies and
// no contract, so this document is built separately from that of the core's API.
func buildLanding(prose *texts) (object, error) {
	routes, err := contract.Routes([]protoreflect.FileDescriptor{landingv1.File_landing_v1_landing_proto})
	if err != nil {
		return nil, err
	}
	b := &builder{prose: prose, schemas: map[string]object{}, errors: map[string]object{}, origin: map[string]string{}, outputs: map[protoreflect.FullName]bool{}}
	paths := map[string]object{
		"/api/v1/health":       {{"get", b.landingHealth("checkLiveness", "Returns 200 while the process runs.")}},
		"/api/v1/health/ready": {{"get", b.landingHealth("checkReadiness", "Returns 200 if the database responds.", affiliate.ReasonServiceUnavailable)}},
	}
	for _, r := range routes {
		if r.RPC == nil {
			continue // the OpenAPI document of the core's API
		}
		operation, err := b.landingOperation(r)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.Verb, r.Template, err)
		}
		paths[r.Path()] = append(paths[r.Path()], member{strings.ToLower(r.Verb), operation})
	}
	specs := slices.Clone(errorspec.Landing())
	for _, reason := range landingSharedReasons {
		specs = append(specs, *errorspec.ByReason(reason))
	}
	var codes []string
	for _, spec := range specs {
		codes = append(codes, string(spec.Reason))
	}
	b.schemas["Error"] = object{
		{"type", "object"},
		{"description", "The body of every error."},
		{"required", errorFields},
		{"properties", errorProperties(codes)},
	}
	return object{
		{"openapi", "3.0.3"},
		{"info", object{{"title", "Tributary landing API"}, {"version", "v1"}, {"description", landingIntroduction}}},
		{"servers", []object{{{"url", "/"}}}},
		{"paths", sorted(paths)},
		{"components", object{{"schemas", sorted(b.schemas)}, {"responses", sorted(b.errors)}}},
	}, nil
}

// landingSharedReasons are the error codes that the landing service shares with the core's
// API.
var landingSharedReasons = []affiliate.Reason{
	affiliate.ReasonHTTPSRequired, affiliate.ReasonNotFound, affiliate.ReasonMethodNotAllowed, affiliate.ReasonPayloadTooLarge,
	affiliate.ReasonUnsupportedMediaType, affiliate.ReasonInternal, affiliate.ReasonServiceUnavailable,
}

// limitHeaders describe the state of the rate limit after a POST.
var limitHeaders = object{
	textHeader("RateLimit", "The number of forms that the client can still send, and the seconds until it can send more."),
	textHeader("RateLimit-Policy", "The rate limit and its window in seconds."),
}

// landingOperation describes a route of the proto.
func (b *builder) landingOperation(r contract.Route) (object, error) {
	key := strings.ToLower(r.Verb) + " " + r.Path()
	id := strings.ToLower(string(r.RPC.Name()[:1])) + string(r.RPC.Name()[1:])
	text := withoutName(b.prose.operations[key], string(r.RPC.Name()))
	reasons := []affiliate.Reason{affiliate.ReasonHTTPSRequired, affiliate.ReasonInternal, affiliate.ReasonServiceUnavailable}
	operation := object{{"summary", title(id)}, {"operationId", id}, {"security", []object{}}}
	if !r.HasBody {
		set(&operation, "description", text)
		name, err := b.output(r.RPC.Output())
		if err != nil {
			return nil, err
		}
		headers := object{textHeader("Cache-Control", "Caches may keep the response for 30 seconds."), requestIDHeader}
		success := object{{"description", http.StatusText(http.StatusOK)}, {"headers", headers}, {"content", jsonContent(name)}}
		set(&operation, "responses", append(object{{"200", success}}, b.errorResponses(reasons)...))
		return operation, nil
	}
	name, required, err := b.requestBody(r, key)
	if err != nil {
		return nil, err
	}
	// The service ignores unknown keys.
	b.schemas[name] = slices.DeleteFunc(b.schemas[name], func(m member) bool { return m.key == "additionalProperties" })
	for _, spec := range errorspec.Landing() {
		reasons = append(reasons, spec.Reason)
	}
	reasons = append(reasons, affiliate.ReasonPayloadTooLarge, affiliate.ReasonUnsupportedMediaType)
	set(&operation, "description", text+fmt.Sprintf("\n\n%s The body may have up to %d KiB.", zoneText("landing"), landingBodyKiB))
	set(&operation, "x-rate-limit-zone", "landing")
	set(&operation, "requestBody", object{{"required", required}, {"content", jsonContent(name)}})
	success := object{{"description", "The form is stored. The response has no body."}, {"headers", append(slices.Clone(limitHeaders), requestIDHeader)}}
	set(&operation, "responses", append(object{{"201", success}}, b.errorResponses(reasons)...))
	limited := b.errors["RATE_LIMITED"]
	for i := range limited {
		if headers, ok := limited[i].value.(object); ok && limited[i].key == "headers" {
			for _, header := range limitHeaders {
				set(&headers, header.key, header.value)
			}
			limited[i].value = headers
		}
	}
	return operation, nil
}

// landingHealth describes a health check, which is not in the proto.
func (b *builder) landingHealth(id, text string, reasons ...affiliate.Reason) object {
	schema := object{{"type", "object"}, {"required", []string{"status"}}, {"properties", object{{"status", object{{"type", "string"}, {"enum", []string{"ok"}}}}}}}
	success := object{{"description", http.StatusText(http.StatusOK)}, {"content", object{{"application/json", object{{"schema", schema}}}}}}
	return object{
		{"summary", title(id)},
		{"operationId", id},
		{"security", []object{}},
		{"description", text + " There is no rate limit."},
		{"responses", append(object{{"200", success}}, b.errorResponses(append(reasons, affiliate.ReasonHTTPSRequired))...)},
	}
}

// sorted returns the entries of a map in the order of their keys.
func sorted(entries map[string]object) object {
	var o object
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		set(&o, key, entries[key])
	}
	return o
}
