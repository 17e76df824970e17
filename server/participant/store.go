package participant

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/server"
)

// Store reads and changes participants in the database. The errors with an API error code
// are of type *affiliate.Error. A change, its audit record, its event and the job that
// updates the edge directory are stored in one transaction. Returned participants include
// their statistics.
type Store interface {
	// InTx runs fn in one transaction, which commits if fn returns nil. It may run fn
	// more than once.
	InTx(ctx context.Context, fn func(tx Tx) error) error
	// PartnerParticipation returns the scope of a programme and the id of the participant
	// that a partner has in it. Errors: NOT_FOUND.
	PartnerParticipation(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program affiliate.ProgramID) (affiliate.Scope, affiliate.ParticipantID, error)
	// Apply stores the application of a partner and returns the new participant. Errors:
	// NOT_FOUND, VALIDATION_ERROR if the terms were not accepted, APPLICATION_DUPLICATE,
	// REFERRAL_CODE_TAKEN.
	Apply(ctx context.Context, a participant.Application, at time.Time, by affiliate.Actor) (participant.Participant, error)
	// AcceptParticipantInvite makes a partner an approved participant. If the merchant has
	// made a participation for the partner, it accepts this one. digest is the hash of the
	// invitation's token. Errors: PARTICIPANT_STATE_INVALID if the merchant has withdrawn
	// the participation, NOT_FOUND, VALIDATION_ERROR if the terms were
	// not accepted, APPLICATION_DUPLICATE, REFERRAL_CODE_TAKEN.
	AcceptParticipantInvite(ctx context.Context, digest [sha256.Size]byte, mode affiliate.Mode, partner affiliate.UserID, acceptTerms bool, at time.Time, by affiliate.Actor) (participant.Participant, error)
	// Participant reads one participant. Errors: NOT_FOUND.
	Participant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) (participant.Participant, error)
	// ListParticipants reads one page of participants and counts all participants that
	// match the filter. If the filter has a search text, it stops counting at
	// affiliate.MaxSearchTotal. If the filter has no search text but names a group, it
	// stops counting at affiliate.MaxTotal. In all other cases the number is exact.
	// Errors: NOT_FOUND for the programme and the filter's group.
	ListParticipants(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, filter participant.Filter, order participant.Order, page affiliate.Page) ([]participant.Participant, int64, error)
	// UpdateParticipant changes the fields that the patch names. Errors: NOT_FOUND,
	// PARTICIPANT_ERASED, VALIDATION_ERROR for a group of another programme,
	// REFERRAL_CODE_TAKEN, EXTERNAL_ID_TAKEN.
	UpdateParticipant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID, patch participant.Patch, at time.Time, by affiliate.Actor) (participant.Participant, error)
	// MoveParticipant changes the status of a participant. reason may be nil. Errors:
	// NOT_FOUND, PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID. The metadata of the last
	// two errors contains the current status.
	MoveParticipant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID, move participant.Move, reason *string, at time.Time, by affiliate.Actor) (participant.Participant, error)

	// ListParticipantInvites reads one page of the invitations that are open at the given
	// time, newest first. It also counts all open invitations, up to affiliate.MaxTotal.
	// Errors: NOT_FOUND for the programme.
	ListParticipantInvites(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, now time.Time, page affiliate.Page) ([]participant.Invite, int64, error)
	// RevokeParticipantInvite revokes an open invitation. Errors: NOT_FOUND.
	RevokeParticipantInvite(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.InviteID, at time.Time, by affiliate.Actor) error
}

// Tx is a transaction of the store.
type Tx interface {
	server.KeyTx
	// LockOpenProgram returns a programme that is not archived and stays so until the
	// transaction ends. Errors: NOT_FOUND, PROGRAM_STATE_INVALID.
	LockOpenProgram(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error)
	// LockActiveProgram returns an active programme, which stays active until the
	// transaction ends. Errors: NOT_FOUND.
	LockActiveProgram(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error)
	// LockGroup prevents the deletion of a group of the programme. group can be nil.
	// Errors: NOT_FOUND.
	LockGroup(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, group *affiliate.GroupID) error
	// AddParticipant stores a new participant with its code, links, events, counts and
	// audit record. It ends an open invitation of the address. Errors:
	// APPLICATION_DUPLICATE, EXTERNAL_ID_TAKEN, REFERRAL_CODE_TAKEN.
	AddParticipant(ctx context.Context, p participant.Participant, requestedCode string, by affiliate.Actor) (participant.Participant, error)
	// LockParticipation returns the participant of a partner in a programme and locks it.
	// Errors: NOT_FOUND.
	LockParticipation(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, partner affiliate.UserID) (participant.Participant, error)
	// SetConsent stores that a partner has accepted or declined a locked participant.
	SetConsent(ctx context.Context, before, after participant.Participant, event affiliate.EventName, action string, by affiliate.Actor) (participant.Participant, error)
	// GroupRate returns the rate of a group of a programme, or nil if group is nil. Errors:
	// NOT_FOUND.
	GroupRate(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, group *affiliate.GroupID) (*program.Rate, error)
	// InviteParticipant stores an invitation with its audit record and returns it with its
	// programme. If the same address has an open invitation, the new invitation replaces it.
	// If the open invitation was mailed within account.InviteMailInterval, it stays with
	// the new group and code, and is returned.
	// Errors: NOT_FOUND, PROGRAM_STATE_INVALID, VALIDATION_ERROR for a group of another
	// programme, APPLICATION_DUPLICATE, REFERRAL_CODE_TAKEN.
	InviteParticipant(ctx context.Context, invite participant.Invite, digests account.InviteDigests, by affiliate.Actor) (stored participant.Invite, program program.Program, err error)
	// ParticipantInvite returns an invitation, also if it has ended. Errors: NOT_FOUND.
	ParticipantInvite(ctx context.Context, scope affiliate.Scope, id affiliate.InviteID) (participant.Invite, error)
	// InsertParticipantInvite stores an invitation, which replaces an earlier one to the same address.
	InsertParticipantInvite(ctx context.Context, invite participant.Invite, digests account.InviteDigests) error
	// NamesForMail returns the names of a workspace and of a user.
	NamesForMail(ctx context.Context, workspace affiliate.WorkspaceID, user affiliate.UserID) (workspaceName, userName string, err error)

	// Account returns an account. Errors: NOT_FOUND.
	Account(ctx context.Context, id affiliate.UserID) (account.Account, error)
	// AccountByEmail returns the account of a kind with an address in lower case.
	AccountByEmail(ctx context.Context, kind affiliate.AccountKind, email string) (account account.Account, found bool, err error)
	// LockUser locks the user of a kind with an address in lower case.
	LockUser(ctx context.Context, kind affiliate.AccountKind, email string) (id affiliate.UserID, found bool, err error)
	// LockUserByID locks a user. Errors: NOT_FOUND.
	LockUserByID(ctx context.Context, id affiliate.UserID) error
	// InsertUser stores a user. Errors: EMAIL_TAKEN.
	InsertUser(ctx context.Context, user account.User, passwordHash string) error
	// InsertEmailToken stores an e-mail token with its digest.
	InsertEmailToken(ctx context.Context, token account.EmailToken, digest [sha256.Size]byte) error
	// AuditAccount appends a line to the audit log of an account.
	AuditAccount(ctx context.Context, line affiliate.AccountAuditLine) error
	// Notify stores notifications.
	Notify(ctx context.Context, notifications ...notification.Notification) error
	// SendMail stores mails, which are sent after the commit.
	SendMail(ctx context.Context, mails ...notification.Mail) error
}
