package program

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/program"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const fromGroups = `
	from groups g join programs p on p.workspace_id = g.workspace_id and p.id = g.program_id
	where g.workspace_id = @workspace and p.mode = @mode and g.program_id = @program`

var (
	groupColumns = postgres.Columns[program.Group]("g")
	selectGroup  = `select ` + groupColumns + fromGroups + ` and g.id = @id`
	listGroups   = `select ` + groupColumns + fromGroups + `
		order by lower(g.name)
		limit @limit offset @offset`
	countGroups = postgres.CountUpTo(affiliate.MaxTotal, fromGroups)
)

// GroupRate returns the rate of a group of a programme, or nil if group is nil. Errors:
// NOT_FOUND.
func GroupRate(
	ctx context.Context, db postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID, group *affiliate.GroupID,
) (*program.Rate, error) {
	if group == nil {
		return nil, nil
	}
	g, err := readGroup(ctx, db, selectGroup, scope, program, *group)
	if err != nil {
		return nil, err
	}
	return &g.Rate, nil
}

// ListGroups returns one page of a programme's groups, ordered by name, and the number
// of groups on all pages, up to affiliate.MaxTotal.
func ListGroups(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, programID affiliate.ProgramID, page affiliate.Page,
) ([]program.Group, int64, error) {
	args := pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": programID, "limit": page.Size, "offset": page.Offset(),
	}
	var total int64
	if err := db.QueryRow(ctx, countGroups, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	groups, err := postgres.List[program.Group](ctx, db, listGroups, args)
	if err != nil {
		return nil, 0, err
	}
	return groups, total, countParticipants(ctx, db, scope.Workspace, groups)
}

// There is no condition on the mode, because the index does not contain it. All
// participants of a group are in the group's programme and therefore have its mode.
const countGroupMembers = `
	select t.group_id, count(*)
	from participants t
	where t.workspace_id = @workspace and t.group_id = any(@groups)
	group by t.group_id`

// countParticipants sets the number of participants of each group.
func countParticipants(ctx context.Context, db postgres.Queryer, workspace affiliate.WorkspaceID, groups []program.Group) error {
	ids, byID := make([]affiliate.GroupID, len(groups)), make(map[affiliate.GroupID]*program.Group, len(groups))
	for i := range groups {
		ids[i], byID[groups[i].ID] = groups[i].ID, &groups[i]
	}
	rows, _ := db.Query(ctx, countGroupMembers, pgx.NamedArgs{"workspace": workspace, "groups": ids})
	var id affiliate.GroupID
	var participants int64
	_, err := pgx.ForEachRow(rows, []any{&id, &participants}, func() error {
		byID[id].Participants = participants
		return nil
	})
	return err
}

// LockGroup locks a group before the transaction changes it, and returns it. Errors: NOT_FOUND.
func LockGroup(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, programID affiliate.ProgramID, id affiliate.GroupID,
) (program.Group, error) {
	return lockGroup(ctx, tx, selectGroup+` for no key update of g`, scope, programID, id)
}

// LockGroupForDeletion locks a group before the transaction deletes it. A transaction that adds a
// participant or an invitation to the group holds a key share lock on the group until it
// commits. LockGroupForDeletion waits for such transactions, so the following statements see
// their changes. Later transactions do not find the group any more. Errors: NOT_FOUND.
func LockGroupForDeletion(
	ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, programID affiliate.ProgramID, id affiliate.GroupID,
) (program.Group, error) {
	return lockGroup(ctx, tx, selectGroup+` for update of g`, scope, programID, id)
}

// lockGroup counts the participants of the group after it is locked.
func lockGroup(
	ctx context.Context, tx *postgres.Tx, sql string, scope affiliate.Scope, programID affiliate.ProgramID, id affiliate.GroupID,
) (program.Group, error) {
	g, err := readGroup(ctx, tx, sql, scope, programID, id)
	if err != nil {
		return g, err
	}
	one := []program.Group{g}
	err = countParticipants(ctx, tx, scope.Workspace, one)
	return one[0], err
}

func readGroup(
	ctx context.Context, db postgres.Queryer, sql string, scope affiliate.Scope, programID affiliate.ProgramID, id affiliate.GroupID,
) (program.Group, error) {
	return postgres.OneRow[program.Group](db.Query(ctx, sql, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": programID, "id": id,
	}))
}

var (
	insertGroup = postgres.RowsOf[program.Group](`insert into groups ({columns}) values {rows}`)
	updateGroup = postgres.RowsOf[program.Group](`
		update groups g set {changes}
		from (values {typed rows}) as t ({columns})
		where g.workspace_id = t.workspace_id and g.id = t.id`)
)

// InsertGroup stores a new group. Errors: VALIDATION_ERROR if the name is taken.
func InsertGroup(ctx context.Context, tx *postgres.Tx, g program.Group) error {
	_, err := insertGroup.Exec(ctx, tx, g)
	return groupRefusal(err)
}

// UpdateGroup stores the changes of a group that LockGroup has returned. Errors:
// VALIDATION_ERROR if the name is taken.
func UpdateGroup(ctx context.Context, tx *postgres.Tx, g program.Group) error {
	_, err := updateGroup.Exec(ctx, tx, g)
	return groupRefusal(err)
}

// groupRefusal returns a refusal if err is the unique violation of a name that another
// group already has. Otherwise it returns err.
func groupRefusal(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == postgres.CodeUniqueViolation && pgErr.ConstraintName == "groups_name" {
		return program.GroupNameTaken()
	}
	return err
}

// CountOpenInvites returns the number of invitations to a group that can be accepted at the
// given time.
func CountOpenInvites(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.GroupID, at time.Time) (int64, error) {
	const count = `
		select count(*) from participant_invites i
		where i.workspace_id = $1 and i.mode = $2 and i.group_id = $3 and i.ended_at is null and i.expires_at > $4`
	return postgres.Value[int64](ctx, tx, count, scope.Workspace, scope.Mode, id, at)
}

// DeleteGroup deletes a group, which must have no participants, and removes it from the invitations to it.
func DeleteGroup(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, id affiliate.GroupID) error {
	const clearInvites = `
		update participant_invites set group_id = null
		where workspace_id = $1 and mode = $2 and group_id = $3`
	const remove = `delete from groups where workspace_id = $1 and id = $2`
	if _, err := tx.Exec(ctx, clearInvites, scope.Workspace, scope.Mode, id); err != nil {
		return err
	}
	return postgres.Exec(ctx, tx, remove, scope.Workspace, id)
}
