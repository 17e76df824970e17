package account

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

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
	var known bool
	args := pgx.NamedArgs{"workspace": scope.Workspace, "mode": scope.Mode, "id": id}
	if err := db.QueryRow(ctx, sql, args).Scan(&known); err != nil {
		return fmt.Errorf("audit filter: %w", err)
	}
	if !known {
		return affiliate.Refuse(affiliate.ReasonNotFound)
	}
	return nil
}
