package participant

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The methods of this file find and lock the subjects of erasures and exports.

// selectParticipantToLock selects a participant of a programme. The caller adds the lock.
const selectParticipantToLock = `
	select ` + participantColumns + `
	from participants t
	where t.workspace_id = @workspace and t.mode = @mode and t.program_id = @program and t.id = @id`

// Lock locks a participant. found is false if the programme has no such participant
// in the mode.
func Lock(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
) (p participant.Participant, found bool, err error) {
	const lock = selectParticipantToLock + ` for no key update`
	return lockParticipant(ctx, tx, lock, participantArgs(scope, program, id))
}

// Share does the same as Lock with a lock that several transactions can
// have at the same time. It keeps others from changing the participant.
func Share(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, program affiliate.ProgramID, id affiliate.ParticipantID,
) (p participant.Participant, found bool, err error) {
	const lock = selectParticipantToLock + ` for share`
	return lockParticipant(ctx, tx, lock, participantArgs(scope, program, id))
}

// LockByID does the same as Lock for a participant of any programme of
// the workspace, in either mode.
func LockByID(
	ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, id affiliate.ParticipantID,
) (p participant.Participant, found bool, err error) {
	const lock = `
		select ` + participantColumns + `
		from participants t
		where t.workspace_id = @workspace and t.mode in ('test', 'live') and t.id = @id
		for no key update`
	return lockParticipant(ctx, tx, lock, pgx.NamedArgs{"workspace": workspace, "id": id})
}

func lockParticipant(ctx context.Context, tx *postgres.Tx, lock string, args pgx.NamedArgs) (p participant.Participant, found bool, err error) {
	row, err := postgres.OneRow[participantRow](tx.Query(ctx, lock, args))
	if errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return p, false, nil
	}
	return row.participant(), err == nil, err
}

// LockParticipations locks the participations of a partner that were not erased before, in
// all workspaces and both modes, and returns them.
func LockParticipations(ctx context.Context, tx *postgres.Tx, partner affiliate.UserID) ([]participant.Participant, error) {
	const lock = `
		select ` + participantColumns + `
		from participants t
		where t.partner_id = @partner and t.mode in ('test', 'live') and t.workspace_id is not null and t.erased_at is null
		order by t.workspace_id, t.id
		for no key update`
	rows, err := tx.Query(ctx, lock, pgx.NamedArgs{"partner": partner})
	return postgres.AllRows(rows, err, participantRow.participant)
}
