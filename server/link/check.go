package link

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// update is a request that changes a link, the merchant's or the partner's.
type update interface {
	proto.Message
	GetUpdateMask() *fieldmaskpb.FieldMask
	GetDestinationUrl() string
	GetSubId() string
	GetUtm() *affiliatev1.Utm
}

// Check reports what is wrong with a request by itself. Which hosts a link may
// lead to is known only with the programme at hand.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case creation:
		checkURL(req.GetDestinationUrl(), &found)
		if affiliate.ReservedCode(req.GetCode()) {
			found.Add("code", "is reserved")
		}
	case update:
		checkMask(req, &found)
		m := req.ProtoReflect()
		if m.Has(m.Descriptor().Fields().ByName("destination_url")) {
			checkURL(req.GetDestinationUrl(), &found)
		}
	}
	return found
}

func checkURL(text string, found *affiliate.Violations) {
	if _, ok := affiliate.ParseWebURL(text); !ok {
		found.Add("destination_url", "is no http or https URL")
	}
}

// patchable are the paths that an update mask may hold.
var patchable = map[string]bool{
	"destination_url": true, "sub_id": true,
	"utm": true, "utm.source": true, "utm.medium": true, "utm.campaign": true, "utm.term": true, "utm.content": true,
}

// checkMask refuses paths that are no fields, and fields without a path, which
// would silently change nothing.
func checkMask(req update, found *affiliate.Violations) {
	paths := req.GetUpdateMask().GetPaths()
	for _, path := range paths {
		if !patchable[path] {
			found.Add("update_mask", fmt.Sprintf("%q cannot be changed", path))
		}
	}
	if len(paths) > 0 {
		return
	}
	req.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		// Over REST an object without keys is there and has no path.
		empty := field.Message() != nil && !given(value.Message())
		if patchable[string(field.Name())] && !empty {
			found.Add("update_mask", "has to name the fields that are given")
			return false
		}
		return true
	})
}

// given reports whether any field of a message is set.
func given(m protoreflect.Message) (set bool) {
	m.Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool {
		set = true
		return false
	})
	return set
}
