package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
)

// The methods of this file find and lock the subjects of erasures and exports.

// OwnsProgram reports whether a programme belongs to a workspace, in either mode.
func (tx *Tx) OwnsProgram(ctx context.Context, workspace affiliate.WorkspaceID, program affiliate.ProgramID) (owns bool, err error) {
	const query = `select exists (select from programs where workspace_id = $1 and id = $2 and mode in ('test', 'live'))`
	err = tx.QueryRow(ctx, query, workspace, program).Scan(&owns)
	return owns, err
}

// selectParticipantToLock selects a participant of a programme. The caller adds the lock.
const selectParticipantToLock = `
	select ` + participantColumns + `
	from participants t
	where t.workspace_id = @workspace and t.mode = @mode and t.program_id = @program and t.id = @id`

// LockParticipant locks a participant. found is false if the programme has no such participant
// in the mode.
func (tx *Tx) LockParticipant(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
) (p participant.Participant, found bool, err error) {
	const lock = selectParticipantToLock + ` for no key update`
	return tx.lockParticipant(ctx, lock, participantArgs(scope, program, id))
}

// ShareParticipant does the same as LockParticipant with a lock that several transactions can
// have at the same time. It keeps others from changing the participant.
func (tx *Tx) ShareParticipant(
	ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
) (p participant.Participant, found bool, err error) {
	const lock = selectParticipantToLock + ` for share`
	return tx.lockParticipant(ctx, lock, participantArgs(scope, program, id))
}

// LockParticipantByID does the same as LockParticipant for a participant of any programme of
// the workspace, in either mode.
func (tx *Tx) LockParticipantByID(
	ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ParticipantID,
) (p participant.Participant, found bool, err error) {
	const lock = `
		select ` + participantColumns + `
		from participants t
		where t.workspace_id = @workspace and t.mode in ('test', 'live') and t.id = @id
		for no key update`
	return tx.lockParticipant(ctx, lock, pgx.NamedArgs{"workspace": workspace, "id": id})
}

func (tx *Tx) lockParticipant(ctx context.Context, lock string, args pgx.NamedArgs) (p participant.Participant, found bool, err error) {
	row, err := OneRow[participantRow](tx.Query(ctx, lock, args))
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return p, false, nil
	}
	return row.participant(), err == nil, err
}

// LockParticipations locks the participations of a partner that were not erased before, in
// all workspaces and both modes, and returns them.
func (tx *Tx) LockParticipations(ctx context.Context, partner affiliate.UserID) ([]participant.Participant, error) {
	const lock = `
		select ` + participantColumns + `
		from participants t
		where t.partner_id = @partner and t.mode in ('test', 'live') and t.workspace_id is not null and t.erased_at is null
		order by t.workspace_id, t.id
		for no key update`
	rows, err := tx.Query(ctx, lock, pgx.NamedArgs{"partner": partner})
	return AllRows(rows, err, participantRow.participant)
}
