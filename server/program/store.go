package program

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Store is what the service needs of the database. Refusals come back as
// *affiliate.Error. What a person changed is audited, published and taken to
// the edge directory in the transaction of the change.
type Store interface {
	// CreateProgram stores a new programme and its first rules. An empty Currency
	// is the workspace's; an empty Slug is made from the name. Errors: SLUG_TAKEN
	// when a slug was given.
	CreateProgram(ctx context.Context, p affiliate.Program, by affiliate.Actor) (affiliate.Program, error)
	// Program reads one programme. Errors: NOT_FOUND.
	Program(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID) (affiliate.Program, error)
	// ListPrograms reads one page, newest first, and counts all pages. An empty
	// status is any.
	ListPrograms(ctx context.Context, scope affiliate.Scope, status affiliate.ProgramStatus, page affiliate.Page) ([]affiliate.Program, int64, error)
	// UpdateProgram changes what the patch names; a patch that changes nothing
	// leaves no trace. Errors: NOT_FOUND, VALIDATION_ERROR, SLUG_TAKEN.
	UpdateProgram(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID, patch affiliate.ProgramPatch, at time.Time, by affiliate.Actor) (affiliate.Program, error)
	// MoveProgram changes the status. Errors: NOT_FOUND, PROGRAM_STATE_INVALID,
	// VALIDATION_ERROR when a programme without a page is to open.
	MoveProgram(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID, to affiliate.ProgramStatus, at time.Time, by affiliate.Actor) (affiliate.Program, error)
}
