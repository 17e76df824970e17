package contract

import (
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func TestRoutes_ReadsBindingsOfProtos(t *testing.T) {
	routes, err := Routes(Files())
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	byPath := map[string]Route{}
	for _, r := range routes {
		key := r.Verb + " " + r.Path()
		if _, exists := byPath[key]; exists {
			t.Errorf("Routes returns two routes for %s", key)
		}
		byPath[key] = r
	}
	r := byPath["PATCH /api/v1/programs/{programId}/partners/{participantId}/approve"]
	if r.FullMethod != affiliatev1.ParticipantService_ApproveParticipant_FullMethodName || !r.HasBody || len(r.PathFields) != 2 || r.Mask() != nil {
		t.Errorf("route %+v, want ApproveParticipant with a body, two path fields and no mask", r)
	}
	r = byPath["PATCH /api/v1/programs/{programId}"]
	if r.Mask() == nil || !r.InPath(r.RPC.Input().Fields().ByName("program_id")) || r.InPath(r.RPC.Input().Fields().ByName("name")) {
		t.Errorf("route %+v, want a mask and program_id as the only path field", r)
	}
	if r = byPath["POST /api/v1/auth/partner/logout"]; r.Binding != 2 || r.Status != 204 || r.BodyLimit != 64<<10 {
		t.Errorf("route %+v, want the binding 2 of an RPC with the status 204 and a body limit of 64 KiB", r)
	}
	r = byPath["GET /api/v1/commissions/{commissionId}"]
	if program := r.RPC.Input().Fields().ByName("program_id"); r.Binding != 1 || len(r.PathFields) != 1 || !r.InPath(program) || r.InQuery(program) {
		t.Errorf("route %+v, want the binding 1, which does not accept the programme of binding 0", r)
	}
	if r = byPath["GET "+OpenAPIPath]; r.RPC != nil || r.Mask() != nil {
		t.Errorf("route %+v, want no RPC and no mask", r)
	}
}

func TestFacts_AreOfRPCsWithRoutes(t *testing.T) {
	routes, err := Routes(Files())
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	routed := map[string]bool{}
	for _, r := range routes {
		routed[r.FullMethod] = true
	}
	for method := range exceptions {
		if !routed[method] {
			t.Errorf("there are facts about %s, which has no route", method)
		}
	}
}

func TestEnumNames_RemovesPrefix(t *testing.T) {
	names, err := EnumNames(affiliatev1.NetBasis(0).Descriptor())
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	if len(names) != 4 || names[2].Text != "net_of_tax_shipping" || names[2].Number != protoreflect.EnumNumber(affiliatev1.NetBasis_NET_BASIS_NET_OF_TAX_SHIPPING) {
		t.Errorf("EnumNames of NetBasis = %v, want 4 names with net_of_tax_shipping as the third", names)
	}
}

// buildFile returns a proto file with one message with the fields id and n, one RPC with
// the given HTTP rule, and one enum with the given values.
func buildFile(t *testing.T, rule *annotations.HttpRule, values ...string) protoreflect.FileDescriptor {
	t.Helper()
	options := &descriptorpb.MethodOptions{}
	if rule != nil {
		proto.SetExtension(options, annotations.E_Http, rule)
	}
	enum := &descriptorpb.EnumDescriptorProto{Name: proto.String("E")}
	for i, value := range values {
		enum.Value = append(enum.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(value), Number: proto.Int32(int32(i))})
	}
	fd := &descriptorpb.FileDescriptorProto{
		Name: proto.String("t.proto"), Package: proto.String("t"), Syntax: proto.String("proto3"), EnumType: []*descriptorpb.EnumDescriptorProto{enum},
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{
			{Name: proto.String("id"), Number: proto.Int32(1), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
			{Name: proto.String("n"), Number: proto.Int32(2), Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()},
		}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("R"), InputType: proto.String(".t.M"), OutputType: proto.String(".t.M"), Options: options},
		}}},
	}
	file, err := protodesc.NewFile(fd, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	return file
}

func TestRoutesAndEnumNames_RejectUnsupportedProtos(t *testing.T) {
	get := func(path string) *annotations.HttpRule {
		return &annotations.HttpRule{Pattern: &annotations.HttpRule_Get{Get: path}}
	}
	oneField, response := get("/a"), get("/a")
	oneField.Body, response.ResponseBody = "id", "id"
	for name, rule := range map[string]*annotations.HttpRule{
		"wildcard":          get("/a/*"),
		"deep wildcard":     get("/a/{id=**}"),
		"custom verb":       get("/a/{id}:run"),
		"unknown parameter": get("/a/{nope}"),
		"integer parameter": get("/a/{n}"),
		"body of one field": oneField,
		"response body":     response,
		"custom method":     {Pattern: &annotations.HttpRule_Custom{Custom: &annotations.CustomHttpPattern{Kind: "BREW", Path: "/a"}}},
	} {
		if routes, err := Routes([]protoreflect.FileDescriptor{buildFile(t, rule, "E_UNSPECIFIED")}); err == nil {
			t.Errorf("%s: Routes returns %+v, want an error", name, routes)
		}
	}
	for verb, rule := range map[string]*annotations.HttpRule{
		"GET": get("/a/{id}"), "PUT": {Pattern: &annotations.HttpRule_Put{Put: "/a"}}, "DELETE": {Pattern: &annotations.HttpRule_Delete{Delete: "/a"}},
	} {
		routes, err := Routes([]protoreflect.FileDescriptor{buildFile(t, rule, "E_UNSPECIFIED")})
		if err != nil || len(routes) != 2 || routes[1].Verb != verb {
			t.Errorf("Routes = %+v, %v; want the OpenAPI document and one route with %s", routes, err, verb)
		}
	}
	if routes, err := Routes([]protoreflect.FileDescriptor{buildFile(t, nil, "E_UNSPECIFIED")}); err != nil || len(routes) != 1 {
		t.Errorf("an RPC without an annotation: Routes = %+v, %v; want only the OpenAPI document", routes, err)
	}
	for name, values := range map[string][]string{
		"zero value is not UNSPECIFIED": {"E_NONE", "E_A"},
		"value without the prefix":      {"E_UNSPECIFIED", "A"},
		"value that is only the prefix": {"E_UNSPECIFIED", "E_"},
	} {
		if names, err := EnumNames(buildFile(t, nil, values...).Enums().Get(0)); err == nil {
			t.Errorf("%s: EnumNames returns %v, want an error", name, names)
		}
	}
}
