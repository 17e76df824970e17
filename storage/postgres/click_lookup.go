package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// earnerColumns are an affiliate.Earner, from programs p and participants t.
const earnerColumns = `
	p.id as program_id, p.name as program_name, p.status as program_status, p.currency,
	p.attribution_model as model, p.rules, p.rules_version,
	t.id as participant_id, t.partner_id, t.status as participant_status, t.erased_at is not null as erased`

type earnerRow struct {
	ProgramID         affiliate.ProgramID
	ProgramName       string
	ProgramStatus     affiliate.ProgramStatus
	Currency          string
	Model             affiliate.AttributionModel
	Rules             affiliate.Rules
	RulesVersion      int
	ParticipantID     affiliate.ParticipantID
	PartnerID         affiliate.UserID
	ParticipantStatus affiliate.ParticipantStatus
	Erased            bool
}

func (r earnerRow) earner() affiliate.Earner {
	return affiliate.Earner{
		Program: r.ProgramID, ProgramName: r.ProgramName, ProgramStatus: r.ProgramStatus,
		Currency: r.Currency, Model: r.Model,
		Rule:        affiliate.RuleSnapshot{Version: r.RulesVersion, Rules: r.Rules},
		Participant: r.ParticipantID, Partner: r.PartnerID,
		ParticipantStatus: r.ParticipantStatus, ParticipantErased: r.Erased,
	}
}

// findClick reads one partition: clicked_at is the time inside the id. The mode
// is asked for and not filtered by, because a signal of the other mode has to
// be told from an unknown one. The programme and the participant are one probe
// of their key each, whatever the statistics say: a limited lateral keeps the
// planner from merging with all of a workspace's rows.
const findClick = `
	select c.mode, c.received_at, c.expires_at, ` + earnerColumns + `
	from clicks c
	cross join lateral (
		select p.* from programs p where p.workspace_id = c.workspace_id and p.id = c.program_id and p.mode = c.mode limit 1) as p
	cross join lateral (
		select t.* from participants t where t.workspace_id = c.workspace_id and t.id = c.participant_id and t.mode = c.mode limit 1) as t
	where c.workspace_id = $1 and c.id = $2 and c.clicked_at = $3`

// FindClick finds a workspace's click, in either mode, with everything that a
// decision about it needs, in one round trip. nil: there is none.
func (s *Store) FindClick(ctx context.Context, workspace affiliate.WorkspaceID, id affiliate.ClickID) (*affiliate.FoundClick, error) {
	clickedAt, ok := id.Time()
	if !ok {
		// Ids of other versions are never given out.
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, findClick, workspace, id, clickedAt)
	if err != nil {
		return nil, err
	}
	type clickRow struct {
		Mode       affiliate.Mode
		ReceivedAt time.Time
		ExpiresAt  time.Time
		earnerRow
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[clickRow])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &affiliate.FoundClick{
		Mode: row.Mode, ReceivedAt: row.ReceivedAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(), Earner: row.earner(),
	}, nil
}

// FindEarner finds what a click leads to that is itself not in the table yet.
// nil: there is no such participant of that programme.
func (s *Store) FindEarner(ctx context.Context, scope affiliate.Scope, program affiliate.ProgramID, participant affiliate.ParticipantID) (*affiliate.Earner, error) {
	const find = `
		select ` + earnerColumns + `
		from participants t
		join programs p on p.workspace_id = t.workspace_id and p.id = t.program_id and p.mode = t.mode
		where t.workspace_id = $1 and t.mode = $2 and t.program_id = $3 and t.id = $4`
	rows, err := s.pool.Query(ctx, find, scope.Workspace, scope.Mode, program, participant)
	if err != nil {
		return nil, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[earnerRow])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	earner := row.earner()
	return &earner, nil
}
