package program

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// The paths that an update mask may hold.
var (
	patchableProgram = maskPaths((&affiliatev1.UpdateProgramRequest{}).ProtoReflect().Descriptor())
	patchableGroup   = maskPaths((&affiliatev1.UpdateGroupRequest{}).ProtoReflect().Descriptor())
)

// maskPaths are the paths of all fields of an update but those that say what is
// updated. The fields of an object can be named, those of a list's elements not.
func maskPaths(request protoreflect.MessageDescriptor) map[string]bool {
	paths := map[string]bool{}
	var add func(d protoreflect.MessageDescriptor, prefix string)
	add = func(d protoreflect.MessageDescriptor, prefix string) {
		for i := range d.Fields().Len() {
			field := d.Fields().Get(i)
			path := prefix + string(field.Name())
			switch path {
			case "program_id", "group_id", "update_mask":
				continue
			}
			paths[path] = true
			if field.Message() != nil && field.Cardinality() != protoreflect.Repeated {
				add(field.Message(), path+".")
			}
		}
	}
	add(request, "")
	return paths
}

// checkMask refuses paths that are no fields, fields without a path, which
// would silently change nothing, and the clearing of what must not be empty.
func checkMask(req interface {
	proto.Message
	GetUpdateMask() *fieldmaskpb.FieldMask
	GetName() string
}, patchable map[string]bool, found *affiliate.Violations,
) {
	paths := req.GetUpdateMask().GetPaths()
	for _, path := range paths {
		if !patchable[path] {
			found.Add("update_mask", fmt.Sprintf("%q cannot be changed", path))
		}
		if path == "name" && req.GetName() == "" {
			found.Add("name", "is required")
		}
	}
	if len(paths) > 0 {
		return
	}
	req.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if patchable[string(field.Name())] && saysSomething(field, value) {
			found.Add("update_mask", "has to name the fields that are given")
			return false
		}
		return true
	})
}

// saysSomething is false for an object without fields, however deep: it merges
// nothing.
func saysSomething(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	if field.Message() == nil || field.Cardinality() == protoreflect.Repeated {
		return true
	}
	something := false
	value.Message().Range(func(inner protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		something = saysSomething(inner, value)
		return !something
	})
	return something
}
