package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

// ExportSetting returns the value of a setting in an export.
func (db *DB) ExportSetting(ctx context.Context, name string) (value string, err error) {
	err = db.inExport(ctx, affiliate.WorkspaceID{}, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `select current_setting($1)`, name).Scan(&value)
	})
	return value, err
}

// InExport is inExport.
func (db *DB) InExport(ctx context.Context, workspace affiliate.WorkspaceID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return db.inExport(ctx, workspace, fn)
}

// The bounds of exports that run at a time.
const (
	MaxExports          = maxExports
	MaxWorkspaceExports = maxWorkspaceExports
)
