package participant

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store reads and changes participants in the database. The errors with an API error code
// are of type *affiliate.Error. A change, its audit record, its event and the job that
// updates the edge directory are stored in one transaction. Returned participants include
// their statistics.
type Store interface {
	// Apply stores the application of a partner and returns the new participant. Errors:
	// NOT_FOUND, VALIDATION_ERROR if the terms were not accepted, APPLICATION_DUPLICATE,
	// REFERRAL_CODE_TAKEN.
	Apply(ctx context.Context, a affiliate.Application, at time.Time, by affiliate.Actor) (affiliate.Participant, error)
	// AcceptParticipantInvite makes a partner an approved participant. digest is the hash
	// of the invitation's token. Errors: NOT_FOUND, VALIDATION_ERROR if the terms were
	// not accepted, APPLICATION_DUPLICATE, REFERRAL_CODE_TAKEN.
	AcceptParticipantInvite(ctx context.Context, digest [sha256.Size]byte, mode affiliate.Mode, partner affiliate.UserID, acceptTerms bool, at time.Time, by affiliate.Actor) (affiliate.Participant, error)
	// Participant reads one participant. Errors: NOT_FOUND.
	Participant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) (affiliate.Participant, error)
	// ListParticipants reads one page of participants and counts all participants that
	// match the filter. If the filter has a search text, it stops counting at
	// affiliate.MaxSearchTotal. If the filter has no search text but names a group, it
	// stops counting at affiliate.MaxTotal. In all other cases the number is exact.
	// Errors: NOT_FOUND for the programme and the filter's group.
	ListParticipants(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, filter affiliate.ParticipantFilter, order affiliate.ParticipantOrder, page affiliate.Page) ([]affiliate.Participant, int64, error)
	// UpdateParticipant changes the fields that the patch names. Errors: NOT_FOUND,
	// PARTICIPANT_ERASED, VALIDATION_ERROR for a group of another programme,
	// REFERRAL_CODE_TAKEN.
	UpdateParticipant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID, patch affiliate.ParticipantPatch, at time.Time, by affiliate.Actor) (affiliate.Participant, error)
	// MoveParticipant changes the status of a participant. reason may be nil. Errors:
	// NOT_FOUND, PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID. The metadata of the last
	// two errors contains the current status.
	MoveParticipant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID, move affiliate.ParticipantMove, reason *string, at time.Time, by affiliate.Actor) (affiliate.Participant, error)

	// InviteParticipant stores an invitation and its mail. It adds the names of the
	// workspace, the programme and the inviter to the mail. If the same address has an open
	// invitation, the new invitation replaces it. Errors: NOT_FOUND, PROGRAM_STATE_INVALID,
	// VALIDATION_ERROR for a group of another programme, APPLICATION_DUPLICATE,
	// REFERRAL_CODE_TAKEN.
	InviteParticipant(ctx context.Context, invite affiliate.ParticipantInvite, digest [sha256.Size]byte, mail affiliate.Mail, by affiliate.Actor) error
	// ListParticipantInvites reads one page of the invitations that are open at the given
	// time, newest first. It also counts all open invitations, up to affiliate.MaxTotal.
	// Errors: NOT_FOUND for the programme.
	ListParticipantInvites(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, now time.Time, page affiliate.Page) ([]affiliate.ParticipantInvite, int64, error)
	// RevokeParticipantInvite revokes an open invitation. Errors: NOT_FOUND.
	RevokeParticipantInvite(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.InviteID, at time.Time, by affiliate.Actor) error
}
