package account

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// Three indexes contain the audit log in the order of the lists, newest first: one by
// workspace, one by actor and one by resource. Each of them also contains the columns
// that Postgres needs to count the entries of a workspace, an actor or a resource, with
// or without a condition on the time. Other conditions of a filter are checked row by
// row.

// auditColumns selects an entry l and the current name of its actor. The actor is an id
// or the word "system". Four kinds of actors have a name: members, API keys
// and service tokens of the workspace, and partners who take part in one of its programmes in the
// entry's mode. Other actors have no name, because a workspace must not learn the
// current name of a person who has left it. If an entry was made with a participant token, its
// actor is the creator of the token. The names are read by subqueries for each
// row. With a join, Postgres could read the users of all workspaces.
const auditColumns = `
	l.id, l.mode, l.at, l.actor, l.action, l.resource_type, l.resource_id, l.before, l.after, l.ip_prefix, l.request_id,
	case when l.participant_token then 'participant token of ' else '' end || case when l.actor ~ '^[0-9a-f-]{36}$' then coalesce(
		(
			select u.name from users u join members m on m.user_id = u.id
			where u.id = l.actor::uuid and u.erased_at is null and m.workspace_id = l.workspace_id
		),
		(select k.name from api_keys k where k.workspace_id = l.workspace_id and k.id = l.actor::uuid),
		(select 'service:' || s.name from service_tokens s where s.workspace_id = l.workspace_id and s.id = l.actor::uuid),
		(
			select t.partner_name from participants t
			where t.workspace_id = l.workspace_id and t.mode = l.mode and t.partner_id = l.actor::uuid
				and t.erased_at is null and t.partner_consent is null
			limit 1
		)
	) end as actor_name`

type auditRow struct {
	ID           affiliate.AuditID
	Mode         *affiliate.Mode
	At           time.Time
	Actor        string
	ActorName    *string
	Action       string
	ResourceType string
	ResourceID   uuid.UUID
	Before       []byte
	After        []byte
	IPPrefix     *string
	RequestID    *string
}

func (r auditRow) entry() affiliate.AuditEntry {
	return affiliate.AuditEntry{
		ID: r.ID, Mode: r.Mode, At: r.At, Actor: r.Actor, ActorName: r.ActorName, Action: r.Action,
		ResourceType: r.ResourceType, ResourceID: r.ResourceID, Before: r.Before, After: r.After,
		IPPrefix: r.IPPrefix, RequestID: r.RequestID,
	}
}

// auditQuery holds the statements for one filter. page selects a page. count counts the
// entries and stops after affiliate.MaxTotal. all selects every entry.
type auditQuery struct {
	page, count, all string
	args             pgx.NamedArgs
}

// newAuditQuery returns the statements for a filter. They select the entries of the
// scope's mode and the entries without a mode, which concern the whole workspace.
func newAuditQuery(scope affiliate.Scope, filter affiliate.AuditFilter) auditQuery {
	where := []string{"l.workspace_id = @workspace", "(l.mode = @mode or l.mode is null)"}
	args := pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode}
	add := func(condition, name string, value any) {
		where = append(where, condition)
		args[name] = value
	}
	if filter.Actor != "" {
		add("l.actor = @actor", "actor", filter.Actor)
	}
	if filter.Action != "" {
		add("l.action = @action", "action", filter.Action)
	}
	if filter.ActionNoun != "" {
		add("starts_with(l.action, @prefix)", "prefix", filter.ActionNoun+".")
	}
	if filter.ResourceType != "" {
		add("l.resource_type = @resource_type", "resource_type", filter.ResourceType)
	}
	if filter.ResourceID != nil {
		add("l.resource_id = @resource_id", "resource_id", *filter.ResourceID)
	}
	if filter.At.From != nil {
		add("l.at >= @from", "from", *filter.At.From)
	}
	if filter.At.Before != nil {
		add("l.at < @before", "before", *filter.At.Before)
	}
	from := ` from audit_log l where ` + strings.Join(where, " and ")
	const newest = ` order by l.at desc, l.id desc`
	return auditQuery{
		// The names of actors are read only for the rows of the page.
		page:  `select ` + auditColumns + ` from (select l.*` + from + newest + ` limit @limit offset @offset) l` + newest,
		count: postgres.CountUpTo(affiliate.MaxTotal, from),
		all:   `select ` + auditColumns + from + newest,
		args:  args,
	}
}

// AuditLog returns one page of the entries that match a filter, newest first, and the
// number of all matching entries, up to affiliate.MaxTotal. Entries without a mode belong to
// both modes. Errors: NOT_FOUND if the filter contains an unknown id of an actor or a
// resource. An id is known if it exists in the scope or if an entry has it.
func AuditLog(ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter affiliate.AuditFilter, page affiliate.Page) ([]affiliate.AuditEntry, int64, error) {
	if err := checkAuditFilter(ctx, db, scope, filter); err != nil {
		return nil, 0, err
	}
	query := newAuditQuery(scope, filter)
	args := maps.Clone(query.args)
	args["limit"], args["offset"] = page.Size, page.Offset()
	rows, err := db.Query(ctx, query.page, postgres.PlanForArgs, args)
	entries, err := postgres.AllRows(rows, err, auditRow.entry)
	if err != nil {
		return nil, 0, fmt.Errorf("audit log: %w", err)
	}
	if n := int64(len(entries)); n < int64(page.Size) && (n > 0 || page.Offset() == 0) {
		// This is the last page, so the position of its last row is the total.
		return entries, page.Offset() + n, nil
	}
	var total int64
	if err := db.QueryRow(ctx, query.count, postgres.PlanForArgs, query.args).Scan(&total); err != nil {
		return nil, 0, fmt.Errorf("count audit log: %w", err)
	}
	return entries, total, nil
}

// ExportAuditLog returns all entries that match a filter, newest first, from one snapshot.
// It uses a connection and an export slot as postgres.Export does. Errors: the same as
// postgres.Export, and NOT_FOUND if the filter contains an unknown id.
func ExportAuditLog(ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter affiliate.AuditFilter) iter.Seq2[affiliate.AuditEntry, error] {
	query := newAuditQuery(scope, filter)
	convert := func(row pgx.CollectableRow) (affiliate.AuditEntry, error) {
		r, err := pgx.RowToStructByName[auditRow](row)
		return r.entry(), err
	}
	return func(yield func(affiliate.AuditEntry, error) bool) {
		if err := checkAuditFilter(ctx, db, scope, filter); err != nil {
			yield(affiliate.AuditEntry{}, err)
			return
		}
		postgres.Export(ctx, db, scope.Workspace, convert, query.all, postgres.PlanForArgs, query.args)(yield)
	}
}
