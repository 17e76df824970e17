package privacy

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/affiliate/processor"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// EraseWorkspace ends every access to a locked workspace and replaces its settings and
// programmes. The accounts of its members are erased by EraseAccount. The steps erase its
// participants and the data about buyers.
func EraseWorkspace(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID, at time.Time) error {
	args := pgx.NamedArgs{"workspace": id, "pseudonym": privacy.Pseudonym(id.UUID), "at": at}
	for _, statement := range eraseWorkspace {
		if _, err := tx.Exec(ctx, statement, args); err != nil {
			return fmt.Errorf("erase a workspace: %w", err)
		}
	}
	const programs = `select id from programs where workspace_id = $1 and mode in ('test', 'live')`
	found, err := ids(tx.Query(ctx, programs, id))
	if err != nil {
		return err
	}
	jobs := []affiliate.Job{affiliate.SyncDirectory{Workspace: id}}
	for _, program := range found {
		jobs = append(jobs, affiliate.SyncDirectory{Workspace: id, Program: &affiliate.ProgramID{UUID: program}})
	}
	return tx.Enqueue(ctx, jobs...)
}

// eraseWorkspace are the statements on tables that have few rows per workspace.
var eraseWorkspace = []string{
	`update workspaces set name = @pseudonym, allowed_origins = '{}', test_mail_redirect = null, erased_at = @at,
		version = version + 1, updated_at = @at
		where id = @workspace`,
	`update api_keys set name = @pseudonym, revoked_at = coalesce(revoked_at, @at) where workspace_id = @workspace and mode in ('test', 'live')`,
	`update service_tokens set name = @pseudonym, last_used_ip_prefix = null, revoked_at = coalesce(revoked_at, @at)
		where workspace_id = @workspace and mode in ('test', 'live')`,
	`delete from members where workspace_id = @workspace`,
	`update webhook_endpoints set url = @pseudonym, description = null, deleted_at = coalesce(deleted_at, @at), updated_at = @at, version = version + 1,
		active = false, disabled_reason = coalesce(disabled_reason, 'manual'), epoch = epoch + 1,
		secret = null, previous_secret = null, previous_until = null, sender = null, sender_until = null
		where workspace_id = @workspace and mode in ('test', 'live')`,
	`update programs set name = 'erased-' || right(id::text, 8), slug = 'erased-' || replace(id::text, '-', ''), description = null,
		status = 'archived', website_url = null, allowed_domains = '{}', landing_url = null, is_public = false, terms_url = null,
		fraud_settings = '{}', version = version + 1, updated_at = @at
		where workspace_id = @workspace and mode in ('test', 'live')`,
	`update groups set name = 'erased-' || replace(id::text, '-', ''), version = version + 1, updated_at = @at where workspace_id = @workspace`,
	`update test_data_resets set ip_prefix = '' where workspace_id = @workspace and ip_prefix <> ''`,
	`delete from announcements where workspace_id = @workspace`,
	`delete from mails where workspace_id = @workspace and status = 'pending'`,
}

// EndConnections disconnects the payment processors of a workspace: their signing secrets
// are deleted, and jobs delete the endpoints at the processors and then the connections.
func EndConnections(ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, at time.Time) error {
	const end = `
		update processor_connections set deleted_at = coalesce(deleted_at, $2), secret = '', previous_secret = null
		where workspace_id = $1 and mode in ('test', 'live')
		returning id as connection, endpoint_id as endpoint`
	rows, err := tx.Query(ctx, end, workspace, at)
	if err != nil {
		return err
	}
	type ended struct {
		Connection processor.ConnectionID
		Endpoint   string
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[ended])
	if err != nil {
		return fmt.Errorf("end the connections of a workspace: %w", err)
	}
	var jobs []affiliate.Job
	for _, c := range all {
		jobs = append(jobs, processor.RemoveProcessorEndpoint{Workspace: workspace, Connection: c.Connection, Endpoint: c.Endpoint})
	}
	return tx.Enqueue(ctx, jobs...)
}
