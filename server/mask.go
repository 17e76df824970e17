package server

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
)

// Update is a request that changes the fields named in its update mask. In the request
// message, fields that identify the record have lower field numbers than the mask. Fields
// that can be changed have higher field numbers.
type Update interface {
	proto.Message
	GetUpdateMask() *fieldmaskpb.FieldMask
}

// maskField is the name of the update mask's field in all Update messages.
const maskField = "update_mask"

// CheckMask validates the update mask of a request. It adds a violation for each path in
// the mask that cannot be changed. It adds a violation for each field in required that
// the mask names and that is empty in the request. If the mask is empty but the request
// contains values, it adds a violation too, because the request would change nothing.
func CheckMask(req Update, found *affiliate.Violations, required ...string) {
	m := req.ProtoReflect()
	paths := req.GetUpdateMask().GetPaths()
	for _, path := range paths {
		if !changeable(m.Descriptor(), path) {
			found.Add(maskField, fmt.Sprintf("must not name %q, which cannot be changed", path))
		}
	}
	for _, path := range required {
		if field := m.Descriptor().Fields().ByName(protoreflect.Name(path)); slices.Contains(paths, path) && (!m.Has(field) || m.Get(field).String() == "") {
			found.Add(path, affiliate.IsRequired)
		}
	}
	if len(paths) > 0 {
		return
	}
	mask := m.Descriptor().Fields().ByName(maskField)
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.Number() > mask.Number() && hasContent(field, value) {
			found.Add(maskField, "must name the fields that are given")
			return false
		}
		return true
	})
}

// changeable reports whether the mask of an update may contain path. The first name in
// the path must be a field with a higher number than the mask. Nested fields are allowed,
// except the fields of list elements and of Google's well-known types.
func changeable(update protoreflect.MessageDescriptor, path string) bool {
	message, mask := update, update.Fields().ByName(maskField)
	for rest, nested := path, true; nested; {
		var name string
		name, rest, nested = strings.Cut(rest, ".")
		field := message.Fields().ByName(protoreflect.Name(name))
		if field == nil || message == update && field.Number() <= mask.Number() {
			return false
		}
		if message = field.Message(); nested && (message == nil || field.Cardinality() == protoreflect.Repeated || message.FullName().Parent() == "google.protobuf") {
			return false
		}
	}
	return true
}

// hasContent reports whether a field has a value that an update could apply. It returns
// false if the value is a message in which no field is set, neither directly nor in its
// nested messages. A JSON body can contain such an empty object, and the gateway adds no
// path for it to the mask.
func hasContent(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	if field.Message() == nil || field.Cardinality() == protoreflect.Repeated || field.Message().FullName().Parent() == "google.protobuf" {
		return true
	}
	found := false
	value.Message().Range(func(inner protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		found = hasContent(inner, value)
		return !found
	})
	return found
}
