package participant

import (
	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// toProto is the participant as a member of the given role sees it; a partner,
// who has none, sees what is theirs.
func toProto(p affiliate.Participant, role affiliate.Role) *affiliatev1.Participant {
	email := p.PartnerEmail
	if role == affiliate.RoleViewer {
		email = affiliate.MaskEmail(email)
	}
	return &affiliatev1.Participant{
		Id:                 p.ID.String(),
		ProgramId:          p.Program.String(),
		PartnerId:          p.Partner.String(),
		PartnerName:        p.PartnerName,
		PartnerEmail:       email,
		Status:             server.FromWord[affiliatev1.ParticipantStatus](p.Status),
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
	}
}
