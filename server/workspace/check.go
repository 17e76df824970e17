package workspace

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Check reports what is wrong with a request by itself.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.UpdateWorkspaceRequest:
		checkMask(req, &found)
		checkSettings(req, &found)
	case *affiliatev1.CreateInviteRequest:
		checkAddress("email", req.GetEmail(), &found)
	case *affiliatev1.CreateApiKeyRequest:
		if req.GetExpiresAt() != nil && !req.GetExpiresAt().AsTime().After(s.now()) {
			found.Add("expires_at", "must lie in the future")
		}
	case auditRequest:
		_, found = affiliate.ParsePeriod(req.GetDateFrom(), req.GetDateTo(), req.GetTimezone())
	}
	return found
}

// patchable are the paths that an update mask may hold.
var patchable = func() map[string]bool {
	paths := map[string]bool{}
	fields := (&affiliatev1.UpdateWorkspaceRequest{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); name != "update_mask" {
			paths[name] = true
		}
	}
	return paths
}()

// checkMask refuses paths that are no fields, fields without a path, which would
// silently change nothing, and the clearing of what must not be empty.
func checkMask(req *affiliatev1.UpdateWorkspaceRequest, found *affiliate.Violations) {
	paths := req.GetUpdateMask().GetPaths()
	required := map[string]string{"name": req.GetName(), "currency": req.GetCurrency(), "timezone": req.GetTimezone()}
	for _, path := range paths {
		if !patchable[path] {
			found.Add("update_mask", fmt.Sprintf("%q cannot be changed", path))
		}
		if value, ok := required[path]; ok && value == "" {
			found.Add(path, "is required")
		}
	}
	if len(paths) > 0 {
		return
	}
	req.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if field.Name() == "update_mask" {
			return true
		}
		found.Add("update_mask", "has to name the fields that are given")
		return false
	})
}

func checkSettings(req *affiliatev1.UpdateWorkspaceRequest, found *affiliate.Violations) {
	if currency := req.GetCurrency(); currency != "" {
		if _, ok := affiliate.ParseCurrency(currency); !ok {
			found.Add("currency", "is no ISO 4217 currency")
		}
	}
	if timezone := req.GetTimezone(); timezone != "" && !affiliate.ValidTimezone(timezone) {
		found.Add("timezone", "must be an IANA time zone, for example Europe/Berlin")
	}
	for i, origin := range req.GetAllowedOrigins() {
		if _, ok := affiliate.ParseOrigin(origin); !ok {
			found.Add(fmt.Sprintf("allowed_origins[%d]", i), "is no origin, for example https://shop.example.com or https://*.example.com")
		}
	}
	if req.TestMailRedirect != nil {
		checkAddress("test_mail_redirect", req.GetTestMailRedirect(), found)
	}
}

func checkAddress(field, email string, found *affiliate.Violations) {
	if !affiliate.BareAddress(email) {
		found.Add(field, "must be a bare e-mail address")
	}
}
