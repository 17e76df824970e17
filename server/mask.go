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

// Update is a request that changes what its mask names. In the message the
// fields that say what is updated stand before the mask, those that may be
// changed behind it.
type Update interface {
	proto.Message
	GetUpdateMask() *fieldmaskpb.FieldMask
}

// maskField is the name of the mask in every update.
const maskField = "update_mask"

// CheckMask refuses paths that cannot be changed, fields without a path, which
// would silently change nothing, and the clearing of the required ones.
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
		if field.Number() > mask.Number() && says(field, value) {
			found.Add(maskField, "must name the fields that are given")
			return false
		}
		return true
	})
}

// changeable reports whether an update may name a path: a field behind the mask,
// or a field of an object of ours there. The fields of a list's elements and of
// well-known types cannot be named.
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

// says is false for an object without fields, however deep: over REST it is
// there and has no path, and it merges nothing.
func says(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	if field.Message() == nil || field.Cardinality() == protoreflect.Repeated || field.Message().FullName().Parent() == "google.protobuf" {
		return true
	}
	something := false
	value.Message().Range(func(inner protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		something = says(inner, value)
		return !something
	})
	return something
}
