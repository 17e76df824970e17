package participant

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/participant"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// toPartnerProto converts a participant to the message for the partner. The message does
// not contain the note, the tags, the group and the external id, which only the merchant
// may read.
func toPartnerProto(p participant.Detail) *affiliatev1.Participant {
	p.Note, p.Tags, p.Group, p.ExternalID = nil, nil, nil, nil
	return toProto(p, "")
}

// toProto converts a participant to the message for a member with the role.
func toProto(p participant.Detail, role affiliate.Role) *affiliatev1.Participant {
	return &affiliatev1.Participant{
		Id:                 p.ID.String(),
		ProgramId:          p.Program.String(),
		ProgramName:        p.ProgramName,
		Currency:           p.Currency,
		PartnerId:          server.OptionalID(p.VisiblePartner()),
		ExternalId:         p.ExternalID,
		PartnerConsent:     server.EnumValue[affiliatev1.PartnerConsent](p.Consent),
		PartnerName:        p.PartnerName,
		PartnerEmail:       emailFor(role, p.PartnerEmail),
		Status:             server.EnumValue[affiliatev1.ParticipantStatus](p.Status),
		ReferralCode:       p.ReferralCode,
		ApplicationAnswers: p.Answers,
		TermsAcceptedAt:    server.OptionalTimestamp(p.TermsAcceptedAt),
		TermsVersion:       server.OptionalInt32(p.TermsVersion),
		AppliedAt:          server.Timestamp(p.AppliedAt),
		ApprovedAt:         server.OptionalTimestamp(p.ApprovedAt),
		RejectedAt:         server.OptionalTimestamp(p.RejectedAt),
		RejectionReason:    p.RejectionReason,
		SuspendedAt:        server.OptionalTimestamp(p.SuspendedAt),
		SuspensionReason:   p.SuspensionReason,
		ErasedAt:           server.OptionalTimestamp(p.ErasedAt),
		CreatedAt:          server.Timestamp(p.CreatedAt),
		UpdatedAt:          server.Timestamp(p.UpdatedAt),
		GroupId:            server.OptionalID(p.Group),
		CommissionOverride: server.Rate(p.Override()),
		Tags:               p.Tags,
		Note:               p.Note,
		Clicks:             p.Clicks,
		Conversions:        p.Conversions,
		RevenueCents:       p.RevenueCents,
		CommissionCents:    p.CommissionCents,
		BalanceCents:       p.BalanceCents,
	}
}

// acceptanceOf returns whether a request accepts the terms of the programme.
func acceptanceOf(accepted bool, version *int32) participant.TermsAcceptance {
	acceptance := participant.TermsAcceptance{Accepted: accepted}
	if version != nil {
		seen := int(*version)
		acceptance.Version = &seen
	}
	return acceptance
}

// emailFor returns the e-mail address as a member with the role may read it. Viewers see
// a masked address.
func emailFor(role affiliate.Role, email string) string {
	if role == affiliate.RoleViewer {
		return affiliate.MaskEmail(email)
	}
	return email
}

// Check implements server.Checker.
func (s *Service) Check(req proto.Message) affiliate.Violations {
	var found affiliate.Violations
	switch req := req.(type) {
	case *affiliatev1.ApplyRequest:
		checkCode(req.GetReferralCode(), &found)
	case *affiliatev1.InviteParticipantRequest:
		checkInvitation(req, &found)
	case *affiliatev1.BulkInviteParticipantsRequest:
		for i, invite := range req.GetInvites() {
			var wrong affiliate.Violations
			checkInvitation(invite, &wrong)
			for _, v := range wrong {
				v.Field = fmt.Sprintf("invites[%d].%s", i, v.Field)
				found = append(found, v)
			}
		}
	case *affiliatev1.BulkUpdateParticipantsRequest:
		if !slices.Contains(req.GetUpdateMask().GetPaths(), "group_id") && len(req.GetAddTags())+len(req.GetRemoveTags()) == 0 {
			found.Add("add_tags", "is required if neither {group_id} nor {remove_tags} is given")
		}
		checkTags("add_tags", req.GetAddTags(), &found)
	case *affiliatev1.CreateParticipantRequest:
		server.CheckName("name", req.GetName(), &found)
		checkCode(req.GetReferralCode(), &found)
		checkEmail(req.GetEmail(), &found)
	case listRequest:
		server.CheckEnum("status", req.GetStatus(), &found)
	case *affiliatev1.UpdateParticipantRequest:
		server.CheckMask(req, &found, "referral_code")
		checkCode(req.GetReferralCode(), &found)
		checkTags("tags", req.GetTags(), &found)
		if override := overrideOf(req); override != nil {
			server.ParseRate(override, overrideField, &found)
		}
	}
	return found
}

// invitation has the fields of an invitation, alone or in a bulk request.
type invitation interface {
	GetName() string
	GetMessage() string
	GetReferralCode() string
	GetEmail() string
}

func checkInvitation(req invitation, found *affiliate.Violations) {
	server.CheckName("name", req.GetName(), found)
	if !affiliate.PlainText(req.GetMessage()) {
		found.Add("message", affiliate.MustBePlainText)
	}
	checkCode(req.GetReferralCode(), found)
	checkEmail(req.GetEmail(), found)
}

func checkTags(field string, tags []string, found *affiliate.Violations) {
	for i, tag := range tags {
		if strings.TrimSpace(tag) == "" {
			found.Add(fmt.Sprintf("%s[%d]", field, i), affiliate.MustNotBeEmpty)
		}
	}
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
