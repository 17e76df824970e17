package account

import (
	"context"
	"iter"

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

// auditConditions returns the conditions for the entries that match the filter. They include
// the entries without a mode, which concern the whole workspace.
func auditConditions(scope affiliate.Scope, filter affiliate.AuditFilter) postgres.Conditions {
	var where postgres.Conditions
	where.Add("l.workspace_id = ? and (l.mode = ? or l.mode is null)", scope.Workspace, scope.Mode)
	if filter.Actor != "" {
		where.Add("l.actor = ?", filter.Actor)
	}
	if filter.Action != "" {
		where.Add("l.action = ?", filter.Action)
	}
	if filter.ActionNoun != "" {
		where.Add("starts_with(l.action, ?)", filter.ActionNoun+".")
	}
	if filter.ResourceType != "" {
		where.Add("l.resource_type = ?", filter.ResourceType)
	}
	if filter.ResourceID != nil {
		where.Add("l.resource_id = ?", *filter.ResourceID)
	}
	where.Within("l.at", filter.At)
	return where
}

// auditSQL returns the statements for a page, for the number of entries up to
// affiliate.MaxTotal, and for all entries. The names of actors are read only for the rows
// of the page.
func auditSQL(where postgres.Conditions) (page, count, all string) {
	from := ` from audit_log l where ` + where.SQL()
	const newest = ` order by l.at desc, l.id desc`
	page = `select ` + auditColumns + ` from (
		select l.*` + from + newest + ` limit ` + where.Placeholder(1) + ` offset ` + where.Placeholder(2) + `) l` + newest
	return page, postgres.CountUpTo(affiliate.MaxTotal, from), `select ` + auditColumns + from + newest
}

// AuditLog returns one page of the entries that match a filter, newest first, and the
// number of all matching entries, up to affiliate.MaxTotal. Entries without a mode belong to
// both modes. Errors: NOT_FOUND if the filter contains an unknown id of an actor or a
// resource. An id is known if it exists in the scope or if an entry has it.
func AuditLog(ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter affiliate.AuditFilter, page affiliate.Page) ([]affiliate.AuditEntry, int64, error) {
	if err := checkAuditFilter(ctx, db, scope, filter); err != nil {
		return nil, 0, err
	}
	where := auditConditions(scope, filter)
	pageSQL, countSQL, _ := auditSQL(where)
	return postgres.Page[affiliate.AuditEntry](ctx, db, where, page, pageSQL, countSQL)
}

// ExportAuditLog returns all entries that match a filter, newest first, from one snapshot.
// It uses a connection and an export slot as postgres.Export does. Errors: the same as
// postgres.Export, and NOT_FOUND if the filter contains an unknown id.
func ExportAuditLog(ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter affiliate.AuditFilter) iter.Seq2[affiliate.AuditEntry, error] {
	where := auditConditions(scope, filter)
	_, _, all := auditSQL(where)
	args := append([]any{postgres.PlanForArgs}, where.Args...)
	return func(yield func(affiliate.AuditEntry, error) bool) {
		if err := checkAuditFilter(ctx, db, scope, filter); err != nil {
			yield(affiliate.AuditEntry{}, err)
			return
		}
		postgres.Export(ctx, db, scope.Workspace, pgx.RowToStructByName[affiliate.AuditEntry], all, args...)(yield)
	}
}

// actorKnown and resourceKnown are statements that report whether an id is known. An id
// is known if it belongs to a row of the workspace in this mode, or if an entry of the
// audit log contains it. An id in the audit log therefore stays known after the row of
// the actor or resource was deleted. The audit log is searched first, because most ids
// are found there with a single index look-up.
const (
	actorKnown = `
	select exists (
		select from audit_log
		where workspace_id = @workspace and (mode = @mode or mode is null) and actor = @id::uuid::text
	) or exists (
		select 1 from members where workspace_id = @workspace and user_id = @id
		union all select 1 from api_keys where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from service_tokens where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from participants where workspace_id = @workspace and mode = @mode and partner_id = @id
	)`

	// resourceKnown searches the tables of all resource types of the audit log.
	resourceKnown = `
	select @id::uuid = @workspace::uuid or exists (
		select from audit_log
		where workspace_id = @workspace and (mode = @mode or mode is null) and resource_id = @id
	) or exists (
		select 1 from commissions where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from conversions where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from participants where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from links where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from promo_codes where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from payouts where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from payout_batches where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from ledger_entries where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from fraud_events where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from programs where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from groups g join programs p on p.workspace_id = g.workspace_id and p.id = g.program_id
			where g.workspace_id = @workspace and p.mode = @mode and g.id = @id
		union all select 1 from participant_invites where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from webhook_endpoints where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from api_keys where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from service_tokens where workspace_id = @workspace and mode = @mode and id = @id
		union all select 1 from members where workspace_id = @workspace and user_id = @id
		union all select 1 from member_invites where workspace_id = @workspace and id = @id
	)`
)

// checkAuditFilter returns NOT_FOUND if the filter contains an unknown id of an actor
// or of a resource. An actor that is not an id, for example "system", is not checked.
func checkAuditFilter(ctx context.Context, db *postgres.DB, scope affiliate.Scope, filter affiliate.AuditFilter) error {
	if actor, err := uuid.Parse(filter.Actor); err == nil {
		if err := checkKnown(ctx, db, actorKnown, scope, actor); err != nil {
			return err
		}
	}
	if filter.ResourceID != nil {
		return checkKnown(ctx, db, resourceKnown, scope, *filter.ResourceID)
	}
	return nil
}

func checkKnown(ctx context.Context, db *postgres.DB, sql string, scope affiliate.Scope, id uuid.UUID) error {
	args := pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "id": id}
	known, err := postgres.Value[bool](ctx, db, sql, args)
	if err == nil && !known {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return err
}
