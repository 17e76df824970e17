package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// ListMemberInvitesSQL is the list of open invitations.
const ListMemberInvitesSQL = listMemberInvites

// AuditSQL are the statements of the audit log with their arguments.
func AuditSQL(scope affiliate.Scope, filter affiliate.AuditFilter) (page, count, export string, args []any) {
	where := auditConditions(scope, filter)
	page, count, export = auditSQL(where)
	return page, count, export, where.args
}

// ExportSetting is a setting as exports run under it.
func (s *Store) ExportSetting(ctx context.Context, name string) (value string, err error) {
	err = s.inExport(ctx, affiliate.WorkspaceID{}, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `select current_setting($1)`, name).Scan(&value)
	})
	return value, err
}

// InExport is inExport; MaxExports and MaxWorkspaceExports are its bounds.
func (s *Store) InExport(ctx context.Context, workspace affiliate.WorkspaceID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.inExport(ctx, workspace, fn)
}

// The bounds of exports that run at a time.
const (
	MaxExports          = maxExports
	MaxWorkspaceExports = maxWorkspaceExports
)
