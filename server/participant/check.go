package participant

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Check reports what is wrong with a request by itself.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.ApplyRequest:
		checkCode(req.GetReferralCode(), &found)
	case *affiliatev1.InviteParticipantRequest:
		checkCode(req.GetReferralCode(), &found)
		if !affiliate.BareAddress(req.GetEmail()) {
			found.Add("email", "is no e-mail address")
		}
	case *affiliatev1.ListParticipantsRequest:
		// A number without a name, which only gRPC can carry.
		if status := req.GetStatus(); status != 0 && server.Word(status) == "" {
			found.Add("status", "has no such value")
		}
	case *affiliatev1.UpdateParticipantRequest:
		checkMask(req, &found)
		checkCode(req.GetReferralCode(), &found)
		for i, tag := range req.GetTags() {
			if strings.TrimSpace(tag) == "" {
				found.Add(fmt.Sprintf("tags[%d]", i), "must not be empty")
			}
		}
		if override := overrideOf(req); override != nil {
			server.RateOf(override, overrideField, &found)
		}
	}
	return found
}

func checkCode(code string, found *affiliate.Violations) {
	if affiliate.ReservedCode(code) {
		found.Add("referral_code", "is reserved")
	}
}

// checkMask refuses paths that are no fields, fields without a path, which
// would silently change nothing, and the clearing of the code, which there has
// to be.
func checkMask(req *affiliatev1.UpdateParticipantRequest, found *affiliate.Violations) {
	paths := req.GetUpdateMask().GetPaths()
	for _, path := range paths {
		if !patchable[path] {
			found.Add("update_mask", fmt.Sprintf("%q cannot be changed", path))
		}
		if path == "referral_code" && req.GetReferralCode() == "" {
			found.Add(path, "is required")
		}
	}
	if len(paths) > 0 {
		return
	}
	req.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		switch field.Name() {
		case "program_id", "participant_id", "update_mask":
			return true
		}
		found.Add("update_mask", "has to name the fields that are given")
		return false
	})
}

// overrideField is the path of the rate as a whole.
const overrideField = "commission_override"

// patchable are the paths that an update mask may hold.
var patchable = map[string]bool{
	"note": true, "tags": true, "group_id": true, "referral_code": true,
	overrideField: true, overrideField + ".percentage": true, overrideField + ".flat_amount_cents": true,
}
