package export

import (
	"encoding/hex"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate/bundle"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

// queries has the statement of each part at each level. Each statement reads one page in the
// order of an index.
var queries = map[bundle.Level]map[bundle.Part]query{
	bundle.LevelAccount: {
		bundle.PartProfile:       records(userProfile, func(r *bundle.Profile) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartSessions:      records(userSessions, sessionPosition),
		bundle.PartNetworks:      records(userNetworks, networkPosition),
		bundle.PartDevices:       records(userDevices, devicePosition),
		bundle.PartPreferences:   records(userPreferences, preferencePosition),
		bundle.PartNotifications: records(userNotifications, notificationPosition),
		bundle.PartMails:         records(userMails, mailPosition),
		bundle.PartAudit:         records(userAudit, func(r *bundle.AccountAudit) privacy.ExportPosition { return byID(r.ID) }),
	},
	bundle.LevelParticipation: {
		bundle.PartProfile:        records(participantProfile, func(r *bundle.ParticipantProfile) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartParticipations: records(participation, participationPosition),
		bundle.PartConsents:       records(participantConsents, consentPosition),
		bundle.PartLinks:          records(participantLinks, func(r *bundle.Link) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartReferralCodes:  records(participantCodes, codePosition),
		bundle.PartPromoCodes:     records(participantPromoCodes, func(r *bundle.PromoCode) privacy.ExportPosition { return byTime(r.CreatedAt, r.ID.UUID) }),
		bundle.PartClickSummary:   records(participantClickDays, clickDayPosition),
		bundle.PartClicks:         records(participantClicks, clickPosition),
		bundle.PartConversions:    records(participantConversions, func(r *bundle.Conversion) privacy.ExportPosition { return byTime(r.CreatedAt, r.ID.UUID) }),
		bundle.PartFraudEvents:    records(participantFraudEvents, func(r *bundle.FraudEvent) privacy.ExportPosition { return byTime(r.CreatedAt, r.ID) }),
		bundle.PartCommissions:    records(participantCommissions, func(r *bundle.Commission) privacy.ExportPosition { return byTime(r.CreatedAt, r.ID.UUID) }),
		bundle.PartPayouts:        records(participantPayouts, func(r *bundle.Payout) privacy.ExportPosition { return byTime(r.CreatedAt, r.ID.UUID) }),
		bundle.PartLedger:         records(participantLedger, func(r *bundle.LedgerEntry) privacy.ExportPosition { return byTime(r.CreatedAt, r.ID) }),
		bundle.PartNotifications:  records(participantNotifications, notificationPosition),
		bundle.PartAudit:          records(participantAudit, auditPosition),
		bundle.PartProgramAudit:   records(partnerAudit, auditPosition),
	},
	bundle.LevelWorkspace: {
		bundle.PartWorkspace:            records(workspace, func(r *bundle.Workspace) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartMembers:              records(members, func(r *bundle.Member) privacy.ExportPosition { return byID(r.UserID.UUID) }),
		bundle.PartMemberInvites:        records(memberInvites, func(r *bundle.MemberInvite) privacy.ExportPosition { return byID(r.ID) }),
		bundle.PartSessions:             records(memberSessions, sessionPosition),
		bundle.PartNetworks:             records(memberNetworks, networkPosition),
		bundle.PartDevices:              records(memberDevices, devicePosition),
		bundle.PartPreferences:          records(memberPreferences, preferencePosition),
		bundle.PartAPIKeys:              records(apiKeys, func(r *bundle.APIKey) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartServiceTokens:        records(serviceTokens, func(r *bundle.ServiceToken) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartEndpoints:            records(endpoints, func(r *bundle.Endpoint) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartProcessorConnections: records(connections, func(r *bundle.ProcessorConnection) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartPrograms:             records(programs, func(r *bundle.Program) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartGroups:               records(groups, func(r *bundle.Group) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartRules: records(rules, func(r *bundle.RuleVersion) privacy.ExportPosition {
			return privacy.ExportPosition{ID: r.ProgramID.UUID, Number: r.Version}
		}),
		bundle.PartParticipantInvites: records(participantInvites, func(r *bundle.ParticipantInvite) privacy.ExportPosition { return byID(r.ID) }),
		bundle.PartParticipants:       records(workspaceParticipants, participationPosition),
		bundle.PartConsents:           records(workspaceConsents, consentPosition),
		bundle.PartLinks:              records(workspaceLinks, func(r *bundle.Link) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartReferralCodes:      records(workspaceCodes, codePosition),
		bundle.PartPromoCodes:         records(workspacePromoCodes, func(r *bundle.PromoCode) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartClickSummary:       records(workspaceClickDays, clickDayPosition),
		bundle.PartClicks:             records(workspaceClicks, clickPosition),
		bundle.PartConversions:        records(workspaceConversions, func(r *bundle.Conversion) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartRefunds:            records(refunds, func(r *bundle.Refund) privacy.ExportPosition { return byID(r.ID) }),
		bundle.PartFraudEvents:        records(workspaceFraudEvents, func(r *bundle.FraudEvent) privacy.ExportPosition { return byID(r.ID) }),
		bundle.PartCommissions:        records(workspaceCommissions, func(r *bundle.Commission) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartCommissionHistory: records(commissionHistory, func(r *bundle.CommissionChange) privacy.ExportPosition {
			return privacy.ExportPosition{ID: r.CommissionID.UUID, Number: r.Seq}
		}),
		bundle.PartPayouts:       records(workspacePayouts, func(r *bundle.Payout) privacy.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartPayoutBatches: records(payoutBatches, func(r *bundle.PayoutBatch) privacy.ExportPosition { return byID(r.ID) }),
		bundle.PartLedger:        records(workspaceLedger, func(r *bundle.LedgerEntry) privacy.ExportPosition { return byID(r.ID) }),
		bundle.PartNotifications: records(workspaceNotifications, notificationPosition),
		bundle.PartMails:         records(workspaceMails, mailPosition),
		bundle.PartAudit:         records(workspaceAudit, auditPosition),
	},
}

// The position of a record consists of the columns in the order of its statement. Two texts
// are one text with pairSeparator between them.

func byID(id uuid.UUID) privacy.ExportPosition { return privacy.ExportPosition{ID: id} }

func byTime(at bundle.Time, id uuid.UUID) privacy.ExportPosition {
	return privacy.ExportPosition{At: time.Time(at), ID: id}
}

func sessionPosition(r *bundle.Session) privacy.ExportPosition { return byID(r.ID.UUID) }

func networkPosition(r *bundle.Network) privacy.ExportPosition {
	return privacy.ExportPosition{ID: r.UserID.UUID, Text: r.IPPrefix}
}

func devicePosition(r *bundle.Device) privacy.ExportPosition {
	return privacy.ExportPosition{ID: r.UserID.UUID, Text: hex.EncodeToString(r.Device)}
}

func preferencePosition(r *bundle.Preference) privacy.ExportPosition {
	return privacy.ExportPosition{ID: r.UserID.UUID, Text: string(r.Category)}
}

func notificationPosition(r *bundle.Notification) privacy.ExportPosition {
	return privacy.ExportPosition{At: time.Time(r.Day), ID: r.ID, Text: r.Mode + pairSeparator + string(r.Category)}
}

func codePosition(r *bundle.ReferralCode) privacy.ExportPosition {
	return privacy.ExportPosition{Text: string(r.Mode) + pairSeparator + r.Code}
}

func mailPosition(r *bundle.Mail) privacy.ExportPosition { return byTime(r.CreatedAt, r.ID.UUID) }

func auditPosition(r *bundle.Audit) privacy.ExportPosition { return byTime(r.At, r.ID) }

func participationPosition(r *bundle.Participation) privacy.ExportPosition { return byID(r.ID.UUID) }

func consentPosition(r *bundle.Consent) privacy.ExportPosition { return byID(r.ParticipantID.UUID) }

func clickPosition(r *bundle.Click) privacy.ExportPosition { return byTime(r.ClickedAt, r.ID.UUID) }

func clickDayPosition(r *bundle.ClickDay) privacy.ExportPosition {
	return byTime(bundle.Time(r.Day), r.ParticipantID.UUID)
}
