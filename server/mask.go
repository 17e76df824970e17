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

// Update is a request that changes the fields named in its update mask. In the message,
// the fields that identify the record have lower numbers than the mask, and the fields
// that can be changed have higher numbers.
type Update interface {
	proto.Message
	GetUpdateMask() *fieldmaskpb.FieldMask
}

// maskField is the field name of the mask in every update.
const maskField = "update_mask"

// CheckMask adds a violation for each path in the mask that cannot be changed, and for
// each required field that the mask names and that is empty. It also adds a violation if
// the request has values but an empty mask: such a request would change nothing.
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

// changeable reports whether the mask of an update may contain path. It may name a field
// after the mask, or a nested field of such a field. It cannot name fields of list
// elements or of the well-known types of Google.
func changeable(update protoreflect.MessageDescriptor, path string) bool {
	in, mask := update, update.Fields().ByName(maskField)
	for rest, nested := path, true; nested; {
		var name string
		name, rest, nested = strings.Cut(rest, ".")
		field := in.Fields().ByName(protoreflect.Name(name))
		if field == nil || in == update && field.Number() <= mask.Number() {
			return false
		}
		if in = field.Message(); nested && (in == nil || field.Cardinality() == protoreflect.Repeated || in.FullName().Parent() == "google.protobuf") {
			return false
		}
	}
	return true
}

// hasContent reports whether a field has a value that an update could apply. It is false
// for a message that has no set field at any depth: a JSON body can contain such an empty
// object, and the gateway writes no path for it.
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
