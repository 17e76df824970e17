package link

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/link"
)

// Store reads and changes links in the database. The errors with an API error code are of
// type *affiliate.Error. A change, its audit record, its event and the job that updates
// the edge directory are stored in one transaction.
type Store interface {
	// Links reads one page of a programme's links, newest first, and counts all links
	// that match the filter. If the filter has a search text, it stops counting at
	// affiliate.MaxSearchTotal. If the filter names only a participant, it stops counting
	// at affiliate.MaxTotal. If the filter is empty, the number is always exact. Errors:
	// NOT_FOUND for the programme and the participant.
	Links(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, filter link.Filter, page affiliate.Page) ([]link.Link, int64, error)
	// Link reads one link. Errors: NOT_FOUND.
	Link(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID) (link.Link, error)
	// CreateLink stores a link. If l.Code is empty, it generates a code from the
	// participant's referral code. Errors: NOT_FOUND for the programme, VALIDATION_ERROR
	// for the participant and the destination, PROGRAM_STATE_INVALID, PARTICIPANT_ERASED,
	// LINK_LIMIT_EXCEEDED, REFERRAL_CODE_TAKEN.
	CreateLink(ctx context.Context, l link.Link, by affiliate.Actor) (link.Link, error)
	// UpdateLink changes the fields that the patch names. If the fields already have the
	// new values, it stores nothing. Errors: NOT_FOUND, PARTICIPANT_ERASED,
	// PROGRAM_STATE_INVALID, VALIDATION_ERROR for the destination.
	UpdateLink(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID, patch link.Patch, at time.Time, by affiliate.Actor) (link.Link, error)
	// DeleteLink deletes a link. Its code cannot be used again. Errors: NOT_FOUND,
	// PARTICIPANT_ERASED, VALIDATION_ERROR for a default link.
	DeleteLink(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.LinkID, at time.Time, by affiliate.Actor) error

	// PartnerLinks reads one page of a partner's links, newest first, and counts all
	// links of the partner, up to affiliate.MaxTotal. If program is not nil, it reads and
	// counts only the links of this programme.
	PartnerLinks(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program *affiliate.ProgramID, page affiliate.Page) ([]link.Link, int64, error)
	// PartnerLink reads a link of a partner. Errors: NOT_FOUND.
	PartnerLink(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, id affiliate.LinkID) (link.Link, error)
	// PartnerParticipation returns the scope of a programme and the id of the participant
	// that the partner has in the programme. Errors: NOT_FOUND.
	PartnerParticipation(ctx context.Context, partner affiliate.UserID, mode affiliate.Mode, program affiliate.ProgramID) (affiliate.Scope, affiliate.ParticipantID, error)
}
