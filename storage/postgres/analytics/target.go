package analytics

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

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
	rows, err := db.Query(ctx, selectProgram, scope.Workspace, scope.Mode, id)
	return postgres.OneRow[analytics.Program](rows, err)
}

// WorkspaceCurrency returns the currency of a workspace. Errors: NOT_FOUND.
func WorkspaceCurrency(ctx context.Context, db *postgres.DB, id affiliate.WorkspaceID) (string, error) {
	type row struct{ Currency string }
	rows, err := db.Query(ctx, selectCurrency, id)
	found, err := postgres.OneRow[row](rows, err)
	return found.Currency, err
}

type ownerRow struct {
	ProgramID     affiliate.ProgramID
	ParticipantID affiliate.ParticipantID
	Link          *affiliate.LinkID
}

func (r ownerRow) owner() analytics.Owner {
	o := analytics.Owner{Program: r.ProgramID, Participant: r.ParticipantID}
	if r.Link != nil {
		o.Link = *r.Link
	}
	return o
}

const (
	selectParticipant = `
		select program_id, id as participant_id, null::uuid as link from participants where workspace_id = $1 and mode = $2 and id = $3`
	selectLink = `
		select l.program_id, l.participant_id, l.id as link from links l where l.workspace_id = any($1) and l.mode = $2 and l.id = $3`
)

// Participant returns a participant with its programme. Errors: NOT_FOUND.
func Participant(ctx context.Context, db *postgres.DB, scope affiliate.Scope, id affiliate.ParticipantID) (analytics.Owner, error) {
	rows, err := db.Query(ctx, selectParticipant, scope.Workspace, scope.Mode, id)
	row, err := postgres.OneRow[ownerRow](rows, err)
	return row.owner(), err
}

// Link returns a link of one of the workspaces, with its participant and programme. Deleted
// links are included. Errors: NOT_FOUND.
func Link(ctx context.Context, db *postgres.DB, mode affiliate.Mode, workspaces []affiliate.WorkspaceID, id affiliate.LinkID) (analytics.Owner, error) {
	rows, err := db.Query(ctx, selectLink, workspaces, mode, id)
	row, err := postgres.OneRow[ownerRow](rows, err)
	return row.owner(), err
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
	labelsOfPrograms = `select t.id::text, t.name` + fromIDs + `
		cross join lateral (select id, name from programs where workspace_id = w.workspace_id and mode = $2 and id = n.id limit 1) as t`
	labelsOfParticipants = `select t.id::text, t.partner_name` + fromIDs + `
		cross join lateral (select id, partner_name from participants where workspace_id = w.workspace_id and mode = $2 and id = n.id limit 1) as t`
	labelsOfLinks = `select t.id::text, t.code` + fromIDs + `
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
	rows, err := r.tx.Query(ctx, statements[dimension], workspaces, mode, ids)
	if err != nil {
		return nil, fmt.Errorf("read labels: %w", err)
	}
	labels := map[string]string{}
	var id, label string
	if _, err := pgx.ForEachRow(rows, []any{&id, &label}, func() error { labels[id] = label; return nil }); err != nil {
		return nil, fmt.Errorf("read labels: %w", err)
	}
	return labels, nil
}
