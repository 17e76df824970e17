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
	// ListPrograms reads one page, newest first, and counts all pages up to
	// affiliate.MaxTotal, or with a search up to affiliate.MaxSearchTotal. An empty
	// status is any.
	ListPrograms(ctx context.Context, scope affiliate.Scope, filter affiliate.ProgramFilter, page affiliate.Page) ([]affiliate.Program, int64, error)
	// UpdateProgram changes what the patch names; a patch that changes nothing
	// leaves no trace. Errors: NOT_FOUND, VALIDATION_ERROR, SLUG_TAKEN.
	UpdateProgram(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID, patch affiliate.ProgramPatch, at time.Time, by affiliate.Actor) (affiliate.Program, error)
	// MoveProgram changes the status. Errors: NOT_FOUND, PROGRAM_STATE_INVALID,
	// VALIDATION_ERROR when a programme without a page is to open.
	MoveProgram(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID, to affiliate.ProgramStatus, at time.Time, by affiliate.Actor) (affiliate.Program, error)
	// ProgramRules reads one page of the versions of a programme's rules, newest
	// first, and counts all pages. Errors: NOT_FOUND.
	ProgramRules(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, page affiliate.Page) ([]affiliate.RulesVersion, int64, error)
	// ListGroups reads one page of a programme's groups, by name, and counts all
	// pages up to affiliate.MaxTotal. Errors: NOT_FOUND.
	ListGroups(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, page affiliate.Page) ([]affiliate.Group, int64, error)
	// CreateGroup stores a new group. Errors: NOT_FOUND, PROGRAM_STATE_INVALID when
	// the programme is archived, VALIDATION_ERROR for a name that is taken.
	CreateGroup(ctx context.Context, g affiliate.Group, by affiliate.Actor) error
	// UpdateGroup changes what the patch names; a patch that changes nothing leaves
	// no trace. Errors: those of CreateGroup.
	UpdateGroup(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.GroupID, patch affiliate.GroupPatch, at time.Time, by affiliate.Actor) (affiliate.Group, error)
	// DeleteGroup ends a group. Errors: NOT_FOUND, GROUP_IN_USE while a participant
	// is in it or an invitation that can be accepted would bring one.
	DeleteGroup(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.GroupID, at time.Time, by affiliate.Actor) error
}
