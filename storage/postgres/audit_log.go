package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// The audit log is read newest first from an index in that order: of the
// workspace, of an actor or of a resource. What else narrows it is a filter over
// those rows, which are what people did by hand.

// auditColumns reads l with the names of those who are still there: members and
// keys of the workspace, and partners who take part in one of its programmes of
// the mode. Who left is nobody to it, and what they are called now is none of its
// business. Look-ups for each row, no joins with all of it: users are those of all
// workspaces, and only a look-up by key is sure to cost the same whatever their
// number. An actor is an id or a word.
const auditColumns = `
	l.id, l.mode, l.at, l.actor, l.action, l.resource_type, l.resource_id, l.before, l.after, l.ip_prefix, l.request_id,
	case when l.actor ~ '^[0-9a-f-]{36}$' then coalesce(
		(
			select u.name from users u join members m on m.user_id = u.id
			where u.id = l.actor::uuid and u.erased_at is null and m.workspace_id = l.workspace_id
		),
		(select k.name from api_keys k where k.workspace_id = l.workspace_id and k.id = l.actor::uuid),
		(
			select u.name from users u
			where u.id = l.actor::uuid and u.erased_at is null and exists (
				select from participants t
				where t.workspace_id = l.workspace_id and t.mode = l.mode and t.partner_id = u.id and t.erased_at is null
			)
		)
	) end as actor_name`

type auditRow struct {
	ID           affiliate.AuditID `db:"id"`
	Mode         *affiliate.Mode   `db:"mode"`
	At           time.Time         `db:"at"`
	Actor        string            `db:"actor"`
	ActorName    *string           `db:"actor_name"`
	Action       string            `db:"action"`
	ResourceType string            `db:"resource_type"`
	ResourceID   uuid.UUID         `db:"resource_id"`
	Before       []byte            `db:"before"`
	After        []byte            `db:"after"`
	IPPrefix     *string           `db:"ip_prefix"`
	RequestID    *string           `db:"request_id"`
}

func collectAuditEntry(row pgx.CollectableRow) (affiliate.AuditEntry, error) {
	r, err := pgx.RowToStructByName[auditRow](row)
	return affiliate.AuditEntry{
		ID: r.ID, Mode: r.Mode, At: r.At.UTC(), Actor: r.Actor, ActorName: r.ActorName, Action: r.Action,
		ResourceType: r.ResourceType, ResourceID: r.ResourceID, Before: r.Before, After: r.After,
		IPPrefix: r.IPPrefix, RequestID: r.RequestID,
	}, err
}

// auditConditions say which rows of l the filter leaves: those of the mode and of
// the workspace as a whole.
func auditConditions(scope affiliate.Scope, filter affiliate.AuditFilter) conditions {
	var where conditions
	where.add("l.workspace_id = ?", scope.Workspace)
	where.add("(l.mode = ? or l.mode is null)", scope.Mode)
	if filter.Actor != "" {
		where.add("l.actor = ?", filter.Actor)
	}
	if noun, all := strings.CutSuffix(filter.Action, ".*"); all {
		where.add("l.action like ?", likePrefix(noun+"."))
	} else if filter.Action != "" {
		where.add("l.action = ?", filter.Action)
	}
	if filter.ResourceType != "" {
		where.add("l.resource_type = ?", filter.ResourceType)
	}
	if filter.ResourceID != nil {
		where.add("l.resource_id = ?", *filter.ResourceID)
	}
	if filter.At.From != nil {
		where.add("l.at >= ?", *filter.At.From)
	}
	if filter.At.Before != nil {
		where.add("l.at < ?", *filter.At.Before)
	}
	return where
}

// auditSQL are the statements for a page, whose last two arguments are its size
// and offset, for the total, and for an export.
func auditSQL(where conditions) (page, count, export string) {
	const newest = ` order by l.at desc, l.id desc`
	page = `select ` + auditColumns + ` from (
			select l.* from audit_log l where ` + where.sql() + newest + `
			limit ` + where.placeholder(1) + ` offset ` + where.placeholder(2) + `
		) l` + newest
	count = fmt.Sprintf(`select count(*) from (select from audit_log l where %s limit %d) l`, where.sql(), affiliate.MaxAuditTotal)
	export = `select ` + auditColumns + ` from audit_log l where ` + where.sql() + newest
	return page, count, export
}

// AuditLog reads one page, newest first, and counts all pages up to
// affiliate.MaxAuditTotal.
func (s *Store) AuditLog(ctx context.Context, scope affiliate.Scope, filter affiliate.AuditFilter, page affiliate.Page) ([]affiliate.AuditEntry, int64, error) {
	where := auditConditions(scope, filter)
	pageSQL, countSQL, _ := auditSQL(where)
	args := append([]any{planned}, where.args...)
	rows, err := s.pool.Query(ctx, pageSQL, append(args, page.Size, page.Offset())...)
	if err != nil {
		return nil, 0, fmt.Errorf("audit log: %w", err)
	}
	entries, err := pgx.CollectRows(rows, collectAuditEntry)
	if err != nil {
		return nil, 0, fmt.Errorf("audit log: %w", err)
	}
	if n := int64(len(entries)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// The list ends on this page.
		return entries, min(page.Offset()+n, affiliate.MaxAuditTotal), nil
	}
	var total int64
	if err := s.pool.QueryRow(ctx, countSQL, args...).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count audit log: %w", err)
	}
	return entries, total, nil
}

// ExportAuditLog hands every row to each, newest first, as one snapshot has them.
// It reads on as each takes them, so its memory does not grow, and ends with the
// first error that each returns.
func (s *Store) ExportAuditLog(ctx context.Context, scope affiliate.Scope, filter affiliate.AuditFilter, each func(affiliate.AuditEntry) error) error {
	where := auditConditions(scope, filter)
	_, _, exportSQL := auditSQL(where)
	return s.inExport(ctx, scope.Workspace, func(ctx context.Context, tx pgx.Tx) error {
		// A result that is not read to its end would be read to it by Close.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		rows, err := tx.Query(ctx, exportSQL, append([]any{planned}, where.args...)...)
		if err != nil {
			return fmt.Errorf("export audit log: %w", err)
		}
		defer rows.Close()
		for rows.Next() {
			entry, err := collectAuditEntry(rows)
			if err != nil {
				return fmt.Errorf("export audit log: %w", err)
			}
			if err := each(entry); err != nil {
				cancel()
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return fmt.Errorf("export audit log: %w", err)
		}
		return nil
	})
}
