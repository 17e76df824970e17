package participant

import (
	"context"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/participant"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// ListAll does the same as List for all programmes of the mode, or for the programme of the
// filter. Errors: NOT_FOUND if the filter's programme or group does not exist.
func ListAll(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program *affiliate.ProgramID,
	filter participant.Filter, order participant.Order, page affiliate.Page,
) ([]participant.Detail, int64, error) {
	programs, err := programsOf(ctx, db, scope, program, filter.Group)
	if err != nil {
		return nil, 0, err
	}
	return list(ctx, db, scope, programs, filter, order, page)
}

// Export returns all rows of the list that ListAll returns, in its order. It uses a connection and
// an export slot as postgres.Export does. Errors: those of ListAll, SERVICE_UNAVAILABLE if too many
// exports are running.
func Export(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program *affiliate.ProgramID, filter participant.Filter, order participant.Order,
) iter.Seq2[participant.Detail, error] {
	return func(yield func(participant.Detail, error) bool) {
		programs, err := programsOf(ctx, db, scope, program, filter.Group)
		if err != nil {
			yield(participant.Detail{}, err)
			return
		}
		tx, end, err := db.BeginExport(ctx, scope.Workspace)
		if err != nil {
			yield(participant.Detail{}, err)
			return
		}
		defer end()
		args := participantListArgs(scope, programs, filter, affiliate.Page{})
		search, err := searchCondition(ctx, tx, programs, filter, args)
		if err != nil {
			yield(participant.Detail{}, err)
			return
		}
		rows := `select t.* from participants t` + whereParticipants(ofProgram(programs), filter) + search
		postgres.ExportRows(ctx, tx, pgx.RowToStructByName[participant.Detail], withStats(rows)+` order by `+sortOf(order), postgres.PlanForArgs, args)(yield)
	}
}

// programsOf returns all programmes of the scope, only the given programme, or only the programme
// of the given group. Errors: NOT_FOUND if the programme or group does not exist, or if the group
// does not belong to the programme.
func programsOf(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program *affiliate.ProgramID, group *affiliate.GroupID,
) ([]affiliate.ProgramID, error) {
	const query = `
		select p.id from programs p
		where p.workspace_id = $1 and p.mode = $2 and ($3::uuid is null or p.id = $3)
			and ($4::uuid is null or p.id = (select g.program_id from groups g where g.workspace_id = $1 and g.id = $4))`
	found, err := postgres.Values[affiliate.ProgramID](ctx, db, query, scope.Workspace, scope.Mode, program, group)
	if err == nil && len(found) == 0 && (program != nil || group != nil) {
		err = affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return found, err
}
