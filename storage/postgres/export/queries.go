package export

import (
	"encoding/hex"
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/bundle"
)

// queries has the statement of each part at each level. Each statement reads one page in the
// order of an index.
var queries = map[bundle.Level]map[bundle.Part]query{
	bundle.LevelAccount: {
		bundle.PartProfile:       records(userProfile, func(r *bundle.Profile) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartSessions:      records(userSessions, sessionPosition),
		bundle.PartNetworks:      records(userNetworks, networkPosition),
		bundle.PartDevices:       records(userDevices, devicePosition),
		bundle.PartPreferences:   records(userPreferences, preferencePosition),
		bundle.PartNotifications: records(userNotifications, notificationPosition),
		bundle.PartMails:         records(userMails, mailPosition),
		bundle.PartAudit:         records(userAudit, func(r *bundle.AccountAudit) affiliate.ExportPosition { return byID(r.ID) }),
	},
	bundle.LevelParticipation: {
		bundle.PartProfile:        records(participantProfile, func(r *bundle.ParticipantProfile) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartParticipations: records(participation, participationPosition),
		bundle.PartConsents:       records(participantConsents, consentPosition),
		bundle.PartLinks:          records(participantLinks, func(r *bundle.Link) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartReferralCodes:  records(participantCodes, codePosition),
		bundle.PartPromoCodes:     records(participantPromoCodes, func(r *bundle.PromoCode) affiliate.ExportPosition { return byTime(r.CreatedAt, r.ID.UUID) }),
		bundle.PartClickSummary:   records(participantClickDays, clickDayPosition),
		bundle.PartClicks:         records(participantClicks, clickPosition),
		bundle.PartConversions:    records(participantConversions, func(r *bundle.Conversion) affiliate.ExportPosition { return byTime(r.CreatedAt, r.ID.UUID) }),
		bundle.PartFraudEvents:    records(participantFraudEvents, func(r *bundle.FraudEvent) affiliate.ExportPosition { return byTime(r.CreatedAt, r.ID) }),
		bundle.PartCommissions:    records(participantCommissions, func(r *bundle.Commission) affiliate.ExportPosition { return byTime(r.CreatedAt, r.ID.UUID) }),
		bundle.PartPayouts:        records(participantPayouts, func(r *bundle.Payout) affiliate.ExportPosition { return byTime(r.CreatedAt, r.ID.UUID) }),
		bundle.PartLedger:         records(participantLedger, func(r *bundle.LedgerEntry) affiliate.ExportPosition { return byTime(r.CreatedAt, r.ID) }),
		bundle.PartNotifications:  records(participantNotifications, notificationPosition),
		bundle.PartAudit:          records(participantAudit, auditPosition),
		bundle.PartProgramAudit:   records(partnerAudit, auditPosition),
	},
	bundle.LevelWorkspace: {
		bundle.PartWorkspace:            records(workspace, func(r *bundle.Workspace) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartMembers:              records(members, func(r *bundle.Member) affiliate.ExportPosition { return byID(r.UserID.UUID) }),
		bundle.PartMemberInvites:        records(memberInvites, func(r *bundle.MemberInvite) affiliate.ExportPosition { return byID(r.ID) }),
		bundle.PartSessions:             records(memberSessions, sessionPosition),
		bundle.PartNetworks:             records(memberNetworks, networkPosition),
		bundle.PartDevices:              records(memberDevices, devicePosition),
		bundle.PartPreferences:          records(memberPreferences, preferencePosition),
		bundle.PartAPIKeys:              records(apiKeys, func(r *bundle.APIKey) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartServiceTokens:        records(serviceTokens, func(r *bundle.ServiceToken) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartEndpoints:            records(endpoints, func(r *bundle.Endpoint) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartProcessorConnections: records(connections, func(r *bundle.ProcessorConnection) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartPrograms:             records(programs, func(r *bundle.Program) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartGroups:               records(groups, func(r *bundle.Group) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartRules: records(rules, func(r *bundle.RuleVersion) affiliate.ExportPosition {
			return affiliate.ExportPosition{ID: r.ProgramID.UUID, Number: r.Version}
		}),
		bundle.PartParticipantInvites: records(participantInvites, func(r *bundle.ParticipantInvite) affiliate.ExportPosition { return byID(r.ID) }),
		bundle.PartParticipants:       records(workspaceParticipants, participationPosition),
		bundle.PartConsents:           records(workspaceConsents, consentPosition),
		bundle.PartLinks:              records(workspaceLinks, func(r *bundle.Link) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartReferralCodes:      records(workspaceCodes, codePosition),
		bundle.PartPromoCodes:         records(workspacePromoCodes, func(r *bundle.PromoCode) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartClickSummary:       records(workspaceClickDays, clickDayPosition),
		bundle.PartClicks:             records(workspaceClicks, clickPosition),
		bundle.PartConversions:        records(workspaceConversions, func(r *bundle.Conversion) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartRefunds:            records(refunds, func(r *bundle.Refund) affiliate.ExportPosition { return byID(r.ID) }),
		bundle.PartFraudEvents:        records(workspaceFraudEvents, func(r *bundle.FraudEvent) affiliate.ExportPosition { return byID(r.ID) }),
		bundle.PartCommissions:        records(workspaceCommissions, func(r *bundle.Commission) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartCommissionHistory: records(commissionHistory, func(r *bundle.CommissionChange) affiliate.ExportPosition {
			return affiliate.ExportPosition{ID: r.CommissionID.UUID, Number: r.Seq}
		}),
		bundle.PartPayouts:       records(workspacePayouts, func(r *bundle.Payout) affiliate.ExportPosition { return byID(r.ID.UUID) }),
		bundle.PartPayoutBatches: records(payoutBatches, func(r *bundle.PayoutBatch) affiliate.ExportPosition { return byID(r.ID) }),
		bundle.PartLedger:        records(workspaceLedger, func(r *bundle.LedgerEntry) affiliate.ExportPosition { return byID(r.ID) }),
		bundle.PartNotifications: records(workspaceNotifications, notificationPosition),
		bundle.PartMails:         records(workspaceMails, mailPosition),
		bundle.PartAudit:         records(workspaceAudit, auditPosition),
	},
}

// The position of a record consists of the columns in the order of its statement. Two texts
// are one text with pairSeparator between them.

func byID(id uuid.UUID) affiliate.ExportPosition { return affiliate.ExportPosition{ID: id} }

func byTime(at bundle.Time, id uuid.UUID) affiliate.ExportPosition {
	return affiliate.ExportPosition{At: time.Time(at), ID: id}
}

func sessionPosition(r *bundle.Session) affiliate.ExportPosition { return byID(r.ID.UUID) }

func networkPosition(r *bundle.Network) affiliate.ExportPosition {
	return affiliate.ExportPosition{ID: r.UserID.UUID, Text: r.IPPrefix}
}

func devicePosition(r *bundle.Device) affiliate.ExportPosition {
	return affiliate.ExportPosition{ID: r.UserID.UUID, Text: hex.EncodeToString(r.Device)}
}

func preferencePosition(r *bundle.Preference) affiliate.ExportPosition {
	return affiliate.ExportPosition{ID: r.UserID.UUID, Text: string(r.Category)}
}

func notificationPosition(r *bundle.Notification) affiliate.ExportPosition {
	return affiliate.ExportPosition{At: time.Time(r.Day), ID: r.ID, Text: r.Mode + pairSeparator + string(r.Category)}
}

func codePosition(r *bundle.ReferralCode) affiliate.ExportPosition {
	return affiliate.ExportPosition{Text: string(r.Mode) + pairSeparator + r.Code}
}

func mailPosition(r *bundle.Mail) affiliate.ExportPosition { return byTime(r.CreatedAt, r.ID.UUID) }

func auditPosition(r *bundle.Audit) affiliate.ExportPosition { return byTime(r.At, r.ID) }

func participationPosition(r *bundle.Participation) affiliate.ExportPosition { return byID(r.ID.UUID) }

func consentPosition(r *bundle.Consent) affiliate.ExportPosition { return byID(r.ParticipantID.UUID) }

func clickPosition(r *bundle.Click) affiliate.ExportPosition { return byTime(r.ClickedAt, r.ID.UUID) }

func clickDayPosition(r *bundle.ClickDay) affiliate.ExportPosition {
	return byTime(bundle.Time(r.Day), r.ParticipantID.UUID)
}
