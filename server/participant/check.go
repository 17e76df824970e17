package participant

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/link"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.ApplyRequest:
		checkCode(req.GetReferralCode(), &found)
	case *affiliatev1.InviteParticipantRequest:
		server.CheckName("name", req.GetName(), &found)
		if !affiliate.PlainText(req.GetMessage()) {
			found.Add("message", affiliate.MustBePlainText)
		}
		checkCode(req.GetReferralCode(), &found)
		checkEmail(req.GetEmail(), &found)
	case *affiliatev1.CreateParticipantRequest:
		server.CheckName("name", req.GetName(), &found)
		checkCode(req.GetReferralCode(), &found)
		checkEmail(req.GetEmail(), &found)
	case *affiliatev1.ListParticipantsRequest:
		server.CheckEnum("status", req.GetStatus(), &found)
	case *affiliatev1.UpdateParticipantRequest:
		server.CheckMask(req, &found, "referral_code")
		checkCode(req.GetReferralCode(), &found)
		for i, tag := range req.GetTags() {
			if strings.TrimSpace(tag) == "" {
				found.Add(fmt.Sprintf("tags[%d]", i), affiliate.MustNotBeEmpty)
			}
		}
		if override := overrideOf(req); override != nil {
			server.ParseRate(override, overrideField, &found)
		}
	}
	return found
}

func checkCode(code string, found *affiliate.Violations) {
	if link.ReservedCode(code) {
		found.Add("referral_code", "must not be a reserved word")
	}
}

func checkEmail(email string, found *affiliate.Violations) {
	if !account.BareAddress(email) {
		found.Add("email", affiliate.MustBeEmail)
	}
}

// overrideField is the field mask path of the whole commission override.
const overrideField = "commission_override"
