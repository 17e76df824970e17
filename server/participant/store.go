package participant

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error. What a person changed is audited, published and taken to
// the edge directory in the transaction of the change. Participants come with
// their stats.
type Store interface {
	// Apply makes a partner a participant. Errors: NOT_FOUND, VALIDATION_ERROR for
	// terms, APPLICATION_DUPLICATE, REFERRAL_CODE_TAKEN.
	Apply(ctx context.Context, a affiliate.Application, at time.Time, by affiliate.Actor) (affiliate.Participant, error)
	// AcceptParticipantInvite makes a partner a participant by a token. Errors:
	// NOT_FOUND, VALIDATION_ERROR for terms, APPLICATION_DUPLICATE,
	// REFERRAL_CODE_TAKEN.
	AcceptParticipantInvite(ctx context.Context, digest [sha256.Size]byte, mode affiliate.Mode, partner affiliate.UserID, acceptTerms bool, at time.Time, by affiliate.Actor) (affiliate.Participant, error)
	// Participant reads one participant. Errors: NOT_FOUND.
	Participant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) (affiliate.Participant, error)
	// ListParticipants reads one page and counts all pages: with a search up to
	// affiliate.MaxSearchTotal, of a group up to affiliate.MaxTotal. Errors: NOT_FOUND
	// for the programme and the filter's group.
	ListParticipants(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, filter affiliate.ParticipantFilter, order affiliate.ParticipantOrder, page affiliate.Page) ([]affiliate.Participant, int64, error)
	// UpdateParticipant changes what the patch names. Errors: NOT_FOUND,
	// PARTICIPANT_ERASED, VALIDATION_ERROR for a group that is not the programme's,
	// REFERRAL_CODE_TAKEN.
	UpdateParticipant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID, patch affiliate.ParticipantPatch, at time.Time, by affiliate.Actor) (affiliate.Participant, error)
	// MoveParticipant changes the status; reason may be nil. Errors: NOT_FOUND,
	// PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID; the latter two have the status
	// as metadata.
	MoveParticipant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID, move affiliate.ParticipantMove, reason *string, at time.Time, by affiliate.Actor) (affiliate.Participant, error)

	// InviteParticipant stores an invitation and ends an earlier one of the address.
	// Errors: NOT_FOUND, PROGRAM_STATE_INVALID, VALIDATION_ERROR for a group that is
	// not the programme's, APPLICATION_DUPLICATE, REFERRAL_CODE_TAKEN.
	InviteParticipant(ctx context.Context, invite affiliate.ParticipantInvite, digest [sha256.Size]byte, by affiliate.Actor) error
	// ListParticipantInvites reads one page of what can still be accepted, newest
	// first, and counts all pages up to affiliate.MaxTotal. Errors: NOT_FOUND for the
	// programme.
	ListParticipantInvites(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, at time.Time, page affiliate.Page) ([]affiliate.ParticipantInvite, int64, error)
	// RevokeParticipantInvite ends what can still be accepted. Errors: NOT_FOUND.
	RevokeParticipantInvite(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.InviteID, at time.Time, by affiliate.Actor) error
}
