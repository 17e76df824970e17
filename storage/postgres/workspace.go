package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
)

const selectWorkspace = `
	select w.id, w.name, w.currency, w.timezone, w.allowed_origins, w.origin_policy, w.test_mail_redirect,
		w.version, w.created_at, w.updated_at
	from workspaces w
	where w.id = $1`

type workspaceRow struct {
	ID               affiliate.WorkspaceID  `db:"id"`
	Name             string                 `db:"name"`
	Currency         string                 `db:"currency"`
	Timezone         string                 `db:"timezone"`
	AllowedOrigins   []string               `db:"allowed_origins"`
	OriginPolicy     affiliate.OriginPolicy `db:"origin_policy"`
	TestMailRedirect *string                `db:"test_mail_redirect"`
	Version          int                    `db:"version"`
	CreatedAt        time.Time              `db:"created_at"`
	UpdatedAt        time.Time              `db:"updated_at"`
}

func (r workspaceRow) workspace() affiliate.Workspace {
	return affiliate.Workspace{
		ID: r.ID, Name: r.Name, Currency: r.Currency, Timezone: r.Timezone,
		AllowedOrigins: r.AllowedOrigins, OriginPolicy: r.OriginPolicy, TestMailRedirect: r.TestMailRedirect,
		Version: r.Version, CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
}

func insertWorkspace(ctx context.Context, tx *Tx, w affiliate.Workspace) error {
	const insert = `
		insert into workspaces (id, name, currency, timezone, allowed_origins, origin_policy, test_mail_redirect,
			version, created_at, updated_at)
		values (@id, @name, @currency, @timezone, @allowed_origins, @origin_policy, @test_mail_redirect,
			@version, @created_at, @updated_at)`
	_, err := tx.Exec(ctx, insert, workspaceArgs(w))
	return err
}

func workspaceArgs(w affiliate.Workspace) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": w.ID, "name": w.Name, "currency": w.Currency, "timezone": w.Timezone,
		"allowed_origins": w.AllowedOrigins, "origin_policy": w.OriginPolicy, "test_mail_redirect": w.TestMailRedirect,
		"version": w.Version, "created_at": w.CreatedAt, "updated_at": w.UpdatedAt,
	}
}

// Workspace reads the settings. Errors: NOT_FOUND.
func (s *Store) Workspace(ctx context.Context, id affiliate.WorkspaceID) (affiliate.Workspace, error) {
	row, err := OneRow[workspaceRow](s.pool.Query(ctx, selectWorkspace, id))
	return row.workspace(), err
}

// UpdateWorkspace changes what the patch names; a patch that changes nothing
// leaves no trace. Errors: NOT_FOUND, VALIDATION_ERROR.
func (s *Store) UpdateWorkspace(
	ctx context.Context, id affiliate.WorkspaceID, patch affiliate.WorkspacePatch, at time.Time, by affiliate.Actor,
) (affiliate.Workspace, error) {
	const update = `
		update workspaces
		set name = @name, currency = @currency, timezone = @timezone, allowed_origins = @allowed_origins,
			origin_policy = @origin_policy, test_mail_redirect = @test_mail_redirect,
			version = @version, updated_at = @updated_at
		where id = @id`
	var after affiliate.Workspace
	err := s.InTx(ctx, func(tx *Tx) error {
		// A patch is relative to what is there, so the row is held from the reading
		// to the writing.
		row, err := OneRow[workspaceRow](tx.Query(ctx, selectWorkspace+` for no key update`, id))
		if err != nil {
			return err
		}
		before := row.workspace()
		if after, err = before.Patch(patch); err != nil {
			return err
		}
		was, is, err := affiliate.Changed(before.Object(), after.Object())
		if err != nil || was == nil {
			return err
		}
		after.Version, after.UpdatedAt = before.Version+1, at
		if _, err := tx.Exec(ctx, update, workspaceArgs(after)); err != nil {
			return err
		}
		if err := redact(was, is, "test_mail_redirect", affiliate.MaskEmail); err != nil {
			return err
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: id, Actor: by, At: at, Action: "workspace.update", ResourceType: "workspace", ResourceID: id,
			Before: was, After: is,
		}); err != nil {
			return err
		}
		_, origins := is["allowed_origins"]
		_, policy := is["origin_policy"]
		if !origins && !policy {
			return nil
		}
		// The public keys carry both to the edge.
		return tx.Enqueue(ctx, affiliate.SyncDirectory{Workspace: id})
	})
	return after, err
}
