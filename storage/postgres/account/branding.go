package account

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
)

var (
	selectBranding = `select ` + postgres.Columns[account.Branding]("w") + ` from workspaces w where w.id = $1`
	lockBranding   = selectBranding + ` and w.erased_at is null for no key update`
	updateBranding = postgres.RowsOf[account.Branding](`
		update workspaces w set {changes}
		from (values {typed rows}) as t ({columns})
		where w.id = t.id`)
	putLogo = postgres.RowsOf[account.Logo](`
		insert into workspace_logos ({columns}) values {rows}
		on conflict (workspace_id) do update
		set digest = excluded.digest, png = excluded.png, created_at = excluded.created_at`)
)

// Branding returns the branding of a workspace. Errors: NOT_FOUND.
func Branding(ctx context.Context, db postgres.Queryer, id affiliate.WorkspaceID) (account.Branding, error) {
	return postgres.OneRow[account.Branding](db.Query(ctx, selectBranding, id))
}

// LockBranding locks the row of a workspace and returns the branding. Errors: NOT_FOUND, also if
// the workspace is erased.
func LockBranding(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) (account.Branding, error) {
	return postgres.OneRow[account.Branding](tx.Query(ctx, lockBranding, id))
}

// UpdateBranding stores the branding of a workspace that the transaction has locked. Errors:
// SLUG_TAKEN.
func UpdateBranding(ctx context.Context, tx *postgres.Tx, b account.Branding) error {
	_, err := updateBranding.Exec(ctx, tx, b)
	return err
}

// AnyWorkspace reports whether the installation has ever had a workspace. The row of an erased
// workspace remains.
func AnyWorkspace(ctx context.Context, db postgres.Queryer) (bool, error) {
	return postgres.Value[bool](ctx, db, `select exists (select from workspaces)`)
}

// LockSlugs makes sure that only one transaction at a time chooses the slug of a workspace. A
// slug that is free when the transaction looks for it therefore stays free until it commits.
func LockSlugs(ctx context.Context, tx *postgres.Tx) error {
	return postgres.Exec(ctx, tx, `select pg_advisory_xact_lock(hashtextextended('workspace_slugs', 0))`)
}

// FreeSlug returns the first of the slugs that no workspace has. The transaction has called
// LockSlugs. Errors: NOT_FOUND.
func FreeSlug(ctx context.Context, tx *postgres.Tx, slugs []string) (string, error) {
	const query = `
		select s.slug from unnest($1::text[]) with ordinality as s (slug, n)
		where not exists (select from workspaces w where w.slug = s.slug)
		order by s.n
		limit 1`
	return postgres.Value[string](ctx, tx, query, slugs)
}

// PutLogo stores the logo of a workspace instead of an older one.
func PutLogo(ctx context.Context, tx *postgres.Tx, logo account.Logo) error {
	_, err := putLogo.Exec(ctx, tx, logo)
	return err
}

// DeleteLogo deletes the logo of a workspace.
func DeleteLogo(ctx context.Context, tx *postgres.Tx, id affiliate.WorkspaceID) error {
	return postgres.Exec(ctx, tx, `delete from workspace_logos where workspace_id = $1`, id)
}

// LogoPNG returns the file of the logo with a digest. Logos are public, so the statement has no
// condition on the workspace. Errors: NOT_FOUND.
func LogoPNG(ctx context.Context, db *postgres.DB, digest []byte) ([]byte, error) {
	type file struct{ PNG []byte }
	found, err := postgres.OneRow[file](db.Query(ctx, `select png from workspace_logos where digest = $1 limit 1`, digest))
	return found.PNG, err
}
