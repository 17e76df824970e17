// Package contract describes the REST API: the routes, their success statuses and body
// limits, and the JSON values of enums. It reads routes and enums from the protos. The
// gateway and tools/openapi both use this package, so the documentation matches the API.
//
// The package returns an error if the protos contain a construct that the gateway does
// not support, such as a path with a wildcard. A body can be one field of the message only
// if it is a google.api.HttpBody. The package does not serve requests.
package contract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// OpenAPIPath is the path of the OpenAPI document. In the result of Routes, it is the
// only route without an RPC.
const OpenAPIPath = "/api/v1/openapi.json"

// UpdateMask is the name of the field that contains the keys of a PATCH body.
const UpdateMask protoreflect.Name = "update_mask"

// httpBody is the message type of bodies that are not JSON.
const httpBody protoreflect.FullName = "google.api.HttpBody"

// Route is one HTTP binding of an RPC. An RPC may have several bindings.
type Route struct {
	// Verb is the HTTP method.
	Verb string
	// Template is the path in the proto, such as /api/v1/programs/{program_id}.
	Template string
	// RPC is nil for routes that do not call the core, such as OpenAPIPath.
	RPC protoreflect.MethodDescriptor
	// FullMethod is the gRPC name of the RPC, such as
	// /affiliate.v1.ProgramService/GetProgram.
	FullMethod string
	Facts
	// Binding is the index of this binding among the bindings of its RPC.
	Binding int
	// HasBody is true if the request has a body. The method InQuery says which fields come
	// from the query.
	HasBody bool
	// RawBody is the field that gets the body byte by byte, whatever its content type. It
	// is nil for routes whose body is JSON.
	RawBody protoreflect.FieldDescriptor
	// PathFields are the fields in the path, in path order. Only the path can set them.
	PathFields []protoreflect.FieldDescriptor
	// absent are the path fields of the RPC's first binding that are not in the path of this
	// binding. Requests cannot set them.
	absent []protoreflect.FieldDescriptor
}

// snakeCase lists the services whose REST API uses snake_case. The servers of merchants call
// them, or (ExportService) they return exports of data, whose keys are snake_case too. The REST
// API of all other services uses camelCase.
var snakeCase = []protoreflect.FullName{
	"affiliate.v1.ConversionService", "affiliate.v1.CustomerService", "affiliate.v1.AttributionService", "affiliate.v1.ExportService",
}

// Files returns the protos of the public API, ordered by path.
func Files() []protoreflect.FileDescriptor {
	var files []protoreflect.FileDescriptor
	pkg := affiliatev1.File_affiliate_v1_gate_proto.Package()
	protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
		files = append(files, file)
		return true
	})
	slices.SortFunc(files, func(a, b protoreflect.FileDescriptor) int { return strings.Compare(a.Path(), b.Path()) })
	return files
}

// Routes returns every HTTP binding of the services in files, and the route of the
// OpenAPI document. An RPC without an annotation has no route.
func Routes(files []protoreflect.FileDescriptor) ([]Route, error) {
	routes := []Route{{Verb: http.MethodGet, Template: OpenAPIPath}}
	for _, file := range files {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				rpcRoutes, err := bindings(methods.Get(j))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", methods.Get(j).FullName(), err)
				}
				routes = append(routes, rpcRoutes...)
			}
		}
	}
	return routes, nil
}

func bindings(rpc protoreflect.MethodDescriptor) ([]Route, error) {
	if !proto.HasExtension(rpc.Options(), annotations.E_Http) {
		return nil, nil
	}
	rule, _ := proto.GetExtension(rpc.Options(), annotations.E_Http).(*annotations.HttpRule)
	fullMethod := "/" + string(rpc.Parent().FullName()) + "/" + string(rpc.Name())
	var routes []Route
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		route := Route{RPC: rpc, FullMethod: fullMethod, Facts: factsOf(fullMethod), Binding: len(routes), HasBody: r.GetBody() != ""}
		if r.GetResponseBody() != "" {
			return nil, fmt.Errorf("a response_body is not supported")
		}
		if r.GetBody() != "" && r.GetBody() != "*" {
			if route.RawBody = rawBody(rpc.Input(), r.GetBody()); route.RawBody == nil {
				return nil, fmt.Errorf("a body of one field is supported only for google.api.HttpBody")
			}
		}
		for verb, template := range map[string]string{
			http.MethodGet: r.GetGet(), http.MethodPost: r.GetPost(), http.MethodPatch: r.GetPatch(), http.MethodPut: r.GetPut(), http.MethodDelete: r.GetDelete(),
		} {
			if template != "" {
				route.Verb, route.Template = verb, template
			}
		}
		if route.Verb == "" {
			return nil, fmt.Errorf("a custom HTTP method is not supported")
		}
		var err error
		if route.PathFields, err = pathFields(rpc.Input(), route.Template); err != nil {
			return nil, fmt.Errorf("path %s: %w", route.Template, err)
		}
		if len(routes) > 0 {
			route.absent = routes[0].PathFields
		}
		routes = append(routes, route)
	}
	return routes, nil
}

// rawBody returns the field of a google.api.HttpBody, or nil if the message has no such
// field with this name.
func rawBody(input protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	field := input.Fields().ByName(protoreflect.Name(name))
	if field == nil || field.IsList() || field.Message() == nil || field.Message().FullName() != httpBody {
		return nil
	}
	return field
}

// pathFields returns the fields of the parameters in a path template.
func pathFields(input protoreflect.MessageDescriptor, template string) ([]protoreflect.FieldDescriptor, error) {
	var fields []protoreflect.FieldDescriptor
	for part := range strings.SplitSeq(strings.TrimPrefix(template, "/"), "/") {
		name, parameter := strings.CutPrefix(part, "{")
		if parameter {
			name, parameter = strings.CutSuffix(name, "}")
		}
		switch field := input.Fields().ByName(protoreflect.Name(name)); {
		case !parameter && strings.ContainsAny(part, "{}*:"):
			return nil, fmt.Errorf("%s: only literals and {field} are supported", part)
		case !parameter:
		case field == nil || field.Kind() != protoreflect.StringKind || field.IsList():
			return nil, fmt.Errorf("%s is not a string field", name)
		default:
			fields = append(fields, field)
		}
	}
	return fields, nil
}

// SnakeCase reports whether the documentation, the errors and the responses of the route use
// names in snake_case.
func (r Route) SnakeCase() bool {
	return r.RPC != nil && slices.Contains(snakeCase, r.RPC.Parent().FullName())
}

// Path returns the template with parameter names in camelCase, such as
// /api/v1/programs/{programId}.
func (r Route) Path() string {
	path := r.Template
	for _, field := range r.PathFields {
		path = strings.Replace(path, "{"+string(field.Name())+"}", "{"+field.JSONName()+"}", 1)
	}
	return path
}

// InPath reports whether the field is a parameter of the path, or of the path of the first
// binding. Neither the query nor the body contains such a field.
func (r Route) InPath(field protoreflect.FieldDescriptor) bool {
	return slices.ContainsFunc(slices.Concat(r.PathFields, r.absent), func(f protoreflect.FieldDescriptor) bool { return f.Number() == field.Number() })
}

// InQuery reports whether the field is a query parameter.
func (r Route) InQuery(field protoreflect.FieldDescriptor) bool {
	if r.InPath(field) {
		return false
	}
	if r.RawBody != nil {
		return field.Number() != r.RawBody.Number()
	}
	return !r.HasBody
}

// Download reports whether the response is not JSON but a file, which the core sends as a
// stream of google.api.HttpBody.
func (r Route) Download() bool {
	return r.RPC != nil && r.RPC.IsStreamingServer() && r.RPC.Output().FullName() == httpBody
}

// SetByGateway reports whether only the gateway sets the field. A body must not contain
// it.
func SetByGateway(field protoreflect.FieldDescriptor) bool {
	set, _ := proto.GetExtension(field.Options(), affiliatev1.E_SetByGateway).(bool)
	return set
}

// OmitIfAbsent reports whether a response leaves the field out if it is absent.
func OmitIfAbsent(field protoreflect.FieldDescriptor) bool {
	omit, _ := proto.GetExtension(field.Options(), affiliatev1.E_OmitIfAbsent).(bool)
	return omit
}

// PageSizeKey returns the second name of the field limit of a list, which is the name of the
// query parameter: pageSize, or page_size if the items have keys in snake_case. The JSON of a
// list contains both names. The result is empty for messages that are not lists.
func PageSizeKey(desc protoreflect.MessageDescriptor) string {
	fields := desc.Fields()
	data := fields.ByName("data")
	if data == nil || data.Message() == nil || fields.ByName("page") == nil || fields.ByName("limit") == nil {
		return ""
	}
	items := data.Message().Fields()
	for i := range items.Len() {
		if strings.Contains(items.Get(i).JSONName(), "_") {
			return "page_size"
		}
	}
	return "pageSize"
}

// Mask returns the update_mask field of the request, or nil if there is none. Clients do
// not send it. The gateway fills it with the keys of the body.
func (r Route) Mask() protoreflect.FieldDescriptor {
	if r.RPC == nil || !r.HasBody {
		return nil
	}
	field := r.RPC.Input().Fields().ByName(UpdateMask)
	if field == nil || field.Message() == nil || field.Message().FullName() != "google.protobuf.FieldMask" {
		return nil
	}
	return field
}

const limitAlias = "limit"

// QueryNames returns the documented names of a query parameter: its name in the spelling
// of the route, and limit for page_size. The gateway also accepts the names in Spellings
// and PartnerAliases.
func QueryNames(r Route, field protoreflect.FieldDescriptor) []string {
	names := []string{field.JSONName()}
	if r.SnakeCase() {
		names[0] = string(field.Name())
	}
	if field.Name() == "page_size" {
		names = append(names, limitAlias)
	}
	return names
}

// Spellings returns the names of a field in snake_case and in camelCase. Bodies and queries
// of all routes accept both. If the proto file gives the field another JSON name, Spellings
// returns only this name.
func Spellings(field protoreflect.FieldDescriptor) []string {
	snake, camel := string(field.Name()), CamelCase(string(field.Name()))
	if name := field.JSONName(); name != snake && name != camel {
		return []string{name}
	}
	return []string{snake, camel}
}

// PartnerAliases returns further names of a query parameter that selects a participant.
// In the paths of the API, a participant is called a partner.
func PartnerAliases(field protoreflect.FieldDescriptor) []string {
	if field.Name() == "participant_id" {
		return []string{"partnerId", "partner_id"}
	}
	return nil
}

// CamelCase converts snake_case to camelCase. The result is the JSON name of a field
// unless the option json_name sets another name.
func CamelCase(snake string) string {
	var b strings.Builder
	for i, part := range strings.Split(snake, "_") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		b.WriteString(part)
	}
	return b.String()
}

// EnumName is one value of an enum in the spelling of the REST API.
type EnumName struct {
	Number protoreflect.EnumNumber
	Text   string
}

// EnumNames returns the values of an enum with their names in the REST API. These names
// are in lower case and have no prefix: COMMISSION_STATUS_PENDING becomes pending. The
// prefix is the name of the zero value without UNSPECIFIED. The result does not contain
// the zero value, which is null in the REST API.
func EnumNames(enum protoreflect.EnumDescriptor) ([]EnumName, error) {
	values := enum.Values()
	zero := values.ByNumber(0)
	if zero == nil {
		return nil, fmt.Errorf("enum %s has no zero value", enum.FullName())
	}
	prefix, ok := strings.CutSuffix(string(zero.Name()), "UNSPECIFIED")
	if !ok {
		return nil, fmt.Errorf("enum %s: the zero value must end in UNSPECIFIED", enum.FullName())
	}
	names := make([]EnumName, 0, values.Len()-1)
	for i := range values.Len() {
		value := values.Get(i)
		if value.Number() == 0 {
			continue
		}
		text, ok := strings.CutPrefix(string(value.Name()), prefix)
		if !ok || text == "" {
			return nil, fmt.Errorf("enum value %s lacks the prefix %s", value.FullName(), prefix)
		}
		names = append(names, EnumName{value.Number(), strings.ToLower(text)})
	}
	return names, nil
}

// enumAliases are further names of enum values in requests, by enum.
var enumAliases = map[protoreflect.FullName]map[string]string{
	"affiliate.v1.AnalyticsDimension": {"partner": "participant"},
}

// EnumAliases returns further names that requests may use for the values of an enum. A key
// is such a name, and its value the name in EnumNames.
func EnumAliases(enum protoreflect.EnumDescriptor) map[string]string {
	return enumAliases[enum.FullName()]
}
