package analytics

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	selectPrograms = `select id, currency from programs where workspace_id = $1 and mode = $2`
	selectProgram  = selectPrograms + ` and id = $3`
	selectCurrency = `select currency from workspaces where id = $1`
)

// Programs returns all programmes of a workspace and mode.
func Programs(ctx context.Context, db *postgres.DB, scope affiliate.Scope) ([]analytics.Program, error) {
	return postgres.List[analytics.Program](ctx, db, "read programmes", selectPrograms, scope.Workspace, scope.Mode)
}

// Program returns a programme. Errors: NOT_FOUND.
func Program(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ProgramID) (analytics.Program, error) {
	return postgres.OneRow[analytics.Program](db.Query(ctx, selectProgram, scope.Workspace, scope.Mode, id))
}

// WorkspaceCurrency returns the currency of a workspace. Errors: NOT_FOUND.
func WorkspaceCurrency(ctx context.Context, db *postgres.DB, id affiliate.WorkspaceID) (string, error) {
	found, err := postgres.OneRow[struct{ Currency string }](db.Query(ctx, selectCurrency, id))
	return found.Currency, err
}

const (
	selectParticipant = `
		select program_id, id as participant_id, null::uuid as link_id from participants where workspace_id = $1 and mode = $2 and id = $3`
	selectLink = `
		select l.program_id, l.participant_id, l.id as link_id from links l where l.workspace_id = any($1) and l.mode = $2 and l.id = $3`
)

// Participant returns a participant with its programme. Errors: NOT_FOUND.
func Participant(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ParticipantID) (analytics.Owner, error) {
	return postgres.OneRow[analytics.Owner](db.Query(ctx, selectParticipant, scope.Workspace, scope.Mode, id))
}

// Link returns a link of one of the workspaces, with its participant and programme. Deleted
// links are included. Errors: NOT_FOUND.
func Link(ctx context.Context, db *postgres.DB, mode affiliate.Mode, workspaces []affiliate.WorkspaceID, id affiliate.LinkID) (analytics.Owner, error) {
	return postgres.OneRow[analytics.Owner](db.Query(ctx, selectLink, workspaces, mode, id))
}

// selectParticipations has no condition on the workspace, because a partner takes part in
// programmes of many workspaces.
const selectParticipations = `
	select t.workspace_id as workspace, t.program_id as program, t.id as participant, p.currency
	from participants t
	join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id
	where t.partner_id = $1 and t.mode = $2`

// Participations returns the participants of a partner.
func Participations(ctx context.Context, db *postgres.DB, partner affiliate.UserID, mode affiliate.Mode) ([]analytics.Participation, error) {
	return postgres.List[analytics.Participation](ctx, db, "read participations", selectParticipations, partner, mode)
}

// The labels of ids. Each id is searched in each of the workspaces with one search in the
// primary key.
const (
	fromIDs          = ` from unnest($3::uuid[]) as n (id) cross join unnest($1::uuid[]) as w (workspace_id) `
	labelsOfPrograms = `select t.id::text, t.name as label` + fromIDs + `
		cross join lateral (select id, name from programs where workspace_id = w.workspace_id and mode = $2 and id = n.id limit 1) as t`
	labelsOfParticipants = `select t.id::text, t.partner_name as label` + fromIDs + `
		cross join lateral (select id, partner_name from participants where workspace_id = w.workspace_id and mode = $2 and id = n.id limit 1) as t`
	labelsOfLinks = `select t.id::text, t.code as label` + fromIDs + `
		cross join lateral (select id, code from links where workspace_id = w.workspace_id and mode = $2 and id = n.id limit 1) as t`
)

// Labels returns the names of programmes or partners, or the codes of links, by their ids.
// workspaces are those to which the ids can belong.
func (r *Reader) Labels(
	ctx context.Context, mode affiliate.Mode, workspaces []affiliate.WorkspaceID, dimension analytics.Dimension, ids []string,
) (map[string]string, error) {
	statements := map[analytics.Dimension]string{
		analytics.ByProgram: labelsOfPrograms, analytics.ByParticipant: labelsOfParticipants, analytics.ByLink: labelsOfLinks,
	}
	type row struct{ ID, Label string }
	rows, err := postgres.List[row](ctx, r.tx, "read labels", statements[dimension], workspaces, mode, ids)
	labels := make(map[string]string, len(rows))
	for _, row := range rows {
		labels[row.ID] = row.Label
	}
	return labels, err
}
