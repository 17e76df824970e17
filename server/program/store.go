package program

import (
	"context"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// Store reads and changes programmes and groups in the database. The errors with an API
// error code are of type *affiliate.Error. A change, its audit record, its event and the
// job that updates the edge directory are stored in one transaction.
type Store interface {
	// CreateProgram stores a new programme and the first version of its rules. If
	// p.Currency is empty, the programme has the workspace's currency. If p.Slug is
	// empty, CreateProgram generates a slug from the name. Errors: SLUG_TAKEN if another
	// programme has p.Slug.
	CreateProgram(ctx context.Context, p program.Program, by affiliate.Actor) (program.Program, error)
	// Program reads one programme. Errors: NOT_FOUND.
	Program(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID) (program.Program, error)
	// ListPrograms reads one page of programmes, newest first, and counts all programmes
	// that match the filter. It stops counting at affiliate.MaxSearchTotal if the filter
	// has a search text, and otherwise at affiliate.MaxTotal. An empty status matches all
	// programmes.
	ListPrograms(ctx context.Context, scope affiliate.Scope, filter program.Filter, page affiliate.Page) ([]program.Program, int64, error)
	// UpdateProgram changes the fields that the patch names. If the fields already have
	// the new values, it stores nothing. Errors: NOT_FOUND, VALIDATION_ERROR, SLUG_TAKEN.
	UpdateProgram(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID, patch program.Patch, at time.Time, by affiliate.Actor) (program.Program, error)
	// MoveProgram changes the status of a programme. Errors: NOT_FOUND,
	// PROGRAM_STATE_INVALID, VALIDATION_ERROR if the new status is active and the
	// programme has no web page.
	MoveProgram(ctx context.Context, scope affiliate.Scope, id affiliate.ProgramID, to program.Status, at time.Time, by affiliate.Actor) (program.Program, error)
	// ProgramRules reads one page of the versions of a programme's commission rules,
	// newest first, and counts all versions. Errors: NOT_FOUND.
	ProgramRules(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, page affiliate.Page) ([]program.RulesVersion, int64, error)
	// ListGroups reads one page of a programme's groups, sorted by name, and counts all
	// groups, up to affiliate.MaxTotal. Errors: NOT_FOUND.
	ListGroups(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, page affiliate.Page) ([]program.Group, int64, error)
	// CreateGroup stores a new group. Errors: NOT_FOUND, PROGRAM_STATE_INVALID if the
	// programme is archived, VALIDATION_ERROR if the programme has another group with the
	// same name.
	CreateGroup(ctx context.Context, g program.Group, by affiliate.Actor) error
	// UpdateGroup changes the fields that the patch names. If the fields already have the
	// new values, it stores nothing. Errors: the same as CreateGroup.
	UpdateGroup(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.GroupID, patch program.GroupPatch, at time.Time, by affiliate.Actor) (program.Group, error)
	// DeleteGroup deletes a group. Errors: NOT_FOUND, GROUP_IN_USE if a participant is in
	// the group or an open invitation names the group.
	DeleteGroup(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.GroupID, at time.Time, by affiliate.Actor) error
}
