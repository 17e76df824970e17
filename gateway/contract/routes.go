// Package contract reads out of the protos what REST makes of them: the routes,
// their success statuses and body limits, and the words of enums. The gateway
// serves by it and tools/openapi documents by it, so the two cannot disagree.
//
// It guarantees that what it returns is complete for a set of files and that a
// construct REST has no form for here (a wildcard path, a body that is one
// field) is an error and not an approximation. It serves nothing itself.
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

// OpenAPIPath serves the OpenAPI document; it is the one route without an RPC.
const OpenAPIPath = "/api/v1/openapi.json"

// UpdateMask is the field that a PATCH body fills by the keys it has.
const UpdateMask protoreflect.Name = "update_mask"

// Route is one HTTP binding of an RPC; an RPC may have several.
type Route struct {
	// Verb is the HTTP method.
	Verb string
	// Template is the path as the proto writes it: /api/v1/programs/{program_id}.
	Template string
	// RPC is nil for OpenAPIPath only.
	RPC protoreflect.MethodDescriptor
	// FullMethod is the RPC as gRPC names it: /affiliate.v1.ProgramService/GetProgram.
	FullMethod string
	// Binding counts the bindings of one RPC from 0.
	Binding int
	// HasBody tells whether the fields outside the path come from the body;
	// otherwise they come from the query.
	HasBody bool
	// PathFields are bound by the path and by nothing else, in path order.
	PathFields []protoreflect.FieldDescriptor
}

// Segment is one part of a path: a literal, or a parameter that takes anything
// but nothing.
type Segment struct {
	Literal string
	Field   protoreflect.Name
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

// Routes lists every HTTP binding of the files' services, and the document's.
// An RPC without an annotation has no route.
func Routes(files []protoreflect.FileDescriptor) ([]Route, error) {
	routes := []Route{{Verb: http.MethodGet, Template: OpenAPIPath}}
	for _, file := range files {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				of, err := bindings(methods.Get(j))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", methods.Get(j).FullName(), err)
				}
				routes = append(routes, of...)
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
	var routes []Route
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		route := Route{
			RPC:        rpc,
			FullMethod: "/" + string(rpc.Parent().FullName()) + "/" + string(rpc.Name()),
			Binding:    len(routes),
			HasBody:    r.GetBody() == "*",
		}
		if r.GetBody() != "" && r.GetBody() != "*" || r.GetResponseBody() != "" {
			return nil, fmt.Errorf("a body or response_body of one field is not supported")
		}
		switch {
		case r.GetGet() != "":
			route.Verb, route.Template = http.MethodGet, r.GetGet()
		case r.GetPost() != "":
			route.Verb, route.Template = http.MethodPost, r.GetPost()
		case r.GetPatch() != "":
			route.Verb, route.Template = http.MethodPatch, r.GetPatch()
		case r.GetPut() != "":
			route.Verb, route.Template = http.MethodPut, r.GetPut()
		case r.GetDelete() != "":
			route.Verb, route.Template = http.MethodDelete, r.GetDelete()
		default:
			return nil, fmt.Errorf("a custom HTTP method is not supported")
		}
		for _, segment := range route.Segments() {
			if segment.Field == "" {
				if strings.ContainsAny(segment.Literal, "{}*:") {
					return nil, fmt.Errorf("path %s: only literals and {field} are supported", route.Template)
				}
				continue
			}
			field := rpc.Input().Fields().ByName(segment.Field)
			if field == nil || field.Kind() != protoreflect.StringKind || field.IsList() {
				return nil, fmt.Errorf("path %s: %s is no string field", route.Template, segment.Field)
			}
			route.PathFields = append(route.PathFields, field)
		}
		routes = append(routes, route)
	}
	return routes, nil
}

// Segments splits the template.
func (r Route) Segments() []Segment {
	parts := strings.Split(strings.TrimPrefix(r.Template, "/"), "/")
	segments := make([]Segment, len(parts))
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, "{"); ok && strings.HasSuffix(name, "}") {
			segments[i].Field = protoreflect.Name(strings.TrimSuffix(name, "}"))
		} else {
			segments[i].Literal = part
		}
	}
	return segments
}

// Path is the template with the names that clients know: /api/v1/programs/{programId}.
func (r Route) Path() string {
	path := r.Template
	for _, field := range r.PathFields {
		path = strings.Replace(path, "{"+string(field.Name())+"}", "{"+field.JSONName()+"}", 1)
	}
	return path
}

// InPath tells whether the path binds the field.
func (r Route) InPath(field protoreflect.FieldDescriptor) bool {
	return slices.ContainsFunc(r.PathFields, func(f protoreflect.FieldDescriptor) bool { return f.Number() == field.Number() })
}

// Download tells whether the answer is a file, streamed in pieces, and not JSON.
func (r Route) Download() bool {
	return r.RPC != nil && r.RPC.IsStreamingServer() && r.RPC.Output().FullName() == "google.api.HttpBody"
}

// Mask is the request's update_mask, nil when it has none. Clients never write
// it: the keys of the body do.
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
