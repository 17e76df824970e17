package testmode

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/privacy"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	auditPage = `
		select id, coalesce(mode = 'test' and resource_type <> all($4) and num_nonnulls(before, after, ip_prefix) > 0, false) as cleared from audit_log
		where workspace_id = $1 and id > $2
		order by id
		limit $3`
	clearAudit = `select erase_texts('audit_log', $1, $2, $3)`
)

// keptResources are the types of resources of test mode that are not test data.
var keptResources = []string{"api_key", "service_token", "webhook", "processor_connection", "workspace", "member", "member_invite"}

type auditRow struct {
	ID      affiliate.AuditID
	Cleared bool
}

// ClearAuditLog reads at most limit entries of the audit log of a workspace that follow the id
// after. It removes the values and the network from entries about test data: who has changed
// what and when stays. It returns the last id and the number of entries that it has read.
func ClearAuditLog(
	ctx context.Context, tx *postgres.Tx, workspace affiliate.WorkspaceID, after affiliate.AuditID, limit int,
) (last affiliate.AuditID, read int, err error) {
	rows, _ := tx.Query(ctx, auditPage, workspace, after, limit, keptResources)
	page, err := pgx.CollectRows(rows, pgx.RowToStructByName[auditRow])
	if err != nil {
		return after, 0, fmt.Errorf("read the audit log: %w", err)
	}
	if len(page) == 0 {
		return after, 0, nil
	}
	last, read = page[len(page)-1].ID, len(page)
	page = slices.DeleteFunc(page, func(r auditRow) bool { return !r.Cleared })
	if len(page) == 0 {
		return last, read, nil
	}
	ids := make([]affiliate.AuditID, len(page))
	for i, entry := range page {
		ids[i] = entry.ID
	}
	if _, err := tx.Exec(ctx, clearAudit, workspace, uuids(ids), privacy.Pseudonym(workspace.UUID)); err != nil {
		return after, 0, fmt.Errorf("clear the audit log: %w", err)
	}
	return last, read, nil
}
