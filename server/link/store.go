package link

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error. What somebody changed is audited, published and taken to the
// edge directory in the transaction of the change.
type Store interface {
	// Links reads one page of a programme's links, newest first, and counts all
	// pages. A search is counted up to affiliate.MaxSearchTotal, a participant's
	// links up to affiliate.MaxTotal. Errors: NOT_FOUND for the programme and the
	// participant.
	Links(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, filter affiliate.LinkFilter, page affiliate.Page) ([]affiliate.Link, int64, error)
	// Link reads one link. Errors: NOT_FOUND.
	Link(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID) (affiliate.Link, error)
	// CreateLink stores a link; an empty Code is made from the participant's.
	// Errors: NOT_FOUND for the programme, VALIDATION_ERROR for participant and
	// destination, PROGRAM_STATE_INVALID, PARTICIPANT_ERASED, LINK_LIMIT_EXCEEDED,
	// REFERRAL_CODE_TAKEN.
	CreateLink(ctx context.Context, l affiliate.Link, by affiliate.Actor) (affiliate.Link, error)
	// UpdateLink changes what the patch names; a patch that changes nothing leaves
	// no trace. Errors: NOT_FOUND, PARTICIPANT_ERASED, PROGRAM_STATE_INVALID,
	// VALIDATION_ERROR for the destination.
	UpdateLink(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID, patch affiliate.LinkPatch, at time.Time, by affiliate.Actor) (affiliate.Link, error)
	// DeleteLink ends a link; its code stays taken. Errors: NOT_FOUND,
	// PARTICIPANT_ERASED, VALIDATION_ERROR for a default link.
	DeleteLink(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID, at time.Time, by affiliate.Actor) error

	// PartnerLinks reads one page of a partner's links, newest first, and counts
	// all pages up to affiliate.MaxTotal; a nil programme is any.
	PartnerLinks(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, page affiliate.Page) ([]affiliate.Link, int64, error)
	// PartnerLink reads one of a partner's links. Errors: NOT_FOUND.
	PartnerLink(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, id affiliate.LinkID) (affiliate.Link, error)
	// PartnerParticipation finds a partner's place in a programme. Errors:
	// NOT_FOUND.
	PartnerParticipation(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program affiliate.ProgramID) (affiliate.Scope, affiliate.ParticipantID, error)
}
