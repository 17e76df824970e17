package participant

import (
	"context"
	"fmt"
	"iter"
	"strings"

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
		if search != participantsFound { // otherwise there are few rows, which are sorted quickly
			if _, err := tx.Exec(ctx, postgres.ExportPlan); err != nil {
				yield(participant.Detail{}, fmt.Errorf("export partners: %w", err))
				return
			}
		}
		sql := participantExportSQL(programs, filter, search, order)
		postgres.ExportRows(ctx, tx, pgx.RowToStructByName[participant.Detail], sql, postgres.PlanForArgs, args)(yield)
	}
}

// participantExportSQL returns the statement for all rows. A list of one programme is read from the
// index that has its order. If Postgres has to sort, it sorts only the ids and the sorted columns,
// before it reads the stats.
func participantExportSQL(programs []affiliate.ProgramID, filter participant.Filter, search string, order participant.Order) string {
	sort := sortOf(order)
	from, _ := participantRows(ofProgram(programs), filter, sort)
	var keys, sortByKeys []string // the last one is the id
	for i, term := range strings.Split(sort, ", ") {
		key, direction, _ := strings.Cut(term, " ")
		keys = append(keys, fmt.Sprintf(`%s as key%d`, key, i))
		sortByKeys = append(sortByKeys, fmt.Sprintf(`t.key%d %s`, i, direction))
	}
	rows := fmt.Sprintf(`
		select t.*, k.* from (select %s%s order by %s) k
		join participants t on t.workspace_id = @workspace and t.mode = @mode and t.id = k.key%d`, strings.Join(keys, ", "), from+search, sort, len(keys)-1)
	return withStats(rows) + ` order by ` + strings.Join(sortByKeys, ", ")
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

// Search returns the participants of all programmes whose id is the text, or whose name or, unless
// hideEmails is true, email address starts with it. It reads the first matches of each programme
// from the indexes of names and addresses.
func Search(ctx context.Context, db *postgres.DB, scope affiliate.Scope, text string, hideEmails bool) ([]affiliate.Hit, error) {
	const columns = `t.id, t.partner_name, t.partner_email, t.program_id, t.created_at`
	const byID = `
		select ` + columns + ` from participants t
		where t.workspace_id = @workspace and t.mode = @mode and t.id = @id`
	const byName = `
		union
		select n.* from programs p cross join lateral (
			select ` + columns + ` from participants t
			where t.workspace_id = @workspace and t.program_id = p.id and lower(t.partner_name) like lower(@pattern)
			order by lower(t.partner_name) using ~<~, t.created_at desc, t.id desc
			limit @limit) n
		where p.workspace_id = @workspace and p.mode = @mode`
	const byEmail = `
		union
		select e.* from programs p cross join lateral (
			select ` + columns + ` from participants t
			where t.workspace_id = @workspace and t.program_id = p.id and lower(t.partner_email) like lower(@pattern)
			order by lower(t.partner_email) using ~<~
			limit @limit) e
		where p.workspace_id = @workspace and p.mode = @mode`
	found := byID + byName
	if !hideEmails {
		found += byEmail
	}
	return postgres.Hits(ctx, db, scope, text, `
		select id, partner_name as title, partner_email as subtitle, program_id from (`+found+`) found
		order by lower(partner_name) using ~<~, created_at desc, id desc
		limit @limit`)
}
