package export

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/bundle"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Reader reads the records of a bundle. All its statements read the same snapshot.
type Reader struct{ tx pgx.Tx }

// readerSettings make Postgres read each page from an index in the order of the page. Without
// them, Postgres sometimes reads and sorts all records of a part for each of its pages. A plan
// is made for the values of the page, so that it contains only the partitions of the page.
const readerSettings = `
	set local enable_seqscan = off;
	set local enable_bitmapscan = off;
	set local enable_sort = off;
	set local plan_cache_mode = force_custom_plan`

// Snapshot runs fn with a Reader. It uses a connection until fn has returned.
func Snapshot(ctx context.Context, db *postgres.DB, fn func(r *Reader) error) error {
	return db.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, readerSettings); err != nil {
			return fmt.Errorf("begin an export: %w", err)
		}
		return fn(&Reader{tx})
	})
}

// query reads pages of a part at a level.
type query struct {
	// sql has the named parameters of arguments.
	sql string
	// read reads the rows of a page. The results are pointers to records.
	read func(rows pgx.Rows) ([]any, []privacy.ExportPosition, error)
}

// columnsOfAlias stands for the columns of the records in the text of a statement: {c} is
// c.id, c.mode, …
var columnsOfAlias = regexp.MustCompile(`\{\w+\}`)

// records returns a query whose rows are records of type T. position returns the position of
// a record in the order of the statement.
func records[T any](sql string, position func(record *T) privacy.ExportPosition) query {
	sql = columnsOfAlias.ReplaceAllStringFunc(sql, func(alias string) string { return postgres.Columns[T](alias[1 : len(alias)-1]) })
	return query{sql: sql, read: func(rows pgx.Rows) ([]any, []privacy.ExportPosition, error) {
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[T])
		all, positions := make([]any, len(found)), make([]privacy.ExportPosition, len(found))
		for i, record := range found {
			all[i], positions[i] = record, position(record)
		}
		return all, positions, err
	}}
}

// arguments are the named parameters of all statements of this package that read records.
func arguments(filter bundle.Filter, after privacy.ExportPosition, limit int) pgx.NamedArgs {
	first, second, _ := strings.Cut(after.Text, pairSeparator)
	return pgx.NamedArgs{
		"workspace": filter.Workspace, "mode": filter.Mode, "participant": filter.Participant, "user": filter.User, "since": filter.ClicksSince,
		"after_at": after.At, "after_id": after.ID, "after_text": after.Text, "after_first": first, "after_second": second,
		"after_number": after.Number, "limit": limit,
	}
}

// pairSeparator is between the two texts of a position. The first text does not contain it.
const pairSeparator = "/"

// Page reads at most limit records of a part that follow a position.
func (r *Reader) Page(ctx context.Context, part bundle.Part, filter bundle.Filter, after privacy.ExportPosition, limit int) (bundle.Page, error) {
	q, ok := queries[filter.Level][part]
	if !ok {
		return bundle.Page{}, fmt.Errorf("the part %s of an export has no statement at level %d", part, filter.Level)
	}
	rows, err := r.tx.Query(ctx, q.sql, arguments(filter, after, limit))
	if err != nil {
		return bundle.Page{}, fmt.Errorf("export %s: %w", part, err)
	}
	found, positions, err := q.read(rows)
	if err != nil {
		return bundle.Page{}, fmt.Errorf("export %s: %w", part, err)
	}
	return bundle.Page{Records: found, Positions: positions, More: len(found) == limit}, nil
}

// Count counts the records of a part, at most limit.
func (r *Reader) Count(ctx context.Context, part bundle.Part, filter bundle.Filter, limit int) (n int, err error) {
	q, ok := queries[filter.Level][part]
	if !ok {
		return 0, fmt.Errorf("the part %s of an export has no statement at level %d", part, filter.Level)
	}
	rows, err := r.tx.Query(ctx, "select count(*) from ("+q.sql+") as counted", arguments(filter, privacy.ExportPosition{}, limit))
	if err == nil {
		n, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	}
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", part, err)
	}
	return n, nil
}

// participations reads the participations of a partner. A partner takes part in programmes of
// several workspaces.
const participations = `
	select t.workspace_id as workspace, t.mode, t.program_id as program, t.id as participant, t.partner_id as partner
	from participants t
	where t.partner_id = @user and t.mode in ('test', 'live') and (t.workspace_id, t.id) > (@after_workspace, @after_id)
	order by t.workspace_id, t.id
	limit @limit`

// participationBlock is the maximum number of participations in one statement.
const participationBlock = 1000

// Participations returns the participations of a partner, ordered by workspace and id.
func (r *Reader) Participations(ctx context.Context, user affiliate.UserID) ([]privacy.ParticipationKey, error) {
	var all []privacy.ParticipationKey
	var last privacy.ParticipationKey
	for {
		rows, _ := r.tx.Query(ctx, participations, pgx.NamedArgs{
			"user": user, "after_workspace": last.Workspace, "after_id": last.Participant, "limit": participationBlock,
		})
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[privacy.ParticipationKey])
		if err != nil {
			return nil, fmt.Errorf("read the participations of a partner: %w", err)
		}
		all = append(all, found...)
		if len(found) < participationBlock {
			return all, nil
		}
		last = found[len(found)-1]
	}
}

// Participation returns one participation. Errors: NOT_FOUND.
func (r *Reader) Participation(ctx context.Context, scope affiliate.Scope, id affiliate.ParticipantID) (privacy.ParticipationKey, error) {
	const read = `
		select t.workspace_id as workspace, t.mode, t.program_id as program, t.id as participant, t.partner_id as partner
		from participants t
		where t.workspace_id = $1 and t.mode = $2 and t.id = $3`
	return postgres.OneRow[privacy.ParticipationKey](r.tx.Query(ctx, read, scope.Workspace, scope.Mode, id))
}

// The locks of this file, and participants.Share, keep an erasure of the subject from
// beginning until the transaction ends. An erasure that is running ends first.

// LockUser locks the account of a partner. It returns false if the account does not exist or
// was erased.
func LockUser(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) (exists bool, err error) {
	const lock = `select from users u where u.id = $1 and u.erased_at is null for share`
	tag, err := tx.Exec(ctx, lock, user)
	if err != nil {
		return false, fmt.Errorf("lock the account of an export: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// LockSubjectWorkspace locks a workspace. It returns false if the workspace does not exist or
// was erased.
func LockSubjectWorkspace(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) (exists bool, err error) {
	const lock = `select from workspaces w where w.id = $1 and w.erased_at is null for share`
	tag, err := tx.Exec(ctx, lock, id)
	if err != nil {
		return false, fmt.Errorf("lock the workspace of an export: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// WorkspaceName returns the name of a workspace.
func WorkspaceName(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) (name string, err error) {
	err = tx.QueryRow(ctx, `select w.name from workspaces w where w.id = $1`, id).Scan(&name)
	return name, err
}
