package participant

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error. What a person changed is audited, published and taken to
// the edge directory in the transaction of the change.
type Store interface {
	// Apply makes a partner a participant. Errors: NOT_FOUND, VALIDATION_ERROR for
	// terms, APPLICATION_DUPLICATE, REFERRAL_CODE_TAKEN.
	Apply(ctx context.Context, a affiliate.Application, at time.Time, by affiliate.Actor) (affiliate.Participant, error)
	// Participant reads one participant. Errors: NOT_FOUND.
	Participant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID) (affiliate.Participant, error)
	// ListParticipants reads one page, newest first, and counts all pages. An empty
	// status is any. Errors: NOT_FOUND for the programme.
	ListParticipants(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, status affiliate.ParticipantStatus, page affiliate.Page) ([]affiliate.Participant, int64, error)
	// MoveParticipant changes the status; reason may be nil. Errors: NOT_FOUND,
	// PARTICIPANT_ERASED, PARTICIPANT_STATE_INVALID.
	MoveParticipant(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID, move affiliate.ParticipantMove, reason *string, at time.Time, by affiliate.Actor) (affiliate.Participant, error)
}
