package participant

import (
	"slices"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// toPartnerProto converts a participant to the message for the partner. The message does
// not contain the note, the tags, the group and the external id, which only the merchant
// may read.
func toPartnerProto(p participant.Participant) *affiliatev1.Participant {
	p.Note, p.Tags, p.Group, p.ExternalID = nil, nil, nil, nil
	return toProto(p, "")
}

// toProto converts a participant to the message for a member with the role.
func toProto(p participant.Participant, role affiliate.Role) *affiliatev1.Participant {
	return &affiliatev1.Participant{
		Id:                 p.ID.String(),
		ProgramId:          p.Program.String(),
		PartnerId:          server.OptionalID(p.VisiblePartner()),
		ExternalId:         p.ExternalID,
		PartnerConsent:     server.EnumValue[affiliatev1.PartnerConsent](p.Consent),
		PartnerName:        p.PartnerName,
		PartnerEmail:       emailFor(role, p.PartnerEmail),
		Status:             server.EnumValue[affiliatev1.ParticipantStatus](p.Status),
		ReferralCode:       p.ReferralCode,
		ApplicationAnswers: p.Answers,
		TermsAcceptedAt:    server.OptionalTimestamp(p.TermsAcceptedAt),
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
		CommissionOverride: server.Rate(p.Override),
		Tags:               p.Tags,
		Note:               p.Note,
		Clicks:             p.Stats.Clicks,
		Conversions:        p.Stats.Conversions,
		RevenueCents:       p.Stats.RevenueCents,
		CommissionCents:    p.Stats.CommissionCents,
		BalanceCents:       p.Stats.BalanceCents,
	}
}

// emailFor returns the e-mail address as a member with the role may read it. Viewers see
// a masked address.
func emailFor(role affiliate.Role, email string) string {
	if role == affiliate.RoleViewer {
		return affiliate.MaskEmail(email)
	}
	return email
}

// patchOf returns the changes of the fields that the request's mask names. Check has
// validated the mask and the values.
func patchOf(req *affiliatev1.UpdateParticipantRequest) participant.Patch {
	var (
		patch   participant.Patch
		ignored affiliate.Violations // Check has already reported violations
	)
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "note":
			patch.Note = affiliate.Change[string]{Given: true, Value: req.Note}
		case "tags":
			patch.Tags = affiliate.Set(distinct(req.GetTags()))
		case "group_id":
			patch.Group = affiliate.Clear[affiliate.GroupID]()
			if id, ok := affiliate.ParseID[affiliate.GroupID](req.GetGroupId()); ok {
				patch.Group = affiliate.Set(id)
			}
		case "external_id":
			patch.ExternalID = affiliate.Change[string]{Given: true, Value: req.ExternalId}
		case "referral_code":
			patch.ReferralCode = affiliate.Set(click.FoldCode(req.GetReferralCode()))
		default:
			patch.Override = affiliate.Change[program.Rate]{Given: true, Value: server.ParseRate(overrideOf(req), overrideField, &ignored)}
		}
	}
	return patch
}

// overrideOf returns the commission rate that replaces the participant's stored override,
// or nil if the override must be cleared. An override is always replaced as a whole, even
// if the mask names only one of its fields. If the mask names a field of the override but
// the request contains no override, the result is an empty rate, which server.ParseRate
// rejects.
func overrideOf(req *affiliatev1.UpdateParticipantRequest) *affiliatev1.CommissionRate {
	override := req.GetCommissionOverride()
	partNamed := slices.ContainsFunc(req.GetUpdateMask().GetPaths(), func(path string) bool {
		return strings.HasPrefix(path, overrideField+".")
	})
	if override == nil && partNamed {
		return &affiliatev1.CommissionRate{}
	}
	return override
}

// distinct returns the trimmed tags without duplicates, in their original order.
func distinct(tags []string) []string {
	unique := make([]string, 0, len(tags))
	for _, tag := range tags {
		if tag = strings.TrimSpace(tag); !slices.Contains(unique, tag) {
			unique = append(unique, tag)
		}
	}
	return unique
}
