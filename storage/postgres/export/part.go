package export

import (
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

// Part is a member of a bundle that is read from the database. Its value is the key of the
// member in the JSON.
type Part string

// The parts. Several kinds of bundles have parts with the same key.
const (
	PartProfile              Part = "profile"
	PartSessions             Part = "sessions"
	PartNetworks             Part = "networks"
	PartDevices              Part = "devices"
	PartPreferences          Part = "preferences"
	PartNotifications        Part = "notifications"
	PartMails                Part = "mails"
	PartAudit                Part = "audit"
	PartProgramAudit         Part = "program_audit"
	PartWorkspace            Part = "workspace"
	PartMembers              Part = "members"
	PartMemberInvites        Part = "member_invites"
	PartAPIKeys              Part = "api_keys"
	PartServiceTokens        Part = "service_tokens"
	PartEndpoints            Part = "webhook_endpoints"
	PartProcessorConnections Part = "processor_connections"
	PartPrograms             Part = "programs"
	PartGroups               Part = "groups"
	PartRules                Part = "rules"
	PartParticipantInvites   Part = "participant_invites"
	PartParticipants         Part = "participants"
	PartParticipations       Part = "participations"
	PartConsents             Part = "consents"
	PartLinks                Part = "referral_links"
	PartReferralCodes        Part = "referral_codes"
	PartPromoCodes           Part = "promo_codes"
	PartClickSummary         Part = "click_summary"
	PartClicks               Part = "clicks"
	PartConversions          Part = "conversions"
	PartRefunds              Part = "refunds"
	PartFraudEvents          Part = "fraud_events"
	PartCommissions          Part = "commissions"
	PartCommissionHistory    Part = "commission_history"
	PartPayouts              Part = "payouts"
	PartPayoutBatches        Part = "payout_batches"
	PartLedger               Part = "ledger"
)

// Level says to what the records of a part belong.
type Level int

// The levels. The records of LevelAccount belong to the account of a partner, those of
// LevelParticipation to one participant, and those of LevelWorkspace to a workspace.
const (
	LevelAccount Level = iota
	LevelParticipation
	LevelWorkspace
)

// PartSpec is a part of a kind of bundle.
type PartSpec struct {
	Part  Part
	Level Level
	// Object means that the member is one record and not a list.
	Object bool
	// Empty means that the part exists only for the sake of a uniform format and has no
	// records.
	Empty bool
}

// ClickPeriod limits the clicks in a bundle to the clicks of this time before the export.
// click_summary has the counts of all days.
const ClickPeriod = 90 * 24 * time.Hour

// participationParts are the parts of each participation in the bundle of a partner or of a
// participant.
var participationParts = []Part{
	PartParticipations, PartConsents, PartLinks, PartReferralCodes, PartPromoCodes, PartClickSummary, PartClicks, PartConversions,
	PartCommissions, PartPayouts, PartLedger,
}

// Parts returns the parts of a kind of bundle, in their order.
func Parts(kind privacy.ExportKind) []PartSpec {
	var specs []PartSpec
	add := func(level Level, parts ...Part) {
		for _, part := range parts {
			specs = append(specs, PartSpec{Part: part, Level: level, Object: part == PartProfile || part == PartWorkspace})
		}
	}
	switch kind {
	case privacy.ExportPartner:
		add(LevelAccount, PartProfile, PartSessions, PartNetworks, PartDevices)
		add(LevelParticipation, participationParts...)
		add(LevelAccount, PartNotifications, PartPreferences, PartMails, PartAudit)
		add(LevelParticipation, PartProgramAudit)
	case privacy.ExportParticipant:
		add(LevelParticipation, PartProfile)
		specs = append(specs, PartSpec{Part: PartSessions, Empty: true})
		add(LevelParticipation, participationParts...)
		add(LevelParticipation, PartFraudEvents, PartNotifications)
		specs = append(specs, PartSpec{Part: PartPreferences, Empty: true})
		add(LevelParticipation, PartAudit)
	case privacy.ExportMerchant:
		add(LevelWorkspace,
			PartWorkspace, PartMembers, PartMemberInvites, PartSessions, PartNetworks, PartDevices, PartAPIKeys, PartServiceTokens, PartEndpoints,
			PartProcessorConnections, PartPrograms, PartGroups, PartRules, PartParticipantInvites, PartParticipants, PartConsents,
			PartLinks, PartReferralCodes, PartPromoCodes, PartClickSummary, PartClicks, PartConversions, PartRefunds, PartFraudEvents,
			PartCommissions, PartCommissionHistory, PartPayouts, PartPayoutBatches, PartLedger, PartNotifications, PartPreferences,
			PartMails, PartAudit)
	}
	return specs
}

// Filter selects the records of a part.
type Filter struct {
	Level Level
	// User is the partner's user. It is zero at LevelWorkspace.
	User affiliate.UserID
	// Participant is set at LevelParticipation. Workspace and Mode are zero at
	// LevelAccount, and Mode is empty at LevelWorkspace.
	Workspace   affiliate.WorkspaceID
	Mode        affiliate.Mode
	Participant affiliate.ParticipantID
	// ForPartner leaves out the columns that are internal to the merchant.
	ForPartner bool
	// ClicksSince is the time of the first click that the bundle contains.
	ClicksSince time.Time
}
