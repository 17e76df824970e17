package export

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Reader reads the records of an export of personal data. All its statements read the same snapshot.
type Reader struct{ tx pgx.Tx }

// readerSettings make Postgres read each page from an index in the order of the page. Without
// them, Postgres sometimes reads and sorts all records of a part for each of its pages. With
// force_custom_plan, Postgres plans a statement for its parameters and skips other partitions.
const readerSettings = `
	set local enable_seqscan = off;
	set local enable_bitmapscan = off;
	set local enable_sort = off;
	set local plan_cache_mode = force_custom_plan`

// Snapshot runs fn with a Reader. It uses a connection until fn has returned.
func Snapshot(ctx context.Context, db *postgres.DB, fn func(r *Reader) error) error {
	return db.InSnapshot(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, readerSettings); err != nil {
			return err
		}
		return fn(&Reader{tx})
	})
}

// arguments are the named parameters of all statements of this package that read records.
func arguments(filter Filter, after privacy.ExportPosition, limit int) pgx.NamedArgs {
	first, second, _ := strings.Cut(after.Text, pairSeparator)
	return pgx.NamedArgs{
		"workspace": filter.Workspace, "mode": filter.Mode, "participant": filter.Participant, "user": filter.User,
		"for_partner": filter.ForPartner, "since": filter.ClicksSince,
		"after_at": after.At, "after_id": after.ID, "after_text": after.Text, "after_first": first, "after_second": second,
		"after_number": after.Number, "limit": limit,
	}
}

// Page reads at most limit records of a part that follow a position, and the position of each.
func (r *Reader) Page(ctx context.Context, part Part, filter Filter, after privacy.ExportPosition, limit int) ([]Record, []privacy.ExportPosition, error) {
	q := queries[filter.Level][part]
	rows, err := r.tx.Query(ctx, q.sql(filter.ForPartner), arguments(filter, after, limit))
	if err != nil {
		return nil, nil, fmt.Errorf("export %s: %w", part, err)
	}
	records, positions, err := readRecords(rows, len(q.position()))
	if err != nil {
		return nil, nil, fmt.Errorf("export %s: %w", part, err)
	}
	return records, positions, nil
}

// Count counts the records of a part, at most limit.
func (r *Reader) Count(ctx context.Context, part Part, filter Filter, limit int) (n int, err error) {
	sql := "select count(*) from (" + queries[filter.Level][part].sql(filter.ForPartner) + ") as counted"
	err = r.tx.QueryRow(ctx, sql, arguments(filter, privacy.ExportPosition{}, limit)).Scan(&n)
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
			return nil, err
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

// While a transaction holds a lock of this file or of participants.Share, no erasure of the
// subject can begin. A lock waits for an erasure that is running.

// LockUser locks the account of a partner. It returns false if the account does not exist or
// was erased.
func LockUser(ctx context.Context, tx *postgres.Tx, user affiliate.UserID) (exists bool, err error) {
	const lock = `select from users u where u.id = $1 and u.erased_at is null for share`
	tag, err := tx.Exec(ctx, lock, user)
	return tag.RowsAffected() == 1, err
}

// LockSubjectWorkspace locks a workspace. It returns false if the workspace does not exist or
// was erased.
func LockSubjectWorkspace(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) (exists bool, err error) {
	const lock = `select from workspaces w where w.id = $1 and w.erased_at is null for share`
	tag, err := tx.Exec(ctx, lock, id)
	return tag.RowsAffected() == 1, err
}

// WorkspaceName returns the name of a workspace.
func WorkspaceName(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) (string, error) {
	return postgres.Value[string](ctx, tx, `select w.name from workspaces w where w.id = $1`, id)
}
