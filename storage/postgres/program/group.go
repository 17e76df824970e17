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

// Statements about groups, whose participants share a commission rate. A group has the
// mode of its programme.
const (
	groupColumns = `
		g.id, g.workspace_id, p.mode, g.program_id, g.name, g.rate_bps, g.flat_amount_cents, g.version, g.created_at, g.updated_at`
	fromGroups = `
		from groups g join programs p on p.workspace_id = g.workspace_id and p.id = g.program_id
		where g.workspace_id = @workspace and p.mode = @mode and g.program_id = @program`
	selectGroup = `select ` + groupColumns + fromGroups + ` and g.id = @id`
	listGroups  = `select ` + groupColumns + fromGroups + `
		order by lower(g.name)
		limit @limit offset @offset`
	// There is no condition on the mode, because the index does not contain it. All
	// participants of a group are in the group's programme and therefore have its mode.
	countGroupMembers = `
		select t.group_id as id, count(*) as participants
		from participants t
		where t.workspace_id = @workspace and t.group_id = any(@groups)
		group by t.group_id`
)

var countGroups = postgres.CountUpTo(affiliate.MaxTotal, fromGroups)

type groupRow struct {
	ID              affiliate.GroupID     `db:"id"`
	WorkspaceID     affiliate.WorkspaceID `db:"workspace_id"`
	Mode            affiliate.Mode        `db:"mode"`
	ProgramID       affiliate.ProgramID   `db:"program_id"`
	Name            string                `db:"name"`
	RateBps         *int64                `db:"rate_bps"`
	FlatAmountCents *int64                `db:"flat_amount_cents"`
	Version         int                   `db:"version"`
	CreatedAt       time.Time             `db:"created_at"`
	UpdatedAt       time.Time             `db:"updated_at"`
}

func (r groupRow) group() program.Group {
	return program.Group{
		ID:        r.ID,
		Scope:     affiliate.Scope{Workspace: r.WorkspaceID, Mode: r.Mode},
		Program:   r.ProgramID,
		Name:      r.Name,
		Rate:      program.Rate{Bps: r.RateBps, FlatCents: r.FlatAmountCents},
		Version:   r.Version,
		CreatedAt: r.CreatedAt,
		UpdatedAt: r.UpdatedAt,
	}
}

func groupArgs(g program.Group) pgx.NamedArgs {
	return pgx.NamedArgs{
		"workspace": g.Scope.Workspace, "mode": g.Scope.Mode, "id": g.ID, "program": g.Program, "name": g.Name,
		"rate_bps": g.Rate.Bps, "flat_amount_cents": g.Rate.FlatCents, "version": g.Version,
		"created_at": g.CreatedAt, "updated_at": g.UpdatedAt,
	}
}

// GroupRate returns the rate of a group of a programme, or nil if group is nil. Errors:
// NOT_FOUND.
func GroupRate(ctx context.Context, db postgres.Queryer, scope affiliate.Scope, program affiliate.ProgramID, group *affiliate.GroupID) (*program.Rate, error) {
	if group == nil {
		return nil, nil
	}
	args := pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "id": *group}
	row, err := postgres.OneRow[groupRow](db.Query(ctx, selectGroup, args))
	if err != nil {
		return nil, err
	}
	rate := row.group().Rate
	return &rate, nil
}

// ListGroups returns one page of a programme's groups, ordered by name, and the number
// of groups on all pages, up to affiliate.MaxTotal. Errors: NOT_FOUND.
func ListGroups(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, program affiliate.ProgramID, page affiliate.Page,
) ([]program.Group, int64, error) {
	if _, err := Get(ctx, db, scope, program); err != nil {
		return nil, 0, err
	}
	args := pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": program, "limit": page.Size, "offset": page.Offset(),
	}
	var total int64
	if err := db.QueryRow(ctx, countGroups, args).Scan(&total); err != nil {
		return nil, 0, err
	}
	rows, err := db.Query(ctx, listGroups, args)
	groups, err := postgres.AllRows(rows, err, groupRow.group)
	if err != nil {
		return nil, 0, err
	}
	return groups, total, countParticipantsOf(ctx, db, scope.Workspace, groups)
}

// countParticipantsOf sets the number of participants of each group.
func countParticipantsOf(ctx context.Context, db postgres.Queryer, workspace affiliate.WorkspaceID, groups []program.Group) error {
	ids := make([]affiliate.GroupID, len(groups))
	for i, g := range groups {
		ids[i] = g.ID
	}
	rows, err := db.Query(ctx, countGroupMembers, pgx.NamedArgs{"workspace": workspace, "groups": ids})
	if err != nil {
		return err
	}
	type countRow struct {
		ID           affiliate.GroupID `db:"id"`
		Participants int64             `db:"participants"`
	}
	counted, err := pgx.CollectRows(rows, pgx.RowToStructByName[countRow])
	if err != nil {
		return err
	}
	byID := make(map[affiliate.GroupID]int64, len(counted))
	for _, c := range counted {
		byID[c.ID] = c.Participants
	}
	for i, g := range groups {
		groups[i].Participants = byID[g.ID]
	}
	return nil
}

// CreateGroup stores a new group. Errors: NOT_FOUND, PROGRAM_STATE_INVALID if the
// programme is archived, VALIDATION_ERROR if the name is taken.
func CreateGroup(ctx context.Context, db *postgres.DB, g program.Group, by affiliate.Actor) error {
	const insert = `
		insert into groups (workspace_id, id, program_id, name, rate_bps, flat_amount_cents, version, created_at, updated_at)
		values (@workspace, @id, @program, @name, @rate_bps, @flat_amount_cents, @version, @created_at, @updated_at)`
	return db.InTx(ctx, func(tx *postgres.Tx) error {
		if _, err := LockOpen(ctx, tx, g.Scope, g.Program); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, insert, groupArgs(g)); err != nil {
			return groupRefusal(err)
		}
		return tx.Audit(ctx, groupAudit(g, "group.create", g.CreatedAt, by, nil, g.Object()))
	})
}

// UpdateGroup changes the fields that the patch contains. If nothing changes, it writes
// no audit record. Errors: the same as CreateGroup.
func UpdateGroup(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, programID affiliate.ProgramID, id affiliate.GroupID,
	patch program.GroupPatch, at time.Time, by affiliate.Actor,
) (program.Group, error) {
	const update = `
		update groups g
		set name = @name, rate_bps = @rate_bps, flat_amount_cents = @flat_amount_cents, version = @version, updated_at = @updated_at
		from programs p
		where g.workspace_id = @workspace and g.program_id = @program and g.id = @id
			and p.workspace_id = g.workspace_id and p.id = g.program_id and p.mode = @mode`
	var after program.Group
	err := db.InTx(ctx, func(tx *postgres.Tx) error {
		if _, err := LockOpen(ctx, tx, scope, programID); err != nil {
			return err
		}
		// The patch is applied to the stored group, so the row stays locked from the
		// read to the write.
		before, err := readGroup(ctx, tx, selectGroup+` for no key update of g`, scope, programID, id)
		if err != nil {
			return err
		}
		if after, err = before.Patch(patch); err != nil {
			return err
		}
		oldValues, newValues, err := affiliate.ChangedFields(before.Object(), after.Object())
		if err != nil || oldValues == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if _, err := tx.Exec(ctx, update, groupArgs(after)); err != nil {
			return groupRefusal(err)
		}
		return tx.Audit(ctx, groupAudit(after, "group.update", at, by, oldValues, newValues))
	})
	return after, err
}

// DeleteGroup deletes a group. Errors: NOT_FOUND, GROUP_IN_USE if the group has
// participants, or if an invitation to the group can still be accepted.
func DeleteGroup(
	ctx context.Context, db *postgres.DB, scope affiliate.Scope, programID affiliate.ProgramID, id affiliate.GroupID, at time.Time, by affiliate.Actor,
) error {
	const openInvites = `
		select count(*) from participant_invites i
		where i.workspace_id = $1 and i.mode = $2 and i.group_id = $3 and i.ended_at is null and i.expires_at > $4`
	const clearInvites = `
		update participant_invites set group_id = null
		where workspace_id = $1 and mode = $2 and group_id = $3`
	const remove = `
		delete from groups g using programs p
		where g.workspace_id = $1 and p.mode = $2 and g.program_id = $3 and g.id = $4
			and p.workspace_id = g.workspace_id and p.id = g.program_id`
	return db.InTx(ctx, func(tx *postgres.Tx) error {
		// A transaction that adds a participant or an invitation to the group holds a
		// key share lock on the group until it commits. The lock taken here waits for
		// such transactions, so the following statements see their changes. Later
		// transactions do not find the group any more.
		g, err := readGroup(ctx, tx, selectGroup+` for update of g`, scope, programID, id)
		if err != nil {
			return err
		}
		var invites int64
		if err := tx.QueryRow(ctx, openInvites, scope.Workspace, scope.Mode, id, at).Scan(&invites); err != nil {
			return err
		}
		if g.Participants > 0 || invites > 0 {
			return program.GroupInUse(g.Participants)
		}
		if _, err := tx.Exec(ctx, clearInvites, scope.Workspace, scope.Mode, id); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, remove, scope.Workspace, scope.Mode, programID, id); err != nil {
			return err
		}
		return tx.Audit(ctx, groupAudit(g, "group.delete", at, by, g.Object(), nil))
	})
}

// readGroup reads one group and then counts its participants. If sql locks the group,
// its participants are counted while it is locked. Errors: NOT_FOUND.
func readGroup(
	ctx context.Context, db postgres.Queryer, sql string, scope affiliate.Scope, programID affiliate.ProgramID, id affiliate.GroupID,
) (program.Group, error) {
	row, err := postgres.OneRow[groupRow](db.Query(ctx, sql, pgx.NamedArgs{
		"workspace": scope.Workspace, "mode": scope.Mode, "program": programID, "id": id,
	}))
	if err != nil {
		return program.Group{}, err
	}
	one := []program.Group{row.group()}
	err = countParticipantsOf(ctx, db, scope.Workspace, one)
	return one[0], err
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

func groupAudit(g program.Group, action string, at time.Time, by affiliate.Actor, before, after any) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: g.Scope.Workspace, Mode: &g.Scope.Mode, Actor: by, At: at,
		Action: action, ResourceType: "group", ResourceID: g.ID, Before: before, After: after,
	}
}
