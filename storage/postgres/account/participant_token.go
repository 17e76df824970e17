package account

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// ActiveParticipant returns an approved participant. ok is false if the participant does
// not exist, was erased or is not approved. There is no condition on the mode, because the
// caller's token names the participant, whose mode is returned.
func ActiveParticipant(
	ctx context.Context, db *postgres.DB, workspace affiliate.WorkspaceID, id affiliate.ParticipantID,
) (ref participant.Ref, ok bool, err error) {
	const query = `
		select mode, program_id, partner_id from participants
		where workspace_id = $1 and id = $2 and status = 'approved' and partner_consent is null and erased_at is null`
	ref.Scope.Workspace, ref.Participant = workspace, id
	err = db.QueryRow(ctx, query, workspace, id).Scan(&ref.Scope.Mode, &ref.Program, &ref.Partner)
	if errors.Is(err, pgx.ErrNoRows) {
		return ref, false, nil
	}
	return ref, err == nil, err
}
